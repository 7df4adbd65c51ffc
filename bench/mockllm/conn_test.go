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
)

// dial opens a bare connection.
func (ts *testServer) dial() (net.Conn, *bufio.Reader) {
	ts.t.Helper()
	nc, err := net.Dial("tcp", ts.Addr().String())
	if err != nil {
		ts.t.Fatal(err)
	}
	nc.SetDeadline(time.Now().Add(patience))
	ts.t.Cleanup(func() { nc.Close() })
	return nc, bufio.NewReader(nc)
}

// read reads one response whole.
func read(t *testing.T, br *bufio.Reader) (*http.Response, string) {
	t.Helper()
	resp, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

// TestPipelining: requests sent together are answered in order, streams and pages alike.
func TestPipelining(t *testing.T) {
	ts := start(t, Config{TTFT: time.Millisecond})
	nc, br := ts.dial()
	var all strings.Builder
	for i := range 20 {
		all.WriteString(rawRequest(completions, shortStream, fmt.Sprint("X-Request-Id: ", i)))
		all.WriteString("GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
	}
	if _, err := io.WriteString(nc, all.String()); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		_, text := read(t, br)
		if a := parseStream(t, text); a.tokens != 3 || a.chunks[0].ID != fmt.Sprint("cmpl-", i) {
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
	request := rawRequest(completions, `{"prompt":"aé \u00e9b","max_tokens":2,"stream":true}`)
	nc, br := ts.dial()
	for cut := range len(request) {
		for _, part := range []string{request[:cut], request[cut:]} {
			if _, err := io.WriteString(nc, part); err != nil {
				t.Fatal(err)
			}
		}
		if _, text := read(t, br); parseStream(t, text).tokens != 2 {
			t.Fatalf("cut at %d: %q", cut, text)
		}
	}
	for i := range len(request) {
		if _, err := io.WriteString(nc, request[i:i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if _, text := read(t, br); parseStream(t, text).tokens != 2 {
		t.Fatalf("one by one: %q", text)
	}
}

func TestChunkedRequestAndExpect(t *testing.T) {
	ts := start(t, Config{})
	req := ts.request(completions, shortStream)
	req.ContentLength = -1
	req.Body = io.NopCloser(struct{ io.Reader }{strings.NewReader(shortStream)})
	resp, err := ts.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if parseStream(t, string(text)).tokens != 3 {
		t.Errorf("chunked request: %q", text)
	}
	nc, br := ts.dial()
	request := rawRequest(completions, shortStream, "Expect: 100-continue")
	head, body, _ := strings.Cut(request, "\r\n\r\n")
	io.WriteString(nc, head+"\r\n\r\n")
	if line, err := br.ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("%q, %v", line, err)
	}
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
			"close": rawRequest(completions, body, "Connection: close"),
			"1.0":   strings.Replace(rawRequest(completions, body), "HTTP/1.1", "HTTP/1.0", 1),
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
	io.WriteString(nc, strings.Replace(rawRequest(completions, whole, "Connection: keep-alive"), "HTTP/1.1", "HTTP/1.0", 1))
	if resp, _ := read(t, br); resp.Header.Get("Connection") != "keep-alive" {
		t.Errorf("HTTP/1.0 keep-alive: %v", resp.Header)
	}
	io.WriteString(nc, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
	read(t, br)
}

// TestKeepAlive: idle connections are closed after the limit, but not before their first request, nor while busy.
func TestKeepAlive(t *testing.T) {
	const limit = 40 * time.Millisecond
	ts := start(t, Config{KeepAlive: limit, ITL: limit})
	idle, idleReader := ts.dial()
	nc, br := ts.dial()
	io.WriteString(nc, rawRequest(completions, shortStream)) // the answer takes longer than the limit
	if _, text := read(t, br); parseStream(t, text).tokens != 3 {
		t.Fatal("no answer")
	}
	if _, err := br.ReadByte(); err != io.EOF {
		t.Errorf("%v, want EOF", err)
	}
	io.WriteString(idle, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
	read(t, idleReader)
	if _, err := idleReader.ReadByte(); err != io.EOF {
		t.Errorf("%v, want EOF", err)
	}
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
	ts.mustPost(200, completions, shortStream)
}

// TestRefusalArrives: a client that is still sending its body gets the refusal, not a reset.
func TestRefusalArrives(t *testing.T) {
	ts := start(t, Config{})
	resp, text := ts.mustPost(413, completions, strings.Repeat("x", MaxBodyBytes+1))
	if !resp.Close || !strings.Contains(text, "134217728 bytes") {
		t.Errorf("%+v %q", resp, text)
	}
}

// TestLargeBody: as large as the longest prompts of the public traces, several times over, and all of it is counted.
func TestLargeBody(t *testing.T) {
	ts := start(t, Config{CacheTokens: -1})
	const tokens = 3_000_000
	body := `{"prompt":"` + strings.Repeat("word ", tokens) + `","max_tokens":1,"stream":true,"stream_options":{"include_usage":true}}`
	for want := range 2 {
		a := ts.stream(completions, body)
		if u := a.chunks[1].Usage; u.Prompt != tokens || a.cached() != want*(tokens-DefaultBlockTokens) {
			t.Errorf("request %d: usage %+v, cached %d", want, u, a.cached())
		}
	}
}

// TestClientGone: whoever hangs up frees the slot at once, long before the next token.
func TestClientGone(t *testing.T) {
	ts := start(t, Config{TTFT: time.Hour, Slots: 100})
	var conns []net.Conn
	for i := range 20 {
		body := shortStream
		if i%2 == 1 {
			body = strings.Replace(body, `"stream":true`, `"stream":false`, 1)
		}
		conns = append(conns, ts.raw(body, fmt.Sprint("X-Request-Id: ", i)))
	}
	eventually(t, "all run", func() bool { return ts.Stats().Running == 20 })
	for _, nc := range conns {
		nc.Close()
	}
	eventually(t, "all slots are free", func() bool { st := ts.Stats(); return st.Running == 0 && st.Gone == 20 })
	for id, l := range ts.lines() {
		if l.End != endGone || l.FirstNS != nil || l.DoneNS != nil || *l.Completion != 0 {
			t.Errorf("log of %s: %+v", id, l)
		}
	}
}

// TestAbandonedPrefill: a prompt whose client left before the first token never enters the cache.
func TestAbandonedPrefill(t *testing.T) {
	ts := start(t, Config{CacheTokens: -1, TTFT: 500 * time.Millisecond})
	body := `{"prompt":[` + strings.Repeat("1,", 40) + `2],"max_tokens":1,"stream":true,"stream_options":{"include_usage":true}}`
	nc := ts.raw(body)
	eventually(t, "it runs", func() bool { return ts.Stats().Running == 1 })
	nc.Close()
	eventually(t, "it is gone", func() bool { return ts.Stats().Gone == 1 })
	if got := ts.stream(completions, body).cached(); got != 0 {
		t.Errorf("%d tokens cached of an abandoned prompt", got)
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
	nc, err := dialer.Dial("tcp", ts.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	const tokens = 50_000 // far more than the socket buffers hold
	body := fmt.Sprintf(`{"prompt":"a","max_tokens":%d,"stream":true,"stream_options":{"include_usage":true}}`, tokens)
	io.WriteString(nc, rawRequest(completions, body))
	eventually(t, "the socket is full", func() bool { return ts.Stats().BlockedWrites == 1 })
	for range 5 {
		if a := ts.stream(completions, shortStream); a.tokens != 3 {
			t.Fatalf("another client got %+v", a)
		}
	}
	if err := nc.(*net.TCPConn).SetReadBuffer(4 << 20); err != nil {
		t.Fatal(err)
	}
	_, text := read(t, bufio.NewReader(nc))
	if a := parseStream(t, text); a.tokens != tokens || !a.done || len(strings.Fields(a.text)) != tokens || a.chunks[tokens].Usage.Completion != tokens {
		t.Errorf("%d tokens, done %v", a.tokens, a.done)
	}
}

// TestManyConnections: streams at once on as many connections.
func TestManyConnections(t *testing.T) {
	const conns, tokens = 1000, 5
	ts := start(t, Config{TTFT: 50 * time.Millisecond, ITL: 5 * time.Millisecond, Spread: 0.5})
	ts.client.Transport.(*http.Transport).MaxIdleConnsPerHost = conns
	body := fmt.Sprintf(`{"prompt":"a b c","max_tokens":%d,"stream":true,"stream_options":{"include_usage":true}}`, tokens)
	var wg sync.WaitGroup
	for i := range conns {
		wg.Go(func() {
			for k := range 3 {
				a := ts.stream(completions, body, "X-Request-Id", fmt.Sprint(i, "-", k))
				if a.tokens != tokens || !a.done || a.chunks[0].ID != fmt.Sprint("cmpl-", i, "-", k) {
					t.Errorf("connection %d: %+v", i, a)
				}
			}
		})
	}
	wg.Wait()
	eventually(t, "all are accounted for", func() bool { return ts.Stats().Done == 3*conns }) // clients see the end first
	st := ts.Stats()
	if st.Done != 3*conns || st.OutputTokens != 3*conns*tokens || st.PromptTokens != 9*conns || st.Running != 0 {
		t.Errorf("stats %+v", st)
	}
	lines := ts.lines()
	if len(lines) != 3*conns {
		t.Errorf("%d lines, want %d", len(lines), 3*conns)
	}
	for id, l := range lines {
		if l.End != endDone || *l.FirstNS-*l.ArrivedNS < int64(25*time.Millisecond) || *l.LastNS-*l.ArrivedNS < int64(35*time.Millisecond) {
			t.Errorf("log of %s: %+v", id, l)
		}
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
		eventually(t, "request admitted", func() bool { return ts.Stats().Requests == int64(i+1) })
	}
	ts.dial() // never sends anything
	eventually(t, "six run, two wait", func() bool { st := ts.Stats(); return st.Running == 6 && st.Waiting == 2 })
	lines := ts.lines()
	if len(lines) != 8 {
		t.Errorf("%d lines, want 8", len(lines))
	}
	for id, l := range lines {
		if l.End != endShutdown {
			t.Errorf("log of %s: %+v", id, l)
		}
	}
	if err := ts.Close(); err != nil {
		t.Error("second Close:", err)
	}
	if err := ts.Start(nil); err == nil {
		t.Error("a closed server starts")
	}
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
		l.add(&reply{api: completionsAPI{}, c: &conn{peer: "p"}, srv: srv, id: fmt.Append(nil, i), arrivalNS: 1}, endDone)
		if i%10 == 0 {
			l.flush()
		}
	}
	w.mu.Lock()
	w.err = nil
	w.mu.Unlock()
	if err := l.close(); err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSuffix(w.buf.String(), "\n"), "\n")
	if len(got) != 100 {
		t.Fatalf("%d lines, want 100", len(got))
	}
	for i, line := range got {
		if !strings.HasPrefix(line, fmt.Sprintf(`{"request_id":"%d",`, i)) || !strings.HasSuffix(line, `"end":"done"}`) {
			t.Fatalf("line %d: %s", i, line)
		}
	}
	bad := newRequestLog(&failingWriter{err: syscall.ENOSPC})
	bad.add(&reply{api: completionsAPI{}, c: &conn{}, srv: srv}, endDone)
	if err := bad.close(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("close: %v, want ENOSPC", err)
	}
}
