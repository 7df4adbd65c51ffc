package mockllm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/fastreplay/fastreplay/bench/mockllm/fault"
)

// maxIDBytes bounds the request id that is kept and echoed.
const maxIDBytes = 256

// maxKeptBuffer bounds the scratch space that a connection keeps between requests.
const maxKeptBuffer = 64 << 10

// complete answers one generation request. model is the one that its path names. The connection's reply ends exactly
// once, now or later.
func (c *conn) complete(req *fasthttp.Request, t *protocol, model []byte, arrivalNS, arrivedNS int64) {
	r := &c.reply
	r.prepare(req, t, arrivalNS, arrivedNS)
	if err := r.chooseFault(req.Header.Peek("X-Mock-Fault")); err != nil {
		r.refuse(badRequest("X-Mock-Fault: %v", err))
		return
	}
	if r.failBefore() {
		return
	}
	if err := r.decode(req, model); err != nil {
		r.refuse(err)
		return
	}
	r.plan()
	srv := c.srv
	if r.fault.Kind == fault.Interim {
		head := fmt.Sprintf("HTTP/1.1 %d Interim\r\nLink: </style.css>; rel=preload\r\n\r\n", r.fault.N)
		if _, err := io.WriteString(c.nc, head); err != nil {
			r.end(endGone)
			return
		}
	}
	if r.p.stream && !srv.cfg.LateHead && srv.cfg.MaxQueue == 0 { // with a bounded queue it could still become a 503
		r.headSent = true
		c.buffer.out = r.appendHead(c.buffer.out[:0], 0)
		if _, err := c.nc.Write(c.buffer.out); err != nil {
			r.end(endGone)
			return
		}
	}
	switch srv.sched.acquire(r) {
	case admitted:
		r.begin()
	case refused:
		r.refuse(&requestError{503, "ServiceUnavailableError", "The queue is full, try again later."})
	}
}

// prepare clears the reply for a new request.
func (r *reply) prepare(req *fasthttp.Request, t *protocol, arrivalNS, arrivedNS int64) {
	id := req.Header.Peek("X-Request-Id")
	number := r.srv.stats.requests.Add(1)
	seed := number
	if len(id) > 0 {
		seed = hashBytes(id)
	}
	c := r.c
	srv := r.srv
	cfg := r.cfg
	pacer := r.pacer
	*r = reply{
		c:       c,
		srv:     srv,
		cfg:     cfg,
		pacer:   pacer,
		id:      r.id[:0],
		pending: r.pending[:0],
		tokenNS: r.tokenNS[:0],
	}
	if r.id = append(r.id, id[:min(len(id), maxIDBytes)]...); len(id) == 0 {
		r.id = strconv.AppendUint(append(r.id, "mock-"...), number, 10)
	}
	r.proto = t
	r.createdS = time.Now().Unix()
	r.arrivalNS = arrivalNS
	r.arrivedNS = max(arrivalNS, arrivedNS)
	r.keepAlive = c.keepAlive
	r.http10 = !req.Header.IsHTTP11()
	r.compress = cfg.Gzip && bytes.Contains(req.Header.Peek("Accept-Encoding"), []byte("gzip"))
	r.draw = rng(finalize(cfg.Seed ^ seed))
	r.voice = r.draw.next()
	if n := int64(cfg.PrefillInstances); n > 0 {
		r.prefiller = 1 + srv.prefills.Add(1)%n
	}
	r.status = 200
	r.lease = srv.sched.get()
	if cap(c.buffer.out) > maxKeptBuffer {
		c.buffer = eventBuffer{}
	}
}

// chooseFault takes the fault of the header, or the first of the configured ones that is due.
func (r *reply) chooseFault(header []byte) error {
	risks := r.cfg.Faults
	if len(header) > 0 && !r.cfg.NoHeaderFaults {
		f, err := fault.Parse(string(header))
		if err != nil {
			return err
		}
		risks = []fault.Fault{f}
	}
	for _, f := range risks {
		if r.srv.shares.Next(f) {
			r.fault = f
			return nil
		}
	}
	return nil
}

// failBefore commits the faults that come before any regular byte. It reports whether the reply has ended.
func (r *reply) failBefore() bool {
	switch r.fault.Kind {
	case fault.Status:
		r.refuse(&requestError{r.fault.N, kindInjected, "injected fault: status"})
		return true
	case fault.ResetBefore:
		r.c.reset()
	case fault.CloseBefore:
	case fault.BadStatus:
		_, _ = r.c.nc.Write([]byte("HTTP/1.1 okay\r\nContent-Length: 0\r\n\r\n")) // the connection ends either way
	default:
		return false
	}
	r.end(endFault)
	return true
}

// refuse answers with an error response.
func (r *reply) refuse(err error) {
	re := asRequestError(err)
	a := r.proto.refuse(&r.p, re)
	r.status = a.status
	r.keepAlive = r.c.respond(a) && r.keepAlive
	r.end(endError)
}

// asRequestError turns what a body's decoder found into an answer.
func asRequestError(err error) *requestError {
	var re *requestError
	if !errors.As(err, &re) {
		re = badRequest("%v", err)
	}
	return re
}

// isJSON refuses requests whose content type is another.
func isJSON(req *fasthttp.Request) error {
	media, _, _ := bytes.Cut(req.Header.Peek("Content-Type"), []byte(";"))
	if !bytes.EqualFold(bytes.TrimSpace(media), []byte("application/json")) {
		return &requestError{415, "UnsupportedMediaType", "Unsupported Media Type: Only 'application/json' is allowed"}
	}
	return nil
}

// decode reads the request's body.
func (r *reply) decode(req *fasthttp.Request, model []byte) error {
	if !r.proto.anyType {
		if err := isJSON(req); err != nil {
			return err
		}
	}
	h := &r.c.hasher
	d := &r.c.decoder
	*h = newPromptHasher(r.cfg, r.lease.keys)
	*d = decoder{
		cfg:   r.cfg,
		proto: r.proto,
		p:     &r.p,
		hash:  h,
		model: model,
	}
	if r.proto.conversation {
		d.jitter = r.srv.chatJitter.next(r.cfg.TemplateJitter)
	}
	err := d.decode(req.Body())
	r.lease.keys = h.keys
	if err != nil {
		return err
	}
	if r.cfg.LogAll {
		var line bytes.Buffer
		_ = json.Compact(&line, req.Body()) // it is JSON
		r.body = line.Bytes()
		headers := map[string]string{}
		for name, value := range req.Header.All() {
			if bytes.HasPrefix(name, []byte("X-")) {
				headers[string(name)] = string(value)
			}
		}
		r.headers, _ = json.Marshal(headers)
	}
	r.promptTokens = h.tokens
	r.chain = h.chain
	r.left = h.left
	apart := r.apart()
	for i := range h.keys { // from now on a key names more than its tokens
		h.keys[i] ^= apart
	}
	r.p.echo = bytes.Clone(r.p.echo) // the body's memory is used again
	return nil
}

// plan decides the length and the form of the answer.
func (r *reply) plan() {
	r.total = r.p.outputTokens(r.cfg, &r.draw)
	r.finish = "length"
	if r.total < int(r.p.maxTokens) {
		r.finish = "stop"
	}
	switch r.fault.Kind {
	case fault.Short:
		r.total = min(r.total, r.fault.N)
		r.finish = "stop"
	case fault.NoUsage:
		r.hideUsage = true
	case fault.NoFinish:
		r.noFinish = true
	}
	r.divide()
	r.lease.prompt = r.promptTokens
	r.lease.output = r.total
	r.nameAnswer()
	switch {
	case r.fault.Kind == fault.NoLength || r.p.stream && r.http10:
		r.framing = framingClose
		r.keepAlive = false
	case r.p.stream:
		r.framing = framingChunked
	default:
		r.framing = framingLength
	}
}
