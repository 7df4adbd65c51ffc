package wire

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// departures has the kernel's stamps of what a Datagrams sent.
type departures struct{ queue *errorQueue }

func stampDatagrams(raw syscall.RawConn) departures {
	_ = raw.Control(func(fd uintptr) { // if it is refused, there are no stamps
		_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPING, stampReceived|unix.SOF_TIMESTAMPING_TX_SOFTWARE|unix.SOF_TIMESTAMPING_OPT_TSONLY)
	})
	return departures{new(errorQueue)}
}

// last returns the last stamp; 0 if there is none. It is of the datagram that was just sent, or, if that still waits in a queue of the
// kernel, of an earlier one.
func (d departures) last(raw syscall.RawConn) (wallNS int64) {
	_ = raw.Control(d.queue.fetchAll)
	for _, s := range d.queue.got {
		wallNS = max(wallNS, s.WallNS)
	}
	d.queue.got = d.queue.got[:0]
	return wallNS
}

func arrival(control []byte) int64 {
	wallNS, _ := parseStamp(control)
	return wallNS
}
