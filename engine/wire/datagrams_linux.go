package wire

import (
	"net"

	"golang.org/x/sys/unix"
)

// stampArrivals has the kernel stamp what arrives. If it refuses, there are no stamps.
func stampArrivals(conn *net.UDPConn) {
	if raw, err := conn.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPING, stampReceived)
		})
	}
}

func arrival(control []byte) int64 {
	wallNS, _ := parseStamp(control)
	return wallNS
}
