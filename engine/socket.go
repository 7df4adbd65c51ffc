package engine

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fastreplay/fastreplay/sched"
)

// socket is one TCP connection, plain or TLS, on which writing never blocks: send takes what the kernel takes at once
// and keeps the rest for flush. Read blocks. The lock of the descriptor, Go's or ours, keeps a closed one's number from ever
// receiving another request's bytes.
type socket struct {
	tcp   tcpConn
	raw   syscall.RawConn
	tls   *tls.Conn      // nil on a plain connection
	in    *stampedReader // nil where the system has none
	clock sched.Clock

	// The writing side, owned by whoever sends. mu is uncontended but for TLS's own answers to key updates.
	mu        sync.Mutex
	shaking   bool // during the handshake writes block as usual
	sealing   bool // what TLS writes is kept in sealed
	sealed    []byte
	spill     []byte // what the kernel has not taken of the current image
	writing   []byte // argument of writeOnce
	wrote     int    // results of writeOnce
	wroteErr  syscall.Errno
	writeOnce func(fd uintptr) bool
	sentNS    int64 // just before the first write of the current image; notYet before it
	bytesOut  int64 // bytes the kernel has accepted on this connection, TLS framing included
	firstOut  int64 // bytes of the current image that the kernel took at once
}

const notYet = math.MinInt64

// tcpConn is a *net.TCPConn, or its like that a loop watches.
type tcpConn interface {
	io.ReadWriteCloser
	syscall.Conn
	SetDeadline(time.Time) error
}

// dialOptions say how a connection is made.
type dialOptions struct {
	timeout    time.Duration
	tls        *tls.Config // nil for http
	serverName string
	sendBuffer int // bytes the kernel should take at once; 0 leaves the system's own
	stamps     Stamps
	watched    bool // by a loop, in place of Go's poller, where there are loops
}

// dial connects, and with TLS shakes hands. The error tells which of the two failed.
func dial(ctx context.Context, clock sched.Clock, to netip.AddrPort, o dialOptions) (*socket, error) {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	d := net.Dialer{KeepAlive: 30 * time.Second, Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { growSendBuffer(fd, o.sendBuffer) })
	}}
	nc, err := d.DialContext(ctx, "tcp", to.String())
	if err != nil {
		return nil, err
	}
	s := &socket{tcp: nc.(*net.TCPConn), clock: clock, sentNS: notYet}
	if o.watched {
		if s.tcp, err = newWatched(nc.(*net.TCPConn)); err != nil {
			return nil, err
		}
	}
	s.writeOnce = func(fd uintptr) bool {
		s.wrote, s.wroteErr = writeNow(fd, s.writing)
		return true
	}
	if s.raw, err = s.tcp.SyscallConn(); err == nil {
		s.in, err = newStampedReader(s.raw, o.stamps)
	}
	if err != nil {
		_ = s.tcp.Close()
		return nil, err
	}
	if o.tls != nil {
		return s, s.shake(ctx, o)
	}
	return s, nil
}

// shake runs the TLS handshake; on failure the socket is closed.
func (s *socket) shake(ctx context.Context, o dialOptions) error {
	cfg := o.tls.Clone()
	if cfg.ServerName == "" {
		cfg.ServerName = o.serverName
	}
	s.tls, s.shaking = tls.Client(spillConn{s.tcp.(*net.TCPConn), s}, cfg), true
	if err := s.tls.HandshakeContext(ctx); err != nil {
		_ = s.tcp.Close()
		return err
	}
	s.shaking = false
	return nil
}

// Read returns decrypted bytes.
func (s *socket) Read(p []byte) (int, error) {
	if s.tls != nil {
		return s.tls.Read(p)
	}
	return s.readRaw(p)
}

// readRaw returns what comes over the wire.
func (s *socket) readRaw(p []byte) (int, error) {
	if s.in != nil {
		return s.in.Read(p)
	}
	return s.tcp.Read(p)
}

// send writes image without blocking and reports whether the kernel took all of it; what it did not take is left for
// flush. On a plain connection image must stay valid until flush returns.
func (s *socket) send(image []byte) (all bool, err error) {
	s.sentNS, s.firstOut, s.spill = notYet, 0, nil
	if s.tls == nil {
		return s.push(image)
	}
	_, err = s.tls.Write(image) // through spillConn.Write
	return len(s.spill) == 0, err
}

// seal appends image, encrypted, to dst, for another process to send in place of send.
func (s *socket) seal(dst, image []byte) ([]byte, error) {
	s.setSealing(true, slices.Grow(dst, int(sealedSize(int64(len(image))))))
	_, err := s.tls.Write(image) // through spillConn.Write
	return s.setSealing(false, nil), err
}

// setSealing begins to gather in sealed, or ends it; it returns what has been gathered.
func (s *socket) setSealing(on bool, sealed []byte) (gathered []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gathered, s.sealed, s.sealing = s.sealed, sealed, on
	return gathered
}

// keepSealed takes what TLS writes while an image is sealed.
func (s *socket) keepSealed(p []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sealing {
		s.sealed = append(s.sealed, p...)
	}
	return s.sealing
}

// push hands p to the kernel and keeps the rest in spill. It stamps the image's first write.
func (s *socket) push(p []byte) (all bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.spill) > 0 { // a later TLS record of the same image
		s.spill = append(s.spill, p...)
		return false, nil
	}
	if s.sentNS == notYet {
		s.sentNS = s.clock.Now()
	}
	s.writing = p
	for err = s.raw.Write(s.writeOnce); errors.Is(err, os.ErrDeadlineExceeded); err = s.raw.Write(s.writeOnce) {
		s.resume() // deadlines are for what blocks; this one was an earlier request's
	}
	if err == nil && s.wroteErr != 0 {
		err = s.wroteErr
	}
	if errors.Is(err, syscall.EAGAIN) {
		err, s.wrote = nil, 0
	}
	if err != nil {
		return false, err
	}
	s.bytesOut += int64(s.wrote)
	s.firstOut += int64(s.wrote)
	s.spill = p[s.wrote:]
	if s.tls != nil && len(s.spill) > 0 {
		s.spill = append([]byte(nil), s.spill...) // TLS reuses the buffer it passed
	}
	s.writing = nil
	return len(s.spill) == 0, nil
}

// flush blocks until the kernel has taken what send left. After interrupt it returns os.ErrDeadlineExceeded and may be
// called again.
func (s *socket) flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.tcp.Write(s.spill)
	s.bytesOut += int64(n)
	s.spill = s.spill[n:]
	return err
}

// interrupt makes blocked reads and flushes return os.ErrDeadlineExceeded now; resume undoes it.
func (s *socket) interrupt() { _ = s.tcp.SetDeadline(time.Unix(1, 0)) }
func (s *socket) resume()    { _ = s.tcp.SetDeadline(time.Time{}) }

// close ends the connection, also where another process has a descriptor of it. TLS's closing alert is left out: nobody
// waits for it.
func (s *socket) close() {
	s.shut()
	_ = s.tcp.Close()
}

// shut ends both directions; reads and writes, also those that wait, end soon.
func (s *socket) shut() {
	_ = s.raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RDWR) })
}

// usesTLS tells whether the connection is encrypted.
func (s *socket) usesTLS() bool { return s.tls != nil }

// control calls f with the descriptor, which stays open meanwhile.
func (s *socket) control(f func(fd uintptr)) error { return s.raw.Control(f) }

// noteWrite counts n bytes of a new image that the kernel took from another process, in place of send.
func (s *socket) noteWrite(n int64) {
	s.firstOut = n
	s.bytesOut += n
}

// leave keeps for flush what the kernel did not take from another process. On a plain connection rest must stay valid until
// flush returns.
func (s *socket) leave(rest []byte) {
	s.spill = rest
	if s.tls != nil {
		s.spill = append([]byte(nil), rest...) // the other process's buffer is used again
	}
}

// arrival returns the kernel's stamp of what was read last: when the last segment of it had arrived, by the wall clock; 0 = no
// stamp. isNew: something has been read since arrival was called before. It may be called where the kernel stamps.
func (s *socket) arrival() (wallNS int64, isNew bool) { return s.in.wallNS, s.in.took() }

// eachSent calls f with what the kernel has said of sent data since the last call. It may be called where the kernel stamps,
// by anybody.
func (s *socket) eachSent(f func(sentStamp)) { s.in.sent(f) }

// segment is how many bytes the connection's largest segment has, where the kernel stamps.
func (s *socket) segment() int64 { return s.in.segment }

// peerTook reports how many bytes the peer's kernel has acknowledged, and false where the system cannot tell.
func (s *socket) peerTook() (int64, bool) {
	var acked int64
	ok := false
	err := s.raw.Control(func(fd uintptr) { acked, ok = bytesAcked(fd) })
	return acked, ok && err == nil
}

// received is how many bytes have come, and how many of them lie unread in the kernel; zeros where the system cannot tell.
func (s *socket) received() (came, unread int64) {
	_ = s.raw.Control(func(fd uintptr) { came, unread = bytesReceived(fd) })
	return came, unread
}

// spillConn is the socket as TLS sees it: reads are plain, writes never block once the handshake is over.
type spillConn struct {
	*net.TCPConn
	s *socket
}

func (c spillConn) Read(p []byte) (int, error) { return c.s.readRaw(p) }

func (c spillConn) Write(p []byte) (int, error) {
	if c.s.shaking {
		n, err := c.TCPConn.Write(p)
		c.s.bytesOut += int64(n)
		return n, err
	}
	if c.s.keepSealed(p) {
		return len(p), nil
	}
	if _, err := c.s.push(p); err != nil {
		return 0, err
	}
	return len(p), nil
}
