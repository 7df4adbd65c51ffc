package recorder

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/trace"
)

// running is a recorder of a test, which stop ends.
type running struct {
	*Recorder
	t     *testing.T
	end   context.CancelFunc
	ended chan error
	notes *strings.Builder
}

// begin records what passes to a server, with what change makes of the options.
func begin(t *testing.T, upstream http.Handler, change func(o *Options)) *running {
	t.Helper()
	o := Options{
		Listen:      "127.0.0.1:0",
		Output:      filepath.Join(t.TempDir(), "day.jsonl.zst"),
		RotateBytes: 1 << 30,
		MemoryBytes: 64 << 20,
	}
	if upstream != nil {
		server := httptest.NewServer(upstream)
		t.Cleanup(server.Close)
		o.Upstreams = []string{server.URL}
	}
	run := &running{t: t, ended: make(chan error, 1), notes: &strings.Builder{}}
	o.Note = func(text string) { run.notes.WriteString(text + "\n") } // the recorder calls it under its lock
	if change != nil {
		change(&o)
	}
	run.Recorder = must.Have(Start(o))(t)
	var ctx context.Context
	ctx, run.end = context.WithCancel(t.Context())
	go func() { run.ended <- run.Run(ctx) }()
	t.Cleanup(run.end)
	return run
}

// stop ends the recorder and reads what is in its file.
func (r *running) stop() *trace.Trace {
	r.t.Helper()
	r.end()
	must.Do(r.t, <-r.ended)
	return must.Have(trace.Open(r.o.Output, trace.Options{Strict: true}))(r.t)
}

// lostNow is what is lost so far, once the file has it.
func (r *running) lostNow(why string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Recorder.lost[why] + r.fresh[why]
}

// until waits for what another goroutine brings about.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for range 6000 {
		if done() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("never happened: %s", what)
}

const chatPath = "/v1/chat/completions"

// asked is the body of a chat.
func asked(text string) string {
	return fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}],"max_tokens":9}`, text)
}

// answer is what the tests' server answers: a whole answer of two tokens.
const answer = `{"choices":[{"index":0,"message":{"role":"assistant","content":"well then"}}],"usage":{"prompt_tokens":9,"completion_tokens":2}}`

func answering(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	_, _ = io.WriteString(w, answer)
}

// post sends a chat and returns what was answered.
func (r *running) post(text string, headers ...string) (body string, status int) {
	r.t.Helper()
	req := must.Have(http.NewRequest(http.MethodPost, r.URL()+chatPath, strings.NewReader(asked(text))))(r.t)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp := must.Have(http.DefaultClient.Do(req))(r.t)
	defer resp.Body.Close()
	return string(must.Have(io.ReadAll(resp.Body))(r.t)), resp.StatusCode
}

// TestUnchanged: of many requests at once, to known and unknown paths, with bodies of all sizes, told and not, each
// server sees the bytes that the client sent and each client those that the server answered, headers of the
// application too. A first server that cannot be reached is passed over.
func TestUnchanged(t *testing.T) {
	var seen sync.Map // by the hash that a request names
	server := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		seen.Store(r.Header.Get("X-Hash"), fmt.Sprintf("%x %s %s %s", sha256.Sum256(body), r.Method, r.RequestURI, r.Header.Get("X-Forwarded-For")))
		w.Header().Set("X-Answer", fmt.Sprintf("%x", sha256.Sum256(body)))
		w.WriteHeader(len(body)%3 + 200)
		for piece := range bytes.Lines(body) {
			_, _ = w.Write(piece)
			if len(body)%2 == 0 {
				w.(http.Flusher).Flush()
			}
		}
	}
	dead := must.Have(net.Listen("tcp", "127.0.0.1:0"))(t)
	must.Do(t, dead.Close())
	r := begin(t, http.HandlerFunc(server), func(o *Options) { o.Upstreams = append([]string{"http://" + dead.Addr().String()}, o.Upstreams...) })
	var group sync.WaitGroup
	for worker := range uint64(8) {
		group.Go(func() {
			chance := rand.New(rand.NewPCG(worker, 1))
			for i := range 100 {
				body := make([]byte, chance.IntN(1<<chance.IntN(18)+1))
				for k := range body {
					body[k] = byte(chance.Uint32())
				}
				var from io.Reader = bytes.NewReader(body)
				if i%3 == 0 {
					from = io.MultiReader(from) // of unknown length
				}
				path := []string{chatPath, "/any%2Fthing/../else//?a=%zz;b", "/base/v1/completions?x=1"}[i%3]
				req, err := http.NewRequest([]string{http.MethodPost, http.MethodPut}[i%2], r.URL()+path, from)
				if err != nil {
					t.Error(err)
					return
				}
				name := fmt.Sprintf("%d-%d", worker, i)
				req.Header.Set("X-Hash", name)
				req.Header.Set("X-Forwarded-For", "10.0.0.1")
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				got, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				hash := fmt.Sprintf("%x", sha256.Sum256(body))
				if err != nil || !bytes.Equal(got, body) || resp.Header.Get("X-Answer") != hash || resp.StatusCode != len(body)%3+200 {
					t.Errorf("%s: %d of %d bytes came back, status %d, %v", name, len(got), len(body), resp.StatusCode, err)
				}
				at, _ := seen.Load(name)
				expect.Equal(t, at, any(fmt.Sprintf("%s %s %s 10.0.0.1", hash, req.Method, path)), "what the server got")
			}
		})
	}
	group.Wait()
	until(t, "random bytes are no requests", func() bool { return r.lostNow(lostMalformed) > 0 })
	expect.Equal(t, r.unreached.Load() > 0, true, "a server is passed over")
	expect.Contains(t, r.notes.String(), "connection refused")
}

// TestStream: each piece of an answer arrives while the server waits before the next, and the row has their instants.
// Names and sessions are pseudonyms; nothing that was said is in the file.
func TestStream(t *testing.T) {
	gate := make(chan struct{})
	event := func(text string) string {
		return fmt.Sprintf(`data: {"choices":[{"index":0,"delta":{"content":%q}}]}`+"\n\n", text)
	}
	server := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for _, piece := range []string{`data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}` + "\n\n", event("zebra "), event("quokka"), "data: [DONE]\n\n"} {
			_, _ = io.WriteString(w, piece)
			w.(http.Flusher).Flush()
			<-gate
		}
	}
	r := begin(t, http.HandlerFunc(server), nil)
	req := must.Have(http.NewRequest(http.MethodPost, r.URL()+chatPath, strings.NewReader(asked("of ocelots and ibexes, and of much else"))))(t)
	req.Header.Set("X-Session-Id", "patient-7")
	resp := must.Have(http.DefaultClient.Do(req))(t)
	lines := bufio.NewReader(resp.Body)
	var at []time.Duration
	for range 4 {
		must.Have(lines.ReadString('\n'))(t)
		must.Have(lines.ReadString('\n'))(t)
		at = append(at, time.Duration(r.now()))
		time.Sleep(3 * time.Millisecond) // so that instants differ
		gate <- struct{}{}
	}
	must.Have(io.ReadAll(lines))(t)
	must.Do(t, resp.Body.Close())
	day := r.stop()
	must.Equal(t, day.Len(), 1, "rows")
	first, last := time.Duration(day.TTFTNS[0]), time.Duration(day.TookNS[0])
	if first <= 0 || first > at[1] || last-first < 3*time.Millisecond || last > at[2] {
		t.Errorf("first token after %v, last after %v; they were read at %v", first, last, at)
	}
	text := unpacked(t, r.o.Output)
	for _, said := range []string{"zebra", "quokka", "ocelot", "ibex", "patient"} {
		expect.Lacks(t, text, said, "the file")
	}
	expect.Equal(t, day.Guessed == nil || !day.Guessed[0], true, "the session is recorded")
	expect.Equal(t, day.SessionName(0) != "", true, "the session has a pseudonym")
}

func unpacked(t *testing.T, path string) string {
	z := must.Have(zstd.NewReader(nil))(t)
	return string(must.Have(z.DecodeAll(must.Have(os.ReadFile(path))(t), nil))(t))
}

// TestDeaths: a client or a server that goes away is counted, and so is a refusal. The client of a server that dies sees
// what it would have seen without the recorder: the connection breaks off, before or in an answer.
func TestDeaths(t *testing.T) {
	left := make(chan struct{})
	server := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case strings.Contains(string(body), "refuse"):
			w.WriteHeader(http.StatusTooManyRequests)
		case strings.Contains(string(body), "die at once"):
			panic(http.ErrAbortHandler)
		case strings.Contains(string(body), "die later"):
			_, _ = io.WriteString(w, answer[:20])
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		case strings.Contains(string(body), "wait"):
			w.(http.Flusher).Flush()
			<-r.Context().Done() // the client's end reaches the server
			close(left)
		default:
			_, _ = io.WriteString(w, answer)
		}
	}
	r := begin(t, http.HandlerFunc(server), nil)
	_, status := r.post("refuse")
	expect.Equal(t, status, http.StatusTooManyRequests, "status")
	for _, text := range []string{"die at once", "die later"} {
		resp, err := http.Post(r.URL()+chatPath, "application/json", strings.NewReader(asked(text)))
		if err == nil {
			_, err = io.ReadAll(resp.Body)
			_ = resp.Body.Close()
		}
		if err == nil {
			t.Errorf("%s: the client saw nothing of it", text)
		}
	}
	ctx, leave := context.WithCancel(t.Context())
	req := must.Have(http.NewRequestWithContext(ctx, http.MethodPost, r.URL()+chatPath, strings.NewReader(asked("wait"))))(t)
	resp := must.Have(http.DefaultClient.Do(req))(t)
	leave()
	_ = resp.Body.Close()
	<-left
	r.post("all is well")
	day := r.stop()
	expect.Equal(t, day.Len(), 1, "rows")
	expect.Equal(t, day.Heads[0].Lost[lostFailed], 1, "refused")
	expect.Equal(t, day.Heads[0].Lost[lostAborted], 3, "died")
}

// TestCutAtTheEnd: a request whose answer never ends is cut when the recorder ends, and counted as lost.
func TestCutAtTheEnd(t *testing.T) {
	reached := make(chan struct{})
	run := begin(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(reached)
		<-r.Context().Done()
	}), func(o *Options) { o.patience = time.Millisecond })
	go func() {
		resp, err := http.Post(run.URL()+chatPath, "application/json", strings.NewReader(asked("hello")))
		if err == nil {
			_ = resp.Body.Close()
		}
	}()
	<-reached
	run.end()
	must.Do(t, <-run.ended)
	expect.Contains(t, run.Recorded(), "0 rows in 1 file; lost: 1 aborted")
}

// TestNoServer: if no server can be reached, the client is told so, and nothing is recorded.
func TestNoServer(t *testing.T) {
	r := begin(t, nil, func(o *Options) { o.Upstreams = []string{"127.0.0.1:1"} })
	body, status := r.post("anybody there?")
	expect.Equal(t, status, http.StatusBadGateway, "status")
	expect.Contains(t, body, "cannot be reached")
	until(t, "it is counted", func() bool { return r.lostNow(lostFailed) == 1 })
}

// endless is a body without end, until its reader goes.
type endless struct{ n int }

func (e *endless) Read(p []byte) (int, error) {
	e.n += len(p)
	return len(p), nil
}

// TestEndless: bodies and answers that are larger than all memory for them pass whole, nothing of them stays, and small
// ones are recorded before and after.
func TestEndless(t *testing.T) {
	const size = 40 << 20
	server := func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		if n < size && !strings.Contains(r.Header.Get("X-Want"), "all") {
			_, _ = io.WriteString(w, answer)
			return
		}
		_, _ = io.CopyN(w, &endless{}, n)
	}
	for _, memory := range []int64{1 << 20, 1 << 30} { // either bound is met
		r := begin(t, http.HandlerFunc(server), func(o *Options) { o.MemoryBytes = memory })
		r.post("before")
		req := must.Have(http.NewRequest(http.MethodPost, r.URL()+chatPath, io.LimitReader(&endless{}, size)))(t)
		resp := must.Have(http.DefaultClient.Do(req))(t)
		n := must.Have(io.Copy(io.Discard, resp.Body))(t)
		must.Do(t, resp.Body.Close())
		expect.Equal(t, n, int64(size), "bytes that passed")
		r.post("after")
		day := r.stop()
		expect.Equal(t, day.Len(), 2, "rows")
		h := day.Heads[0]
		expect.Equal(t, h.Lost[lostMemory]+h.Lost[lostTooLarge], 1, "lost: %v", h.Lost)
		expect.Equal(t, r.budget.used.Load(), 0, "bytes that are held at the end")
	}
}

// TestTooLarge: a body above the limit is given up also where there would be room for it.
func TestTooLarge(t *testing.T) {
	x := &exchange{budget: &budget{most: 1 << 30}}
	for _, size := range []int{maxBody/2 + 1, 1, maxBody/2 - 2} {
		x.asked(make([]byte, size))
	}
	expect.Equal(t, x.lost, "", "up to the limit")
	x.asked([]byte{0})
	expect.Equal(t, x.lost, lostTooLarge, "beyond the limit")
}

// TestRedirect: a request that a server sends elsewhere is a row once, where it is answered.
func TestRedirect(t *testing.T) {
	r := begin(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == chatPath {
			http.Redirect(w, req, "/here"+chatPath, http.StatusTemporaryRedirect)
			return
		}
		answering(w, req)
	}), nil)
	_, status := r.post("hello")
	expect.Equal(t, status, http.StatusOK, "status")
	day := r.stop()
	expect.Equal(t, day.Len(), 1, "rows")
	expect.Equal(t, day.Heads[0].Lost[lostFailed], 1, "redirects")
}

// TestCredentials: an upstream with credentials, which would not be sent, is refused without a word of them.
func TestCredentials(t *testing.T) {
	_, err := Start(Options{Upstreams: []string{"http://me:secret@gpu1:8000"}})
	if err == nil || !strings.Contains(err.Error(), "gpu1:8000") || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
}

// TestNoRoom: without memory nothing is recorded, and all passes.
func TestNoRoom(t *testing.T) {
	r := begin(t, http.HandlerFunc(answering), func(o *Options) { o.MemoryBytes = 10 })
	for range 5 {
		body, _ := r.post("hello")
		expect.Equal(t, body, answer, "answer")
	}
	until(t, "all are counted", func() bool { return r.lostNow(lostMemory) == 5 })
}

// TestKilled: at any moment, without an end, the file can be read. A disk that is full cuts nothing short: what was
// written stays whole, what could not be is counted, and rows are written again once there is room.
func TestKilled(t *testing.T) {
	for _, name := range []string{"day.jsonl", "day.jsonl.zst"} {
		var full atomic.Bool
		r := begin(t, http.HandlerFunc(answering), func(o *Options) {
			o.Output = filepath.Join(t.TempDir(), name)
			o.broken = func(d disk) disk { return fullDisk{d, &full} }
		})
		rows := func() int64 { return r.rows.Load() }
		r.post("one")
		until(t, "a row is on the disk", func() bool { return rows() == 1 })
		killed := filepath.Join(t.TempDir(), "copy.jsonl")
		must.Do(t, os.WriteFile(killed, must.Have(os.ReadFile(r.o.Output))(t), 0o600))
		day := must.Have(trace.Open(killed, trace.Options{}))(t)
		expect.Equal(t, day.Len(), 1, "rows of a file that nobody ended")
		full.Store(true)
		body, _ := r.post("two")
		expect.Equal(t, body, answer, "answer beside a full disk")
		until(t, "a row is lost", func() bool { return r.lostNow(lostDisk) == 1 })
		must.Equal(t, must.Have(trace.Open(r.o.Output, trace.Options{}))(t).Len(), 1, "rows beside one that found no room")
		full.Store(false)
		r.post("three")
		until(t, "there is room again", func() bool { return rows() == 2 })
		day = r.stop()
		expect.Equal(t, day.Len(), 2, "rows")
		expect.Equal(t, day.Heads[0].Lost[lostDisk], 1, "lost on the disk")
		expect.Equal(t, r.Missing(), 1, "rows that are missing")
		expect.Contains(t, r.notes.String(), "no space left")
	}
}

// fullDisk is one on which half of what is new finds room, as long as it is full.
type fullDisk struct {
	disk
	full *atomic.Bool
}

func (d fullDisk) WriteAt(p []byte, at int64) (int, error) {
	if at > 0 && d.full.Load() {
		n, _ := d.disk.WriteAt(p[:len(p)/2], at)
		return n, syscall.ENOSPC
	}
	return d.disk.WriteAt(p, at)
}

// TestRotation: files are closed by size and begin with a head of their own, none is overwritten, and together they have
// every row once. Without a kept key no two have a key in common.
func TestRotation(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "day-2.jsonl.zst"), []byte("mine"), 0o600))
	r := begin(t, http.HandlerFunc(answering), func(o *Options) {
		o.Output = filepath.Join(dir, "day.jsonl.zst")
		o.RotateBytes = 1
	})
	for i := range 3 {
		r.post("the same text, again and again, so that its ids could be compared")
		until(t, "it is on the disk", func() bool { return r.rows.Load() == int64(i+1) })
	}
	r.end()
	must.Do(t, <-r.ended)
	expect.Equal(t, string(must.Have(os.ReadFile(filepath.Join(dir, "day-2.jsonl.zst")))(t)), "mine", "a file of somebody else")
	keys := map[string]bool{}
	rows := 0
	for _, name := range []string{"day", "day-3", "day-4"} {
		day := must.Have(trace.Open(filepath.Join(dir, name+".jsonl.zst"), trace.Options{}))(t)
		rows += day.Len()
		keys[day.Heads[0].KeyID] = true
		expect.Equal(t, day.Heads[0].Rows, day.Len(), "rows that the head tells")
	}
	expect.Equal(t, rows, 3, "rows")
	expect.Equal(t, len(keys), 3, "keys")
	all := must.Have(filepath.Glob(filepath.Join(dir, "*")))(t)
	expect.Equal(t, len(all), 4, "files: %q", all)
}

// TestMirror: copies get a 202 and become rows whose answers are as long as they may be.
func TestMirror(t *testing.T) {
	r := begin(t, nil, func(o *Options) { o.Mirror = true })
	_, status := r.post("a copy")
	expect.Equal(t, status, http.StatusAccepted, "status")
	day := r.stop()
	expect.List(t, day.OutputTokens, []int32{9}, "lengths of answers")
	expect.Contains(t, strings.Join(day.Heads[0].Dropped, " "), "answers")
}

// TestSlowClients: clients that never end their headers hold no request's memory, and others are served beside them.
// Headers without end are refused.
func TestSlowClients(t *testing.T) {
	r := begin(t, http.HandlerFunc(answering), nil)
	var all []net.Conn
	for range 500 {
		conn := must.Have(net.Dial("tcp", r.listener.Addr().String()))(t)
		_, _ = io.WriteString(conn, "POST "+chatPath+" HTTP/1.1\r\nHost: x\r\n")
		all = append(all, conn)
	}
	for range 5 {
		body, _ := r.post("hello")
		expect.Equal(t, body, answer, "answer")
	}
	until(t, "rows are written", func() bool { return r.rows.Load() == 5 })
	expect.Equal(t, r.budget.used.Load(), 0, "bytes held")
	line := "X: " + strings.Repeat("x", 1<<16) + "\r\n"
	sent := 0
	for ; sent < 100; sent++ {
		if _, err := io.WriteString(all[0], line); err != nil {
			break
		}
	}
	if sent == 100 {
		t.Error("headers of 6 MB were taken")
	}
	for _, conn := range all {
		_ = conn.Close()
	}
}

// TestTLS: https to clients and to servers. A server that nobody trusts is told as one that cannot be reached.
func TestTLS(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(answering))
	defer server.Close()
	r := begin(t, nil, func(o *Options) {
		o.Upstreams = []string{server.URL}
		o.Insecure = true
	})
	body, _ := r.post("hello")
	expect.Equal(t, body, answer, "answer")
	r = begin(t, nil, func(o *Options) { o.Upstreams = []string{server.URL} })
	_, status := r.post("hello")
	expect.Equal(t, status, http.StatusBadGateway, "status")
	until(t, "why is said", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return strings.Contains(r.trouble, "certificate")
	})
}

// TestServerKeepsHistory: a request that names the response before it has all of the prompt, also behind rows that are
// written. One that names a response of another day is lost.
func TestServerKeepsHistory(t *testing.T) {
	answers := 0
	r := begin(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		answers++
		fmt.Fprintf(w, `{"id":"resp_%d","output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"well, well"}]}],`+
			`"usage":{"input_tokens":9,"output_tokens":5}}`, answers)
	}), nil)
	for i, before := range []string{"", `,"previous_response_id":"resp_1"`, `,"previous_response_id":"resp_2"`, `,"previous_response_id":"resp_9"`} {
		body := `{"model":"m","input":"and what then?"` + before + `}`
		resp := must.Have(http.Post(r.URL()+"/v1/responses", "application/json", strings.NewReader(body)))(t)
		must.Have(io.ReadAll(resp.Body))(t)
		until(t, "it is written or lost", func() bool { return int(r.rows.Load())+r.lostNow(lostMalformed) == i+1 })
	}
	day := r.stop()
	tokens := func(pieces ...string) (n int32) {
		for _, piece := range pieces {
			n += int32(len(piece)+3) / 4
		}
		return n
	}
	asks := tokens("<|im_start|>user\n", "and what then?", "<|im_end|>\n")
	answered := tokens("<|im_start|>assistant\n", "well, well", "<|im_end|>\n")
	first := asks + tokens("<|im_start|>assistant\n")
	expect.List(t, day.InputTokens, []int32{first, first + asks + answered, first + 2*(asks+answered)}, "lengths of prompts")
	expect.Equal(t, day.Heads[0].Lost[lostMalformed], 1, "lost")
	expect.Equal(t, day.Session[0] == day.Session[1] && day.Session[1] == day.Session[2], true, "they are one session")
}

// TestGoesOn: no spelling of the key hides that a request may become much longer than it is. Text in other languages,
// which many clients escape, is none.
func TestGoesOn(t *testing.T) {
	deep := strings.Repeat("[", 1000) + strings.Repeat("]", 1000)
	for text, want := range map[string]bool{
		`{"input":"a","previous_response_id":"resp_1"}`:               true,
		`{"input":"a","previous\u005fresponse_id":"resp_1"}`:          true,
		`{"input":` + deep + `,"previous\u005Fresponse_id":"resp_1"}`: true,
		`{"input":"a","\u0070\u0072evious_response_id":"resp_1"}`:     true,
		`{"input":"a","previous_respons\u0065_id":"resp_1"}`:          true,
		`{"input":"\u00e9t\u00e9 \u2013 \u003cb\u003e"}`:              false,
		`{"prompt":"a"}`: false,
	} {
		expect.Equal(t, (&exchange{request: []byte(text)}).goesOn(), want, "%.40s", text)
	}
}

// TestLinks: requests one after another take one connection to their server, unless that has ended it or says what nobody
// asked for. No head without end fills the memory.
func TestLinks(t *testing.T) {
	const whole = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	answers := []string{
		whole,
		whole,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok", // the connection is not kept
		whole + "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret",          // nor this
		"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", maxHeaders),            // nor this, of which there is no answer
		"HTTP/1.1 200 OK\r\n\r\nok",                                           // up to its end
		whole,
	}
	listener := must.Have(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	var connections, asks atomic.Int64
	serve := func(conn net.Conn) {
		defer conn.Close()
		for in := bufio.NewReader(conn); ; {
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, req.Body)
			answer := answers[asks.Add(1)-1]
			_, _ = io.WriteString(conn, answer)
			if !strings.Contains(answer, "Length") && !strings.Contains(answer, "chunked") {
				return
			}
		}
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			go serve(conn)
		}
	}()
	r := begin(t, nil, func(o *Options) { o.Upstreams = []string{listener.Addr().String()} })
	for i, used := range []int64{1, 1, 1, 1, 2, 3, 4, 5} {
		resp, err := http.Post(r.URL()+chatPath, "application/json", strings.NewReader(asked("hello")))
		must.Equal(t, err != nil, i == 5, "answer %d: %v", i, err)
		if err == nil {
			expect.Equal(t, string(must.Have(io.ReadAll(resp.Body))(t)), "ok", "answer %d", i)
			must.Do(t, resp.Body.Close())
		}
		expect.Equal(t, connections.Load(), used, "connections after answer %d", i)
		time.Sleep(10 * time.Millisecond)
	}
}

// TestArrival: a request came with its first byte, however late the recorder has its head, and never before it was sent.
// Through TLS this is so from the second of a connection on: before the first one, a handshake ended.
func TestArrival(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	cert, key := pemOf(t, server)
	for _, version := range []uint16{0, tls.VersionTLS12, tls.VersionTLS13} {
		r := begin(t, http.HandlerFunc(answering), func(o *Options) {
			if version > 0 {
				o.TLSCert = cert
				o.TLSKey = key
			}
		})
		tickets := &tls.Config{InsecureSkipVerify: true, MaxVersion: version, ClientSessionCache: tls.NewLRUClientSessionCache(1)}
		body := asked("hello")
		head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", chatPath, len(body))
		var sent, came []time.Duration
		for range 3 { // the second handshake is resumed
			conn := must.Have(net.Dial("tcp", r.listener.Addr().String()))(t)
			if version > 0 {
				secure := tls.Client(conn, tickets)
				must.Do(t, secure.Handshake())
				conn = secure
			}
			in := bufio.NewReader(conn)
			for range 6 {
				time.Sleep(2 * time.Millisecond)
				sent = append(sent, time.Duration(r.now()))
				must.Have(io.WriteString(conn, head[:9]))(t)
				time.Sleep(2 * time.Millisecond)
				came = append(came, time.Duration(r.now()))
				must.Have(io.WriteString(conn, head[9:]+body))(t)
				resp := must.Have(http.ReadResponse(in, nil))(t)
				must.Have(io.ReadAll(resp.Body))(t)
			}
			_ = conn.Close()
		}
		must.Equal(t, r.stop().Len(), len(sent), "rows")
		stamped := 0
		for i, stamp := range stampsOf(t, r.o.Output) {
			at := time.Duration(stamp)
			const ulp = 100 * time.Microsecond // of two clocks
			if at < sent[i]-ulp {
				t.Errorf("TLS %x: request %d came at %v, and was sent at %v", version, i, at, sent[i])
			}
			if at < came[i] {
				stamped++
			}
		}
		if runtime.GOOS == "linux" && stamped < len(sent)/2 {
			t.Errorf("TLS %x: only %d of %d requests came with their first byte", version, stamped, len(sent))
		}
	}
}

// TestStatus: the page has what was counted, and its words too.
func TestStatus(t *testing.T) {
	r := begin(t, http.HandlerFunc(answering), func(o *Options) { o.Metrics = "127.0.0.1:0" })
	r.post("hello")
	_ = must.Have(http.Get(r.URL() + "/v1/models"))(t).Body.Close()
	resp := must.Have(http.Post(r.URL()+chatPath, "", strings.NewReader("{")))(t)
	_ = resp.Body.Close()
	until(t, "all is counted", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.Recorder.lost[lostMalformed] == 1
	})
	page := r.page()
	expect.Contains(t, page, "\nfastreplay_record_rows_total 1\n")
	expect.Contains(t, page, `fastreplay_record_lost_total{reason="malformed"} 1`)
	said := must.Have(words([]byte(page)))(t)
	expect.Contains(t, said, "rows_total 1\n")
	expect.Contains(t, said, "passed_total 1\n")
	expect.Contains(t, said, `lost_total{reason="malformed"} 1`)
	_, err := words([]byte("other_metric 1\n"))
	expect.Error(t, err, "no page of a recorder")
}

// TestLogLine: what logs of exchanges say is JSON of one line, whatever bytes passed.
func TestLogLine(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		text := []byte(asked("x") + "data: {}\n\n")
		for range chance.IntN(4) {
			text[chance.IntN(len(text))] = byte(chance.Uint32())
		}
		cut := chance.IntN(len(text))
		x := &exchange{api: "chat", status: 200, request: []byte(asked("x\ny")), answer: text[cut:], beganNS: 5, named: names{Session: string(text[:cut])},
			reads: []read{{len(text) - cut, 7}}, budget: &budget{}}
		var log bytes.Buffer
		why := x.logTo(json.NewEncoder(&log), backends())
		if line := log.Bytes(); why == "" && (!json.Valid(line) || bytes.Count(line, []byte("\n")) != 1) {
			t.Fatalf("%q becomes %q", text[cut:], line)
		}
	}
}

// TestStrangeOwners: headers that no row may have cost their client neither its row nor others theirs.
func TestStrangeOwners(t *testing.T) {
	r := begin(t, http.HandlerFunc(answering), func(o *Options) { o.Keep = []string{"priority=x-priority", "tenant=x-tenant:plain"} })
	for priority, tenant := range map[string]string{"+7": "a\tb", "soon": strings.Repeat("x", 513), "": "", "2": "acme"} {
		r.post("hello", "x-priority", priority, "x-tenant", tenant)
	}
	day := r.stop()
	must.Equal(t, day.Len(), 4, "rows")
	found := map[string]string{}
	for i := range day.Len() {
		found[day.OwnerOf(i).Priority] = day.OwnerOf(i).Tenant
	}
	expect.Equal(t, fmt.Sprint(found), "map[: 2:acme 7:]", "priorities and tenants")
}
