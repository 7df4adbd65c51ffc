package mockllm

import (
	"io"
	"net"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// kernelReader reads a TCP connection together with the kernel's receive stamps (SO_TIMESTAMPNS, CLOCK_REALTIME).
type kernelReader struct {
	raw    syscall.RawConn
	try    func(fd uintptr) bool // bound once
	into   [][]byte
	oob    [64]byte // one timestamp message takes 32 bytes
	n, got int      // bytes of data, of oob
	err    error
}

// newKernelReader returns nil where the kernel does not stamp.
func newKernelReader(tcp *net.TCPConn) *kernelReader {
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil
	}
	var refused error
	err = raw.Control(
		func(fd uintptr) { refused = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1) },
	)
	if err != nil || refused != nil {
		return nil
	}
	k := &kernelReader{raw: raw, into: make([][]byte, 1)}
	k.try = func(fd uintptr) bool {
		k.n, k.got, _, _, k.err = unix.RecvmsgBuffers(int(fd), k.into, k.oob[:], 0)
		return k.err != unix.EAGAIN && k.err != unix.EINTR
	}
	return k
}

// read is net.Conn's Read with the wall-clock time, ns, at which the last of the bytes arrived; 0 where unknown.
func (k *kernelReader) read(p []byte) (n int, wallNS int64, err error) {
	k.into[0] = p
	err = k.raw.Read(k.try)
	k.into[0] = nil
	switch {
	case err != nil:
		return 0, 0, err
	case k.err != nil:
		return 0, 0, os.NewSyscallError("recvmsg", k.err)
	case k.n == 0:
		return 0, 0, io.EOF
	}
	return k.n, stampIn(k.oob[:k.got]), nil
}

// stampIn finds the timestamp among control messages; 0 if there is none.
func stampIn(oob []byte) int64 {
	for len(oob) >= unix.SizeofCmsghdr {
		h, data, rest, err := unix.ParseOneSocketControlMessage(oob)
		switch {
		case err != nil:
			return 0
		case h.Level == unix.SOL_SOCKET && h.Type == unix.SO_TIMESTAMPNS &&
			len(data) >= int(unsafe.Sizeof(unix.Timespec{})):
			return (*unix.Timespec)(unsafe.Pointer(&data[0])).Nano()
		}
		oob = rest
	}
	return 0
}

// finePause blocks the thread for a short time, to about 0.1 ms. The runtime's own timers wake an idle process up to
// a millisecond late (epoll counts milliseconds).
func finePause(d time.Duration) {
	ts := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&ts, nil) // cut short by a signal, the pacer looks again
}
