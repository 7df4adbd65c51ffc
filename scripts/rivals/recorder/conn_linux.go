package main

import (
	"bytes"
	"container/heap"
	"encoding/binary"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// conn is a connection. A request is read whole before it is answered; clients that pipeline are answered in order.
type conn struct {
	fd        int
	in, out   []byte // read and not used; made and not sent
	arrivedNS int64  // of the first byte in in
	lastNS    int64  // of the last byte in in
	entry     *entry // being answered; nil = none
	chat      bool
	stream    bool
	usage     bool
	prompt    int // tokens of the prompt, roughly where it is text
	sent      int // tokens
	closed    bool
}

// maxRequest bounds a request: 32 MiB is four times the largest prompt of Mooncake's traces as text.
const maxRequest = 32 << 20

// ready reads what came and sends what waits. It reports whether the request was GET /finish.
func (s *server) ready(c *conn, events uint32) (finish bool) {
	if events&(unix.EPOLLIN|unix.EPOLLHUP|unix.EPOLLERR|unix.EPOLLRDHUP) != 0 && !c.read() {
		s.drop(c)
		return false
	}
	if events&unix.EPOLLOUT != 0 {
		s.flush(c)
	}
	for !c.closed && c.entry == nil {
		request, ok := c.request()
		if !ok {
			break
		}
		if request.path == "/finish" {
			return true
		}
		s.answer(c, request)
	}
	return false
}

func (s *server) drop(c *conn) {
	_ = unix.Close(c.fd)
	delete(s.conns, c.fd)
	c.closed = true
}

// read takes what is there; false = the peer has left. The stamp of one byte read alone is that of its own segment; of a longer
// read the kernel gives the last segment's.
func (c *conn) read() bool {
	if len(c.in) == 0 {
		var first [1]byte
		n, stamp, err := receive(c.fd, first[:])
		if err == unix.EAGAIN {
			return true
		}
		if err != nil || n == 0 {
			return false
		}
		c.in, c.arrivedNS, c.lastNS = append(c.in, first[0]), stamp, stamp
	}
	for {
		c.in = append(c.in, make([]byte, 64<<10)...)
		old := len(c.in) - 64<<10
		n, stamp, err := receive(c.fd, c.in[old:])
		c.in = c.in[:old+max(0, n)]
		switch {
		case err == unix.EAGAIN:
			return true
		case err != nil || n == 0 || len(c.in) > maxRequest:
			return false
		}
		c.lastNS = stamp
	}
}

// receive reads with the kernel's stamp in ns; if there is none, it is the time now.
func receive(fd int, p []byte) (n int, stampNS int64, err error) {
	var control [64]byte
	n, controlled, _, _, err := unix.Recvmsg(fd, p, control[:], 0)
	stampNS = now()
	// A control message is its length (8 bytes), level (4), type (4) and here a timespec (16).
	if controlled >= 32 && binary.NativeEndian.Uint32(control[12:]) == unix.SCM_TIMESTAMPNS {
		stampNS = int64(binary.NativeEndian.Uint64(control[16:]))*1e9 + int64(binary.NativeEndian.Uint64(control[24:]))
	}
	return n, stampNS, err
}

// request is one whole request. body is valid until the next read.
type request struct {
	path, id string
	body     []byte
}

// request takes a whole request out of in, if there is one.
func (c *conn) request() (request, bool) {
	head, rest, found := bytes.Cut(c.in, []byte("\r\n\r\n"))
	if !found {
		return request{}, false
	}
	line, fields, _ := bytes.Cut(head, []byte("\r\n"))
	var r request
	if parts := bytes.Fields(line); len(parts) > 1 {
		r.path = string(parts[1])
	}
	length, chunked := 0, false
	for field := range bytes.SplitSeq(fields, []byte("\r\n")) {
		name, value, _ := bytes.Cut(field, []byte(":"))
		value = bytes.TrimSpace(value)
		switch string(bytes.ToLower(name)) {
		case "content-length":
			length, _ = strconv.Atoi(string(value))
		case "transfer-encoding":
			chunked = true
		case "x-request-id":
			r.id = string(value)
		}
	}
	if chunked {
		used := 0
		if r.body, used = unchunk(rest); used == 0 {
			return request{}, false
		}
		rest = rest[used:]
	} else {
		if len(rest) < length {
			return request{}, false
		}
		r.body, rest = bytes.Clone(rest[:length]), rest[length:]
	}
	c.in = append(c.in[:0], rest...)
	return r, true
}

// unchunk joins the chunks of a body; used = 0 if its end has not come.
func unchunk(p []byte) (body []byte, used int) {
	all := len(p)
	for {
		line, rest, found := bytes.Cut(p, []byte("\r\n"))
		size, err := strconv.ParseUint(string(line), 16, 31)
		if !found || err != nil || len(rest) < int(size)+2 {
			return nil, 0
		}
		body, p = append(body, rest[:size]...), rest[size+2:]
		if size == 0 {
			return body, all - len(p)
		}
	}
}

// answer begins to answer r.
func (s *server) answer(c *conn, r request) {
	if r.path != "/v1/completions" && r.path != "/v1/chat/completions" {
		status, body := "200 OK", `{"object":"list","data":[{"id":"model","object":"model","created":0,"owned_by":"recorder"}]}`
		if r.path != "/v1/models" && r.path != "/health" {
			status, body = "404 Not Found", `{"error":{"message":"the recorder has no such path"}}`
		}
		c.out = appendJSON(c.out, status, body)
		s.flush(c)
		return
	}
	e := &entry{
		Path:      r.path,
		RequestID: r.id,
		ArrivedNS: c.arrivedNS,
		WholeNS:   c.lastNS,
		BodyAt:    s.bodyBytes,
		BodyBytes: len(r.body),
	}
	c.entry, c.chat, c.sent, c.prompt = e, r.path != "/v1/completions", 0, promptTokens(r.body)
	if e.Tokens = numberAt(r.body, "max_completion_tokens"); e.Tokens == 0 {
		e.Tokens = max(1, numberAt(r.body, "max_tokens"))
	}
	c.stream, c.usage = isTrue(r.body, "stream"), isTrue(r.body, "include_usage")
	if s.keep {
		e.TokenNS = make([]int64, 0, e.Tokens)
		s.entries = append(s.entries, e)
	}
	if s.bodies != nil {
		n, _ := s.bodies.Write(r.body)
		s.bodyBytes += int64(n)
	}
	wait := s.ttft
	if !c.stream {
		wait += s.tpot * time.Duration(e.Tokens-1)
	}
	s.schedule(c, e.WholeNS+int64(wait))
}

// schedule has c sent at an instant, at once if that has passed.
func (s *server) schedule(c *conn, at int64) {
	if at <= now() {
		s.send(c)
		return
	}
	heap.Push(&s.due, due{at, c})
}
