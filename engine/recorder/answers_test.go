package recorder

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// answerWorld is what a server writes, byte for byte, and what the recorder has to make of it.
type answerWorld struct {
	name   string
	method string // "" = POST
	bytes  string
	// lost is why there is no row; "" = there is one
	lost string
}

// whole is an answer with its length.
func whole(headers, body string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\n%sContent-Length: %d\r\n\r\n%s", headers, len(body), body)
}

// chunked is an answer in one chunk, with what stands behind its size, and behind all.
func chunked(headers, body, extension, trailers string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\n%sTransfer-Encoding: chunked\r\n\r\n%x%s\r\n%s\r\n0%s\r\n%s\r\n", headers, len(body), extension, body, extension, trailers)
}

func answerWorlds(t *testing.T) []answerWorld {
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	must.Have(io.WriteString(z, answer))(t)
	must.Do(t, z.Close())
	packed := must.Have(zstd.NewWriter(nil))(t).EncodeAll([]byte(answer), nil)
	const stream = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"well\"}}]}\n\ndata: {\"choices\":[],\"usage\":{\"completion_tokens\":1}}\n\ndata: [DONE]\n\n"
	const hint = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
	return []answerWorld{
		{"plain", "", whole("", answer), ""},
		{"gzip", "", whole("Content-Encoding: gzip\r\n", zipped.String()), lostEncoded},
		{"zstd", "", whole("Content-Encoding: zstd\r\n", string(packed)), lostEncoded},
		{"br", "", chunked("Content-Encoding: br\r\n", "\x8b\x00\x80\x03", "", ""), lostEncoded},
		{"compressed, and not said", "", whole("", zipped.String()), "unanswered"},
		{"identity", "", whole("Content-Encoding: identity\r\n", answer), ""},
		{"HEAD", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n", "passed"},
		{"GET, 304", "GET", "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nContent-Length: 7\r\n\r\n", "passed"},
		{"304", "", "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n", lostFailed},
		{"204", "", "HTTP/1.1 204 No Content\r\nX: y\r\n\r\n", "unanswered"},
		{"empty", "", whole("", ""), "unanswered"},
		{"hint", "", hint + whole("", answer), ""},
		{"hints", "", strings.Repeat(hint, 4) + chunked("", stream, "", ""), ""},
		{"continue unasked", "", "HTTP/1.1 100 Continue\r\n\r\n" + whole("", answer), ""},
		{"trailer", "", chunked("Trailer: X-Sum, X-Other\r\n", stream, "", "X-Sum: 7\r\nX-Other: 8\r\n"), ""},
		{"trailer unannounced", "", chunked("", stream, "", "X-Sum: 7\r\n"), ""},
		{"chunk extension", "", chunked("", stream, ";name=value;other=\"quoted; \"", ""), ""},
		{"length too long", "", strings.Replace(whole("", answer), "Content-Length: ", "Content-Length: 1", 1), lostAborted},
		{"length too short", "", strings.Replace(whole("", answer), "Content-Length: ", "Content-Length: 0", 1) + "more", ""},
		{"length cuts", "", "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n" + answer, "unanswered"},
		{"length twice", "", whole(fmt.Sprintf("Content-Length: %d\r\n", len(answer)), answer), ""},
		{"lengths that differ", "", whole("Content-Length: 4\r\n", answer), lostAborted},
		{"length negative", "", "HTTP/1.1 200 OK\r\nContent-Length: -4\r\n\r\n" + answer, lostAborted},
		{"length and chunks", "", chunked("Content-Length: 4\r\n", stream, "", ""), ""},
		{"chunk of no size", "", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n" + answer, lostAborted},
		{"chunk of all sizes", "", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n" + answer, lostAborted},
		{"no last chunk", "", strings.TrimSuffix(chunked("", stream, "", ""), "0\r\n\r\n"), lostAborted},
		{"no reason", "", strings.Replace(whole("", answer), " OK", "", 1), ""},
		{"strange status", "", strings.Replace(whole("", answer), "200 OK", "299 Strange", 1), ""},
		{"status of no class", "", strings.Replace(whole("", answer), "200 OK", "799 Strange", 1), lostFailed},
		{"HTTP/1.0", "", "HTTP/1.0 200 OK\r\n\r\n" + answer, ""},
		{"headers", "", whole("Set-Cookie: a=1\r\nSet-Cookie: b=2\r\nX-Empty:\r\nX-Latin: \xe9\r\nServer: s\r\nx-request-id: 1\r\nCache-Control: no-cache\r\n", answer), ""},
		{"no HTTP", "", "SSH-2.0-OpenSSH_9.6\r\n", lostAborted},
		{"nothing", "", "", lostAborted},
	}
}

// seen is what a client sees that sends a request to an address and reads with its own hands.
func seen(t *testing.T, address, method, request string) (said string) {
	conn := must.Have(net.Dial("tcp", address))(t)
	defer conn.Close()
	must.Do(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	must.Have(io.WriteString(conn, request))(t)
	for in := bufio.NewReader(conn); ; {
		resp, err := http.ReadResponse(in, &http.Request{Method: method})
		if err != nil {
			return said + "broken off"
		}
		body, err := io.ReadAll(resp.Body)
		resp.Header.Del("Connection")
		resp.Header.Del("Content-Length") // what a client reads of the body says more
		headers := slices.Sorted(maps.Keys(resp.Header))
		said += fmt.Sprint(resp.StatusCode, " ")
		for _, name := range headers {
			said += fmt.Sprintf("%s=%q ", name, resp.Header[name])
		}
		said += fmt.Sprintf("%q ", body)
		if method == http.MethodHead {
			said += fmt.Sprint("of ", resp.ContentLength)
		}
		if err != nil {
			return said + "broken off"
		}
		for _, name := range slices.Sorted(maps.Keys(resp.Trailer)) {
			said += fmt.Sprintf("%s=%q ", name, resp.Trailer[name])
		}
		if resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols {
			return said
		}
	}
}

// TestAnswers: whatever a server answers, its client sees the same through the recorder, and what the recorder cannot
// read is no row, and counted.
func TestAnswers(t *testing.T) {
	worlds := answerWorlds(t)
	listener := must.Have(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	serve := func(conn net.Conn) {
		defer conn.Close()
		req, err := http.ReadRequest(bufio.NewReader(conn))
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, req.Body)
		n, _ := strconv.Atoi(req.Header.Get("X-World"))
		_, _ = io.WriteString(conn, worlds[n].bytes)
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go serve(conn)
		}
	}()
	for _, long := range []int{0, 2 * linkBytes} { // either way to a server
		for n, w := range worlds {
			t.Run(fmt.Sprint(w.name, " ", long), func(t *testing.T) {
				r := begin(t, nil, func(o *Options) { o.Upstreams = []string{listener.Addr().String()} })
				method, body := w.method, ""
				if method == "" {
					method = http.MethodPost
					body = asked(strings.Repeat("x", long))
				}
				request := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\nX-World: %d\r\nContent-Length: %d\r\n\r\n%s", method, chatPath, n, len(body), body)
				direct := seen(t, listener.Addr().String(), method, request)
				expect.Equal(t, seen(t, r.listener.Addr().String(), method, request), direct, "what the client sees")
				r.end()
				must.Do(t, <-r.ended)
				want := "1 row in 1 file; lost: none"
				if w.lost != "" {
					want = "0 rows in 1 file; lost: 1 " + w.lost
				}
				if w.lost == "passed" {
					want = "0 rows in 1 file; lost: none"
				}
				expect.Equal(t, r.Recorded(), want, "recorded")
			})
		}
	}
}
