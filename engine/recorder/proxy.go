package recorder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxHeaders bounds the headers of a request and of an answer in bytes.
	maxHeaders = 1 << 20
	// headerPatience is how long a client may take for the headers of a request.
	headerPatience = time.Minute
	// idlePatience is how long a client may keep a connection without a request.
	idlePatience = time.Hour
	// upstreamIdle is how long a connection to a server is kept. It is less than the 5 s after which uvicorn, in which
	// vLLM and SGLang run, closes it. A request that meets the closing would fail.
	upstreamIdle = 4 * time.Second
	// copyBytes is how much passes at once.
	copyBytes = 32 << 10
	// writeBytes is up to where a request goes to a server in one write, which wakes it once. A prompt of 1,000 tokens
	// took three writes, and 0.03 ms more at p50 (336 and 303 µs in one run by turns, 2026-11-28).
	writeBytes = 16 << 10
)

// upstream is a server behind the recorder.
type upstream struct {
	url      *url.URL
	inFlight atomic.Int64
	links    links
}

// proxy passes requests on.
type proxy struct {
	r         *Recorder
	upstreams []*upstream
	transport *http.Transport
	turn      atomic.Uint64
	buffers   sync.Pool
	silent    *log.Logger
}

// Get and Put make the proxy the pool of its own buffers.
func (p *proxy) Get() []byte {
	if b, ok := p.buffers.Get().(*[copyBytes]byte); ok {
		return b[:]
	}
	return make([]byte, copyBytes)
}

// Put takes back a buffer of Get.
func (p *proxy) Put(b []byte) { p.buffers.Put((*[copyBytes]byte)(b)) }

// ServeHTTP passes a request on, and hands over what is to be recorded of it when it has ended.
func (p *proxy) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	p.r.inFlight.Add(1)
	defer p.r.inFlight.Add(-1)
	c := call{proxy: p, ResponseWriter: w, x: p.r.begin(req), behind: req.Trailer}
	if c.x == nil {
		p.r.passed.Add(1)
	} else {
		defer func() {
			c.x.whole = c.x.whole || c.body.over == io.EOF
			p.r.hand(c.x)
		}()
	}
	if p.r.o.Mirror {
		_, err := io.Copy(io.Discard, req.Body)
		if c.x != nil {
			c.x.whole = err == nil
		}
		w.WriteHeader(http.StatusAccepted)
		return
	}
	defer c.leave()
	// A server may answer while its request still comes. HTTP/2 has no other way, and says that it cannot be set.
	_ = http.NewResponseController(w).EnableFullDuplex()
	reverse := httputil.ReverseProxy{
		Rewrite:        keepHeaders,
		Transport:      &c,
		BufferPool:     p,
		ModifyResponse: c.answered,
		ErrorHandler:   c.failed,
		ErrorLog:       p.silent,
	}
	reverse.ServeHTTP(&c, req)
}

// keepHeaders undoes what a reverse proxy changes beside the connection's own headers.
func keepHeaders(r *httputil.ProxyRequest) {
	r.Out.URL.RawQuery = r.In.URL.RawQuery
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if values, there := r.In.Header[name]; there {
			r.Out.Header[name] = values
		}
	}
}

// call is one request on its way. Each piece of the answer that is written to it leaves at once.
type call struct {
	http.ResponseWriter
	proxy *proxy
	x     *exchange // nil = it is not recorded
	to    *upstream // nil = none yet
	// reached: there was a connection, so that a server may have got something of the request
	reached bool
	behind  http.Header // what comes behind the request's body, once that was read
	body    tap         // of the answer
}

// Write implements io.Writer.
func (c *call) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.flush()
	return n, err
}

// flush sends what is written. If the client has gone, the next write says so.
func (c *call) flush() { _ = http.NewResponseController(c.ResponseWriter).Flush() }

// Unwrap is for what else http.ResponseController does.
func (c *call) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// RoundTrip sends the request to the server with the fewest in flight. If it cannot be reached, the next one gets it.
func (c *call) RoundTrip(req *http.Request) (resp *http.Response, err error) {
	all := c.proxy.upstreams
	turn := int(c.proxy.turn.Add(1) % uint64(len(all)))
	tried := map[*upstream]bool{}
	for range all {
		c.leave()
		for i := range all {
			u := all[(turn+i)%len(all)]
			if !tried[u] && (c.to == nil || u.inFlight.Load() < c.to.inFlight.Load()) {
				c.to = u
			}
		}
		tried[c.to] = true
		c.to.inFlight.Add(1)
		out := *req
		if req.Body != nil {
			out.Body = io.NopCloser(req.Body) // the next server may need it, and the server of net/http closes it
		}
		out.URL = below(c.to.url, req.URL)
		out.Host = ""
		out.Trailer = c.behind
		resp, err = c.send(&out)
		if err == nil || c.reached || req.Context().Err() != nil {
			break
		}
		c.proxy.r.unreached.Add(1)
		c.proxy.r.fail(fmt.Errorf("--upstream %s: %w", c.to.url.Redacted(), err))
	}
	return resp, err
}

// send sends the request to a server: one that is recorded and short over a link.
func (c *call) send(req *http.Request) (*http.Response, error) {
	short := req.ContentLength > 0 && req.ContentLength <= linkBytes
	if c.x == nil || c.to.url.Scheme == "https" || !short || req.Header["Upgrade"] != nil {
		trace := httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { c.reached = true }}
		return c.proxy.transport.RoundTrip(req.WithContext(httptrace.WithClientTrace(req.Context(), &trace)))
	}
	u := c.to
	l, err := u.links.to(req.Context(), net.JoinHostPort(u.url.Hostname(), cmp.Or(u.url.Port(), "80")))
	if err != nil {
		return nil, err
	}
	c.reached = true
	awaited := context.AfterFunc(req.Context(), func() { _ = l.Close() }) // who goes away ends all
	resp, err := l.send(req)
	if err != nil {
		awaited()
		return nil, errors.Join(err, l.Close())
	}
	c.body = tap{ReadCloser: resp.Body}
	if l.in.Buffered() == 0 {
		c.body.begin = c.flush
	}
	c.body.end = func() {
		if awaited() && c.body.over == io.EOF && !resp.Close && l.in.Buffered() == 0 {
			u.links.keep(l)
		} else {
			c.flush()     // the head goes before the answer is cut
			_ = l.Close() // or this was the last answer
		}
	}
	resp.Body = &c.body
	return resp, nil
}

// below is a request's URL at a server, with the path as it came.
func below(server, asked *url.URL) *url.URL {
	u := *asked
	u.Scheme = server.Scheme
	u.Host = server.Host
	u.Path = strings.TrimSuffix(server.Path, "/") + asked.Path
	u.RawPath = strings.TrimSuffix(server.EscapedPath(), "/") + asked.EscapedPath()
	return &u
}

// leave notes that the server has one request less.
func (c *call) leave() {
	if c.to != nil {
		c.to.inFlight.Add(-1)
		c.to = nil
	}
}

// answered notes an answer's head.
func (c *call) answered(resp *http.Response) error {
	h := c.Header()
	for _, name := range []string{"Content-Type", "Date"} {
		h[name] = nil // or net/http makes up what the server did not say
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return nil
	}
	// If an answer has no type and a known length, a reverse proxy leaves it to us when its pieces leave. Else a timer
	// sends the head, which wakes a thread and takes a lock that the first piece needs.
	maps.Copy(h, resp.Header)
	resp.Header = nil
	resp.ContentLength = 0
	if resp.Body != &c.body {
		c.body = tap{ReadCloser: resp.Body, begin: c.flush}
		resp.Body = &c.body
	}
	x := c.x
	if x == nil {
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.status = resp.StatusCode
	if compressed(h) {
		x.lose(lostEncoded)
	}
	c.body.take = func(p []byte) { x.answered(p, c.proxy.r.now()) }
	return nil
}

// failed answers a request that no server has answered. A server that went away goes away for the client too.
func (c *call) failed(w http.ResponseWriter, _ *http.Request, _ error) {
	if c.reached {
		panic(http.ErrAbortHandler)
	}
	if c.x != nil {
		c.x.status = http.StatusBadGateway
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadGateway)
	_, _ = io.WriteString(w, `{"error":{"message":"fastreplay record: the server behind it cannot be reached",`+
		`"type":"bad_gateway","code":502}}`+"\n") // the client may have gone
}
