package engine

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/workload"
	"github.com/fastreplay/fastreplay/sched"
)

// errorEvents returns errors inside a stream as servers of each API send them, all with the message "out of blocks".
func errorEvents() map[string][]string {
	openAI := []string{
		`data: {"error":{"message":"out of blocks","type":"InternalServerError","code":500}}`,
		`data: {"object":"error","message":"out of blocks","code":500}`,
		`data: {"error":"out of blocks"}`,
		`data: {"detail":"out of blocks"}`,
	}
	return map[string][]string{
		"completions": openAI,
		"chat":        openAI,
		"responses": {
			"event: error\ndata: {\"type\":\"error\",\"code\":\"server_error\",\"message\":\"out of blocks\",\"sequence_number\":3}",
			"event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"status\":\"failed\",\"error\":{\"code\":\"x\",\"message\":\"out of blocks\"}}}",
		},
		"messages":      {"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"out of blocks\"}}"},
		"tgi":           {`data:{"error":"out of blocks","error_type":"overloaded"}`},
		"sglang":        {`data: {"error":{"message":"out of blocks"}}`, `data: {"text":"","meta_info":{"finish_reason":{"type":"abort","message":"out of blocks"}}}`},
		"vllm-generate": openAI,
		"triton-vllm":   {`data: {"error":"out of blocks"}`},
		"triton-trtllm": {`data: {"error":"out of blocks"}`},
		"raw":           {`data: {"error":{"message":"out of blocks"}}`},
	}
}

// framings are the ways to send a body that is cut right after it, and that of the rest whose end is missing.
func framings(body string) map[string]string {
	const head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
	frame := func(head, body string) map[string]string {
		last := fmt.Sprintf("%x\r\n%s", len(body), body)
		return map[string]string{
			"chunked":                    head + "Transfer-Encoding: chunked\r\n\r\n" + last + "\r\n0\r\n\r\n",
			"chunked, no last chunk":     head + "Transfer-Encoding: chunked\r\n\r\n" + last + "\r\n",
			"chunked, within a chunk":    head + "Transfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x\r\n%s", len(body)+9, body),
			"chunked, a bad chunk after": head + "Transfer-Encoding: chunked\r\n\r\n" + last + "\r\nzz\r\n",
			"content-length":             head + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(body)) + body,
			"content-length, more":       head + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(body)+50) + body,
			"until the end":              head + "\r\n" + body,
		}
	}
	all := frame(head, body)
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, _ = io.WriteString(w, body)
	_ = w.Flush()
	for name, raw := range frame(head+"Content-Encoding: gzip\r\n", z.String()) {
		all[name+", compressed"] = raw
	}
	return all
}

// TestServersErrorOutlivesItsConnection: the error that the server reported is the outcome, however the connection ends then.
func TestServersErrorOutlivesItsConnection(t *testing.T) {
	ends := []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET}
	for name, events := range errorEvents() {
		backend := must(api.New(name, api.Options{Stream: true, Model: "m"}))(t)
		for i, event := range events {
			for _, blank := range []string{"\n\n", "\n"} {
				for framing, raw := range framings(event + blank) {
					for _, end := range ends {
						for _, size := range []int{1, 7, 1 << 20} {
							p, rec := newResponse(t, true)
							p.backend, p.marks = backend, backend.Traits().Marks
							play(p, slices.Collect(slices.Chunk([]byte(raw), size)), end)
							if rec.Outcome != record.StreamError || rec.Error != "out of blocks" {
								t.Errorf("%s, error %d%q, %s, pieces of %d, then %v: %v %q; want stream_error with the server's message",
									name, i, blank, framing, size, end, rec.Outcome, rec.Error)
							}
						}
					}
				}
			}
		}
	}
}

// TestServersStatusOutlivesItsConnection is the same for answers that are errors as a whole, and for one object in place of a stream.
func TestServersStatusOutlivesItsConnection(t *testing.T) {
	const object = `{"error":{"message":"out of blocks"}}`
	for framing, raw := range framings(object) {
		for _, status := range []int{200, 404, 503} {
			raw := strings.Replace(raw, "200 OK", fmt.Sprint(status, " X"), 1)
			for _, stream := range []bool{false, true} {
				for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET} {
					want := record.StreamError
					if status != 200 {
						want = record.HTTPError
					}
					p, rec := newResponse(t, stream)
					play(p, [][]byte{[]byte(raw)}, end)
					if rec.Outcome != want || rec.Error != "out of blocks" || rec.Status != int64(status) {
						t.Errorf("%d, %s, stream %v, then %v: %v %q; want %v with the server's message", status, framing, stream, end, rec.Outcome, rec.Error, want)
					}
				}
			}
		}
	}
	p, rec := newResponse(t, true)
	play(p, [][]byte{[]byte("HTTP/1.1 503 X\r\nContent-Length: 99\r\n\r\nbusy, come ag")}, io.EOF)
	if rec.Outcome != record.HTTPError || rec.Error != "busy, come ag" {
		t.Errorf("half a message: %v %q, want http_error with it", rec.Outcome, rec.Error)
	}
}

// TestConnectionThatEndsWithoutTLSsGoodbye is what its twin without TLS is.
func TestConnectionThatEndsWithoutTLSsGoodbye(t *testing.T) {
	for raw, want := range map[string]record.Outcome{
		"":                              record.Reset,
		"HTTP/1.1 20":                   record.Truncated,
		chunked(events(3, finish))[:99]: record.Truncated,
	} {
		p, rec := newResponse(t, true)
		play(p, [][]byte{[]byte(raw)}[:min(1, len(raw))], io.ErrUnexpectedEOF)
		if rec.Outcome != want {
			t.Errorf("after %q: %v %q, want %v", raw, rec.Outcome, rec.Error, want)
		}
	}
}

// secure makes the server speak https, and w go there.
func (s *server) secure(t *testing.T, w *workload.Work) {
	certified := httptest.NewUnstartedServer(nil)
	certified.StartTLS()
	s.Listener = tls.NewListener(s.Listener, &tls.Config{Certificates: certified.TLS.Certificates})
	certified.Close()
	w.Targets[0].TLS = true
}

// closer is a server that answers some requests of each connection and then closes it.
type closer struct {
	*server
	requests int  // answered by each connection
	wait     bool // close when the next request has arrived, unread: the client sees a reset
	read     bool // … and read
	half     bool // close only what goes to the client
	others   bool // every other connection is kept
}

func (c *closer) handleConn(n int64, conn net.Conn) {
	if c.others && n%2 == 0 {
		c.serve(conn)
		return
	}
	defer func() { _ = conn.Close() }()
	buf := make([]byte, c.request)
	for range c.requests {
		if _, err := io.ReadFull(conn, buf); err != nil {
			return
		}
		c.served.Add(1)
		if _, err := conn.Write(c.answer); err != nil {
			return
		}
	}
	if c.read {
		if _, err := io.ReadFull(conn, buf); err == nil {
			c.served.Add(1)
		}
	} else if c.half {
		_ = conn.(interface{ CloseWrite() error }).CloseWrite()
		waitReadable(conn)
	} else if c.wait {
		waitReadable(conn)
	}
}

// waitReadable returns when something has arrived that nobody has read, or the other end has hung up.
func waitReadable(conn net.Conn) {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err == nil {
		_ = raw.Read(func(fd uintptr) bool {
			n, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK)
			return n >= 0 && err != syscall.EAGAIN
		})
	}
}

// TestResend: --resend is obeyed by what the server has read.
func TestResend(t *testing.T) {
	const n, inFlight = 400, 4
	for _, c := range []struct {
		name  string
		how   Resend
		close closer
		prove func(t *testing.T, by map[record.Outcome]int, resent, served int64)
	}{
		{"closed with the next request unread, unless told not to send again", ResendUnread, closer{requests: 3, wait: true}, func(t *testing.T, by map[record.Outcome]int, resent, served int64) {
			if by[record.Reset] == 0 || int64(by[record.OK]) != served || by[record.OK]+by[record.Reset] != n {
				t.Errorf("%v, %d sent again, %d served: want resets and no answer made twice", by, resent, served)
			}
		}},
		{"closed with the next request unread, safe", ResendSafe, closer{requests: 3, wait: true}, func(t *testing.T, by map[record.Outcome]int, resent, served int64) {
			if by[record.OK] != n || resent == 0 || served != n {
				t.Errorf("%v, %d sent again, %d served: want all ok, some sent again", by, resent, served)
			}
		}},
		{"closed with the next request read, unread", ResendUnread, closer{requests: 3, read: true}, func(t *testing.T, by map[record.Outcome]int, resent, served int64) {
			if by[record.Reset] == 0 || resent != 0 || served != n {
				t.Errorf("%v, %d sent again, %d served: want each served once, none sent again", by, resent, served)
			}
		}},
		{"closed with the next request read, safe", ResendSafe, closer{requests: 3, read: true}, func(t *testing.T, by map[record.Outcome]int, resent, served int64) {
			if by[record.OK] != n || resent == 0 || served != n+resent {
				t.Errorf("%v, %d sent again, %d served: want all ok, and as many served twice as sent again", by, resent, served)
			}
		}},
		{"closed after the answer, never", ResendNever, closer{requests: 3}, func(t *testing.T, by map[record.Outcome]int, resent, served int64) {
			if resent != 0 || int64(by[record.OK]) != served || by[record.OK]+by[record.Reset] != n {
				t.Errorf("%v, %d sent again, %d served: want none sent again", by, resent, served)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, s := equalWork(t, n, closedPlan(inFlight))
			c.close.server = s
			s.handle = c.close.handleConn
			k := new(sink)
			r := newRun(t, oneThread, w, k)
			r.cfg.Resend = c.how
			do(t, s, r)
			resent := int64(0)
			for _, rec := range k.records {
				resent += rec.Resent
				if advised := strings.Contains(rec.Error, "--resend safe"); advised && (c.how != ResendUnread || rec.Outcome != record.Reset) || !advised && c.how == ResendUnread && rec.Outcome == record.Reset {
					t.Errorf("row %d, %s: %q", rec.Row, rec.Outcome, rec.Error)
				}
				if rec.Resent > 1 || rec.SentNS != record.None && rec.DriftNS() != rec.SentNS-rec.PlannedNS || rec.SentNS < rec.PlannedNS {
					t.Errorf("row %d: resent %d, planned %d, sent %d", rec.Row, rec.Resent, rec.PlannedNS, rec.SentNS)
				}
			}
			if len(k.records) != n {
				t.Errorf("%d records, want %d", len(k.records), n)
			}
			c.prove(t, k.outcomes(), resent, s.served.Load())
		})
	}
}

// TestServersThatClose: servers that end connections after answers that announced to keep them cost no request, are learned, and
// from then on each request has a connection of its own. What was sent again is counted.
func TestServersThatClose(t *testing.T) {
	const n, inFlight = 200, 4
	for _, c := range []struct {
		name   string
		close  closer
		secure bool
		plan   func([]int64) (sched.Plan, error)
	}{
		{"at once", closer{requests: 1}, false, closedPlan(inFlight)},
		{"at once, open loop", closer{requests: 1}, false, openPlan},
		{"at once, https", closer{requests: 1}, true, closedPlan(inFlight)},
		{"half of the connection", closer{requests: 1, half: true}, false, closedPlan(inFlight)},
		{"when the next request comes", closer{requests: 1, wait: true}, false, closedPlan(inFlight)},
		{"when the next request comes, open loop", closer{requests: 1, wait: true}, false, openPlan},
		{"when the next request comes, https", closer{requests: 1, wait: true}, true, closedPlan(inFlight)},
		{"after five", closer{requests: 5, wait: true}, false, closedPlan(inFlight)},
		{"every other instance", closer{requests: 1, wait: true, others: true}, false, closedPlan(inFlight)},
	} {
		eachSender(t, func(t *testing.T, kind senderKind) {
			t.Run(c.name, func(t *testing.T) {
				w, s := equalWork(t, n, c.plan)
				if c.secure {
					s.secure(t, w)
				}
				closing := c.close // connections of an earlier run may still read theirs
				closing.server = s
				s.handle = closing.handleConn
				k := new(sink)
				r := newRunWith(t, kind, w, k, &tls.Config{InsecureSkipVerify: true})
				r.cfg.Resend = ResendSafe
				found := do(t, s, r)
				resent := int64(0)
				for _, rec := range k.records {
					resent += rec.Resent
				}
				if by := k.outcomes(); by[record.OK] != n || s.served.Load() != n {
					t.Errorf("%v, %d served: want each of %d served once; the first: %+v", by, s.served.Load(), n, k.records[0])
				}
				// In an open loop up to 100 ms of requests have their connection when it is learned, and on a busy machine that may be all.
				if w.Plan.Open() {
					return
				}
				if found.Connections.ClosedEarly == 0 {
					t.Error("nobody has learned it")
				}
				if most := int64(8 * inFlight); resent > most {
					t.Errorf("%d of %d were sent again, want at most %d", resent, n, most)
				}
			})
		})
	}
}

// TestBreakingOffWhileAnswering: a server that had the request for longer than closingRace before it broke off is a failure that is reported.
func TestBreakingOffWhileAnswering(t *testing.T) {
	w, s := equalWork(t, 8, closedPlan(1))
	s.handle = func(_ int64, c net.Conn) {
		defer func() { _ = c.Close() }()
		buf := make([]byte, s.request)
		for i := 0; ; i++ {
			if _, err := io.ReadFull(c, buf); err != nil {
				return
			}
			if s.served.Add(1); i > 0 {
				return
			}
			_, _ = c.Write(s.answer)
		}
	}
	k := new(sink)
	r := newRun(t, oneThread, w, k)
	r.cfg.Resend = ResendSafe
	r.closingRace = 0
	found := do(t, s, r)
	if by := k.outcomes(); by[record.Reset] == 0 || s.served.Load() != 8 || found.Connections.ClosedEarly != 0 {
		t.Errorf("%v, %d served, %d closed early: want resets, and nothing sent twice", by, s.served.Load(), found.Connections.ClosedEarly)
	}
}

// TestServerThatIsGoneBeforeTheOtherAttempt: the request was sent and reset. That it could not be sent again changes nothing of that.
func TestServerThatIsGoneBeforeTheOtherAttempt(t *testing.T) {
	w, s := equalWork(t, 2, closedPlan(1))
	s.handle = func(_ int64, c net.Conn) {
		defer func() { _ = c.Close() }()
		if _, err := io.ReadFull(c, make([]byte, s.request)); err != nil {
			return
		}
		s.served.Add(1)
		_, _ = c.Write(s.answer)
		waitReadable(c)
		_ = s.Close() // nobody can connect any more
	}
	k := new(sink)
	r := newRun(t, oneThread, w, k)
	r.cfg.Resend = ResendSafe
	do(t, s, r)
	for _, rec := range k.records {
		switch {
		case rec.Outcome == record.OK:
		case rec.Outcome != record.Reset || rec.Resent != 0 || rec.SentNS == record.None || !strings.Contains(rec.Error, "another attempt failed: connecting to"):
			t.Errorf("row %d: %s %q, sent %d, resent %d; want the reset", rec.Row, rec.Outcome, rec.Error, rec.SentNS, rec.Resent)
		}
	}
	if p := r.Progress(); p.Resent != 0 || p.OK != 1 {
		t.Errorf("%+v", p)
	}
}

// TestUnread: what a FIN proves, also on a connection that has never carried a request.
func TestUnread(t *testing.T) {
	for _, read := range []bool{false, true} {
		w, s := equalWork(t, 2, openPlan)
		accepted := make(chan net.Conn, 1)
		s.handle = func(_ int64, c net.Conn) { accepted <- c }
		go s.run()
		r := newRun(t, oneThread, w, new(sink))
		c := must(r.pools[0].connect(context.Background()))(t)
		far := <-accepted
		c.beginRequest(0, opening, r.clock.Now())
		c.state.Store(busy)
		send := func() {
			if _, err := c.sock.Send(r.bytesOf(0, true)); err != nil {
				t.Error(err)
			}
		}
		if read {
			send()
			if _, err := io.ReadFull(far, make([]byte, s.request)); err != nil {
				t.Error(err)
			}
		}
		_ = far.Close()
		for c.sides.Load() == 2 { // until the receiver has met the end
			runtime.Gosched()
		}
		if !read {
			send()
		}
		if got := c.unread(); got != !read && runtime.GOOS == "linux" {
			t.Errorf("read %v: unread() = %v", read, got)
		}
		c.closeClaimed()
		r.epollReaders.end()
		r.receivers.Wait()
	}
}

// TestEmptyAnswerIsSaidToBeEmpty: an answer of status 200 without a body has nothing that could be malformed.
func TestEmptyAnswerIsSaidToBeEmpty(t *testing.T) {
	for _, stream := range []bool{true, false} {
		for raw, end := range map[string]error{"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n": nil, "HTTP/1.1 200 OK\r\n\r\n": io.EOF} {
			p, rec := newResponse(t, stream)
			play(p, [][]byte{[]byte(raw)}, end)
			if rec.Outcome != record.BadResponse || rec.Error != "the response has no body" {
				t.Errorf("stream %v, %q: %v %q", stream, raw, rec.Outcome, rec.Error)
			}
		}
	}
}
