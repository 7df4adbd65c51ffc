package wire

import (
	"errors"
	"net"
	"syscall"
)

// Quiet reports whether a connection has nothing to read, not even its end.
func Quiet(c net.Conn) bool {
	socket, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	_ = raw.Control(func(fd uintptr) {
		_, _, err = syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	})
	return errors.Is(err, syscall.EAGAIN)
}

// IsReset reports whether the peer ended the connection at once, with what was still under way.
func IsReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
