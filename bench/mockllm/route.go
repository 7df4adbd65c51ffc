package mockllm

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/fastreplay/fastreplay/bench/mockllm/fault"
)

// route answers a request that was read whole, or starts its answer. ok = false ends the connection.
func (c *conn) route(req *fasthttp.Request, arrivalNS, arrivedNS int64) (inFlight, ok bool) {
	h := &req.Header
	c.keepAlive = !h.ConnectionClose()
	c.bodyless = h.IsHead()
	path, _, _ := bytes.Cut(h.RequestURI(), []byte("?"))
	var t *protocol
	var model []byte
	if h.IsPost() {
		t, model = protocolAt(path, req.Body())
	}
	if (t != nil || bytes.HasPrefix(path, []byte("/v1/"))) && !c.authorized(h) {
		refusal := &requestError{401, "Unauthorized", "the API key is missing or wrong"}
		if t == nil {
			return false, c.answer(openAIError(refusal))
		}
		return false, c.answer(t.refusal(refusal))
	}
	if t != nil {
		c.complete(req, t, model, arrivalNS, arrivedNS)
		return true, true
	}
	methods, page := c.srv.page(string(path), req)
	switch {
	case methods == nil:
		return false, c.answer(response{status: 404, body: []byte(`{"detail":"Not Found"}`)})
	case !slices.Contains(methods, string(h.Method())):
		return false, c.answer(
			response{
				status:  405,
				headers: "Allow: " + methods[0] + "\r\n",
				body:    []byte(`{"detail":"Method Not Allowed"}`),
			},
		)
	}
	return false, c.answer(page())
}

func (c *conn) authorized(h *fasthttp.RequestHeader) bool {
	key := c.srv.cfg.APIKey
	return key == "" || string(h.Peek("Authorization")) == "Bearer "+key || string(h.Peek("X-Api-Key")) == key
}

// page finds a path that generates nothing: the methods it allows, and its answer to req. methods = nil: there is no
// such path.
func (s *Server) page(path string, req *fasthttp.Request) (methods []string, answer func() response) {
	get := []string{"GET", "HEAD"}
	post := []string{"POST"}
	empty := func() response { return response{status: 200} }
	flush := func() response {
		s.sched.flush(s.clock.now())
		return empty()
	}
	switch {
	case path == "/health", path == "/ping", path == "/v2/health/ready", path == "/v2/health/live",
		strings.HasPrefix(path, "/v2/models/") && strings.HasSuffix(path, "/ready"):
		return get, empty
	case path == "/v1/models":
		return get, s.modelList
	case path == "/version":
		return get, func() response { return response{status: 200, body: []byte(`{"version":"mockllm"}`)} }
	case path == "/metrics" && !s.cfg.NoMetrics:
		return get, s.metrics
	case path == "/tokenize" && !s.cfg.NoTokenize:
		return post, func() response { return s.tokenize(req) }
	case path == "/reset_prefix_cache" && !s.cfg.NoFlush:
		return post, flush
	case path == "/flush_cache" && !s.cfg.NoFlush: // SGLang's takes both
		return []string{"POST", "GET"}, flush
	}
	if t, _ := protocolAt([]byte(path), nil); t != nil {
		return post, nil // what is posted there is generated
	}
	return nil, nil
}

// response is an answer that is ready at once.
type response struct {
	status      int
	contentType string // "" = JSON
	headers     string // further ones, each with its CR LF
	body        []byte
}

// answer sends a response and begins to wait for the next request. It reports whether there can be one.
func (c *conn) answer(a response) bool {
	if !c.respond(a) {
		return false
	}
	c.idle(fault.Fault{})
	return !c.over
}

// respond sends a response and reports whether the connection can go on.
func (c *conn) respond(a response) bool {
	if a.contentType == "" {
		a.contentType = "application/json"
	}
	b := fmt.Appendf(c.buffer.out[:0], "HTTP/1.1 %d %s\r\nServer: mockllm\r\nContent-Type: %s\r\n",
		a.status, fasthttp.StatusMessage(a.status), a.contentType)
	hasBody := a.status != 204 && a.status != 304 // RFC 9110 8.6
	if hasBody {
		b = fmt.Appendf(b, "Content-Length: %d\r\n", len(a.body))
	}
	if a.status == 429 || a.status == 503 {
		b = append(b, "Retry-After: 1\r\n"...)
	}
	b = appendHeaders(append(b, a.headers...), c.srv.cfg.Headers)
	if !c.keepAlive {
		b = append(b, "Connection: close\r\n"...)
	}
	b = append(b, "\r\n"...)
	if hasBody && !c.bodyless {
		b = append(b, a.body...)
	}
	c.buffer.out = b
	_, err := c.nc.Write(b)
	return err == nil && c.keepAlive
}
