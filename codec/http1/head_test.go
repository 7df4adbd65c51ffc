package http1

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// appendHead appends a whole head.
func appendHead(dst []byte, method, path, host string, headers []Header, bodyBytes int) []byte {
	dst = AppendHeaders(AppendRequestStart(dst, method, path, host), headers)
	return AppendHeadEnd(dst, bodyBytes)
}

func TestRequestHeadExactBytes(t *testing.T) {
	got := appendHead([]byte("before|"), "POST", "/v1/completions", "[::1]:8000",
		[]Header{{"Content-Type", "application/json"}, {"X-Request-Id", "r-7"}}, 42)
	want := "before|POST /v1/completions HTTP/1.1\r\nHost: [::1]:8000\r\nContent-Type: application/json\r\n" +
		"X-Request-Id: r-7\r\nContent-Length: 42\r\n\r\n"
	must.Equal(t, string(got), want, "got %q", got)
}

func TestRequestHeadIsWhatNetHTTPReads(t *testing.T) {
	for _, c := range []struct{ method, body string }{{"GET", ""}, {"POST", `{"prompt":[1,2,3]}`}} {
		raw := appendHead(nil, c.method, "/v1/models?x=1", "example.org", []Header{{"A", "b c"}, {"Empty", ""}}, len(c.body))
		req, err := http.ReadRequest(bufio.NewReader(strings.NewReader(string(raw) + c.body)))
		must.Do(t, err, c.method)
		body, err := io.ReadAll(req.Body)
		if err != nil || string(body) != c.body {
			t.Fatalf("%s: body %q, error %v; want %q", c.method, body, err, c.body)
		}
		if req.Method != c.method || req.RequestURI != "/v1/models?x=1" || req.Host != "example.org" ||
			req.Header.Get("A") != "b c" || req.ContentLength != int64(len(c.body)) || req.Proto != "HTTP/1.1" {
			t.Fatalf("%s: read as %+v", c.method, req)
		}
	}
}

func TestHeaderValidate(t *testing.T) {
	for _, h := range []Header{{"X-A", "b"}, {"x_1!", ""}, {"Authorization", "Bearer s3cret=="}, {"A", "é\ttab"}} {
		expect.Equal(t, h.Validate(), nil, h)
	}
	for _, h := range []Header{{"", "b"}, {"A B", "b"}, {"A:", "b"}, {"Ä", "b"}, {"A", "s3cret\r\nB: c"}, {"A", "s3cret\x00"}, {"A", "s3cret\x7f"}} {
		err := h.Validate()
		if err == nil {
			t.Errorf("%q: accepted", h)
		} else if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: the message shows the value: %v", h, err)
		}
	}
}

func TestAppendHeadAllocatesNothing(t *testing.T) {
	buf := make([]byte, 0, 1024)
	headers := []Header{{"Content-Type", "application/json"}, {"X-Request-Id", "r-7"}}
	must.Equal(t, testing.AllocsPerRun(100, func() {
		buf = appendHead(buf[:0], "POST", "/v1/completions", "localhost", headers, 123456)
	}), 0, "allocations a head")
}

func BenchmarkAppendHead(b *testing.B) {
	buf := make([]byte, 0, 1024)
	headers := []Header{{"Content-Type", "application/json"}, {"X-Request-Id", "r-7"}}
	b.ReportAllocs()
	for b.Loop() {
		buf = appendHead(buf[:0], "POST", "/v1/completions", "localhost", headers, 123456)
	}
	if !bytes.HasSuffix(buf, []byte("123456\r\n\r\n")) {
		b.Fatalf("wrong head %q", buf)
	}
}
