package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The flags of SO_TIMESTAMPING (Documentation/networking/timestamping.rst). A stamp of sent data has no copy of the
// data (TSONLY). It has the number of the last byte, counted from when the option was set (ID).
const (
	stampReceived = unix.SOF_TIMESTAMPING_SOFTWARE | unix.SOF_TIMESTAMPING_RX_SOFTWARE
	stampSent     = unix.SOF_TIMESTAMPING_TX_SOFTWARE | unix.SOF_TIMESTAMPING_TX_ACK |
		unix.SOF_TIMESTAMPING_OPT_ID | unix.SOF_TIMESTAMPING_OPT_TSONLY
)

// Sizes of control messages: a stamp takes 64 bytes. The error that comes with a stamp of sent data takes up to 64
// (IPv6).
const (
	controlBytes = 192
	sentAtOnce   = 4 // stamps of sent data that one system call fetches; one write makes two
	// mostSent limits the stamps that are kept. It suffices for a request of 64 MB that is written in pieces of 64 kB.
	mostSent = 2048
)

// stampedReader reads a connection and the kernel's stamps, if there are any. It belongs to the receiver, but any
// goroutine may call sent.
type stampedReader struct {
	raw     syscall.RawConn
	try     func(fd uintptr) bool // bound once
	msg     unix.Msghdr
	iov     unix.Iovec
	control [controlBytes]byte
	room    int // for control messages; 0 if nothing is stamped
	n       int
	unread  int // bytes that the last read left in the kernel
	errno   syscall.Errno
	wallNS  int64 // when the last byte of the last read arrived; 0 = no stamp
	isNew   bool  // takeNew was not called since the last read
	segment int64 // of the connection's largest segment, bytes

	ring      *Ring // nil = none
	came      *arrivals
	uncounted int // bytes of the last read that came.read does not have yet

	errors *errorQueue // nil if sending is not stamped
}

// errorQueue reads the stamps of sent data from a socket's error queue.
type errorQueue struct {
	sync.Mutex
	fetch   func(fd uintptr) // bound once
	msgs    [sentAtOnce]unix.Mmsghdr
	control [sentAtOnce][controlBytes]byte
	got     []SentStamp
}

// newStampedReader makes the kernel stamp what arrives and leaves from now on. With the zero Stamps it stamps nothing.
func newStampedReader(raw syscall.RawConn, s Stamps) (*stampedReader, error) {
	r := &stampedReader{raw: raw}
	r.msg.Iov = &r.iov
	r.msg.SetIovlen(1)
	r.try = r.receive
	if !s.Receive {
		return r, nil
	}
	r.msg.Control = &r.control[0]
	r.room = controlBytes
	flags := stampReceived
	if s.Send {
		flags |= stampSent
		q := &errorQueue{got: make([]SentStamp, 0, 2*sentAtOnce)}
		q.fetch, r.errors = q.fetchAll, q
	}
	var refused error
	err := raw.Control(func(fd uintptr) {
		refused = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPING, flags)
		// Kernels before 4.18 do not know it: then each read counts as one that left bytes.
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_INQ, 1)
		mss, _ := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG)
		r.segment = int64(mss)
	})
	if err = errors.Join(err, refused); err != nil {
		return nil, err
	}
	return r, nil
}

// Read implements io.Reader. It keeps the stamp of what it returns.
func (r *stampedReader) Read(p []byte) (int, error) {
	r.into(p)
	for {
		err := r.raw.Read(r.try)
		switch {
		case err == nil:
			return r.result()
		case errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, net.ErrClosed) || r.errors == nil:
			return 0, err
		}
		if err := r.waitReadable(); err != nil {
			return 0, err
		}
	}
}

// readNow reads without waiting. If nothing is there, it returns syscall.EAGAIN.
func (r *stampedReader) readNow(w *epollConn, p []byte) (int, error) {
	r.into(p)
	done, err := w.attempt(r.try)
	switch {
	case err != nil:
		return 0, err
	case !done:
		return 0, syscall.EAGAIN
	}
	return r.result()
}

func (r *stampedReader) into(p []byte) {
	r.iov.Base = &p[0]
	r.iov.SetLen(len(p))
}

// result is what the last recvmsg(2) returned, if it was not EAGAIN.
func (r *stampedReader) result() (int, error) {
	switch {
	case r.errno != 0:
		return 0, os.NewSyscallError("recvmsg", r.errno)
	case r.n == 0:
		return 0, io.EOF
	}
	return r.n, nil
}

// receive is one recvmsg(2). False: nothing is there yet. It is a raw system call, since it returns in microseconds.
func (r *stampedReader) receive(fd uintptr) bool {
	for {
		r.msg.SetControllen(r.room)
		n, _, errno := syscall.RawSyscall(syscall.SYS_RECVMSG, fd, uintptr(unsafe.Pointer(&r.msg)), unix.MSG_DONTWAIT)
		switch r.errno = errno; errno {
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			return false
		}
		r.count()
		r.n = max(0, int(n))
		r.uncounted = r.n
		r.wallNS = 0
		r.isNew = errno == 0 && r.n > 0
		if r.isNew {
			control := r.control[:r.msg.Controllen]
			r.wallNS, _ = parseStamp(control)
			r.unread = parseUnread(control)
		}
		return true
	}
}

// count lets the ring forget what was read.
func (r *stampedReader) count() {
	if r.came != nil {
		r.came.read.Add(int64(r.uncounted))
	}
	r.uncounted = 0
}

// watch lets the ring note what comes from now on.
func (r *stampedReader) watch(ring *Ring) {
	r.ring = ring
	r.came = ring.watch(r.raw)
}

// arrived appends to dst when each byte of the last read came. False: that is not known. If nobody waits for this
// reader, it may be patient: many goroutines take turns at the ring.
func (r *stampedReader) arrived(dst []Arrival, patient bool) ([]Arrival, bool) {
	if r.ring == nil {
		return dst, false
	}
	dst, known := r.ring.arrived(r.came, dst, r.n, patient)
	r.count() // now: if the ring has lost the end of an answer, the next one must not seem to come behind a hole
	return dst, known
}

// expect notes that all bytes before the next answer were read.
func (r *stampedReader) expect() {
	if r.ring != nil {
		r.came.losses.Store(r.ring.losses.Load())
	}
}

// close ends watch.
func (r *stampedReader) close() {
	if r.ring != nil {
		r.ring.unwatch(r.came)
	}
}

// takeNew reports whether data was read since the last call.
func (r *stampedReader) takeNew() bool {
	was := r.isNew
	r.isNew = false
	return was
}

// pollWait limits one wait outside Go's poller, so that a close or a deadline is noticed.
const pollWait = 10 // ms

// waitReadable waits until the socket is readable, at most pollWait. It replaces Go's poller, which refuses to wait
// on a descriptor whose last event was an error alone. If a stamp arrives while the send buffer is full, that is such
// an event.
func (r *stampedReader) waitReadable() error {
	return r.raw.Control(func(fd uintptr) {
		r.errors.Lock()
		r.errors.fetchAll(fd) // or poll would return at once
		r.errors.Unlock()
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, pollWait)
	})
}

// sent calls f with each stamp of sent data since the last call. Any goroutine may call it.
func (r *stampedReader) sent(f func(SentStamp)) {
	q := r.errors
	if q == nil {
		return
	}
	q.Lock()
	defer q.Unlock()
	_ = r.raw.Control(q.fetch) // if it is closed, only what was fetched before counts
	for _, s := range q.got {
		f(s)
	}
	q.got = q.got[:0]
}

// fetchAll reads all stamps from the socket's error queue.
func (q *errorQueue) fetchAll(fd uintptr) {
	for {
		for i := range q.msgs {
			q.msgs[i].Hdr.Control = &q.control[i][0]
			q.msgs[i].Hdr.SetControllen(controlBytes)
		}
		n, _, errno := syscall.Syscall6(unix.SYS_RECVMMSG, fd, uintptr(unsafe.Pointer(&q.msgs)), sentAtOnce,
			unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT, 0, 0)
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			return
		}
		for i := range int(n) {
			at, e := parseStamp(q.control[i][:q.msgs[i].Hdr.Controllen])
			if at != 0 && e != nil && e.Origin == unix.SO_EE_ORIGIN_TIMESTAMPING && len(q.got) < mostSent {
				q.got = append(q.got, SentStamp{
					Acked:  e.Info == unix.SCM_TSTAMP_ACK,
					Key:    e.Data,
					WallNS: at,
				})
			}
		}
		if n < sentAtOnce {
			return
		}
	}
}

// parseUnread finds the number of bytes that a read left (TCP_INQ) among control messages; math.MaxInt32 if the
// kernel did not say it.
func parseUnread(b []byte) int {
	for len(b) >= unix.SizeofCmsghdr {
		h, data, rest, err := unix.ParseOneSocketControlMessage(b)
		if err != nil {
			break
		}
		if h.Level == unix.SOL_TCP && h.Type == unix.TCP_CM_INQ && len(data) >= 4 {
			return int(binary.NativeEndian.Uint32(data))
		}
		b = rest
	}
	return math.MaxInt32
}

// parseStamp finds the software stamp among control messages; 0 if there is none. For sent data it also returns the
// error that comes with the stamp.
func parseStamp(b []byte) (wallNS int64, e *unix.SockExtendedErr) {
	for len(b) >= unix.SizeofCmsghdr {
		h, data, rest, err := unix.ParseOneSocketControlMessage(b)
		switch {
		case err != nil:
			return wallNS, e
		case h.Level == unix.SOL_SOCKET && h.Type == unix.SO_TIMESTAMPING &&
			len(data) >= int(unsafe.Sizeof(unix.Timespec{})):
			wallNS = (*unix.Timespec)(unsafe.Pointer(&data[0])).Nano()
		case (h.Level == unix.SOL_IP && h.Type == unix.IP_RECVERR ||
			h.Level == unix.SOL_IPV6 && h.Type == unix.IPV6_RECVERR) &&
			len(data) >= int(unsafe.Sizeof(unix.SockExtendedErr{})):
			e = (*unix.SockExtendedErr)(unsafe.Pointer(&data[0]))
		}
		b = rest
	}
	return wallNS, e
}

// stampPatience is how long ProbeStamps waits for the first stamp. The kernel begins to stamp only after the first
// socket has asked (in a work item of its own): on a busy machine milliseconds later.
const stampPatience = time.Second

// keepStamping makes the kernel stamp until this process ends. It stops after the last socket that asked is closed, and
// begins again in a work item (net/core/dev.c, netstamp_clear). Real-time threads of a busy machine can delay that for
// seconds: a run after the probe then had no stamps.
var keepStamping = sync.OnceFunc(func() {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err == nil { // else the probe finds out
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPING, stampReceived)
	}
})

// ProbeStamps checks on a loopback connection whether the kernel stamps as s asks, and makes it go on until the process
// ends. The error is why it does not.
func ProbeStamps(s Stamps) error {
	if s == (Stamps{}) {
		return nil
	}
	keepStamping()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("no loopback to try it on: %w", err)
	}
	defer ln.Close()
	far, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		return fmt.Errorf("no loopback to try it on: %w", err)
	}
	defer far.Close()
	near, err := ln.Accept()
	if err != nil {
		return fmt.Errorf("no loopback to try it on: %w", err)
	}
	defer near.Close()
	raw, err := near.(*net.TCPConn).SyscallConn()
	if err != nil {
		return err
	}
	r, err := newStampedReader(raw, s)
	if err != nil {
		return fmt.Errorf("the kernel refuses SO_TIMESTAMPING: %w", err)
	}
	return r.probe(near, far, s)
}

// probe sends a byte back and forth until every stamp has appeared.
func (r *stampedReader) probe(near, far net.Conn, s Stamps) error {
	received := false
	departed := !s.Send
	acked := !s.Send
	b := make([]byte, 1)
	for end := time.Now().Add(stampPatience); time.Now().Before(end); runtime.Gosched() {
		_ = far.SetDeadline(end)
		_ = near.SetDeadline(end)
		for _, step := range []func([]byte) (int, error){near.Write, far.Read, far.Write, r.Read} {
			if _, err := step(b); err != nil {
				return fmt.Errorf("no loopback to try it on: %w", err)
			}
		}
		received = received || r.wallNS != 0
		r.sent(func(sent SentStamp) {
			acked = acked || sent.Acked
			departed = departed || !sent.Acked
		})
		if received && departed && acked {
			return nil
		}
	}
	return errors.New("the kernel takes SO_TIMESTAMPING but stamps nothing")
}
