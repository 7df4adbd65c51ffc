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

// watched is a TCP connection that a loop watches in place of Go's poller: a descriptor that both watched would wake both.
// Whoever has to wait, for room or for bytes that the loop does not read itself, is woken by the loop. Its lock keeps a
// closed descriptor's number from ever receiving another request's bytes.
type watched struct {
	mu     sync.RWMutex
	fd     int
	closed bool

	expired atomic.Bool // a deadline is over
	in, out gate
}

// newWatched takes a connection away from Go's poller.
func newWatched(c *net.TCPConn) (tcpConn, error) {
	defer c.Close()
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	w := &watched{in: newGate(), out: newGate()}
	var refused error
	err = raw.Control(func(fd uintptr) { w.fd, refused = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) })
	if err = errors.Join(err, os.NewSyscallError("fcntl", refused)); err != nil {
		return nil, err
	}
	return w, nil
}

// gate is where one goroutine waits until the kernel may have something for it.
type gate struct {
	open  chan struct{}
	waits atomic.Bool
}

func newGate() gate { return gate{open: make(chan struct{}, 1)} }

// pass lets the one who waits try again.
func (g *gate) pass() {
	if !g.waits.Load() {
		return
	}
	select {
	case g.open <- struct{}{}:
	default:
	}
}

// attempt calls try with the descriptor, which stays open meanwhile.
func (w *watched) attempt(try func(fd uintptr) bool) (done bool, err error) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.closed {
		return false, net.ErrClosed
	}
	return try(uintptr(w.fd)), nil
}

// until calls try whenever g lets it pass, until it is done.
func (w *watched) until(try func(fd uintptr) bool, g *gate) error {
	g.waits.Store(true) // before the attempt: what comes after it must not be missed
	defer g.waits.Store(false)
	for {
		if w.expired.Load() {
			return os.ErrDeadlineExceeded
		}
		if done, err := w.attempt(try); done || err != nil {
			return err
		}
		<-g.open
	}
}

// rawWatched is a watched connection as a syscall.RawConn.
type rawWatched watched

// SyscallConn implements syscall.Conn.
func (w *watched) SyscallConn() (syscall.RawConn, error) { return (*rawWatched)(w), nil }

func (r *rawWatched) Control(f func(fd uintptr)) error {
	_, err := (*watched)(r).attempt(func(fd uintptr) bool { f(fd); return true })
	return err
}

func (r *rawWatched) Read(try func(fd uintptr) bool) error {
	return (*watched)(r).until(try, &r.in)
}

func (r *rawWatched) Write(try func(fd uintptr) bool) error {
	return (*watched)(r).until(try, &r.out)
}

// Read implements net.Conn. A watched connection is read through its stampedReader, which knows the loop.
func (w *watched) Read([]byte) (int, error) { panic("BUG: read past the reader of stamps") }

// Write implements net.Conn: it waits for room.
func (w *watched) Write(p []byte) (n int, err error) {
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

// SetDeadline knows deadlines that are over and none at all.
func (w *watched) SetDeadline(t time.Time) error {
	w.expired.Store(!t.IsZero())
	w.wakeAll()
	return nil
}

// Close implements io.Closer. Whoever waits gets net.ErrClosed.
func (w *watched) Close() error {
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

// EpollFD is the descriptor that a loop has to watch. False: Go's poller watches it.
func (s *Socket) EpollFD() (fd int, ok bool) {
	w, ok := s.tcp.(*watched)
	if !ok {
		return 0, false
	}
	return w.fd, true
}

// ReadNow reads a watched connection without waiting: syscall.EAGAIN where nothing is there yet.
func (s *Socket) ReadNow(p []byte) (int, error) { return s.in.readNow(s.tcp.(*watched), p) }

// WakeReader lets the one who waits for bytes on a watched connection try again, WakeWriter the one who waits for room.
func (s *Socket) WakeReader() { s.tcp.(*watched).in.pass() }
func (s *Socket) WakeWriter() { s.tcp.(*watched).out.pass() }

func (w *watched) wakeAll() {
	w.in.pass()
	w.out.pass()
}
