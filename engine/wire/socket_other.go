//go:build unix && !linux

package wire

import (
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/fastreplay/fastreplay/engine/internal/gather"
)

// WriteNow is write(2) on a descriptor that Go has made non-blocking.
func WriteNow(fd uintptr, p []byte) (int, syscall.Errno) {
	for {
		n, err := unix.Write(int(fd), p)
		if errno, _ := err.(syscall.Errno); errno != unix.EINTR {
			return max(n, 0), errno
		}
	}
}

// Gatherer is the twin of the one that needs room: it writes one piece after the other.
type Gatherer struct{}

// WriteNow is WriteNow for pieces. It returns how many bytes the kernel took, and an error only if it took none.
func (*Gatherer) WriteNow(fd uintptr, l *gather.List) (n int, errno syscall.Errno) {
	for k := range l.Pieces() {
		wrote, errno := WriteNow(fd, l.Piece(k))
		n += wrote
		if wrote < len(l.Piece(k)) {
			if n > 0 {
				errno = 0
			}
			return n, errno
		}
	}
	return n, 0
}

func growSendBuffer(fd uintptr, bytes int) {
	if bytes > 0 {
		_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, bytes)
	}
}

// bytesAcked is not available here.
func bytesAcked(uintptr) (int64, bool) { return 0, false }

func bytesReceived(uintptr) (came, unread int64) { return 0, 0 }

// stampedReader is the twin for systems without stamps: it is never made.
type stampedReader struct {
	wallNS    int64
	segment   int64
	n, unread int
}

func newStampedReader(_ syscall.RawConn, s Stamps) (*stampedReader, error) {
	if s.Receive {
		return nil, ProbeStamps(s)
	}
	return nil, nil
}

func (*stampedReader) Read([]byte) (int, error) { panic("BUG: no kernel timestamps here") }
func (*stampedReader) takeNew() bool            { panic("BUG: no kernel timestamps here") }
func (*stampedReader) watch(*Ring)              { panic("BUG: no kernel timestamps here") }
func (*stampedReader) expect()                  {}
func (*stampedReader) close()                   {}

func (*stampedReader) arrived([]Arrival, bool) ([]Arrival, bool) {
	panic("BUG: no kernel timestamps here")
}

// Ring is the twin for systems without packet sockets: it is never made.
type Ring struct{}

// ProbeRing returns why there is none.
func ProbeRing() error {
	_, err := OpenRing(nil, 1)
	return err
}

// OpenRing returns why there is none.
func OpenRing([]uint16, int) (*Ring, error) {
	return nil, errors.New("this system has no packet rings; Linux has")
}

// Close is never called.
func (*Ring) Close() (lost int64)           { panic("BUG: no packet rings here") }
func (*stampedReader) sent(func(SentStamp)) { panic("BUG: no kernel timestamps here") }

// ProbeStamps checks whether the kernel stamps as s asks. The error is why it does not.
func ProbeStamps(Stamps) error {
	return errors.New("this system has no SO_TIMESTAMPING; Linux has")
}

func newEpollConn(c *net.TCPConn) (tcpConn, error) { return c, nil }
