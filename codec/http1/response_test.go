package http1

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// result is all that a caller can learn from a response.
type result struct {
	status                   int
	length                   int64
	chunked, keepAlive, gzip bool
	headDone, done           bool
	body, kept, rest         string
	err                      error
}

// feed scans the parts as if each were one read, then the end of the connection where the response is not over.
func feed(r *Response, parts ...string) result {
	r.Reset()
	var out result
	used := 0
	for _, part := range parts {
		p := []byte(part)
		for len(p) > 0 && out.err == nil && !r.Done() {
			body, n, err := r.Scan(p)
			out.body += string(body)
			used += n
			out.err = err
			if n == 0 && err == nil {
				panic("no progress")
			}
			p = p[n:]
		}
	}
	if out.err == nil && !r.Done() {
		out.err = r.EOF()
	}
	out.status, out.length, out.chunked, out.keepAlive = r.Status, r.ContentLength, r.head.chunked && r.ContentLength < 0, r.KeepAlive
	out.gzip, out.headDone, out.done = r.Gzip, r.HeadDone(), r.Done()
	out.kept = string(r.Kept(0))
	if out.err == nil {
		out.rest = strings.Join(parts, "")[used:]
	}
	if int64(len(out.body)) != r.body {
		panic(fmt.Sprintf("counted %d body bytes, delivered %d", r.body, len(out.body)))
	}
	return out
}

// sentinel reduces an error to what it wraps.
func sentinel(err error) error {
	for _, s := range []error{ErrNoResponse, ErrTruncated, ErrBadHead, ErrHeadTooLarge, ErrBadLength, ErrBadChunk, ErrUnsupported} {
		if errors.Is(err, s) {
			return s
		}
	}
	return err
}

// same compares results; what a broken response delivered before the error is nobody's business.
func same(a, b result) bool {
	a.err, b.err = sentinel(a.err), sentinel(b.err)
	if a.err != nil && a.err == b.err {
		return a.headDone == b.headDone && a.body == b.body
	}
	return a == b
}

// broken is a response whose head is right, and which is found to be wrong after so much of its body.
func broken(body string, err error) result { return result{headDone: true, body: body, err: err} }

// ended is a response that is whole.
func ended(r result) result {
	r.headDone, r.done = true, true
	return r
}

var responses = []struct {
	name, in string
	want     result
}{
	{"content-length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Kept: a b \r\n\r\nhelloHTTP/1.1",
		ended(result{status: 200, length: 5, keepAlive: true, body: "hello", kept: "a b", rest: "HTTP/1.1"})},
	{"no reason, lone LF", "HTTP/1.1 404\ncontent-length:0\n\n",
		ended(result{status: 404, keepAlive: true})},
	{"chunked event stream", "HTTP/1.1 200 OK\r\nContent-Type: Text/Event-Stream; charset=utf-8\r\nTransfer-Encoding: Chunked\r\n\r\n" +
		"5\r\nhello\r\n00A;x=\"y\"\r\n0123456789\r\n1 \r\n!\r\n0\r\nTrailer: x\r\n\r\n",
		ended(result{status: 200, length: -1, chunked: true, keepAlive: true, body: "hello0123456789!"})},
	{"read to close", "HTTP/1.1 200 OK\r\n\r\nall of it",
		ended(result{status: 200, length: -1, body: "all of it"})},
	{"read to close, nothing", "HTTP/1.1 200 OK\r\n\r\n",
		ended(result{status: 200, length: -1})},
	{"interim responses", "HTTP/1.1 100 Continue\r\nX-Kept: no\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\nContent-Encoding: gzip\r\n\r\n" +
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n.",
		ended(result{status: 200, length: 1, keepAlive: true, body: "."})},
	{"204 has no body", "HTTP/1.1 204 No Content\r\nContent-Length: 7\r\n\r\nHTTP/1.1",
		ended(result{status: 204, keepAlive: true, rest: "HTTP/1.1"})},
	{"304 has no body", "HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\nnext",
		ended(result{status: 304, keepAlive: true, rest: "next"})},
	{"gzip", "HTTP/1.1 200 OK\r\nContent-Encoding: x-GZIP\r\nContent-Length: 2\r\n\r\n\x1f\x8b",
		ended(result{status: 200, length: 2, keepAlive: true, gzip: true, body: "\x1f\x8b"})},
	{"connection close in a list", "HTTP/1.1 200 OK\r\nConnection: foo , Close\r\nContent-Length: 0\r\n\r\n",
		ended(result{status: 200})},
	{"HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
		ended(result{status: 200})},
	{"HTTP/1.0 kept alive", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n",
		ended(result{status: 200, keepAlive: true})},
	{"both lengths: chunked, not to be reused", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		ended(result{status: 200, length: -1, chunked: true})},
	{"the same length twice", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
		ended(result{status: 200, length: 1, keepAlive: true, body: "x"})},
	{"first kept value counts", "HTTP/1.1 200 OK\r\nx-kept: 1\r\nX-KEPT: 2\r\nContent-Length: 0\r\n\r\n",
		ended(result{status: 200, keepAlive: true, kept: "1"})},

	{"nothing", "", result{err: ErrNoResponse}},
	{"half a status line", "HTTP/1.1 2", result{err: ErrTruncated}},
	{"only an interim response", "HTTP/1.1 100 Continue\r\n\r\n", result{err: ErrTruncated}},
	{"half a body", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", broken("hel", ErrTruncated)},
	{"no last chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n", broken("hel", ErrTruncated)},
	{"no end of the trailers", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", broken("", ErrTruncated)},
	{"not HTTP", "SSH-2.0-OpenSSH_9.6\r\n", result{err: ErrBadHead}},
	{"HTTP/2", "HTTP/2.0 200 OK\r\n\r\n", result{err: ErrBadHead}},
	{"status 099", "HTTP/1.1 099 OK\r\n\r\n", result{err: ErrBadHead}},
	{"status 20", "HTTP/1.1 20 OK\r\n\r\n", result{err: ErrBadHead}},
	{"status 2000", "HTTP/1.1 2000 OK\r\n\r\n", result{err: ErrBadHead}},
	{"101", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", result{err: ErrBadHead}},
	{"folded header", "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", result{err: ErrBadHead}},
	{"space before the colon", "HTTP/1.1 200 OK\r\nContent-Length : 1\r\n\r\nx", result{err: ErrBadHead}},
	{"no colon", "HTTP/1.1 200 OK\r\nabc\r\n\r\n", result{err: ErrBadHead}},
	{"NUL in a value", "HTTP/1.1 200 OK\r\nA: b\x00\r\n\r\n", result{err: ErrBadHead}},
	{"lone CR in a value", "HTTP/1.1 200 OK\r\nA: b\rc\r\n\r\n", result{err: ErrBadHead}},
	{"chunked in HTTP/1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", result{err: ErrBadHead}},
	{"lengths differ", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx", result{err: ErrBadLength}},
	{"length empty", "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n", result{err: ErrBadLength}},
	{"length negative", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", result{err: ErrBadLength}},
	{"length list", "HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\nx", result{err: ErrBadLength}},
	{"length over int64", "HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775808\r\n\r\n", result{err: ErrBadLength}},
	{"unknown transfer coding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", result{err: ErrUnsupported}},
	{"chunked twice", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", result{err: ErrUnsupported}},
	{"unknown content coding", "HTTP/1.1 200 OK\r\nContent-Encoding: br\r\n\r\n", result{err: ErrUnsupported}},
	{"chunk size not hex", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", broken("", ErrBadChunk)},
	{"chunk size empty", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n", broken("", ErrBadChunk)},
	{"chunk size 0x5", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n", broken("", ErrBadChunk)},
	{"chunk size negative", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n", broken("", ErrBadChunk)},
	{"chunk size over int64", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8000000000000000\r\n", broken("", ErrBadChunk)},
	{"chunk size of 17 digits", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n00000000000000001\r\nx\r\n", broken("", ErrBadChunk)},
	{"chunk size ends in LF", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\nx\r\n", broken("", ErrBadChunk)},
	{"chunk longer than its size", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhello\r\n", broken("hel", ErrBadChunk)},
	{"chunk ends in LF", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\n0\r\n\r\n", broken("x", ErrBadChunk)},
	{"later chunk sizes", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0002\r\nbc\r\n0000000003\r\ndef\r\nA;x=y\r\n0123456789\r\n000\r\n\r\n",
		ended(result{status: 200, length: -1, chunked: true, keepAlive: true, body: "abcdef0123456789"})},
	{"later chunk size not hex", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n1g\r\n", broken("x", ErrBadChunk)},
	{"later chunk size empty", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n\r\n", broken("x", ErrBadChunk)},
	{"later chunk size ends in LF", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n1\n\ny\r\n", broken("x", ErrBadChunk)},
	{"later chunk size ends in CR", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n1\ry\r\n", broken("x", ErrBadChunk)},
	{"later chunk size over int64", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n8000000000000001\r\n", broken("x", ErrBadChunk)},
	{"chunk ends in CR and CRLF", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\r\n1\r\ny\r\n", broken("x", ErrBadChunk)},
	{"last line ends in LF", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\n", broken("", ErrBadChunk)},
	{"trailer ends in LF", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: b\n\r\n", broken("", ErrBadChunk)},
	{"bad trailer", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nabc\r\n\r\n", broken("", ErrBadChunk)},
}

// TestResponses reads each whole, in three parts cut anywhere, and byte by byte.
func TestResponses(t *testing.T) {
	var r Response
	r.Keep("X-Kept")
	for _, c := range responses {
		for i := range len(c.in) + 1 {
			for j := i; j <= len(c.in); j++ {
				if got := feed(&r, c.in[:i], c.in[i:j], c.in[j:]); !same(got, c.want) {
					t.Fatalf("%s: split at %d and %d of %q\ngot  %+v\nwant %+v", c.name, i, j, c.in, got, c.want)
				}
			}
		}
		if got := feed(&r, strings.Split(c.in, "")...); !same(got, c.want) {
			t.Fatalf("%s: byte by byte: got %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestLimits(t *testing.T) {
	const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	fill := func(prefix, suffix string, total int) string {
		return prefix + strings.Repeat("x", total-len(prefix)-len(suffix)) + suffix
	}
	head := func(total int) string { return fill("HTTP/1.1 204 OK\r\nA: ", "\r\n\r\n", total) }
	interim := strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", MaxHeadBytes/25)
	for _, c := range []struct {
		name, in string
		want     error
	}{
		{"head as large as may be", head(MaxHeadBytes), nil},
		{"head one byte larger", head(MaxHeadBytes + 1), ErrHeadTooLarge},
		{"head without end", strings.Repeat("x", MaxHeadBytes+1), ErrHeadTooLarge},
		{"interim heads without end", interim + "HTTP/1.1 100 Continue\r\n\r\n", ErrHeadTooLarge},
		{"trailers as large as may be", chunked + "0\r\n" + fill("A: ", "\r\n\r\n", MaxHeadBytes), nil},
		{"trailers one byte larger", chunked + "0\r\n" + fill("A: ", "\r\n\r\n", MaxHeadBytes+1), ErrHeadTooLarge},
		{"size line as long as may be", chunked + fill("0;", "\r\n", maxChunkLineBytes) + "\r\n", nil},
		{"size line as long as may be, after a chunk", chunked + "1\r\nx\r\n" + fill("0;", "\r\n", maxChunkLineBytes) + "\r\n", nil},
		{"size line one byte longer", chunked + fill("0;", "\r\n", maxChunkLineBytes+1) + "\r\n", ErrBadChunk},
	} {
		for _, step := range []int{len(c.in), 1, 1000, 4097} {
			var r Response
			var parts []string
			for i := 0; i < len(c.in); i += step {
				parts = append(parts, c.in[i:min(i+step, len(c.in))])
			}
			if got := feed(&r, parts...); sentinel(got.err) != c.want {
				t.Errorf("%s, %d bytes a read: got error %v, want %v", c.name, step, got.err, c.want)
			}
			if cap(r.line) > 2*MaxHeadBytes {
				t.Errorf("%s: %d bytes held", c.name, cap(r.line))
			}
		}
	}
}

func TestErrorsStay(t *testing.T) {
	var r Response
	_, _, err := r.Scan([]byte("garbage\r\n"))
	if !errors.Is(err, ErrBadHead) || !strings.Contains(err.Error(), `"garbage"`) {
		t.Fatalf("got %v", err)
	}
	if body, n, again := r.Scan([]byte("HTTP/1.1 200 OK\r\n\r\n")); body != nil || n != 0 || again != err {
		t.Fatalf("after an error Scan returned %q, %d, %v", body, n, again)
	}
	must.Equal(t, r.EOF(), err, "EOF returned")
	if got := feed(&r, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx"); got.err != nil || got.body != "x" {
		t.Fatalf("after Reset: %+v", got)
	}
}

func TestScanAfterDoneConsumesNothing(t *testing.T) {
	var r Response
	if got := feed(&r, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"); !got.done {
		t.Fatalf("%+v", got)
	}
	if body, n, err := r.Scan([]byte("HTTP/1.1")); len(body) != 0 || n != 0 || err != nil {
		t.Fatalf("got %q, %d, %v", body, n, err)
	}
	must.Do(t, r.EOF(), "EOF after the end")
}

func TestHeadDoneBeforeBody(t *testing.T) {
	var r Response
	if _, n, err := r.Scan([]byte("HTTP/1.1 503 x\r\nContent-Length: 9\r\n\r\n")); n != 37 || err != nil || !r.HeadDone() || r.Done() {
		t.Fatalf("n %d, error %v, head done %v, done %v", n, err, r.HeadDone(), r.Done())
	}
	if r.Status != 503 || r.ContentLength != 9 {
		t.Fatalf("status %d, length %d", r.Status, r.ContentLength)
	}
}

func TestValueOfHeaders(t *testing.T) {
	var r Response
	r.Keep("X-Instance", "Retry-After")
	feed(&r, "HTTP/1.1 429 Slow\r\nretry-AFTER: 3\r\nOther: x\r\nX-Instance:\r\nContent-Length: 0\r\n\r\n")
	expect.Equal(t, string(r.Kept(1)), "3", "Retry-After")
	if got := r.Kept(0); got != nil {
		t.Errorf("a header that nobody asked for: %q", got)
	}
	feed(&r, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	if got := r.Kept(1); got != nil {
		t.Errorf("a value of the response before: %q", got)
	}
}
