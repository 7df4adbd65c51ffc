package engine

import (
	"encoding/binary"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// laneConn is a connection of the replay: its generation and this process's descriptor of it. A lane reads it as one word.
type laneConn struct{ word atomic.Uint64 } // generation<<32 | descriptor; 0 = none

// takeConnections keeps the table, and ends the process when the replay is gone. It allocates nothing: the collector is
// off for good.
func (l *laneServer) takeConnections() {
	var in linkReader
	for in.next() {
		key := binary.LittleEndian.Uint64(in.message[1:])
		c := &l.table[uint32(key)]
		if old := c.word.Swap(0); old != 0 {
			_ = unix.Close(int(uint32(old)))
		}
		if fd, ok := in.right(); ok && in.message[0] == linkOpen {
			c.word.Store(key>>32<<32 | uint64(fd))
		}
		l.board.taken.Add(1)
	}
	os.Exit(0)
}

// linkReader reads messages and the descriptors that come with them.
type linkReader struct {
	message linkMessage
	rights  struct { // room for one
		head unix.Cmsghdr
		fd   int32
		_    int32
	}
	head unix.Msghdr
	iov  unix.Iovec
}

// next waits for a message; false: the other side is gone.
func (r *linkReader) next() bool {
	r.iov.Base = &r.message[0]
	r.iov.SetLen(len(r.message))
	for {
		r.rights.head = unix.Cmsghdr{}
		r.head = unix.Msghdr{Iov: &r.iov, Iovlen: 1, Control: (*byte)(unsafe.Pointer(&r.rights))}
		r.head.SetControllen(int(unsafe.Sizeof(r.rights)))
		n, _, errno := unix.Syscall(unix.SYS_RECVMSG, laneLinkFD, uintptr(unsafe.Pointer(&r.head)), unix.MSG_CMSG_CLOEXEC)
		if errno != unix.EINTR {
			return errno == 0 && int(n) == len(r.message)
		}
	}
}

// right is the descriptor that came with the message.
func (r *linkReader) right() (fd int32, ok bool) {
	h := &r.rights.head
	return r.rights.fd, h.Level == unix.SOL_SOCKET && h.Type == unix.SCM_RIGHTS && int(h.Len) == unix.CmsgLen(4)
}
