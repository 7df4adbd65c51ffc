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

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/workload"
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

// TestServersErrorOutlivesItsConnection: the error that the server reported is the outcome, however the connection ends
// then.
func TestServersErrorOutlivesItsConnection(t *testing.T) {
	ends := []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET}
	for name, events := range errorEvents() {
		backend := must.Have(api.New(name, api.Options{Stream: true, Model: "m"}))(t)
		for i, event := range events {
			for _, blank := range []string{"\n\n", "\n"} {
				for framing, raw := range framings(event + blank) {
					for _, end := range ends {
						for _, size := range []int{1, 1 << 20} {
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

// TestServersStatusOutlivesItsConnection is the same for answers that are errors as a whole, and for one object in
// place of a stream.
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
		expect.Equal(t, rec.Outcome, want, "after %q: %q", raw, rec.Error)
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

// oncePerConnection makes a server close each connection after it has answered a request, which it announces to keep.
func (s *server) oncePerConnection() {
	s.handle = func(_ int64, c net.Conn) {
		defer func() { _ = c.Close() }()
		if _, err := io.ReadFull(c, make([]byte, s.request)); err == nil {
			s.served.Add(1)
			_, _ = c.Write(s.answer)
		}
	}
}

// TestServersThatClose: servers that end connections after answers that announced to keep them cost no request, and are
// learned. Of http the model and TestClosedIdle (bench) prove it.
func TestServersThatClose(t *testing.T) {
	const n = 200
	w, s := equalWork(t, n, closedPlan(4))
	s.secure(t, w)
	s.oncePerConnection()
	k := new(sink)
	r := newRunWith(t, oneThread, w, k, &tls.Config{InsecureSkipVerify: true})
	r.cfg.Resend = ResendSafe
	found := do(t, s, r)
	if by := k.outcomes(); by[record.OK] != n || s.served.Load() != n || found.Connections.ClosedEarly == 0 {
		t.Errorf("%v, %d served, %d closed early: want each of %d served once", by, s.served.Load(), found.Connections.ClosedEarly, n)
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
		c := must.Have(r.pools[0].connect(context.Background()))(t)
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
