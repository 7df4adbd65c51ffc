package mockllm

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/fastreplay/fastreplay/bench/mockllm/fault"
)

// headBytes bounds a request head: it must fit into the connection's read buffer.
const headBytes = 8 << 10

// conn is one client connection. Its reader goroutine reads requests one after the other. While an answer is on its
// way, the reader waits for the next request, so that it notices at once when the client goes away.
type conn struct {
	srv    *Server
	nc     net.Conn
	tcp    *net.TCPConn    // below nc; nil when it is none
	raw    syscall.RawConn // for writes that must not block; nil when blocking
	rd     stampReader
	br     *bufio.Reader
	peer   string
	reply  reply
	buffer eventBuffer
	done   chan struct{} // one message for each reply's end
	wake   chan struct{} // the client is gone, for drive

	// Memory for reading a request's body.
	decoder decoder
	hasher  promptHasher

	blocking bool // writes may block: TLS, or no TCP
	over     bool // no more requests: set before done

	keepAlive bool // of the request in hand
	bodyless  bool // it is a HEAD
	deadline  bool // an idle deadline is set: set before done

	tryBuf  []byte
	tryN    int
	tryErr  error
	tryFunc func(fd uintptr) bool
}

func newConn(srv *Server, nc net.Conn, pacer *pacer) *conn {
	c := &conn{
		srv:  srv,
		nc:   nc,
		peer: nc.RemoteAddr().String(),
		done: make(chan struct{}, 1),
		wake: make(chan struct{}, 1),
	}
	c.rd = stampReader{nc: nc, clock: &srv.clock}
	c.br = bufio.NewReaderSize(&c.rd, headBytes)
	c.reply = reply{c: c, srv: srv, cfg: &srv.cfg, pacer: pacer}
	c.tryFunc = c.writeFD
	under := nc
	if t, ok := nc.(*tls.Conn); ok {
		c.blocking = true
		under = t.NetConn()
	}
	c.tcp, _ = under.(*net.TCPConn)
	if c.tcp == nil {
		c.blocking = true
	} else if !c.blocking {
		raw, err := c.tcp.SyscallConn()
		c.raw = raw
		c.blocking = err != nil
		c.rd.kernel = newKernelReader(c.tcp)
	}
	return c
}

// serve reads requests until the connection ends.
func (c *conn) serve() {
	defer c.nc.Close()
	inFlight := false
	for {
		c.rd.single = c.srv.cfg.LogAll
		_, err := c.br.Peek(1)
		if err != nil && inFlight {
			c.abandon()
		}
		if inFlight {
			<-c.done
		}
		if err != nil || c.over {
			return
		}
		if c.deadline {
			c.deadline = false
			if c.nc.SetReadDeadline(time.Time{}) != nil {
				return
			}
		}
		runtime.Gosched() // what arrived beside this request gets its arrival stamped before this one is parsed
		var ok bool
		if inFlight, ok = c.request(); !ok {
			return
		}
	}
}

// abandon is called when the client is gone in the middle of an answer.
func (c *conn) abandon() {
	r := &c.reply
	r.gone.Store(true)
	c.nc.Close()
	select {
	case c.wake <- struct{}{}:
	default:
	}
	if c.srv.sched.leave(r, c.srv.clock.now()) || r.pacer.cancel(r) {
		r.end(endGone)
	}
}

// idle begins the wait for the next request.
func (c *conn) idle(f fault.Fault) {
	limit := c.srv.cfg.KeepAlive
	if f.Kind == fault.IdleClose {
		if limit = f.D; limit == 0 {
			c.over = true
			c.nc.Close()
			return
		}
	}
	if limit > 0 {
		c.deadline = true
		_ = c.nc.SetReadDeadline(time.Now().Add(limit)) // fails only on a closed connection, which the reader sees too
	}
}

// request reads one request and answers it or starts its answer. ok = false ends the connection.
func (c *conn) request() (inFlight, ok bool) {
	arrivalNS := c.rd.lastNS
	req := fasthttp.AcquireRequest()
	defer fasthttp.ReleaseRequest(req)
	if err := req.Header.Read(c.br); err != nil {
		c.refuse(err)
		return false, false
	}
	if req.MayContinue() {
		if _, err := c.nc.Write([]byte("HTTP/1.1 100 Continue\r\n\r\n")); err != nil {
			return false, false
		}
	}
	if err := req.ContinueReadBody(c.br, MaxBodyBytes, false); err != nil {
		c.refuse(err)
		return false, false
	}
	return c.route(req, arrivalNS, c.rd.lastNS)
}

// refuse answers a request that cannot be read, unless the client is gone. The connection ends with it.
func (c *conn) refuse(err error) {
	var small *fasthttp.ErrSmallBuffer
	var nothing fasthttp.ErrNothingRead
	refusal := badRequest("%v", err)
	switch {
	case errors.As(err, &nothing) || isNetworkError(err):
		return
	case errors.As(err, &small):
		refusal = &requestError{
			431,
			"RequestHeaderFieldsTooLarge",
			"the request head exceeds " + strconv.Itoa(headBytes) + " bytes",
		}
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		refusal = &requestError{
			413,
			"RequestEntityTooLarge",
			"the body exceeds " + strconv.Itoa(MaxBodyBytes) + " bytes",
		}
	}
	c.keepAlive = false
	c.bodyless = false
	c.respond(openAIError(refusal))
	c.linger()
}

// lingerLimit bounds how long linger waits for a client that goes on sending.
const lingerLimit = 2 * time.Second

// linger reads on for a while after the last response. If a socket is closed with unread bytes, the kernel sends an
// RST, which can destroy the response on its way (RFC 9112, 9.6).
func (c *conn) linger() {
	if c.tcp == nil || c.blocking {
		return
	}
	if c.tcp.CloseWrite() == nil && c.nc.SetReadDeadline(time.Now().Add(lingerLimit)) == nil {
		_, _ = io.Copy(io.Discard, c.nc) // ends with an error or the client's FIN, both good
	}
}

// tryWrite writes what the socket takes at once: n < len(p) without an error means that it is full.
func (c *conn) tryWrite(p []byte) (n int, err error) {
	if c.raw == nil {
		return c.nc.Write(p)
	}
	c.tryBuf = p
	c.tryN = 0
	c.tryErr = nil
	if err := c.raw.Write(c.tryFunc); err != nil {
		return 0, err
	}
	return c.tryN, c.tryErr
}

// writeFD is tryWrite's inside. It always returns true: never wait until the socket is writable.
func (c *conn) writeFD(fd uintptr) bool {
	for c.tryN < len(c.tryBuf) {
		n, err := syscall.Write(int(fd), c.tryBuf[c.tryN:])
		switch {
		case n > 0:
			c.tryN += n
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EAGAIN):
			return true
		default:
			c.tryErr = err
			return true
		}
	}
	return true
}

// reset closes the connection with RST.
func (c *conn) reset() {
	if c.tcp != nil {
		_ = c.tcp.SetLinger(0) // fails only on a closed connection
	}
	if c.tcp != nil && c.nc != net.Conn(c.tcp) {
		_ = c.tcp.Close() // below TLS: no close_notify before the RST
	}
	_ = c.nc.Close()
}

func isNetworkError(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET)
}
