package wire

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/fastreplay/fastreplay/engine/internal/gather"
)

// atOnce is how many pieces one system call writes. The kernel takes up to 1,024 (IOV_MAX). The prompts of 710 of
// Weka's traces, each in pieces of blocks that are held once, have 40 at most; more go in several calls.
const atOnce = 64

// Gatherer is the room that a gathered write needs: 1 kB. One thread may use it at a time. The zero value is ready.
type Gatherer struct {
	head unix.Msghdr
	iov  [atOnce]unix.Iovec
}

// WriteNow is WriteNow for pieces: one sendmsg(2), or one for each 64 pieces. It returns how many bytes the kernel
// took, and an error only if it took none.
//
//go:nosplit
func (g *Gatherer) WriteNow(fd uintptr, l *gather.List) (n int, errno syscall.Errno) {
	count := l.Pieces()
	if count == 1 {
		return WriteNow(fd, l.Piece(0))
	}
	for k := 0; k < count; {
		flags := unix.MSG_DONTWAIT | unix.MSG_NOSIGNAL
		used := 0
		size := 0
		for ; k < count && used < atOnce; k++ {
			if p := l.Piece(k); len(p) > 0 {
				g.iov[used].Base = &p[0]
				g.iov[used].SetLen(len(p))
				used, size = used+1, size+len(p)
			}
		}
		if k < count {
			flags |= unix.MSG_MORE
		}
		g.head.Iov = &g.iov[0]
		g.head.SetIovlen(used)
		wrote, failed := g.send(fd, flags)
		n += wrote
		if wrote < size {
			if n > 0 {
				failed = 0
			}
			return n, failed
		}
	}
	return n, 0
}

// send is sendmsg(2), a raw system call as in WriteNow.
//
//go:nosplit
func (g *Gatherer) send(fd uintptr, flags int) (int, syscall.Errno) {
	for {
		n, _, errno := syscall.RawSyscall(syscall.SYS_SENDMSG, fd, uintptr(unsafe.Pointer(&g.head)), uintptr(flags))
		switch errno {
		case 0:
			return int(n), 0
		case syscall.EINTR:
		default:
			return 0, errno
		}
	}
}
