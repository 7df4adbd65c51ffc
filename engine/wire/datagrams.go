package wire

import (
	"net"
	"net/netip"
	"syscall"
	"time"
)

// Datagrams is a UDP socket that stamps what leaves and arrives by the wall clock. The kernel makes the stamps if it can. Otherwise this
// process does, and then a departure's stamp is too early and an arrival's too late, never the other way round.
type Datagrams struct {
	*net.UDPConn
	raw     syscall.RawConn
	control [192]byte // a stamp takes 64 bytes
	stamps  departures
}

// ListenDatagrams opens a socket for IPv4 and IPv6, on a free port of all addresses. One goroutine may use it.
func ListenDatagrams() (*Datagrams, error) {
	conn, err := net.ListenUDP("udp", nil)
	if err != nil {
		return nil, err
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return &Datagrams{UDPConn: conn, raw: raw, stamps: stampDatagrams(raw)}, nil
}

// Send sends b and returns when it left, ns of the wall clock.
func (d *Datagrams) Send(b []byte, to netip.AddrPort) (wallNS int64, err error) {
	before := time.Now().UnixNano()
	if _, err = d.WriteToUDPAddrPort(b, to); err != nil {
		return 0, err
	}
	return max(before, d.stamps.last(d.raw)), nil
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
