package mockllm

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// dial opens a bare connection.
func (ts *testServer) dial() (net.Conn, *bufio.Reader) {
	ts.t.Helper()
	nc := must.Have(net.Dial("tcp", ts.Addr().String()))(ts.t)
	nc.SetDeadline(time.Now().Add(patience))
	ts.t.Cleanup(func() { nc.Close() })
	return nc, bufio.NewReader(nc)
}

// read reads one response whole.
func read(t *testing.T, br *bufio.Reader) (*http.Response, string) {
	t.Helper()
	resp := must.Have(http.ReadResponse(br, nil))(t)
	body := must.Have(io.ReadAll(resp.Body))(t)
	return resp, string(body)
}

// TestPipelining: requests sent together are answered in order, streams and pages alike.
func TestPipelining(t *testing.T) {
	ts := start(t, Config{TTFT: time.Millisecond})
	nc, br := ts.dial()
	var all strings.Builder
	for i := range 20 {
		all.WriteString(rawRequest(shortStream, fmt.Sprint("X-Request-Id: ", i)))
		all.WriteString("GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
	}
	must.Have(io.WriteString(nc, all.String()))(t)
	for i := range 20 {
		_, text := read(t, br)
		if a := parseStream(t, text); a.tokens != 3 || !strings.Contains(text, fmt.Sprintf(`"cmpl-%d"`, i)) {
			t.Fatalf("answer %d: %+v", i, a)
		}
		if resp, _ := read(t, br); resp.StatusCode != 200 {
			t.Fatalf("health %d: %d", i, resp.StatusCode)
		}
	}
}

// TestByteByByte: a request cut at every byte is the same request.
func TestByteByByte(t *testing.T) {
	ts := start(t, Config{CacheTokens: -1})
	request := rawRequest(`{"prompt":"aé \u00e9b","max_tokens":2,"stream":true}`)
	nc, br := ts.dial()
	for cut := range len(request) {
		for _, part := range []string{request[:cut], request[cut:]} {
			must.Have(io.WriteString(nc, part))(t)
		}
		if _, text := read(t, br); parseStream(t, text).tokens != 2 {
			t.Fatalf("cut at %d: %q", cut, text)
		}
	}
	for i := range len(request) {
		must.Have(io.WriteString(nc, request[i:i+1]))(t)
	}
	if _, text := read(t, br); parseStream(t, text).tokens != 2 {
		t.Fatalf("one by one: %q", text)
	}
}

func TestChunkedRequestAndExpect(t *testing.T) {
	ts := start(t, Config{})
	req := ts.request(completionsPath, shortStream)
	req.ContentLength = -1
	req.Body = io.NopCloser(struct{ io.Reader }{strings.NewReader(shortStream)})
	resp := must.Have(ts.client.Do(req))(t)
	text, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	expect.Equal(t, parseStream(t, string(text)).tokens, 3, "chunked request: %q", text)
	nc, br := ts.dial()
	request := rawRequest(shortStream, "Expect: 100-continue")
	head, body, _ := strings.Cut(request, "\r\n\r\n")
	io.WriteString(nc, head+"\r\n\r\n")
	must.Equal(t, must.Have(br.ReadString('\n'))(t), "HTTP/1.1 100 Continue\r\n")
	br.ReadString('\n')
	io.WriteString(nc, body)
	if _, text := read(t, br); parseStream(t, text).tokens != 3 {
		t.Errorf("after 100-continue: %q", text)
	}
}

// TestConnectionClose: HTTP/1.0 and Connection: close end the connection, and the body's end is known all the same.
func TestConnectionClose(t *testing.T) {
	ts := start(t, Config{})
	whole := strings.Replace(shortStream, `"stream":true`, `"stream":false`, 1)
	for _, body := range []string{shortStream, whole} {
		for name, request := range map[string]string{
			"close": rawRequest(body, "Connection: close"),
			"1.0":   strings.Replace(rawRequest(body), "HTTP/1.1", "HTTP/1.0", 1),
		} {
			nc, br := ts.dial()
			io.WriteString(nc, request)
			resp, text := read(t, br)
			if !resp.Close || !strings.Contains(text, `"total_tokens":6`) || name == "1.0" && resp.TransferEncoding != nil {
				t.Errorf("%s: %+v %q", name, resp, text)
			}
			if _, err := br.ReadByte(); err != io.EOF {
				t.Errorf("%s: %v, want EOF", name, err)
			}
		}
	}
	nc, br := ts.dial()
	io.WriteString(nc, strings.Replace(rawRequest(whole, "Connection: keep-alive"), "HTTP/1.1", "HTTP/1.0", 1))
	if resp, _ := read(t, br); resp.Header.Get("Connection") != "keep-alive" {
		t.Errorf("HTTP/1.0 keep-alive: %v", resp.Header)
	}
	io.WriteString(nc, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
	read(t, br)
}

func TestRefusedHeads(t *testing.T) {
	ts := start(t, Config{})
	for request, status := range map[string]int{
		"nonsense\r\n\r\n":       400,
		"GET / HTTP/1.1\r\n\r\n": 400, // no Host
		"GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("y", 9000):                                     431,
		"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 134217729\r\n\r\n":                    413,
		"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n":                            400,
		"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nnonsense\r\n": 400,
	} {
		nc, br := ts.dial()
		io.WriteString(nc, request)
		resp, err := http.ReadResponse(br, nil)
		if err != nil || resp.StatusCode != status || !resp.Close {
			t.Errorf("%.60q: %+v, %v; want %d", request, resp, err, status)
		}
	}
	ts.mustPost(200, completionsPath, shortStream)
}

// TestRefusalArrives: a client that is still sending its body gets the refusal, not a reset.
func TestRefusalArrives(t *testing.T) {
	ts := start(t, Config{})
	resp, text := ts.mustPost(413, completionsPath, strings.Repeat("x", MaxBodyBytes+1))
	if !resp.Close || !strings.Contains(text, "134217728 bytes") {
		t.Errorf("%+v %q", resp, text)
	}
}

// TestClientGone: whoever hangs up frees the slot at once, long before the next token, or leaves the queue. A full queue
// refuses.
func TestClientGone(t *testing.T) {
	ts := start(t, Config{TTFT: time.Hour, Slots: 12, MaxQueue: 8})
	var conns []net.Conn
	for i := range 20 {
		body := shortStream
		if i%2 == 1 {
			body = strings.Replace(body, `"stream":true`, `"stream":false`, 1)
		}
		conns = append(conns, ts.raw(body, fmt.Sprint("X-Request-Id: ", i)))
	}
	eventually(t, "12 run and 8 wait", func() bool { st := ts.counts(); return st.Running == 12 && st.Waiting == 8 })
	resp, _ := ts.mustPost(503, completionsPath, shortStream, "X-Request-Id", "refused")
	expect.Equal(t, resp.Header.Get("Retry-After"), "1", "Retry-After")
	eventually(t, "the queue moves", func() bool {
		if len(conns) > 13 {
			conns[0].Close()
			conns = conns[1:]
		}
		st := ts.counts()
		return st.Running == 12 && st.Waiting == 1
	})
	for _, nc := range conns {
		nc.Close()
	}
	eventually(t, "all slots are free", func() bool { st := ts.counts(); return st.Running == 0 && st.Ended == 21 && st.Done == 0 })
	lines := ts.lines()
	delete(lines, "refused")
	for id, l := range lines {
		answered := l.Completion != nil && *l.Completion != 0 // nil: it left the queue
		if l.End != endGone || l.FirstNS != nil || l.DoneNS != nil || answered {
			t.Errorf("log of %s: %+v", id, l)
		}
	}
}

// TestSlowReader: a client that does not read holds up only itself, and loses nothing.
func TestSlowReader(t *testing.T) {
	ts := start(t, Config{Pacers: 1, TTFT: time.Millisecond})
	dialer := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error {
		var err error
		ctl := raw.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) })
		return errors.Join(ctl, err)
	}}
	nc := must.Have(dialer.Dial("tcp", ts.Addr().String()))(t)
	defer nc.Close()
	const tokens = 50_000 // far more than the socket buffers hold
	body := fmt.Sprintf(`{"prompt":"a","max_tokens":%d,"stream":true,"stream_options":{"include_usage":true}}`, tokens)
	io.WriteString(nc, rawRequest(body))
	eventually(t, "the socket is full", func() bool { return ts.counts().BlockedWrites == 1 })
	for range 5 {
		if a := ts.stream(shortStream); a.tokens != 3 {
			t.Fatalf("another client got %+v", a)
		}
	}
	must.Do(t, nc.(*net.TCPConn).SetReadBuffer(4<<20))
	_, text := read(t, bufio.NewReader(nc))
	if a := parseStream(t, text); a.tokens != tokens || !a.done || len(strings.Fields(a.text)) != tokens {
		t.Errorf("%d tokens, done %v", a.tokens, a.done)
	}
}

// TestCloseMidRun: Close accounts for every request, whatever it is doing, and leaves no goroutine behind.
func TestCloseMidRun(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	ts := start(t, Config{TTFT: time.Hour, Slots: 6})
	for i, fault := range []string{"", "", "stall:0", "split", "slow-bytes:1h", "", "", ""} {
		headers := []string{fmt.Sprint("X-Request-Id: ", i)}
		if fault != "" {
			headers = append(headers, "X-Mock-Fault: "+fault)
		}
		ts.raw(shortStream, headers...)
		eventually(t, "request admitted", func() bool { return ts.counts().Requests == int64(i+1) })
	}
	ts.dial() // never sends anything
	eventually(t, "six run, two wait", func() bool { st := ts.counts(); return st.Running == 6 && st.Waiting == 2 })
	lines := ts.lines()
	expect.Equal(t, len(lines), 8, "lines")
	for id, l := range lines {
		expect.Equal(t, l.End, endShutdown, "log of %s: %+v", id, l)
	}
	expect.Equal(t, ts.Close(), nil, "second Close")
	expect.Error(t, ts.Start(nil), "", "a closed server starts")
}

// failingWriter fails until it is told not to.
type failingWriter struct {
	mu  sync.Mutex
	err error
	buf bytes.Buffer
}

func (w *failingWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		n, _ := w.buf.Write(p[:len(p)/2])
		return n, w.err
	}
	return w.buf.Write(p)
}

// TestLogDiskFull: what could not be written is written later, each byte once.
func TestLogDiskFull(t *testing.T) {
	w := &failingWriter{err: syscall.ENOSPC}
	l := newRequestLog(w)
	srv := &Server{}
	for i := range 100 {
		l.add(&reply{cfg: &Config{}, proto: paths()[completionsPath], c: &conn{peer: "p"}, srv: srv, id: fmt.Append(nil, i), arrivalNS: 1}, endDone)
		if i%10 == 0 {
			l.flush()
		}
	}
	w.mu.Lock()
	w.err = nil
	w.mu.Unlock()
	must.Do(t, l.close())
	got := strings.Split(strings.TrimSuffix(w.buf.String(), "\n"), "\n")
	must.Equal(t, len(got), 100, "lines")
	for i, line := range got {
		if !strings.HasPrefix(line, fmt.Sprintf(`{"request_id":"%d",`, i)) || !strings.HasSuffix(line, `"end":"done"}`) {
			t.Fatalf("line %d: %s", i, line)
		}
	}
	bad := newRequestLog(&failingWriter{err: syscall.ENOSPC})
	bad.add(&reply{cfg: &Config{}, proto: paths()[completionsPath], c: &conn{}, srv: srv}, endDone)
	if err := bad.close(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("close: %v, want ENOSPC", err)
	}
}
