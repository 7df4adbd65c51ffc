package wire

import (
	"errors"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// uring is an io_uring of calls that do not wait: each has ended when the kernel has taken it.
type uring struct {
	fd           int
	queues, sqes []byte
	calls        *[MostInBatch]uringCall
	results      *[2 * MostInBatch]uringResult
	tail, head   *uint32 // of the calls, of the results
}

// What follows is as in the kernel's include/uapi/linux/io_uring.h.
const (
	opRecvMsg     = 10
	offSQEs       = 0x10000000
	enterGetsRest = 1 // IORING_ENTER_GETEVENTS
	// featsNeeded are IORING_FEAT_SINGLE_MMAP and IORING_FEAT_NATIVE_WORKERS. Kernels without the latter, before 5.12,
	// may refuse a read that asks for control messages (5.4 to 5.9: EINVAL; net/socket.c, __sys_recvmsg_sock).
	featsNeeded = 1<<0 | 1<<9
)

// uringCall is struct io_uring_sqe.
type uringCall struct {
	op, _    uint8
	_        uint16
	fd       int32
	_        uint64
	addr     uint64
	length   uint32
	msgFlags uint32
	key      uint64
	_        [3]uint64
}

// uringResult is struct io_uring_cqe.
type uringResult struct {
	key   uint64
	value int32 // below 0: an error
	_     uint32
}

// uringParams is struct io_uring_params.
type uringParams struct {
	calls, results, _, _, _, features, _ uint32

	_  [3]uint32
	sq struct{ head, tail, mask, entries, flags, dropped, array, _, _, _ uint32 }
	cq struct{ head, tail, mask, entries, overflow, results, flags, _, _, _ uint32 }
}

// newUring returns nil if the kernel has none, or grants none: a container's profile may forbid it.
func newUring() *uring {
	var p uringParams
	made, _, errno := syscall.RawSyscall(unix.SYS_IO_URING_SETUP, MostInBatch, uintptr(unsafe.Pointer(&p)), 0)
	if errno != 0 {
		return nil
	}
	u := &uring{fd: int(made)}
	const access, populated = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_SHARED | unix.MAP_POPULATE
	size := max(int(p.sq.array)+4*MostInBatch, int(p.cq.results)+int(unsafe.Sizeof(*u.results)))
	var err, failed error
	u.queues, err = unix.Mmap(u.fd, 0, size, access, populated)
	u.sqes, failed = unix.Mmap(u.fd, offSQEs, int(unsafe.Sizeof(*u.calls)), access, populated)
	_, _, errno = syscall.RawSyscall6(unix.SYS_IO_URING_ENTER, made, 0, 0, 0, 0, 0) // it may be forbidden by itself
	known := p.features&featsNeeded == featsNeeded && p.results == 2*MostInBatch
	if errors.Join(err, failed) != nil || errno != 0 || !known {
		u.close()
		return nil
	}
	u.calls = (*[MostInBatch]uringCall)(unsafe.Pointer(&u.sqes[0]))
	u.results = (*[2 * MostInBatch]uringResult)(unsafe.Pointer(&u.queues[p.cq.results]))
	u.tail = (*uint32)(unsafe.Pointer(&u.queues[p.sq.tail]))
	u.head = (*uint32)(unsafe.Pointer(&u.queues[p.cq.head]))
	order := (*[MostInBatch]uint32)(unsafe.Pointer(&u.queues[p.sq.array]))
	for i := range order {
		order[i] = uint32(i)
	}
	return u
}

func (u *uring) close() {
	_ = unix.Munmap(u.queues) // fails if it was not mapped
	_ = unix.Munmap(u.sqes)
	_ = unix.Close(u.fd)
}

// read reads the sockets, at most MostInBatch, whose descriptors are guarded.
func (u *uring) read(sockets []*Socket) {
	tail := *u.tail
	for k, s := range sockets {
		s.in.msg.SetControllen(s.in.room)
		u.calls[(tail+uint32(k))%MostInBatch] = uringCall{
			op:       opRecvMsg,
			fd:       int32(s.tcp.(*epollConn).fd),
			addr:     uint64(uintptr(unsafe.Pointer(&s.in.msg))), // the socket keeps it where it is
			length:   1,
			msgFlags: unix.MSG_DONTWAIT,
			key:      uint64(k),
		}
	}
	n := uintptr(len(sockets))
	atomic.StoreUint32(u.tail, tail+uint32(n))
	for taken := uintptr(0); taken < n; {
		more, _, errno := syscall.RawSyscall6(unix.SYS_IO_URING_ENTER, uintptr(u.fd), n-taken, n, enterGetsRest, 0, 0)
		switch errno {
		case 0:
			taken += more
		case syscall.EINTR, syscall.EAGAIN:
		default:
			panic("BUG: io_uring_enter: " + errno.Error())
		}
	}
	head := *u.head
	for range n {
		r := &u.results[head%(2*MostInBatch)]
		sockets[r.key].in.took(max(0, int(r.value)), syscall.Errno(max(0, -r.value)))
		head++
	}
	atomic.StoreUint32(u.head, head)
}
