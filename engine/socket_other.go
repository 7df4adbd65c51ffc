//go:build unix && !linux

package engine

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// writeNow is write(2) on a descriptor that Go keeps non-blocking.
func writeNow(fd uintptr, p []byte) (int, syscall.Errno) {
	for {
		n, err := unix.Write(int(fd), p)
		if errno, _ := err.(syscall.Errno); errno != unix.EINTR {
			return max(n, 0), errno
		}
	}
}

func growSendBuffer(fd uintptr, bytes int) {
	if bytes > 0 {
		_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, bytes)
	}
}

// bytesAcked is not to be had portably.
func bytesAcked(uintptr) (int64, bool) { return 0, false }

func bytesReceived(uintptr) (came, unread int64) { return 0, 0 }
