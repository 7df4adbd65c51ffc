package probe

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/engine/internal/workloadtest"
	"github.com/fastreplay/fastreplay/engine/workload"
)

// hostile answers every connection by hand. It counts what it has written.
type hostile struct {
	net.Listener
	secure  bool
	asked   chan struct{} // gets one for each request that has come, or each connection where nothing is read
	written atomic.Int64
	over    chan struct{} // closed when the test ends
}

// newHostile serves with answer, which gets the request's path; a nil answer accepts connections and reads nothing.
func newHostile(t *testing.T, secure bool, answer func(h *hostile, path string, w io.Writer)) *hostile {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	h := &hostile{Listener: ln, secure: secure, asked: make(chan struct{}, 1000), over: make(chan struct{})}
	certified := httptest.NewUnstartedServer(nil)
	certified.StartTLS()
	config := &tls.Config{Certificates: certified.TLS.Certificates}
	certified.Close()
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer c.Close()
				if answer == nil {
					h.asked <- struct{}{}
					<-h.over
					return
				}
				if secure {
					c = tls.Server(c, config)
				}
				req, err := http.ReadRequest(bufio.NewReader(c))
				if err != nil {
					return // Alive connects and asks nothing
				}
				h.asked <- struct{}{}
				answer(h, req.URL.Path, countedWriter{c, &h.written})
			})
		}
	})
	t.Cleanup(func() { close(h.over); ln.Close(); serving.Wait() })
	return h
}

type countedWriter struct {
	io.Writer
	n *atomic.Int64
}

func (w countedWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	w.n.Add(int64(n))
	return n, err
}

// prober asks the server alone.
func (h *hostile) prober(t *testing.T) *Prober {
	t.Helper()
	url := "http://" + h.Addr().String()
	if h.secure {
		url = "https://" + h.Addr().String()
	}
	target := must.Have(workload.ParseTarget(url, "/v1/chat/completions"))(t)
	target.Endpoints = []netip.AddrPort{netip.MustParseAddrPort(h.Addr().String())}
	b := &Prober{Targets: []workload.Target{target}, TLS: &tls.Config{InsecureSkipVerify: true}, ConnectTimeout: time.Hour, Timeout: time.Hour}
	b.Tokenize = func() (api.Backend, error) { return api.New("chat", api.Options{Model: "m"}) }
	b.Backend = func(string) (api.Backend, error) { return b.Tokenize() }
	return b
}

// forever writes until the client has hung up or the test is over.
func forever(h *hostile, w io.Writer, text string, every time.Duration) {
	for {
		if _, err := io.WriteString(w, text); err != nil {
			return
		}
		if every == 0 {
			continue
		}
		select {
		case <-h.over:
			return
		case <-time.After(every):
		}
	}
}

// zipped is a body of n bytes that is small on the wire.
func zipped(n int64) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.CopyN(z, zeros{}, n)
	_ = z.Close()
	return b.String()
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

const headOK = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"

// misbehaviours are the ways of not answering a question. Without a limit the server goes on until the client hangs up.
var misbehaviours = map[string]struct {
	answer func(h *hostile, path string, w io.Writer)
	limit  string // what the error says that broke off; "" = only time does
}{
	"no handshake": {nil, ""},
	"stalled head": {func(h *hostile, _ string, w io.Writer) { io.WriteString(w, "HTTP/1.1 200 OK\r\nConten"); <-h.over }, ""},
	"nothing":      {func(h *hostile, _ string, _ io.Writer) { <-h.over }, ""},
	"stalled body": {func(h *hostile, _ string, w io.Writer) {
		io.WriteString(w, headOK+"Content-Length: 99\r\n\r\n{")
		<-h.over
	}, ""},
	"dripping body": {func(h *hostile, _ string, w io.Writer) {
		io.WriteString(w, headOK+"\r\n")
		forever(h, w, " ", time.Millisecond)
	}, ""},
	"dripping head": {func(h *hostile, _ string, w io.Writer) {
		io.WriteString(w, headOK)
		forever(h, w, "a", time.Millisecond)
	}, ""},
	"endless 100s": {func(h *hostile, _ string, w io.Writer) {
		forever(h, w, "HTTP/1.1 100 Continue\r\n\r\n", time.Millisecond)
	}, ""},
	"endless head": {func(h *hostile, _ string, w io.Writer) { io.WriteString(w, headOK); forever(h, w, "A: b\r\n", 0) }, "head is longer than 64 KiB"},
	"endless body": {func(h *hostile, _ string, w io.Writer) {
		io.WriteString(w, headOK+"\r\n")
		forever(h, w, strings.Repeat(" ", 1<<16), 0)
	}, "longer than 8 MiB"},
	"endless chunks": {func(h *hostile, _ string, w io.Writer) {
		io.WriteString(w, headOK+"Transfer-Encoding: chunked\r\n\r\n")
		forever(h, w, "10000\r\n"+strings.Repeat(" ", 1<<16)+"\r\n", 0)
	}, "longer than 8 MiB"},
	"a length of 23 GB": {func(h *hostile, _ string, w io.Writer) {
		io.WriteString(w, headOK+"Content-Length: 23000000000\r\n\r\n")
		forever(h, w, strings.Repeat(" ", 1<<16), 0)
	}, "longer than 8 MiB"},
	"a zip bomb": {func(h *hostile, _ string, w io.Writer) {
		body := zipped(maxAnswerBytes + 1)
		fmt.Fprintf(w, "%sContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", headOK, len(body), body)
	}, "longer than 8 MiB"},
}

// eachMisbehaviour runs a test for each of them, over http and https.
func eachMisbehaviour(t *testing.T, test func(t *testing.T, h *hostile, limit string)) {
	for name, m := range misbehaviours {
		for _, secure := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, https %v", name, secure), func(t *testing.T) {
				t.Parallel()
				test(t, newHostile(t, secure, m.answer), m.limit)
			})
		}
	}
}

// TestAskIsBounded: no answer takes longer or more memory than it may.
func TestAskIsBounded(t *testing.T) {
	eachMisbehaviour(t, func(t *testing.T, h *hostile, limit string) {
		b := h.prober(t)
		if limit == "" {
			b.Timeout = 100 * time.Millisecond
			limit = "no whole answer within 100 ms (--timeout)"
		}
		_, answer, err := b.ask(t.Context(), firstOf(&b.Targets[0]), "GET", b.Targets[0].Base+"/v1/models", nil)
		if err == nil || !strings.Contains(err.Error(), limit) || answer != nil {
			t.Errorf("error %v, want %q", err, limit)
		}
		if n := h.written.Load(); n > 64<<20 { // what is on its way in the sockets' buffers counts, too
			t.Errorf("%d bytes were taken of an answer that may have %d", n, maxAnswerBytes)
		}
	})
}

// TestAskAgain: two connections that are cut do not end a run that has not begun.
func TestAskAgain(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	h := newHostile(t, false, func(_ *hostile, _ string, w io.Writer) {
		switch asked.Add(1) {
		case 2:
			_, _ = io.WriteString(w, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{")
		case 3:
			_, _ = io.WriteString(w, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
		}
	})
	b := h.prober(t)
	status, answer, err := b.ask(t.Context(), firstOf(&b.Targets[0]), "POST", b.Targets[0].Base+"/v1/completions", []byte("{}"))
	if status != 200 || string(answer) != "{}" || err != nil {
		t.Errorf("status %d, answer %q, error %v after %d requests", status, answer, err, asked.Load())
	}
}

// TestOtherScheme: a server that speaks https is asked with http, and the other way; what is said names the flag, and
// no library.
func TestOtherScheme(t *testing.T) {
	t.Parallel()
	end := func(*hostile, string, io.Writer) {}
	alert := func(_ *hostile, _ string, w io.Writer) { _, _ = io.WriteString(w, "\x15\x03\x03\x00\x02\x02\x46") }
	words := func(_ *hostile, _ string, w io.Writer) {
		_, _ = io.WriteString(w, "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n")
	}
	refused := func(_ *hostile, _ string, w io.Writer) {
		_, _ = io.WriteString(w, "HTTP/1.0 400 Bad Request\r\n\r\nno such model\n")
	}
	for want, answer := range map[string]func(*hostile, string, io.Writer){
		"the server ends the connection without an answer; if it speaks https, write https:// in --url": end,
		"the server speaks https; write https:// in --url":                                              alert,
		"the server speaks https; write https:// in --url ":                                             words,
		"": refused,
	} {
		h := newHostile(t, false, answer)
		b := h.prober(t)
		_, _, err := b.ask(t.Context(), firstOf(&b.Targets[0]), "GET", b.Targets[0].Base+"/v1/models", nil)
		if want = strings.TrimSpace(want); want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	plain := newHostile(t, false, end)
	b := plain.prober(t)
	target := b.Targets[0]
	target.TLS, b.TLS = true, &tls.Config{}
	expect.Refused(b.dial(t.Context(), firstOf(&target)))(t, "in the TLS handshake; if it speaks http, write http:// in --url", "https to a server that ends")
}

// TestRefusalIsOneLine: a gateway's page is a line with its title.
func TestRefusalIsOneLine(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		"<html>\r\n<head><title>502 Bad\nGateway</title></head>\r\n<body>\r\n<center>nginx</center></body></html>": ": a web page: 502 Bad Gateway (4 times); --no-probe replays without proof",
		"over\n\n  loaded\n": ": over loaded (4 times); --no-probe replays without proof",
	} {
		h := newHostile(t, false, func(_ *hostile, _ string, w io.Writer) { _, _ = io.WriteString(w, "HTTP/1.0 502 Bad\r\n\r\n"+answer) })
		b := h.prober(t)
		backend, err := b.Backend("")
		must.Do(t, err)
		_, err = b.exchange(t.Context(), firstOf(&b.Targets[0]), backend, []byte("{}"))
		if err == nil || !strings.HasSuffix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q, want %q", err, want)
		}
	}
}

// TestConnectTimeoutIncludesTLS: a server that accepts and never shakes hands is given up by --connect-timeout.
func TestConnectTimeoutIncludesTLS(t *testing.T) {
	b := newHostile(t, true, nil).prober(t)
	b.ConnectTimeout = 50 * time.Millisecond
	expect.Refused(b.Models(t.Context(), &b.Targets[0]))(t, "no connection within 50.0 ms (--connect-timeout)")
}

// questions are all that is asked of servers before a run.
var questions = map[string]func(ctx context.Context, t *testing.T, b *Prober) error{
	"model": func(ctx context.Context, t *testing.T, b *Prober) error {
		_, err := b.Models(ctx, &b.Targets[0])
		return err
	},
	"overhead": func(ctx context.Context, t *testing.T, b *Prober) error {
		_, err := b.Overhead(ctx, builtInText(t))
		return err
	},
	"head": func(ctx context.Context, t *testing.T, b *Prober) error {
		_, err := b.Head(ctx, builtInText(t), 0)
		return err
	},
	"caches": func(ctx context.Context, t *testing.T, b *Prober) error { b.PrefixCaches(ctx); return ctx.Err() },
	"flush":  func(ctx context.Context, t *testing.T, b *Prober) error { _, err := b.Flush(ctx); return err },
	"salt": func(ctx context.Context, t *testing.T, b *Prober) error {
		_, _, err := b.SaltWorks(ctx, builtInText(t))
		return err
	},
	"scrape": func(ctx context.Context, t *testing.T, b *Prober) error {
		_, _, err := b.Scraper(ctx, nil, time.Hour)
		return err
	},
	"warm-up": func(ctx context.Context, t *testing.T, b *Prober) error {
		w := workloadtest.Work(t, 6)
		for i := range w.Targets {
			w.Targets[i] = b.Targets[0]
		}
		return b.WarmUp(ctx, w, builtInText(t), 6, 2, "")
	},
}

// TestEveryQuestion: each calls Waiting while it waits, ends with its context, and sends nothing more then.
func TestEveryQuestion(t *testing.T) {
	for name, ask := range questions {
		for _, secure := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, https %v", name, secure), func(t *testing.T) {
				t.Parallel()
				h := newHostile(t, secure, misbehaviours["stalled body"].answer)
				b := h.prober(t)
				ctx, cancel := context.WithCancel(t.Context())
				told := make(chan string, 100)
				b.Waiting = func(what string) { told <- what }
				b.after = func(d time.Duration, f func()) func() bool {
					expect.Equal(t, d, 2*time.Second, "it is told of")
					go func() { <-h.asked; f(); cancel() }()
					return func() bool { return false }
				}
				if err := ask(ctx, t, b); !errors.Is(err, context.Canceled) {
					t.Errorf("error %v, want that of the context", err)
				}
				select {
				case what := <-told:
					if !strings.Contains(what, h.Addr().String()+"/") || !strings.Contains(what, " at most (") {
						t.Errorf("waiting for %q says not for what, or how long", what)
					}
				default:
					t.Error("nobody was told")
				}
			})
		}
	}
}

// TestNobodyIsToldOfAnAnswer that came in time.
func TestNobodyIsToldOfAnAnswer(t *testing.T) {
	b := proberOf(t, &wordServer{})
	var begun, stopped atomic.Int64
	b.Waiting = func(string) {}
	b.after = func(time.Duration, func()) func() bool {
		begun.Add(1)
		return func() bool { stopped.Add(1); return true }
	}
	if _, err := b.Overhead(t.Context(), builtInText(t)); err != nil || begun.Load() == 0 || begun.Load() != stopped.Load() {
		t.Errorf("%v; %d questions, %d of them stopped waiting", err, begun.Load(), stopped.Load())
	}
}

func TestResolveKeepsEveryAddressOnce(t *testing.T) {
	targets := []workload.Target{{URL: "http://127.0.0.1:8000", Name: "127.0.0.1", Port: 8000}, {URL: "http://[::1]:9", Name: "::1", Port: 9}}
	must.Do(t, Resolve(context.Background(), targets))
	for i, want := range []string{"127.0.0.1:8000", "[::1]:9"} {
		if len(targets[i].Endpoints) != 1 || targets[i].Endpoints[0] != netip.MustParseAddrPort(want) {
			t.Errorf("endpoints %v, want [%s]", targets[i].Endpoints, want)
		}
	}
}

// TestProbeIsAskedAgain: one refusal by a server that cannot serve now does not end a run before it begins; a request
// that is wrong is not sent again.
func TestProbeIsAskedAgain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status string
		bad    int32 // how many requests are refused before one is answered
		asked  int32
		ok     bool
	}{{"503 Busy", 1, 2, true}, {"429 Busy", 3, 4, true}, {"503 Busy", 9, 4, false}, {"400 Bad", 1, 1, false}} {
		var asked atomic.Int32
		h := newHostile(t, false, func(_ *hostile, _ string, w io.Writer) {
			if asked.Add(1) <= c.bad {
				_, _ = io.WriteString(w, "HTTP/1.0 "+c.status+"\r\n\r\nno")
				return
			}
			_, _ = io.WriteString(w, "HTTP/1.0 200 OK\r\n\r\n"+`{"choices":[{"message":{"content":"a"}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
		})
		b := h.prober(t)
		backend, err := b.Backend("")
		must.Do(t, err)
		_, err = b.exchange(t.Context(), firstOf(&b.Targets[0]), backend, []byte("{}"))
		if got := asked.Load(); (err == nil) != c.ok || got != c.asked {
			t.Errorf("%s %d times: asked %d times, want %d; %v", c.status, c.bad, got, c.asked, err)
		}
	}
}
