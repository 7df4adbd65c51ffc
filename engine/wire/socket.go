// Package wire is one TCP connection as the engine needs it: writes never block, the kernel says when bytes came and left
// (SO_TIMESTAMPING), and on Linux a thread with epoll may watch it in place of Go's poller.
//
// It does not know HTTP, requests or records, nor when something is to be sent; it neither pools connections nor dials again.
//
// Of a Socket, whoever sends a request owns Send, Seal, SentNS, FirstOut, BytesOut and NoteWrite until the request is written;
// one goroutine may Flush what was left. The receiver owns Read, ReadNow and Arrival. All else may be called from any goroutine.
// WriteNow checks no stack and never enters Go's scheduler, so that a sending thread may call it between a deadline and its
// write. Send, Read and their like allocate nothing, but for the rest of a partial write with TLS and what crypto/tls allocates.
package wire

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

// Socket is one TCP connection, plain or TLS, on which writing never blocks: Send takes what the kernel takes at once
// and keeps the rest for Flush. Read blocks. The lock of the descriptor, Go's or ours, keeps a closed one's number from ever
// receiving another request's bytes.
type Socket struct {
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
	sentNS    int64 // just before the first write of the current image; NotYet before it
	bytesOut  int64 // bytes the kernel has accepted on this connection, TLS framing included
	firstOut  int64 // bytes of the current image that the kernel took at once
}

// NotYet is what SentNS returns while nothing of the current image has been written.
const NotYet = math.MinInt64

// tcpConn is a *net.TCPConn, or its like that a loop watches.
type tcpConn interface {
	io.ReadWriteCloser
	syscall.Conn
	SetDeadline(time.Time) error
}

// Stamps says what the kernel stamps on a run's connections.
//
// With Receive, the instant of what a read returns is when the kernel received the last segment of it, so that the
// reader's own lateness is inside no latency. Bytes that the kernel joined before they were read bear the stamp of the last
// of them: it is never earlier than an event's true arrival and never later than the read. With Send, the kernel tells when
// a request left and when its peer had acknowledged it.
type Stamps struct {
	Receive, Send bool
}

// SentStamp is one message of the kernel about what was sent: when the byte of that number, counted on the connection
// from 0 and modulo 2³², left the machine or was acknowledged.
type SentStamp struct {
	Acked  bool
	Key    uint32
	WallNS int64
}

// DialOptions say how a connection is made.
type DialOptions struct {
	Timeout    time.Duration
	TLS        *tls.Config // nil for http
	ServerName string
	SendBuffer int // bytes the kernel should take at once; 0 leaves the system's own
	Stamps     Stamps
	Watched    bool // by a loop, in place of Go's poller, where there are loops
}

// Dial connects, and with TLS shakes hands. The error tells which of the two failed.
func Dial(ctx context.Context, clock sched.Clock, to netip.AddrPort, o DialOptions) (*Socket, error) {
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	d := net.Dialer{KeepAlive: 30 * time.Second, Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { growSendBuffer(fd, o.SendBuffer) })
	}}
	nc, err := d.DialContext(ctx, "tcp", to.String())
	if err != nil {
		return nil, err
	}
	s := &Socket{tcp: nc.(*net.TCPConn), clock: clock, sentNS: NotYet}
	if o.Watched {
		if s.tcp, err = newWatched(nc.(*net.TCPConn)); err != nil {
			return nil, err
		}
	}
	s.writeOnce = func(fd uintptr) bool {
		s.wrote, s.wroteErr = WriteNow(fd, s.writing)
		return true
	}
	if s.raw, err = s.tcp.SyscallConn(); err == nil {
		s.in, err = newStampedReader(s.raw, o.Stamps)
	}
	if err != nil {
		_ = s.tcp.Close()
		return nil, err
	}
	if o.TLS != nil {
		return s, s.shake(ctx, o)
	}
	return s, nil
}

// shake runs the TLS handshake; on failure the socket is closed.
func (s *Socket) shake(ctx context.Context, o DialOptions) error {
	cfg := o.TLS.Clone()
	if cfg.ServerName == "" {
		cfg.ServerName = o.ServerName
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
func (s *Socket) Read(p []byte) (int, error) {
	if s.tls != nil {
		return s.tls.Read(p)
	}
	return s.readRaw(p)
}

// readRaw returns what comes over the wire.
func (s *Socket) readRaw(p []byte) (int, error) {
	if s.in != nil {
		return s.in.Read(p)
	}
	return s.tcp.Read(p)
}

// Send writes image without blocking and reports whether the kernel took all of it; what it did not take is left for
// Flush. On a plain connection image must stay valid until Flush returns.
func (s *Socket) Send(image []byte) (all bool, err error) {
	s.sentNS, s.firstOut, s.spill = NotYet, 0, nil
	if s.tls == nil {
		return s.push(image)
	}
	_, err = s.tls.Write(image) // through spillConn.Write
	return len(s.spill) == 0, err
}

// Seal appends image, encrypted, to dst, for another process to send in place of Send.
func (s *Socket) Seal(dst, image []byte) ([]byte, error) {
	s.setSealing(true, slices.Grow(dst, int(SealedSize(int64(len(image))))))
	_, err := s.tls.Write(image) // through spillConn.Write
	return s.setSealing(false, nil), err
}

// SealedSize is the most that TLS makes of size bytes: records of 16 kB, each with at most 5 bytes before and 256 behind
// (RFC 8446, section 5.2).
func SealedSize(size int64) int64 { return size + (size>>14+1)*(5+256) }

// setSealing begins to gather in sealed, or ends it; it returns what has been gathered.
func (s *Socket) setSealing(on bool, sealed []byte) (gathered []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gathered, s.sealed, s.sealing = s.sealed, sealed, on
	return gathered
}

// keepSealed takes what TLS writes while an image is sealed.
func (s *Socket) keepSealed(p []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sealing {
		s.sealed = append(s.sealed, p...)
	}
	return s.sealing
}

// push hands p to the kernel and keeps the rest in spill. It stamps the image's first write.
func (s *Socket) push(p []byte) (all bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.spill) > 0 { // a later TLS record of the same image
		s.spill = append(s.spill, p...)
		return false, nil
	}
	if s.sentNS == NotYet {
		s.sentNS = s.clock.Now()
	}
	s.writing = p
	for err = s.raw.Write(s.writeOnce); errors.Is(err, os.ErrDeadlineExceeded); err = s.raw.Write(s.writeOnce) {
		s.Resume() // deadlines are for what blocks; this one was an earlier request's
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

// Flush blocks until the kernel has taken what Send left. After Interrupt it returns os.ErrDeadlineExceeded and may be
// called again.
func (s *Socket) Flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.tcp.Write(s.spill)
	s.bytesOut += int64(n)
	s.spill = s.spill[n:]
	return err
}

// Interrupt makes blocked reads and flushes return os.ErrDeadlineExceeded now; Resume undoes it.
func (s *Socket) Interrupt() { _ = s.tcp.SetDeadline(time.Unix(1, 0)) }
func (s *Socket) Resume()    { _ = s.tcp.SetDeadline(time.Time{}) }

// Close ends the connection, also where another process has a descriptor of it. TLS's closing alert is left out: nobody
// waits for it.
func (s *Socket) Close() {
	s.Shut()
	_ = s.tcp.Close()
}

// Shut ends both directions; reads and writes, also those that wait, end soon.
func (s *Socket) Shut() {
	_ = s.raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RDWR) })
}

// SentNS is when the current image was first written, just before it; NotYet before that. It belongs to whoever sends.
func (s *Socket) SentNS() int64 { return s.sentNS }

// FirstOut is how many bytes of the current image the kernel took at once. It belongs to whoever sends.
func (s *Socket) FirstOut() int64 { return s.firstOut }

// BytesOut is how many bytes the kernel has accepted on this connection, TLS framing included. It belongs to whoever sends.
func (s *Socket) BytesOut() int64 { return s.bytesOut }

// UsesTLS tells whether the connection is encrypted.
func (s *Socket) UsesTLS() bool { return s.tls != nil }

// Control calls f with the descriptor, which stays open meanwhile.
func (s *Socket) Control(f func(fd uintptr)) error { return s.raw.Control(f) }

// NoteWrite counts n bytes of a new image that the kernel took from another process, in place of Send.
func (s *Socket) NoteWrite(n int64) {
	s.firstOut = n
	s.bytesOut += n
}

// Leave keeps for Flush what the kernel did not take from another process. On a plain connection rest must stay valid until
// Flush returns.
func (s *Socket) Leave(rest []byte) {
	s.spill = rest
	if s.tls != nil {
		s.spill = append([]byte(nil), rest...) // the other process's buffer is used again
	}
}

// Arrival returns the kernel's stamp of what was read last: when the last segment of it had arrived, by the wall clock; 0 = no
// stamp. isNew: something has been read since Arrival was called before. It may be called where the kernel stamps.
func (s *Socket) Arrival() (wallNS int64, isNew bool) { return s.in.wallNS, s.in.took() }

// EachSent calls f with what the kernel has said of sent data since the last call. It may be called where the kernel stamps,
// by anybody.
func (s *Socket) EachSent(f func(SentStamp)) { s.in.sent(f) }

// Segment is how many bytes the connection's largest segment has, where the kernel stamps.
func (s *Socket) Segment() int64 { return s.in.segment }

// PeerTook reports how many bytes the peer's kernel has acknowledged, and false where the system cannot tell.
func (s *Socket) PeerTook() (int64, bool) {
	var acked int64
	ok := false
	err := s.raw.Control(func(fd uintptr) { acked, ok = bytesAcked(fd) })
	return acked, ok && err == nil
}

// Received is how many bytes have come, and how many of them lie unread in the kernel; zeros where the system cannot tell.
func (s *Socket) Received() (came, unread int64) {
	_ = s.raw.Control(func(fd uintptr) { came, unread = bytesReceived(fd) })
	return came, unread
}

// spillConn is the socket as TLS sees it: reads are plain, writes never block once the handshake is over.
type spillConn struct {
	*net.TCPConn
	s *Socket
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
