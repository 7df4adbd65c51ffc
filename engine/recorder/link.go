package recorder

import (
	"bufio"
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"sync"
	"time"

	"github.com/fastreplay/fastreplay/engine/wire"
)

// linkBytes bounds a body that is written before the answer is read. The buffers of the sockets hold as much, so that
// the server may answer without reading it. Longer ones take a transport of net/http.
const linkBytes = 32 << 10

// link is a connection to a server, on which the goroutine of a client writes the request and reads the answer. A
// transport of net/http has two more goroutines for that, and each step from one to another wakes a thread.
type link struct {
	net.Conn
	limit io.LimitedReader
	in    *bufio.Reader // reads as much as limit allows
	out   *bufio.Writer
	since time.Time // when its last answer ended
}

// links are a server's connections without a request, the latest at the end.
type links struct {
	mu   sync.Mutex
	idle []*link
}

// keep adds one, and closes one that nobody has wanted for long.
func (s *links) keep(l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.since = time.Now()
	s.idle = append(s.idle, l)
	if oldest := s.idle[0]; time.Since(oldest.since) > upstreamIdle {
		_ = oldest.Close()
		s.idle = s.idle[1:]
	}
}

// latest returns the latest on which a server still waits; nil = there is none.
func (s *links) latest() *link {
	s.mu.Lock()
	defer s.mu.Unlock()
	for last := len(s.idle) - 1; last >= 0; last-- {
		l := s.idle[last]
		s.idle = s.idle[:last]
		if time.Since(l.since) < upstreamIdle && wire.Quiet(l.Conn) {
			return l
		}
		_ = l.Close() // its server has ended it, or will
	}
	return nil
}

// to returns a connection to the server's address, perhaps a new one.
func (s *links) to(ctx context.Context, address string) (*link, error) {
	l := s.latest()
	if l != nil {
		return l, nil
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	l = &link{
		Conn:  conn,
		limit: io.LimitedReader{R: conn},
		out:   bufio.NewWriterSize(conn, writeBytes),
	}
	l.in = bufio.NewReader(&l.limit)
	return l, nil
}

// send writes a request and reads the head of its answer.
func (l *link) send(req *http.Request) (*http.Response, error) {
	// Of a bufio.Writer it would flush the head before the body, and wake the server once for each.
	unread := req.Write(struct{ *bufio.Writer }{l.out})
	unsent := l.out.Flush()
	if unread != nil && unsent == nil { // the client has not sent all
		return nil, unread
	}
	for {
		l.limit.N = maxHeaders
		resp, err := http.ReadResponse(l.in, req)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode/100 != 1 {
			l.limit.N = math.MaxInt64
			resp.Close = resp.Close || unsent != nil // the server has answered before it had read all
			return resp, nil
		}
		if resp.StatusCode == http.StatusSwitchingProtocols {
			return nil, errors.New("the server switched to a protocol that nobody asked for")
		}
		trace := httptrace.ContextClientTrace(req.Context())
		if err := trace.Got1xxResponse(resp.StatusCode, textproto.MIMEHeader(resp.Header)); err != nil {
			return nil, err
		}
	}
}
