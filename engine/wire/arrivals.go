package wire

import (
	"slices"
	"sync/atomic"
)

// Arrival is when bytes of a read came.
type Arrival struct {
	Bytes  int
	WallNS int64 // wall clock
}

// arrivals knows when each byte of one connection could first be read, by the segments that came. A byte that came
// before an earlier one counts from when that one had come. The lock of its Ring guards it, but for read.
type arrivals struct {
	flow  flow
	known bool  // the sequence number of the first byte is
	first int64 // that number
	came  int64 // how many bytes have come without a hole
	// what came and was not read, in order; each entry up to its end
	stretches []stretch
	early     []span // beyond a hole, ascending and apart
	read      atomic.Int64
	losses    atomic.Int64 // of the ring, when the current answer began at the latest
}

// flow is a connection as the segments that come on it name it.
type flow struct {
	from, to         [16]byte // addresses; of IPv4 the first four bytes
	fromPort, toPort uint16
}

type stretch struct{ end, wallNS int64 }

type span struct{ begin, end int64 }

const (
	// mostAhead is how far beyond a hole a segment may be: more than any receive buffer has.
	mostAhead = 1 << 28
	// mostEarly and mostStretches bound what a peer can make us keep. A receive buffer of 6 MB has 8,000 segments.
	mostEarly     = 256
	mostStretches = 1 << 14
)

// begin notes the sequence number of the first byte.
func (a *arrivals) begin(first uint32) {
	a.known = true
	a.first = int64(first)
}

// add notes a segment of n bytes. Segments come in the order of their instants.
func (a *arrivals) add(sequence uint32, n int, wallNS int64) {
	a.forget()
	// The number counts modulo 2³². The nearest place to what has come is meant.
	begin := a.came + int64(int32(sequence-uint32(a.first+a.came)))
	s := span{begin, begin + int64(n)}
	switch {
	case s.end <= a.came || s.begin > a.came+mostAhead:
	case s.begin > a.came:
		a.keepEarly(s)
	default:
		a.came = s.end
		for len(a.early) > 0 && a.early[0].begin <= a.came {
			a.came = max(a.came, a.early[0].end)
			a.early = slices.Delete(a.early, 0, 1)
		}
		if a.known = a.known && len(a.stretches) < mostStretches; a.known {
			a.stretches = append(a.stretches, stretch{a.came, wallNS})
		}
	}
}

// keepEarly keeps what is beyond a hole.
func (a *arrivals) keepEarly(s span) {
	from, _ := slices.BinarySearchFunc(a.early, s.begin, func(e span, at int64) int { return int(e.end - at) })
	to := from
	for ; to < len(a.early) && a.early[to].begin <= s.end; to++ {
		s.begin = min(s.begin, a.early[to].begin)
		s.end = max(s.end, a.early[to].end)
	}
	if to > from || len(a.early) < mostEarly {
		a.early = slices.Replace(a.early, from, to, s)
	}
}

// forget drops what was read. If more was read than is known to have come, segments were missed: then nothing is known
// of what is beyond.
func (a *arrivals) forget() {
	read := a.read.Load()
	if a.came < read {
		a.came = read
		a.early = a.early[:0]
	}
	old := 0
	for old < len(a.stretches) && a.stretches[old].end <= read {
		old++
	}
	a.stretches = slices.Delete(a.stretches, 0, old)
}

// next appends to dst when each of the next n bytes came. False: that is not known. losses is how often the ring has
// lost segments until now. If it has during an answer, what comes after may be a copy of what was lost.
func (a *arrivals) next(dst []Arrival, n int, losses int64) ([]Arrival, bool) {
	a.forget()
	from := a.read.Load()
	to := from + int64(n)
	if !a.known || a.came < to || a.losses.Load() != losses {
		return dst, false
	}
	for _, s := range a.stretches {
		end := min(s.end, to)
		dst = append(dst, Arrival{int(end - from), s.wallNS})
		if from = end; from == to {
			break
		}
	}
	return dst, from == to
}
