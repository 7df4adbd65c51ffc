package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// sweepLong is how many requests the sweep's long form has at least: FASTREPLAY_SWEEP=1000000 go test ./bench -run
// TestSweep -timeout 3h. A pass over all runs has 206,600, and each pass meets other faults with other requests. Of a
// pass no more is in memory than the runs beside each other.
const sweepLong = "FASTREPLAY_SWEEP"

// sweepCell is a fault in a phase of an answer, and what the definitions of outcomes make of it.
type sweepCell struct {
	name   string
	play   func(c *sweepConn) (keep bool)
	early  func(c *sweepConn, bodyBytes int64) (keep bool) // in play's place, before the body has been read
	want   []string
	status int64 // of http_error
	says   string
	least  int64 // token chunks
	most   int64
}

// sweepCells are all faults for one API, asked one way.
type sweepCells struct {
	sweepAPI
	stream bool
	tls    bool
	cells  []*sweepCell
}

const (
	jsonType   = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
	streamType = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
)

// pieces are those of a good answer, and the head's first lines.
func (s *sweepCells) pieces() (head string, pieces []string) {
	if !s.stream {
		return jsonType, []string{s.whole}
	}
	for _, e := range s.events {
		pieces = append(pieces, e.text)
	}
	return streamType, pieces
}

// add adds a cell and returns it. Unless told otherwise, an answer that is not ok may have any of its tokens.
func (s *sweepCells) add(name string, play func(c *sweepConn) bool, want ...string) *sweepCell {
	cell := &sweepCell{name: name, play: play, want: want, most: sweepTokens}
	if slices.Equal(want, []string{"ok"}) && s.stream {
		cell.least = sweepTokens
	}
	s.cells = append(s.cells, cell)
	return cell
}

// say adds a cell that writes and keeps the connection; then ends it.
func (s *sweepCells) say(name, text string, want ...string) *sweepCell {
	return s.add(name, func(c *sweepConn) bool { _, _ = io.WriteString(c, text); return true }, want...)
}

func (s *sweepCells) sayAndEnd(name, text string, want ...string) *sweepCell {
	return s.add(name, func(c *sweepConn) bool { _, _ = io.WriteString(c, text); c.fin(); return false }, want...)
}

// ending is a way to end or abandon a connection.
type ending struct {
	name string
	do   func(c *sweepConn)
}

func (s *sweepCells) endings() []ending {
	all := []ending{{"fin", (*sweepConn).fin}, {"rst", (*sweepConn).rst}, {"stall", (*sweepConn).hang}}
	if s.tls {
		all = append(all, ending{"cut", (*sweepConn).cut})
	}
	return all
}

// phases are places in an answer.
func (s *sweepCells) phases(w sweepWire) map[string]int {
	head, last := len(w.head), len(w.ends)-1
	begin := func(i int) int {
		if i == 0 {
			return head
		}
		return w.ends[i-1]
	}
	middle := func(i int) int { return (begin(i) + w.ends[i]) / 2 }
	at := map[string]int{"before the head": 0, "in the status line": 7, "in the head": head - 6, "after the head": head, "in the first event": middle(0), "at the end": len(w.all)}
	if !s.stream {
		return at
	}
	token, finish := 0, last
	for i, e := range s.events {
		if e.token {
			token = i
		}
		if e.finish {
			finish = min(finish, i)
		}
	}
	maps.Copy(at, map[string]int{"after the first event": w.ends[0], "in the last token": middle(token), "after the last token": w.ends[token],
		"in the finish": middle(finish), "after the finish": w.ends[finish], "after the last event": w.ends[last]})
	return at
}

// told is what has come of an answer that is cut at a place.
type told struct {
	tokens          int64
	any             bool // of the body
	between         bool // two events
	finished, fails bool
}

func (s *sweepCells) toldAt(w sweepWire, events []sweepEvent, at int) (t told) {
	t.any, t.between = at > len(w.head), at == len(w.head)
	for i, e := range events {
		if w.ends[i] > at {
			break
		}
		t.between = w.ends[i] == at || at > w.ends[len(w.ends)-1]
		if e.token {
			t.tokens++
		}
		t.finished, t.fails = t.finished || e.finish, t.fails || e.fails
	}
	return t
}

// outcomes derives from the definitions what an answer may count as that ends so at a place.
func (s *sweepCells) outcomes(w sweepWire, events []sweepEvent, end string, at, status int) (want []string, t told) {
	if end == "cut" { // RFC 9112 §9.8 calls that incomplete where the end of the connection is the body's; many servers do it all the same
		want, t = s.outcomes(w, events, "fin", at, status)
		if w.untilEnd && at > len(w.head) {
			want = append(want, "truncated")
		}
		return want, t
	}
	t = s.toldAt(w, events, at)
	how := map[string]string{"fin": "truncated", "rst": "reset", "stall": "timeout"}[end]
	switch {
	case at == len(w.all) && !w.untilEnd && status != 200, at >= len(w.head) && status != 200 && end != "stall":
		return []string{"http_error"}, t
	case at >= len(w.head) && status != 200:
		return []string{"http_error", "timeout"}, t
	case t.fails && end == "stall":
		return []string{"stream_error", "timeout"}, t
	case t.fails:
		return []string{"stream_error"}, t
	case at == len(w.all) && !w.untilEnd:
		return []string{"ok"}, t
	case at == 0 && end == "fin":
		return []string{"reset"}, t
	case end != "fin" || at < len(w.head) || !w.untilEnd:
		return []string{how}, t
	}
	// The connection's good end is the body's.
	switch {
	case !s.stream && at == len(w.all), s.stream && t.between && t.finished && at == len(w.all):
		return []string{"ok"}, t
	case s.stream && t.finished && w.gzip: // all has come but gzip's own end
		return []string{"ok", "truncated"}, t
	case s.stream && s.marks && t.finished && t.between:
		return []string{"ok"}, t
	case s.stream && !s.marks && t.between && t.tokens > 0:
		return []string{"ok"}, t
	case s.stream && !s.marks && t.between && t.any:
		return []string{"bad_response", "truncated"}, t
	case s.loose: // what has come of an event or a body is taken for one
		return []string{"ok", "truncated", "bad_response"}, t
	case s.stream && t.any && s.marks && !w.gzip:
		return []string{"truncated"}, t
	}
	if s.stream && w.gzip && t.any { // the finish may have come before what marks the flush after it
		return []string{"truncated", "bad_response", "ok"}, t
	}
	return []string{"truncated", "bad_response"}, t
}

// addEndings adds an answer that ends in each way in each phase.
func (s *sweepCells) addEndings() {
	head, pieces := s.pieces()
	for _, framing := range sweepFramings {
		w := frame(framing, head, pieces)
		for phase, at := range s.phases(w) {
			for _, end := range s.endings() {
				s.addEnding(fmt.Sprintf("%s, %s %s", framing, end.name, phase), w, s.events, end, at, 200)
			}
		}
	}
}

func (s *sweepCells) addEnding(name string, w sweepWire, events []sweepEvent, end ending, at, status int) *sweepCell {
	if !s.stream {
		events = nil
	}
	want, told := s.outcomes(w, events, end.name, at, status)
	part := w.all[:at]
	cell := s.add(name, func(c *sweepConn) bool {
		_, _ = c.Write(part)
		end.do(c)
		return false
	}, want...)
	cell.status, cell.least, cell.most = int64(status), told.tokens, told.tokens
	if w.gzip || s.loose {
		cell.most++ // what is flushed may be read before the mark of the flush; a part of an event is taken for one
	}
	if end.name == "rst" {
		cell.least = 0 // it may overtake what was sent before it
	}
	return cell
}

// addErrors adds error events, and answers that are errors as a whole.
func (s *sweepCells) addErrors() {
	for _, framing := range sweepFramings {
		if s.stream {
			for _, before := range []int{0, 1, len(s.events) - 1} {
				events := append(slices.Clone(s.events[:before]), sweepEvent{text: s.error, fails: true})
				var pieces []string
				for _, e := range events {
					pieces = append(pieces, e.text)
				}
				w := frame(framing, streamType, pieces)
				for _, end := range s.endings() {
					for _, at := range []int{w.ends[before], len(w.all)} {
						c := s.addEnding(fmt.Sprintf("%s, an error event after %d others, then %s", framing, before, end.name), w, events, end, at, 200)
						c.says = sweepWords
					}
				}
			}
		}
		for _, status := range []int{301, 400, 401, 404, 408, 413, 429, 500, 502, 503, 529} {
			head := fmt.Sprintf("HTTP/1.1 %d Because\r\nLocation: /elsewhere\r\nRetry-After: 1\r\n", status)
			w := frame(framing, head, []string{`{"error":{"message":"` + sweepWords + `"}}`})
			for _, end := range s.endings() {
				if end.name == "stall" && status != 503 { // stalls take long
					continue
				}
				c := s.addEnding(fmt.Sprintf("%s, status %d, then %s", framing, status, end.name), w, nil, end, len(w.all), status)
				c.says = sweepWords
				s.addEnding(fmt.Sprintf("%s, status %d and half a body, then %s", framing, status, end.name), w, nil, end, len(w.all)-(len(w.all)-len(w.head))/2, status)
			}
		}
	}
	for _, status := range []int{201, 204, 206, 304, 307, 418, 599} {
		head := fmt.Sprintf("HTTP/1.1 %d Odd\r\n", status)
		if status != 204 && status != 304 {
			head += "Content-Length: 0\r\n"
		}
		s.say(fmt.Sprintf("status %d without a body", status), head+"\r\n", "http_error").status = int64(status)
	}
	s.sayAndEnd("a page", "HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/html\r\n\r\n<html>\x00bad gateway</html>", "http_error").status = 502
}

// addHarmless adds what a client must put up with.
func (s *sweepCells) addHarmless() {
	head, pieces := s.pieces()
	for _, framing := range sweepFramings {
		w := frame(framing, head, pieces)
		end := func(c *sweepConn) bool {
			if w.untilEnd {
				c.fin()
			}
			return !w.untilEnd
		}
		s.add(framing+", all at once", func(c *sweepConn) bool { _, _ = c.Write(w.all); return end(c) }, "ok")
		s.add(framing+", a byte at a time", func(c *sweepConn) bool { c.drip(w.all); return end(c) }, "ok")
		at := 0 // a cell may be played by several connections at once
		s.add(framing+", in two", func(c *sweepConn) bool { c.inTwo(w.all, at); return end(c) }, "ok")
		for at := 1; at < len(w.all); at += 11 {
			s.add(framing+", in two", func(c *sweepConn) bool { c.inTwo(w.all, at); return end(c) }, "ok")
		}
		if w.untilEnd {
			continue
		}
		for _, interim := range []string{"100 Continue", "102 Processing", "103 Early Hints"} {
			s.say(framing+", "+interim, strings.Repeat("HTTP/1.1 "+interim+"\r\nLink: </x>\r\n\r\n", 3)+string(w.all), "ok")
		}
		closing := strings.Replace(string(w.all), "200 OK\r\n", "200 OK\r\nConnection: close\r\n", 1)
		s.sayAndEnd(framing+", Connection: close", closing, "ok")
		s.add(framing+", Connection: close, and it stays open", func(c *sweepConn) bool { _, _ = io.WriteString(c, closing); c.hang(); return false }, "ok")
		s.sayAndEnd(framing+", bytes after the end", string(w.all)+"\x00garbage", "ok")
		s.sayAndEnd(framing+", a second answer after the end", string(w.all)+string(w.all), "ok")
		s.say(framing+", a large head", strings.Replace(string(w.all), "200 OK\r\n", "200 OK\r\nX-Large: "+strings.Repeat("x", 40_000)+"\r\n", 1), "ok")
	}
	chunked := frame("chunked", head, pieces)
	s.sayAndEnd("HTTP/1.0", strings.Replace(string(frame("until end", head, pieces).all), "HTTP/1.1", "HTTP/1.0", 1), "ok")
	s.sayAndEnd("chunked, and a length beside it", strings.Replace(string(chunked.all), "200 OK\r\n", "200 OK\r\nContent-Length: 7\r\n", 1), "ok")
	s.say("chunk extensions and a trailer", strings.TrimSuffix(string(chunked.all), "0\r\n\r\n")+"0;a=b\r\nX-Sum: 1\r\n\r\n", "ok")
	if !s.stream {
		return
	}
	twice := append(slices.Clone(pieces), pieces[len(pieces)-1])
	if !s.events[len(s.events)-1].token {
		s.say("the last event twice", string(frame("chunked", head, twice).all), "ok")
	}
	noise := []string{": a comment\n\n", "\n\n", "retry: 5\n\n", "id: 7\nevent: ping\n\n"}
	s.say("comments and heartbeats", string(frame("chunked", head, append(slices.Clone(noise), append(pieces, noise...)...)).all), "ok")
	s.say("CRLF in events", string(frame("chunked", head, []string{strings.ReplaceAll(strings.Join(pieces, ""), "\n", "\r\n")}).all), "ok")
	s.say("a byte order mark", string(frame("chunked", head, append([]string{"\xef\xbb\xbf"}, pieces...)).all), "ok")
	whole := s.say("an object in place of a stream", string(frame("length", jsonType, []string{s.whole}).all), "ok")
	whole.least, whole.most = 0, 0
}

// addBad adds what is no answer.
func (s *sweepCells) addBad() {
	head, pieces := s.pieces()
	w := frame("chunked", head, pieces)
	first := string(w.all[:w.ends[0]])
	bad := func(name, text string) *sweepCell { return s.sayAndEnd(name, text, "bad_response") }
	for name, text := range map[string]string{
		"no HTTP": "220 mail.example.org ESMTP\r\n", "HTTP/2": "HTTP/2 200 OK\r\n\r\n", "HTTP/1.1 without a status": "HTTP/1.1 OK\r\n\r\n", "status 20x": "HTTP/1.1 20x OK\r\n\r\n", "NULs for a head": strings.Repeat("\x00", 50) + "\r\n",
		"NUL in the status line": "HTTP/1.1 200 O\x00K\r\n\r\n", "a header without a colon": jsonType + "garbage\r\n\r\n", "a header with NUL": jsonType + "X: \x00\r\n\r\n", "a folded header": jsonType + "X: a\r\n b\r\n\r\n",
		"101": "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", "a head of 70 kB": jsonType + "X: " + strings.Repeat("x", 70_000) + "\r\n\r\n", "endless interim heads": strings.Repeat("HTTP/1.1 103 Early\r\n\r\n", 4000),
		"length -1": jsonType + "Content-Length: -1\r\n\r\n", "length x": jsonType + "Content-Length: x\r\n\r\n", "two lengths": jsonType + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", "a length beyond 64 bits": jsonType + "Content-Length: 99999999999999999999\r\n\r\n",
		"an unknown coding": jsonType + "Content-Encoding: br\r\nContent-Length: 2\r\n\r\nxx", "an unknown transfer coding": jsonType + "Transfer-Encoding: gzip, chunked\r\n\r\n",
		"garbage for gzip":   string(frame("length", head+"Content-Encoding: gzip\r\n", []string{strings.Repeat("garbage", 9)}).all),
		"half a gzip stream": string(frame("length", head+"Content-Encoding: gzip\r\n", []string{compressed([]string{strings.Join(pieces, "")})[0][:40]}).all),
		"no chunk size":      first + "\r\n", "a bad chunk size": first + "zz\r\n", "a negative chunk size": first + "-5\r\n", "a chunk size beyond 64 bits": first + "fffffffffffffffff\r\n", "a chunk size that ends in LF": first + "5\nhello\r\n",
		"a chunk longer than its size": first + "3\r\nhello\r\n", "NUL for a chunk size": first + "\x00\r\n", "an endless chunk size line": first + "5;" + strings.Repeat("x", 5000),
	} {
		bad(name, text)
	}
	empty := s.sayAndEnd("an empty body", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "bad_response", "truncated")
	if s.loose {
		empty.want = append(empty.want, "ok")
	}
	body := pieces[0]
	if !s.stream {
		body = s.whole
	}
	short := s.sayAndEnd("a length beyond the end", head+fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body)+50, body), "truncated")
	short.most = sweepTokens
	s.add("a length beyond the end, and it stays open", func(c *sweepConn) bool {
		_, _ = io.WriteString(c, head+fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body)+50, body))
		c.hang()
		return false
	}, "timeout")
	early := s.sayAndEnd("a length within the answer", head+fmt.Sprintf("Content-Length: %d\r\n\r\n", len(body)-9)+strings.Join(pieces, ""), "truncated", "bad_response")
	for name, text := range map[string]string{"bad JSON": `{"choices":[{`, "a NUL in JSON": "{\"text\":\"\x00\",\"choices\":[{\"text\":\"\x00\"}]}", "text": "not JSON", "an array": "[1,2]", "deep JSON": strings.Repeat(`{"a":`, 3000)} {
		want := []string{"bad_response"}
		if s.loose { // takes anything
			want = append(want, "ok", "truncated")
		}
		if !s.stream {
			s.say(name, string(frame("length", head, []string{text}).all), want...)
			continue
		}
		c := s.say(name+" in an event", string(frame("chunked", head, append([]string{pieces[0], "data: " + text + "\n\n"}, pieces[1:]...)).all), want...)
		c.most += 2
	}
	if s.loose {
		early.want = append(early.want, "ok")
		return
	}
	if s.stream {
		s.say("no token", string(frame("chunked", streamType, []string{": nothing\n\n"}).all), "bad_response", "truncated")
		s.say("only [DONE]", string(frame("chunked", streamType, []string{"data: [DONE]\n\n"}).all), "bad_response", "truncated")
	}
}

// addEarly adds what a server does before it has read the request.
func (s *sweepCells) addEarly() {
	head, pieces := s.pieces()
	w := frame("chunked", head, pieces)
	early := func(name string, play func(c *sweepConn, n int64) bool, want ...string) *sweepCell {
		c := s.add(name, nil, want...)
		c.early, c.least = play, 0
		return c
	}
	half := func(c *sweepConn, n int64) { _, _ = io.CopyN(io.Discard, c.in, n/2) }
	early("rst within the request", func(c *sweepConn, n int64) bool { half(c, n); c.rst(); return false }, "reset")
	early("close within the request", func(c *sweepConn, n int64) bool { half(c, n); c.fin(); return false }, "reset")
	early("stall within the request", func(c *sweepConn, n int64) bool { half(c, n); time.Sleep(c.stallFor); return false }, "timeout")
	early("an answer before the request is read", func(c *sweepConn, n int64) bool {
		_, _ = c.Write(w.all)
		_, err := io.CopyN(io.Discard, c.in, n)
		return err == nil
	}, "ok")
	early("a refusal before the request is read, then close", func(c *sweepConn, n int64) bool {
		_, _ = io.WriteString(c, "HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		c.fin()
		return false
	}, "http_error", "reset").status = 413
}

func newSweepCells(a sweepAPI, stream, encrypted bool) []*sweepCell {
	s := &sweepCells{sweepAPI: a, stream: stream, tls: encrypted}
	s.addEndings()
	s.addErrors()
	s.addHarmless()
	s.addBad()
	s.addEarly()
	sort.SliceStable(s.cells, func(i, j int) bool { return s.cells[i].name < s.cells[j].name }) // maps have no order
	// Stalls are spread, and neighbours in the list are not alike.
	spread := make([]*sweepCell, 0, len(s.cells))
	for i := range 37 {
		for j := i; j < len(s.cells); j += 37 {
			spread = append(spread, s.cells[j])
		}
	}
	return spread
}

// sweepRun is one run of the sweep.
type sweepRun struct {
	api    string
	whole  bool
	tls    bool
	closed bool // a closed loop, in place of instants that a process of its own keeps
	resend string
	large  bool // requests that no socket takes at once
	rows   int
	from   int // the first cell's place, so that short runs differ
	pass   int
}

func (r sweepRun) String() string {
	words := []string{r.api}
	for word, is := range map[string]bool{"whole": r.whole, "https": r.tls, "closed": r.closed, "large": r.large} {
		if is {
			words = append(words, word)
		}
	}
	sort.Strings(words[1:])
	return strings.Join(append(words, r.resend, fmt.Sprint(r.pass)), " ")
}

// sweepRuns are those of CI, about 5,000 requests, or of the long form with so many requests or more.
func sweepRuns(atLeast int) (runs []sweepRun) {
	if atLeast == 0 {
		return sweepPass(0, false)
	}
	for pass, requests := 0, 0; requests < atLeast; pass++ {
		for _, r := range sweepPass(pass, true) {
			runs, requests = append(runs, r), requests+r.rows
		}
	}
	return runs
}

func sweepPass(pass int, long bool) (runs []sweepRun) {
	resends := []string{"unread", "safe", "never"}
	ways := []struct{ tls, closed bool }{{false, true}, {true, false}, {false, false}, {true, true}}
	large := sweepRun{api: "completions", closed: true, resend: "unread", large: true, rows: 60, pass: pass}
	rows, encrypted := 300, 160
	if long {
		large.rows, rows, encrypted = 600, 3650, 1500
	}
	for n, b := range backends() {
		for i := range 2 * len(ways) {
			way := ways[i%len(ways)]
			r := sweepRun{api: b.api, whole: b.whole || i >= len(ways), tls: way.tls, closed: way.closed, resend: resends[(n+i+pass)%len(resends)], rows: rows, from: (n + i + 101*pass) * rows, pass: pass}
			if r.tls { // handshakes take most of the time
				r.rows = encrypted
			}
			if (b.api == "raw" || b.api == "responses") && r.resend == "safe" {
				r.resend = "unread"
			}
			if long || i == n%(2*len(ways)) {
				runs = append(runs, r)
			}
		}
	}
	return append(runs, large)
}

// TestSweep commits every fault in every phase for every API, and holds each line of requests.jsonl against what the
// server did.
func TestSweep(t *testing.T) {
	t.Parallel()
	atLeast := 0
	if text := os.Getenv(sweepLong); text != "" {
		var err error
		if atLeast, err = strconv.Atoi(text); err != nil || atLeast < 1 {
			t.Fatalf("%s is %q: want a number of requests", sweepLong, text)
		}
	}
	total := 0
	t.Run("runs", func(t *testing.T) {
		for _, run := range sweepRuns(atLeast) {
			total += run.rows
			t.Run(run.String(), func(t *testing.T) {
				t.Parallel()
				run.check(t)
			})
		}
	})
	t.Logf("%d requests", total)
}

// load is a trace for the run's API, and the flags that replay it.
func (r sweepRun) load(t *testing.T, url string) []string {
	args := []string{"--url", url, "--api", r.api, "--model", "m", "--no-probe", "--insecure", "--scrape", "off", "--realtime", "off", "--connect-timeout", (2 * sweepPatience).String(), "--resend", r.resend}
	if r.whole && r.api != "embeddings" {
		args = append(args, "--no-stream")
	}
	if r.closed {
		args = append(args, "--concurrency", fmt.Sprint(sweepInFlight))
	} else {
		args = append(args, "--rate", "700")
	}
	tokens := "64"
	if r.large {
		tokens, args = "200000", append(args, "--time-unit", "ms")
	}
	if r.api != "raw" {
		return append(args, "--trace", generate(t, "--rows", fmt.Sprint(r.rows), "--rate", "1000", "--input-tokens", tokens, "--output-tokens", fmt.Sprint(sweepTokens)))
	}
	var b bytes.Buffer
	for i := range r.rows {
		fmt.Fprintf(&b, `{"model":"m","prompt":"word %d","stream":%v}`+"\n", i, !r.whole)
	}
	return append(args, "--trace", newFile(t, "bodies.jsonl", b.Bytes()), "--format", "raw_payload", "--endpoint", "/v1/completions")
}

const (
	sweepPatience = 1500 * time.Millisecond // with a connection that says nothing
	sweepInFlight = 256
)

func (r sweepRun) check(t *testing.T) {
	answers := sweepAPIs()[r.api]
	s := startSweepServer(t, newSweepCells(answers, !r.whole, r.tls), r.tls, 6*sweepPatience)
	s.next.Store(int64(r.from))
	scheme := "http://"
	if r.tls {
		scheme = "https://"
	}
	p := startReplay(t, append(r.load(t, scheme+s.Addr().String()), "--idle-timeout", sweepPatience.String())...)
	most, last := 0, time.Now()
	watch := time.NewTicker(50 * time.Millisecond)
	for running := true; running; {
		select {
		case <-p.gone:
			running = false
		case <-watch.C:
			// Whoever ticks late may have been starved, and then so may have been the server and the client.
			s.starved = s.starved || time.Since(last) > sweepPatience/6
			last = time.Now()
			if fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.Process.Pid)); err == nil {
				most = max(most, len(fds))
			}
		}
	}
	watch.Stop()
	p.wait(t)
	_ = s.Close()
	text, err := os.ReadFile(filepath.Join(p.dir, "requests.jsonl"))
	must.Do(t, err, p.stderr.String())
	s.mu.Lock()
	defer s.mu.Unlock()
	var summary metrics.Summary
	must.Do(t, json.Unmarshal(readFile(t, filepath.Join(p.dir, "summary.json")), &summary))
	s.startedAt = summary.Run.StartedAt
	s.prove(t, r, answers, text)
	// A closed loop has so many connections in use, at most as many on their way, and the process some of its own.
	if limit := 2*sweepInFlight + 128; r.closed && most > limit {
		t.Errorf("%d descriptors were open, want at most %d", most, limit)
	}
	if t.Failed() {
		t.Log(p.stderr.String())
	}
}

// prove holds each line against the server's log.
func (s *sweepServer) prove(t *testing.T, r sweepRun, answers sweepAPI, text []byte) {
	for _, w := range s.wrong {
		t.Error(w)
	}
	rows, lost := map[int64]bool{}, 0
	for row := range bytes.Lines(text) {
		var l line
		if err := json.Unmarshal(row, &l); err != nil {
			t.Errorf("no JSON: %q", row)
			continue
		}
		if rows[l.Row] {
			t.Errorf("row %d has two lines", l.Row)
		}
		rows[l.Row] = true
		expect.Equal(t, s.judge(r, answers, &l, &lost), "", "row %d: %s", l.Row, row)
		delete(s.log, l.ID)
	}
	if s.late > 0 {
		t.Logf("%d of %d requests timed out before the server was done with their answers: this machine is busy", s.late, r.rows)
	}
	expect.Equal(t, len(rows), r.rows, "rows have lines")
	for id := range s.log {
		t.Errorf("the server got %q, of which no line tells", id)
	}
	if lost > s.nameless && !s.starved {
		t.Errorf("%d requests failed that the server never saw, but it ended only %d connections between requests", lost, s.nameless)
	}
}

// answeredLate says whether the server had not written its answer, or what it has of one, when the client gave up, for
// want of a core.
func (s *sweepServer) answeredLate(a *sweepAttempt, l *line) bool {
	gaveUp := l.Sent + int64(sweepPatience)
	if l.Done != absent {
		gaveUp = l.Done
	}
	wrote := a.wrote.Load()
	return wrote == 0 || wrote > s.startedAt.UnixNano()+gaveUp
}

// judge says what is wrong with a line; "" if nothing is.
func (s *sweepServer) judge(r sweepRun, answers sweepAPI, l *line, lost *int) string {
	attempts := s.log[l.ID]
	read := 0
	for _, a := range attempts {
		if a.read {
			read++
		}
	}
	switch {
	case l.Resent > 1 || r.resend == "never" && l.Resent > 0 || int64(len(attempts)) > 1+l.Resent:
		return fmt.Sprintf("sent again %d times, came %d times", l.Resent, len(attempts))
	case read > 1 && r.resend != "safe":
		return fmt.Sprintf("the server read it %d times", read)
	case l.Drift != absent && l.Drift != l.Sent-l.Planned || l.Sent != absent && l.Sent < l.Planned || l.FirstToken != absent && l.FirstToken < l.Sent:
		return "its instants are out of order"
	}
	fits := func(a *sweepAttempt) bool {
		return slices.Contains(a.cell.want, l.Outcome) || a.cut && l.Outcome == "reset" || l.Outcome == "timeout" && (s.starved || s.answeredLate(a, l))
	}
	if len(attempts) == 0 || l.Resent == 1 && len(attempts) == 1 && !fits(attempts[0]) {
		*lost++
		switch {
		case !slices.Contains([]string{"reset", "timeout", "connect_error"}, l.Outcome):
			return "the server has not seen it"
		case len(attempts) == 1 && attempts[0].read && r.resend != "safe":
			return "sent again after " + attempts[0].cell.name
		}
		return ""
	}
	last := attempts[len(attempts)-1]
	cell := last.cell
	if l.Outcome == "timeout" && (s.starved || s.answeredLate(last, l)) {
		if !slices.Contains(cell.want, "timeout") {
			s.late++
		}
		return ""
	}
	wrong := func(what string) string { return fmt.Sprintf("%s after %q, want %v", what, cell.name, cell.want) }
	switch {
	case !fits(last):
		return wrong(l.Outcome)
	case l.ok() != (l.Error == ""):
		return wrong("error " + l.Error)
	case l.ok() && l.Status != 200 || l.Outcome == "http_error" && l.Status != cell.status:
		return wrong(fmt.Sprint("status ", l.Status))
	case cell.says != "" && (l.Outcome == "stream_error" || l.Outcome == "http_error") && l.Error != cell.says:
		return wrong("error " + l.Error)
	case !r.whole && (l.Outcome != "reset" && l.Chunks < cell.least || l.Chunks > cell.most):
		return wrong(fmt.Sprintf("%d token chunks, not %d to %d,", l.Chunks, cell.least, cell.most))
	case l.ok() && l.Chunks == sweepTokens && answers.counts && l.Completion != sweepTokens:
		return wrong(fmt.Sprint(l.Completion, " completion tokens"))
	case l.ok() && r.whole && answers.tells && !answers.loose && l.Completion != sweepTokens:
		return wrong(fmt.Sprint(l.Completion, " completion tokens"))
	}
	return ""
}
