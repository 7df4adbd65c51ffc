package mockllm

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"
)

// route answers a request that was read whole, or starts its answer. ok = false ends the connection.
func (c *conn) route(req *fasthttp.Request, arrivalNS, arrivedNS int64) (inFlight, ok bool) {
	h := &req.Header
	c.keepAlive, c.bodyless = !h.ConnectionClose(), h.IsHead()
	path, _, _ := bytes.Cut(h.RequestURI(), []byte("?"))
	var a api
	var model []byte
	if h.IsPost() {
		a, model = endpoint(path, req.Body())
	}
	if (a != nil || bytes.HasPrefix(path, []byte("/v1/"))) && !c.authorized(h) {
		refusal := &requestError{401, "Unauthorized", "the API key is missing or wrong"}
		if a == nil {
			return false, c.answer(openAIError(refusal))
		}
		return false, c.answer(a.refuse(&params{}, refusal))
	}
	if a != nil {
		c.complete(req, a, model, arrivalNS, arrivedNS)
		return true, true
	}
	if h.IsPost() && string(path) == "/tokenize" && !c.srv.cfg.NoTokenize {
		return false, c.answer(c.srv.tokenize(req))
	}
	methods := c.srv.methods(string(path))
	switch {
	case methods == nil:
		return false, c.answer(response{status: 404, body: []byte(`{"detail":"Not Found"}`)})
	case !slices.Contains(methods, string(h.Method())):
		return false, c.answer(response{status: 405, headers: "Allow: " + methods[0] + "\r\n", body: []byte(`{"detail":"Method Not Allowed"}`)})
	}
	return false, c.answer(c.srv.page(string(path)))
}

func (c *conn) authorized(h *fasthttp.RequestHeader) bool {
	key := c.srv.cfg.APIKey
	return key == "" || string(h.Peek("Authorization")) == "Bearer "+key || string(h.Peek("X-Api-Key")) == key
}

// methods lists what a path may be asked with; nil = there is no such path.
func (s *Server) methods(path string) []string {
	if a, _ := endpoint([]byte(path), nil); a != nil {
		return []string{"POST"}
	}
	if isTritonPage(path) {
		return []string{"GET", "HEAD"}
	}
	switch path {
	case "/v1/models", "/health", "/ping", "/version":
		return []string{"GET", "HEAD"}
	case "/metrics":
		if !s.cfg.NoMetrics {
			return []string{"GET", "HEAD"}
		}
	case "/tokenize":
		if !s.cfg.NoTokenize {
			return []string{"POST"}
		}
	case "/reset_prefix_cache":
		if !s.cfg.NoFlush {
			return []string{"POST"}
		}
	case "/flush_cache": // SGLang's takes both
		if !s.cfg.NoFlush {
			return []string{"POST", "GET"}
		}
	}
	return nil
}

// page renders everything that is not generated.
func (s *Server) page(path string) response {
	switch path {
	case "/v1/models":
		return response{status: 200, body: s.modelList()}
	case "/version":
		return response{status: 200, body: []byte(`{"version":"mockllm"}`)}
	case "/metrics":
		return response{status: 200, contentType: "text/plain; version=0.0.4; charset=utf-8", body: s.metrics()}
	case "/reset_prefix_cache", "/flush_cache":
		s.sched.flush(s.clock.now())
	}
	return response{status: 200}
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
	c.idle(Fault{})
	return !c.over
}

// respond sends a response and reports whether the connection can go on.
func (c *conn) respond(a response) bool {
	if a.contentType == "" {
		a.contentType = "application/json"
	}
	b := append(c.buffer.out[:0], "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(a.status), 10)
	b = append(b, ' ')
	b = append(b, fasthttp.StatusMessage(a.status)...)
	b = append(b, "\r\nServer: mockllm\r\nContent-Type: "...)
	b = append(b, a.contentType...)
	if a.status != 204 && a.status != 304 { // RFC 9110 8.6
		b = append(b, "\r\nContent-Length: "...)
		b = strconv.AppendInt(b, int64(len(a.body)), 10)
	}
	b = append(b, "\r\n"...)
	if a.status == 429 || a.status == 503 {
		b = append(b, "Retry-After: 1\r\n"...)
	}
	b = appendHeaders(append(b, a.headers...), c.srv.cfg.Headers)
	if !c.keepAlive {
		b = append(b, "Connection: close\r\n"...)
	}
	b = append(b, "\r\n"...)
	if !c.bodyless && a.status != 204 && a.status != 304 {
		b = append(b, a.body...)
	}
	c.buffer.out = b
	_, err := c.nc.Write(b)
	return err == nil && c.keepAlive
}

// isTritonPage reports whether a path asks Triton whether the server or a model is ready.
func isTritonPage(path string) bool {
	if path == "/v2/health/ready" || path == "/v2/health/live" {
		return true
	}
	rest, ok := strings.CutPrefix(path, "/v2/models/")
	return ok && strings.HasSuffix(rest, "/ready")
}
