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

// datagram of a clock comparison, as in NTP: a question leaves at t1 and arrives at t2; the answer leaves at t3, tells t2 and t3, and
// arrives at t4.
type datagram struct {
	Barrier uint64 // which strangers do not know
	Number  uint32 // of the question
	T2, T3  int64  // of the answer
}

var datagramBytes = binary.Size(datagram{})

// clock is this machine's wall clock since the agreed start, as if nobody set it: it goes on as the monotonic clock does. Shard 0
// answers for its clock; the others ask. One goroutine uses it.
type clock struct {
	*wire.Datagrams
	*sched.Monotonic
	barrier uint64
	shiftNS int64          // by which a test puts it ahead
	to      netip.AddrPort // of shard 0
	number  uint32
}

// begin sets the clock's zero.
func (c *clock) begin(zero time.Time) {
	c.Monotonic = sched.NewMonotonic()
	c.StartAtWall(zero.Add(-time.Duration(c.shiftNS)))
}

func (c *clock) send(d datagram, to netip.AddrPort) error {
	d.Barrier = c.barrier
	b, err := binary.Append(nil, binary.LittleEndian, d)
	if err == nil {
		_, err = c.WriteToUDPAddrPort(b, to)
	}
	return err
}

// receive waits for a datagram of this barrier. If the thread loses its core between the readings of the two clocks, atNS is too late, and
// the error of the offset that much larger.
func (c *clock) receive(end time.Time) (d datagram, from netip.AddrPort, atNS int64, err error) {
	b := make([]byte, datagramBytes+1)
	for {
		n, from, stampNS, err := c.Receive(b, end)
		wallNS := time.Now().UnixNano()
		atNS = c.Now() - (wallNS - stampNS)
		if err != nil && (errors.Is(err, net.ErrClosed) || !end.IsZero() && !time.Now().Before(end)) {
			return d, from, 0, err
		}
		if _, _ = binary.Decode(b, binary.LittleEndian, &d); n == datagramBytes && d.Barrier == c.barrier {
			return d, from, atNS, nil
		}
	}
}

// serve answers until the socket is closed.
func (c *clock) serve() {
	for {
		d, from, t2, err := c.receive(time.Time{})
		if err != nil {
			return
		}
		_ = c.send(datagram{Number: d.Number, T2: t2, T3: c.Now()}, from)
	}
}

const (
	answerAfter = 200 * time.Millisecond // at most
	between     = 3 * time.Millisecond   // from one question to the next
	// readingNS is the error of converting two stamps, and of two clocks' zeros, which the machine's clocks allow to within 50 ns each.
	readingNS = 200
)

var errClockSet = errors.New("the machine's clock was set just now")

// ask compares the clocks once. The error of the offset is half of the time on both ways: how they share it is unknown.
func (c *clock) ask() (o Offset, err error) {
	c.number++
	t1 := c.Now()
	if err = c.send(datagram{Number: c.number}, c.to); err != nil {
		return o, err
	}
	for end := time.Now().Add(answerAfter); ; {
		d, _, t4, err := c.receive(end)
		switch {
		case err != nil:
			return o, fmt.Errorf("no answer within %v", answerAfter)
		case d.Number == c.number && t4-t1 < d.T3-d.T2:
			return o, errClockSet
		case d.Number == c.number:
			return Offset{AtNS: t4, OffsetNS: (t1 - d.T2 + t4 - d.T3) / 2, ErrorNS: (t4-t1-(d.T3-d.T2))/2 + readingNS}, nil
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
