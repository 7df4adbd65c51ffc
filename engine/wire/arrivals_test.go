package wire

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// network is a simulated path to one connection, with a ring beside it. The oracle has the instant of each byte.
type network struct {
	*rand.Rand
	first   uint32 // sequence number of the first byte
	longest int    // segment, bytes
	arrived []int64
	nowNS   int64
	losses  int64
	a       arrivals
}

func simulated(seed uint64) *network {
	n := &network{Rand: rand.New(rand.NewPCG(seed, 34))}
	n.longest = 1 + n.IntN(1+n.IntN(100))
	n.first = n.Uint32()
	if seed%2 == 0 {
		n.first = -n.Uint32N(100) // it wraps soon
	}
	n.a.begin(n.first)
	return n
}

// segment lets bytes come, at an instant of their own. The ring may lose them.
func (n *network) segment(begin, end int, lost bool) {
	n.nowNS += 1 + n.Int64N(1000)
	for i := begin; i < end; i++ {
		n.arrived[i] = min(n.arrived[i], n.nowNS)
	}
	if lost {
		n.losses++
		return
	}
	n.a.add(n.first+uint32(begin), end-begin, n.nowNS)
}

// readable is how many bytes have come without a hole, and when each of them could be read.
func (n *network) readable() (instants []int64) {
	latest := int64(0)
	for _, at := range n.arrived {
		if at == math.MaxInt64 {
			break
		}
		latest = max(latest, at)
		instants = append(instants, latest)
	}
	return instants
}

// answer lets size bytes come in segments: in order or not, several joined, again with other limits, and some lost by
// the ring. They are read meanwhile. It returns how many reads there were, and how many of them the ring explained.
func (n *network) answer(size int, reorders, loses float64) (reads, known int, err error) {
	n.a.losses.Store(n.losses)
	begin := int(n.a.read.Load())
	segments := n.send(size, reorders)
	for len(segments) > 0 || int(n.a.read.Load()) < begin+size {
		segments = n.deliver(segments, begin, reorders, loses)
		if n.IntN(4) > 0 && len(segments) > 0 {
			continue
		}
		ok, err := n.read()
		if err != nil {
			return reads, known, err
		}
		if reads++; ok {
			known++
		}
	}
	return reads, known, nil
}

// send makes segments of the next size bytes, in order or not.
func (n *network) send(size int, reorders float64) (segments []span) {
	begin := len(n.arrived)
	for range size {
		n.arrived = append(n.arrived, math.MaxInt64)
	}
	for at := begin; at < begin+size; {
		end := min(begin+size, at+1+n.IntN(n.longest))
		segments = append(segments, span{int64(at), int64(end)})
		at = end
	}
	for i := range segments {
		if n.Float64() < reorders {
			j := min(len(segments)-1, i+n.IntN(4))
			segments[i], segments[j] = segments[j], segments[i]
		}
	}
	return segments
}

// deliver lets the first of the segments come, if there are any, and perhaps others again, with other limits. begin is
// that of the answer.
func (n *network) deliver(segments []span, begin int, reorders, loses float64) (rest []span) {
	if len(segments) == 0 {
		return nil
	}
	s := segments[0]
	n.segment(int(s.begin), int(s.end), n.Float64() < loses)
	if n.Float64() < reorders {
		from := begin + n.IntN(len(n.arrived)-begin)
		to := min(len(n.arrived), from+1+n.IntN(6))
		n.segment(from, to, n.Float64() < loses)
	}
	return segments[1:]
}

// read reads some of what has come, and compares what the ring says of it with the oracle.
func (n *network) read() (known bool, err error) {
	instants := n.readable()
	from := int(n.a.read.Load())
	if from == len(instants) {
		return true, nil
	}
	size := 1 + n.IntN(len(instants)-from)
	parts, known := n.a.next(nil, size, n.losses)
	at := from
	for _, p := range parts {
		for range p.Bytes {
			if known && instants[at] != p.WallNS {
				return known, fmt.Errorf("byte %d: %d, want %d", at, p.WallNS, instants[at])
			}
			at++
		}
	}
	if known && at != from+size {
		return known, fmt.Errorf("%d bytes explained of %d", at-from, size)
	}
	n.a.read.Add(int64(size))
	return known, nil
}

// TestArrivalsOfEachByte: whatever a network does to segments, each byte has the instant from which it could be read, or
// none. If the ring sees all segments, each has one.
func TestArrivalsOfEachByte(t *testing.T) {
	want := 1_000_000
	if testing.Short() {
		want = 20_000
	}
	total, explained, losing := 0, 0, 0
	for seed := uint64(1); total < want; seed++ {
		n := simulated(seed)
		n.longest = 4
		reorders, loses := n.Float64(), 0.
		if seed%3 == 0 {
			loses = n.Float64() / 4
		}
		for range 4 {
			lostBefore := n.losses
			reads, known, err := n.answer(1+n.IntN(60), reorders, loses)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if loses == 0 && known < reads {
				t.Fatalf("seed %d: %d of %d reads explained, and nothing was lost", seed, known, reads)
			}
			total += reads
			if loses > 0 {
				losing += reads
				explained += known
			}
			if n.losses == lostBefore && loses > 0 && known == 0 {
				t.Fatalf("seed %d: nothing was lost in an answer, and none of its %d reads is explained", seed, reads)
			}
		}
	}
	t.Logf("%d reads, 0 wrong; %d of %d explained where segments were lost", total, explained, losing)
}
