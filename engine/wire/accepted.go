package wire

import (
	"cmp"
	"net"
	"sync/atomic"
)

// Accepted is a connection that a server has accepted, whose reads the kernel stamps. It knows when the first byte came
// after the server had last written. That is when a request came, if it was not sent before the answer to the one
// before. No delay of the server's own is in that. Reads belong to one goroutine at a time.
type Accepted struct {
	*net.TCPConn
	in    *stampedReader
	first atomic.Int64 // 0 = none has come
}

// unstamped is the instant of a first byte that the kernel has not stamped. It does so from some milliseconds after the
// first socket has asked for stamps. A later byte's stamp would not be that of the first.
const unstamped = -1

// Stamped returns a server's listener whose connections are of type [Accepted], unless the system has no stamps for
// them.
func Stamped(l net.Listener) net.Listener { return stampedListener{l} }

type stampedListener struct{ net.Listener }

// Accept implements net.Listener.
func (l stampedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	tcp, ok := c.(*net.TCPConn)
	if err != nil || !ok {
		return c, err
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return c, nil
	}
	in, err := newStampedReader(raw, Stamps{Receive: true})
	if err != nil {
		return c, nil
	}
	return &Accepted{TCPConn: tcp, in: in}, nil
}

// Read implements io.Reader.
func (a *Accepted) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	n, err := a.in.Read(p)
	if n > 0 {
		a.first.CompareAndSwap(0, cmp.Or(a.in.wallNS, unstamped))
	}
	return n, err
}

// Write implements io.Writer.
func (a *Accepted) Write(p []byte) (int, error) {
	a.first.Store(0)
	return a.TCPConn.Write(p)
}

// FirstNS is when the first byte came since the latest Write, by the wall clock; 0 = unknown, or none has come. Any
// goroutine may call it.
func (a *Accepted) FirstNS() int64 { return max(0, a.first.Load()) }
