// Package wire is one TCP connection as the engine needs it. Writes never block. The kernel stamps what arrives and
// what leaves (SO_TIMESTAMPING). On Linux, an epoll reader may watch the connection in place of Go's poller.
//
// It holds no pool, dials once, and does not know HTTP, records or when a request is due.
//
// The sender of a request owns Send, Encrypt, Flush, KeepRest, CountWrite, SentNS, FirstOut and BytesOut. The
// receiver owns Read, ReadNow, ReadStamp and Queued. Any goroutine may call the other methods.
//
// On Linux, WriteNow never checks its stack and never enters Go's scheduler: a sending thread may call it between a
// deadline and its write. Send and Read allocate nothing of their own, but for the rest of a partial write with TLS.
// crypto/tls may allocate.
//
// The package is not an API: any release may change it.
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
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fastreplay/fastreplay/engine/internal/gather"
	"github.com/fastreplay/fastreplay/sched"
)

// Socket is one TCP connection, plain or TLS, on which writes never block. Send writes what the kernel takes at once
// and keeps the rest for Flush. Read blocks. A lock guards the descriptor, Go's or ours. So if the descriptor is closed
// and its number used again, the new connection never gets bytes of this one.
type Socket struct {
	tcp   tcpConn
	raw   syscall.RawConn
	tls   *tls.Conn      // nil on a plain connection
	in    *stampedReader // nil if the system has no stamps
	clock sched.Clock

	records *recordReader // nil without TLS, and without a ring
	data    int           // bytes that the last read returned, with TLS

	// The writer's side, owned by the sender. mu is contended only if TLS answers a key update.
	mu          sync.Mutex
	handshaking bool // during the handshake; writes block
	encrypting  bool // what TLS writes is appended to encrypted
	encrypted   []byte
	rest        gather.List // of the current request: what the kernel has not taken
	writing     gather.List // the argument of writeOnce
	gather      Gatherer
	wrote       int // the results of writeOnce
	wroteErr    syscall.Errno
	writeOnce   func(fd uintptr) bool
	sentNS      int64 // just before the first write of the current request; NotYet before it
	bytesOut    int64 // bytes the kernel has accepted on this connection, TLS framing included
	firstOut    int64 // bytes of the current request that the kernel took at once
}

// NotYet is what SentNS returns while nothing of the current request has been written.
const NotYet = math.MinInt64

// tcpConn is a *net.TCPConn or, if an epoll reader watches it, an *epollConn.
type tcpConn interface {
	io.ReadWriteCloser
	syscall.Conn
	SetDeadline(time.Time) error
}

// Stamps selects what the kernel stamps on a connection.
//
// Receive: the time of a read is when the kernel received the last segment that the read returned. So no latency
// contains the delay of the reader. If the kernel joined several segments before they were read, the stamp is that of
// the last one. It is never earlier than an event's true arrival, and never later than the read. Send: the kernel
// reports when a request left and when the peer had acknowledged it.
type Stamps struct {
	Receive, Send bool
	Ring          bool // a Ring tells when each of several segments came that one read returned
}

// SentStamp is one report of the kernel about sent data: when the byte number Key left the machine, or when it was
// acknowledged. Bytes are counted on the connection, from 0 and modulo 2³².
type SentStamp struct {
	Acked  bool // else it left
	Key    uint32
	WallNS int64 // wall clock
}

// DialOptions are how Dial makes a connection.
type DialOptions struct {
	Timeout    time.Duration // of connecting and of the TLS handshake together
	TLS        *tls.Config   // nil for http
	ServerName string        // for TLS, if the configuration has none
	SendBuffer int           // bytes that the kernel should take at once; 0 = the system's default
	Stamps     Stamps
	Ring       *Ring // with Stamps.Receive; nil = none
	Epoll      bool  // an epoll reader watches it in place of Go's poller, if the system has epoll; not with TLS
}

// ProbeSendBuffer asks for a send buffer of that many bytes and returns how many a connection would get. An error
// says that no socket can be made.
func ProbeSendBuffer(bytes int) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return 0, os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	growSendBuffer(uintptr(fd), bytes)
	got, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF)
	if runtime.GOOS == "linux" {
		got /= 2 // the kernel doubles what is asked for, for its own bookkeeping (socket(7))
	}
	return got, os.NewSyscallError("getsockopt", err)
}

// Dial connects once and, with TLS, runs the handshake.
func Dial(ctx context.Context, clock sched.Clock, to netip.AddrPort, o DialOptions) (*Socket, error) {
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	tcp, err := connect(ctx, to, o)
	if err != nil {
		return nil, err
	}
	s, err := newSocket(tcp, clock, o.Stamps)
	if err != nil {
		return nil, err
	}
	if o.Ring != nil {
		s.in.watch(o.Ring)
	}
	if o.TLS != nil {
		return s, s.handshake(ctx, o)
	}
	return s, nil
}

// connect makes the connection and gives it to its poller.
func connect(ctx context.Context, to netip.AddrPort, o DialOptions) (tcpConn, error) {
	d := net.Dialer{KeepAlive: 30 * time.Second, Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { growSendBuffer(fd, o.SendBuffer) })
	}}
	nc, err := d.DialContext(ctx, "tcp", to.String())
	if err != nil {
		return nil, err
	}
	tcp := nc.(*net.TCPConn)
	if o.Epoll {
		return newEpollConn(tcp)
	}
	return tcp, nil
}

// newSocket returns the socket of a connection. If the kernel refuses the stamps, it closes the connection.
func newSocket(tcp tcpConn, clock sched.Clock, stamps Stamps) (s *Socket, err error) {
	s = &Socket{
		tcp:    tcp,
		clock:  clock,
		sentNS: NotYet,
	}
	s.writeOnce = func(fd uintptr) bool {
		s.wrote, s.wroteErr = s.gather.WriteNow(fd, &s.writing)
		return true
	}
	if s.raw, err = tcp.SyscallConn(); err == nil {
		s.in, err = newStampedReader(s.raw, stamps)
	}
	if err != nil {
		_ = tcp.Close()
		return nil, err
	}
	return s, nil
}

// handshake runs the TLS handshake. If it fails, it closes the socket.
func (s *Socket) handshake(ctx context.Context, o DialOptions) error {
	cfg := o.TLS.Clone()
	if cfg.ServerName == "" {
		cfg.ServerName = o.ServerName
	}
	if o.Ring != nil {
		parts := func(dst []Arrival) ([]Arrival, bool) { return s.in.arrived(dst, true) }
		s.records = &recordReader{read: s.in.Read, parts: parts}
	}
	s.tls, s.handshaking = tls.Client(tlsTransport{s.tcp.(*net.TCPConn), s}, cfg), true
	if err := s.tls.HandshakeContext(ctx); err != nil {
		_ = s.tcp.Close()
		return err
	}
	s.handshaking = false
	return nil
}

// Read blocks until there are bytes, and returns them decrypted. After Interrupt it returns os.ErrDeadlineExceeded.
func (s *Socket) Read(p []byte) (int, error) {
	if s.tls == nil {
		return s.readRaw(p)
	}
	n, err := s.tls.Read(p)
	s.data = n
	return n, err
}

// readRaw returns bytes as they arrive, still encrypted with TLS.
func (s *Socket) readRaw(p []byte) (int, error) {
	if s.in != nil {
		return s.in.Read(p)
	}
	return s.tcp.Read(p)
}

// Send begins a new request: it writes without blocking and reports whether the kernel took all of it. If not, Flush
// writes the rest. On a plain connection the request's memory and segments must stay valid until Flush returns.
func (s *Socket) Send(request gather.List) (all bool, err error) {
	s.sentNS = NotYet
	s.firstOut = 0
	s.rest = gather.List{}
	if s.tls == nil {
		return s.writeSome(request)
	}
	err = s.writeTLS(request)
	return s.rest.Len() == 0, err
}

// writeTLS encrypts a request from where it lies. What becomes of it goes through tlsTransport.Write.
func (s *Socket) writeTLS(request gather.List) error {
	for k := range request.Pieces() {
		if _, err := s.tls.Write(request.Piece(k)); err != nil {
			return err
		}
	}
	return nil
}

// Encrypt appends the encrypted request to dst. Another process sends it, in place of Send.
func (s *Socket) Encrypt(dst []byte, request gather.List) ([]byte, error) {
	s.setEncrypting(true, slices.Grow(dst, int(EncryptedSize(request.Len(), request.Pieces()))))
	err := s.writeTLS(request)
	return s.setEncrypting(false, nil), err
}

// EncryptedSize is the most bytes that TLS makes of size bytes in so many pieces. Each record is of one piece and at
// most 16 kB. It has at most 5 bytes before and 256 behind it (RFC 8446, section 5.2).
func EncryptedSize(size int64, pieces int) int64 { return size + (size>>14+int64(pieces))*(5+256) }

// setEncrypting switches on or off that TLS's output is appended to encrypted. It returns what was appended until now.
func (s *Socket) setEncrypting(on bool, encrypted []byte) (before []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, s.encrypted, s.encrypting = s.encrypted, encrypted, on
	return before
}

// keepEncrypted appends p to encrypted and returns true, if Encrypt is running.
func (s *Socket) keepEncrypted(p []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.encrypting {
		s.encrypted = append(s.encrypted, p...)
	}
	return s.encrypting
}

// writeSome writes what the kernel takes of p and keeps the remainder in rest. It notes the time of the request's
// first write.
func (s *Socket) writeSome(p gather.List) (all bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rest.Len() > 0 { // a later TLS record of the same request
		s.rest.Memory = p.Append(s.rest.Memory)
		return false, nil
	}
	if s.sentNS == NotYet {
		s.sentNS = s.clock.Now()
	}
	s.writing = p
	for err = s.raw.Write(s.writeOnce); errors.Is(err, os.ErrDeadlineExceeded); err = s.raw.Write(s.writeOnce) {
		s.Resume() // the deadline was meant for an earlier request, which blocked
	}
	if err == nil && s.wroteErr != 0 {
		err = s.wroteErr
	}
	if errors.Is(err, syscall.EAGAIN) {
		err = nil
		s.wrote = 0
	}
	if err != nil {
		return false, err
	}
	s.bytesOut += int64(s.wrote)
	s.firstOut += int64(s.wrote)
	p.Drop(int64(s.wrote))
	s.writing = gather.List{}
	return s.keepRest(p) == 0, nil
}

// keepRest keeps what the kernel has not taken, and returns how many bytes that is. With TLS their memory is used
// again, so it keeps a copy.
func (s *Socket) keepRest(rest gather.List) int64 {
	if s.rest = rest; s.tls != nil {
		s.rest = gather.Of(rest.Append(nil))
	}
	return rest.Len()
}

// Flush blocks until the kernel has taken the rest that Send left. After Interrupt it returns os.ErrDeadlineExceeded;
// it may then be called again.
func (s *Socket) Flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.rest.Len() > 0 {
		n, err := s.tcp.Write(s.rest.Piece(0))
		s.bytesOut += int64(n)
		s.rest.Drop(int64(n))
		if err != nil {
			return err
		}
	}
	return nil
}

// Interrupt makes Read and Flush return os.ErrDeadlineExceeded, also those that block now. Resume ends that.
func (s *Socket) Interrupt() { _ = s.tcp.SetDeadline(time.Unix(1, 0)) }
func (s *Socket) Resume()    { _ = s.tcp.SetDeadline(time.Time{}) }

// Close ends the connection, even if another process has a descriptor of it. It sends no closing alert of TLS: nobody
// waits for one.
func (s *Socket) Close() {
	if s.in != nil {
		s.in.close()
	}
	s.Shutdown()
	_ = s.tcp.Close()
}

// Shutdown ends both directions. Reads and writes end soon, also those that block.
func (s *Socket) Shutdown() {
	_ = s.raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RDWR) })
}

// SentNS is when the first write of the current request began; NotYet before that.
func (s *Socket) SentNS() int64 { return s.sentNS }

// FirstOut is how many bytes of the current request the kernel took at once.
func (s *Socket) FirstOut() int64 { return s.firstOut }

// BytesOut is how many bytes the kernel has accepted on this connection, TLS framing included.
func (s *Socket) BytesOut() int64 { return s.bytesOut }

// UsesTLS reports whether the connection is encrypted.
func (s *Socket) UsesTLS() bool { return s.tls != nil }

// Control calls f with the descriptor, which stays open until f returns.
func (s *Socket) Control(f func(fd uintptr)) error { return s.raw.Control(f) }

// CountWrite counts a new request of which the kernel took n bytes from another process, in place of Send.
func (s *Socket) CountWrite(n int64) {
	s.firstOut = n
	s.bytesOut += n
}

// KeepRest keeps what the kernel did not take from another process, so that Flush writes it. On a plain connection
// rest must stay valid until Flush returns.
func (s *Socket) KeepRest(rest gather.List) { s.keepRest(rest) }

// ReadStamp returns when the last segment of the last read arrived, by the wall clock; 0 if the kernel gave no stamp.
// isNew reports whether something was read since the last call. Call it only on a connection with Stamps.Receive.
func (s *Socket) ReadStamp() (wallNS int64, isNew bool) { return s.in.wallNS, s.in.takeNew() }

// Expect notes that a request is about to be sent, and that all bytes before its answer were read.
func (s *Socket) Expect() {
	if s.in != nil {
		s.in.expect()
	}
}

// Arrived appends to dst when each byte of the last read came, or could be decrypted. False: there is no ring, or it
// has missed some since Expect. Call it only on a connection with Stamps.Receive, once after each read.
func (s *Socket) Arrived(dst []Arrival) ([]Arrival, bool) {
	if s.records == nil {
		return s.in.arrived(dst, false)
	}
	return append(dst, Arrival{s.data, s.records.atNS}), s.records.atNS != 0
}

// Queued is how many bytes the last read found in the kernel, encrypted ones with TLS, and how many of them it left
// there. Call it only on a connection with Stamps.Receive.
func (s *Socket) Queued() (found, left int) { return s.in.n + s.in.unread, s.in.unread }

// SentStamps calls f with each report about sent data since the last call. Call it only on a connection with
// Stamps.Send.
func (s *Socket) SentStamps(f func(SentStamp)) { s.in.sent(f) }

// Segment is the connection's largest segment in bytes. Call it only on a connection with stamps.
func (s *Socket) Segment() int64 { return s.in.segment }

// Acked is how many bytes the peer's kernel has acknowledged; false if the system cannot report it.
func (s *Socket) Acked() (int64, bool) {
	var acked int64
	ok := false
	err := s.raw.Control(func(fd uintptr) { acked, ok = bytesAcked(fd) })
	return acked, ok && err == nil
}

// Received is how many bytes have arrived, and how many of them are unread in the kernel; zeros if the system cannot
// report it.
func (s *Socket) Received() (came, unread int64) {
	_ = s.raw.Control(func(fd uintptr) { came, unread = bytesReceived(fd) })
	return came, unread
}

// tlsTransport is the connection below crypto/tls. Its writes never block once the handshake is over.
type tlsTransport struct {
	*net.TCPConn
	s *Socket
}

func (c tlsTransport) Read(p []byte) (int, error) {
	if c.s.records != nil {
		return c.s.records.Read(p)
	}
	return c.s.readRaw(p)
}

func (c tlsTransport) Write(p []byte) (int, error) {
	if c.s.handshaking {
		n, err := c.TCPConn.Write(p)
		c.s.bytesOut += int64(n)
		return n, err
	}
	if c.s.keepEncrypted(p) {
		return len(p), nil
	}
	if _, err := c.s.writeSome(gather.Of(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}
