package shard

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/fastreplay/fastreplay/engine/wire"
	"github.com/fastreplay/fastreplay/sched"
)

// clockShift is how far this process's clock is ahead of the machine's, ns. Only tests set it: see clockshift.go.
var clockShift int64

// datagrams of a clock comparison, as in PTP: a question leaves at t1 and arrives at t2; the answer leaves at t3 and arrives at t4. The
// answer tells t2. When it has left, t3 is known and follows.
const (
	question = iota
	answer
	followUp
)

// datagram has the barrier's number, which strangers do not know, and an instant of shard 0.
type datagram struct {
	barrier uint64
	atNS    int64
	number  uint32 // of the question
	kind    byte
}

const datagramBytes = 21

func (d datagram) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, d.barrier)
	b = binary.LittleEndian.AppendUint64(b, uint64(d.atNS))
	return append(binary.LittleEndian.AppendUint32(b, d.number), d.kind)
}

// clock is this machine's wall clock since the agreed start, as if nobody set it: it goes on as the monotonic clock does. Shard 0
// answers for its clock; the others ask. One goroutine uses it.
type clock struct {
	*wire.Datagrams
	barrier uint64
	shiftNS int64
	wall    *sched.Wall
	sampled time.Time      // when the machine's clocks were compared last
	to      netip.AddrPort // of shard 0
	number  uint32
	b       [datagramBytes + 1]byte
}

// begin sets the clock's zero.
func (c *clock) begin(zero time.Time) {
	mono := sched.NewMonotonic()
	mono.StartAtWall(zero)
	c.wall = sched.NewWall(mono)
}

// at converts a stamp; false if the wall clock was just set.
func (c *clock) at(stampNS int64) (int64, bool) {
	if time.Since(c.sampled) > time.Second {
		c.wall.Sample()
		c.sampled = time.Now()
	}
	at, _, ok := c.wall.At(stampNS)
	return at + c.shiftNS, ok
}

// receive waits for a datagram of this barrier.
func (c *clock) receive(end time.Time) (d datagram, from netip.AddrPort, stampNS int64, err error) {
	for {
		n, from, stampNS, err := c.Receive(c.b[:], end)
		if err != nil && (errors.Is(err, net.ErrClosed) || !end.IsZero() && !time.Now().Before(end)) {
			return d, from, 0, err
		}
		if b := c.b[:]; n == datagramBytes && binary.LittleEndian.Uint64(b) == c.barrier {
			return datagram{c.barrier, int64(binary.LittleEndian.Uint64(b[8:])), binary.LittleEndian.Uint32(b[16:]), b[20]}, from, stampNS, nil
		}
	}
}

// serve answers until the socket is closed.
func (c *clock) serve() {
	for {
		d, from, arrived, err := c.receive(time.Time{})
		if err != nil {
			return
		}
		t2, ok := c.at(arrived)
		left, err := c.Send(datagram{c.barrier, t2, d.number, answer}.append(c.b[:0]), from)
		if t3, same := c.at(left); ok && same && err == nil {
			_, _ = c.Send(datagram{c.barrier, t3, d.number, followUp}.append(c.b[:0]), from)
		}
	}
}

const (
	answerAfter = 200 * time.Millisecond // at most
	between     = 3 * time.Millisecond   // from one question to the next
	// readingNS is the error of converting four stamps, which the machine's clocks allow to within 50 ns each.
	readingNS = 200
)

var errClockSet = errors.New("the machine's clock was set just now")

// ask compares the clocks once. The error of the offset is half of the time on both ways: how they share it is unknown.
func (c *clock) ask() (o Offset, err error) {
	c.number++
	left, err := c.Send(datagram{c.barrier, 0, c.number, question}.append(c.b[:0]), c.to)
	if err != nil {
		return o, err
	}
	t1, ok := c.at(left)
	var t2, t4 int64
	for end := time.Now().Add(answerAfter); ; {
		d, _, arrived, err := c.receive(end)
		switch {
		case err != nil:
			return o, fmt.Errorf("no answer within %v", answerAfter)
		case d.number == c.number && d.kind == answer:
			at, same := c.at(arrived)
			t2, t4, ok = d.atNS, at, ok && same
		case d.number == c.number && d.kind == followUp && t4 != 0:
			t3 := d.atNS
			if t4-t1 < t3-t2 || !ok {
				return o, errClockSet
			}
			return Offset{AtNS: t4, OffsetNS: (t1 - t2 + t4 - t3) / 2, ErrorNS: (t4-t1-(t3-t2))/2 + readingNS}, nil
		}
	}
}

// compare asks n times. The answer that took the shortest way counts. It gives up if more failed than a quarter of those to come.
func (c *clock) compare(n int) (best Offset, err error) {
	for failures := 0; n > 0 && failures <= n/4; n-- {
		o, failed := c.ask()
		if failed != nil {
			failures, err = failures+1, failed
		} else if best.ErrorNS == 0 || o.ErrorNS < best.ErrorNS {
			best = o
		}
		time.Sleep(between)
	}
	if best.ErrorNS > 0 {
		return best, nil
	}
	return best, err
}

// find chooses the address of shard 0 that answers soonest, and compares the clocks.
func (c *clock) find(addresses []netip.AddrPort) (best Offset, err error) {
	var nearest netip.AddrPort
	for _, c.to = range addresses {
		o, failed := c.compare(8)
		if failed != nil {
			err = failed
		} else if !nearest.IsValid() || o.ErrorNS < best.ErrorNS {
			nearest, best = c.to, o
		}
	}
	if c.to = nearest; !nearest.IsValid() {
		return best, fmt.Errorf("shard 0 does not answer by UDP at %v: %w", addresses, err)
	}
	return c.compare(40)
}

// ownAddresses are where other shards may reach a socket of this machine.
func ownAddresses(of net.Addr) (list []netip.AddrPort) {
	all, _ := net.InterfaceAddrs()
	for _, a := range all {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil && !prefix.Addr().IsLinkLocalUnicast() {
			list = append(list, netip.AddrPortFrom(prefix.Addr(), uint16(of.(*net.UDPAddr).Port)))
		}
	}
	return list
}
