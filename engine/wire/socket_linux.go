package wire

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// WriteNow is send(2) without waiting. It is a raw system call, which Go's scheduler does not notice: it returns in
// microseconds. If the scheduler noticed, a sender could lose its P meanwhile.
//
//go:nosplit
func WriteNow(fd uintptr, p []byte) (int, syscall.Errno) {
	if len(p) == 0 {
		return 0, 0
	}
	for {
		n, _, errno := syscall.RawSyscall6(syscall.SYS_SENDTO, fd, uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)),
			unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
		switch errno {
		case 0:
			return int(n), 0
		case syscall.EINTR:
		default:
			return 0, errno
		}
	}
}

// growSendBuffer asks the kernel to take that many bytes at once. The kernel doubles the number for its own
// bookkeeping. Above net.core.wmem_max it needs CAP_NET_ADMIN (SO_SNDBUFFORCE). If it is refused, the buffer still
// grows by itself, but later.
func growSendBuffer(fd uintptr, bytes int) {
	if bytes == 0 {
		return
	}
	if unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, bytes) != nil {
		_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, bytes)
	}
}

// bytesReceived is how many bytes have arrived on a connection, and how many of them are unread; zeros if that is
// unknown.
func bytesReceived(fd uintptr) (came, unread int64) {
	info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	n, bad := unix.IoctlGetInt(int(fd), unix.SIOCINQ)
	if err != nil || bad != nil {
		return 0, 0
	}
	return int64(info.Bytes_received), int64(n)
}

// bytesAcked reads tcpi_bytes_acked: how many of our bytes the peer's kernel acknowledged, the SYN and the FIN
// included.
func bytesAcked(fd uintptr) (int64, bool) {
	info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0, false
	}
	return int64(info.Bytes_acked), true
}
