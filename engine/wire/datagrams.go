package wire

import (
	"net"
	"net/netip"
	"time"
)

// Datagrams is a UDP socket that knows when a datagram arrived by the wall clock. The kernel stamps it if it can. Otherwise this process
// does, and then the stamp is too late, never too early.
type Datagrams struct {
	*net.UDPConn
	control [192]byte // a stamp takes 64 bytes
}

// ListenDatagrams opens a socket for IPv4 and IPv6, on a free port of all addresses. One goroutine may use it.
func ListenDatagrams() (*Datagrams, error) {
	conn, err := net.ListenUDP("udp", nil)
	if err != nil {
		return nil, err
	}
	stampArrivals(conn)
	return &Datagrams{UDPConn: conn}, nil
}

// Receive waits for a datagram, until end if that is not zero, and returns when it arrived, ns of the wall clock.
func (d *Datagrams) Receive(b []byte, end time.Time) (n int, from netip.AddrPort, wallNS int64, err error) {
	if err = d.SetReadDeadline(end); err != nil {
		return 0, from, 0, err
	}
	n, room, _, from, err := d.ReadMsgUDPAddrPort(b, d.control[:])
	if wallNS = arrival(d.control[:room]); wallNS == 0 {
		wallNS = time.Now().UnixNano()
	}
	return n, from, wallNS, err
}
