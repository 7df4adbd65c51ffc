package wire

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// epollConn is a TCP connection that an epoll reader watches in place of Go's poller. If both watched it, each event
// would wake both. The epoll reader wakes the goroutine that waits for room, and the one that waits for bytes. The
// lock guards the descriptor: if it is closed and its number used again, the new connection never gets bytes of this
// one.
type epollConn struct {
	mu     sync.RWMutex
	fd     int
	closed bool

	expired atomic.Bool // a deadline has passed
	in, out waiter
}

// newEpollConn duplicates the connection's descriptor, outside Go's poller, and closes c.
func newEpollConn(c *net.TCPConn) (tcpConn, error) {
	defer c.Close()
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	w := &epollConn{in: newWaiter(), out: newWaiter()}
	var refused error
	err = raw.Control(func(fd uintptr) { w.fd, refused = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) })
	if err = errors.Join(err, os.NewSyscallError("fcntl", refused)); err != nil {
		return nil, err
	}
	return w, nil
}

// waiter is where one goroutine waits until an event may concern it.
type waiter struct {
	ready   chan struct{}
	waiting atomic.Bool
}

func newWaiter() waiter { return waiter{ready: make(chan struct{}, 1)} }

// wake lets the waiting goroutine try again. It never blocks.
func (g *waiter) wake() {
	if !g.waiting.Load() {
		return
	}
	select {
	case g.ready <- struct{}{}:
	default:
	}
}

// attempt calls try with the descriptor, which stays open until try returns.
func (w *epollConn) attempt(try func(fd uintptr) bool) (done bool, err error) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.closed {
		return false, net.ErrClosed
	}
	return try(uintptr(w.fd)), nil
}

// until calls try, again after each wake of g, until try returns true.
func (w *epollConn) until(try func(fd uintptr) bool, g *waiter) error {
	g.waiting.Store(true) // before the attempt, so that no later event is missed
	defer g.waiting.Store(false)
	for {
		if w.expired.Load() {
			return os.ErrDeadlineExceeded
		}
		if done, err := w.attempt(try); done || err != nil {
			return err
		}
		<-g.ready
	}
}

// rawEpollConn is an epollConn as a syscall.RawConn.
type rawEpollConn epollConn

// SyscallConn implements syscall.Conn.
func (w *epollConn) SyscallConn() (syscall.RawConn, error) { return (*rawEpollConn)(w), nil }

func (r *rawEpollConn) Control(f func(fd uintptr)) error {
	_, err := (*epollConn)(r).attempt(func(fd uintptr) bool {
		f(fd)
		return true
	})
	return err
}

func (r *rawEpollConn) Read(try func(fd uintptr) bool) error {
	return (*epollConn)(r).until(try, &r.in)
}

func (r *rawEpollConn) Write(try func(fd uintptr) bool) error {
	return (*epollConn)(r).until(try, &r.out)
}

// Read implements io.Reader. It is never called: a Socket reads an epollConn through its stampedReader.
func (w *epollConn) Read([]byte) (int, error) { panic("BUG: read past the reader of stamps") }

// Write implements io.Writer. It waits for room.
func (w *epollConn) Write(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var some int
		var failed syscall.Errno
		err = w.until(func(fd uintptr) bool {
			some, failed = WriteNow(fd, p[n:])
			return failed != syscall.EAGAIN
		}, &w.out)
		if err == nil && failed != 0 {
			err = os.NewSyscallError("send", failed)
		}
		n += some
	}
	return n, err
}

// SetDeadline takes a deadline that has passed, or none.
func (w *epollConn) SetDeadline(t time.Time) error {
	w.expired.Store(!t.IsZero())
	w.wakeAll()
	return nil
}

// Close implements io.Closer. Goroutines that wait get net.ErrClosed.
func (w *epollConn) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return net.ErrClosed
	}
	w.closed = true
	err := unix.Close(w.fd)
	w.wakeAll()
	return err
}

// EpollFD is the descriptor that an epoll reader must watch. False: Go's poller watches it.
func (s *Socket) EpollFD() (fd int, ok bool) {
	w, ok := s.tcp.(*epollConn)
	if !ok {
		return 0, false
	}
	return w.fd, true
}

// ReadNow reads without waiting, from a connection that an epoll reader watches. If nothing is there, it returns
// syscall.EAGAIN.
func (s *Socket) ReadNow(p []byte) (int, error) { return s.in.readNow(s.tcp.(*epollConn), p) }

// WakeReader wakes the goroutine that waits for bytes, WakeWriter the one that waits for room, on a connection that
// an epoll reader watches. Neither blocks or allocates.
func (s *Socket) WakeReader() { s.tcp.(*epollConn).in.wake() }
func (s *Socket) WakeWriter() { s.tcp.(*epollConn).out.wake() }

func (w *epollConn) wakeAll() {
	w.in.wake()
	w.out.wake()
}
