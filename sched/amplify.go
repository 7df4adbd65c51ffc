package sched

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Amplified has the requests of an amplified load, in order of arrival: request i is a copy of request Source[i].
type Amplified struct {
	Source    []int32
	Clone     []int32 // 0 = as recorded
	ArrivalNS []int64 // ascending from 0
}

// Amplify multiplies a load by the factor. Request i arrived at arrivalNS[i], which ascend, in session[i]; sessions are
// numbered from 0. The same seed gives the same result.
//
// It adds clones of the whole load. For a fraction of the factor it adds a clone of that share of the sessions, drawn
// at random. Below 1 it thins the load itself that way. A session is taken whole or not at all, and the gaps within it
// stay the same to the ns.
//
// All sessions of a clone are moved by the same time, so that bursts stay bursts: they are part of a load. Clones are
// moved apart from each other, so that their bursts do not coincide, and by no more than maxShift and 1/shiftShare of
// the span. So the load over minutes keeps its shape. Loads are nested: with a larger factor all these requests come
// as well, from a factor of 1 on at the same instants. A session that would begin before the start or end after the
// end moves, whole, to the other end. So the span stays the same, and neither end has more or less than its share.
func Amplify(arrivalNS []int64, session []int32, factor float64, seed uint64) (*Amplified, error) {
	if err := CheckAmplify(factor, len(arrivalNS)); err != nil {
		return nil, err
	}
	sessions := sessionsOf(arrivalNS, session)
	whole := int(factor)
	a := &Amplified{}
	clones := int(math.Ceil(factor))
	shifts := newShifts(arrivalNS, seed)
	for clone := range clones {
		taken := []bool(nil) // all
		if clone == whole {
			taken = drawn(sessions, factor-float64(whole), clone == 0, seed)
		}
		a.add(arrivalNS, session, sessions, taken, int32(clone), shifts.of(clone))
	}
	a.sort()
	return a, nil
}

// mostClones keeps the number of a clone small enough for one key with a row.
const mostClones = 1 << 20

// CheckAmplify returns why a load of so many requests cannot be multiplied by the factor; nil if it can.
func CheckAmplify(factor float64, requests int) error {
	switch {
	case !(factor > 0) || math.IsInf(factor, 0):
		return fmt.Errorf("a factor of %v; want a number above 0 (2 doubles the load, 0.5 halves it)", factor)
	case factor > mostClones:
		return fmt.Errorf("a factor of %v; %d at most", factor, mostClones)
	case math.Ceil(factor)*float64(requests) > math.MaxInt32:
		return fmt.Errorf("%d requests %v times are more than %d", requests, factor, math.MaxInt32)
	}
	return nil
}

// wholeSession is when a session begins and how long it goes on until its last request arrives.
type wholeSession struct {
	requests      int
	fromNS, forNS int64
}

func sessionsOf(arrivalNS []int64, session []int32) []wholeSession {
	var all []wholeSession
	for i, number := range session {
		for int(number) >= len(all) {
			all = append(all, wholeSession{})
		}
		s := &all[number]
		if s.requests == 0 {
			s.fromNS = arrivalNS[i]
		}
		s.requests++
		s.forNS = arrivalNS[i] - s.fromNS
	}
	return all
}

// The streams make what is drawn here independent of all else that is drawn from the same seed.
const (
	thinStream  = 3
	shiftStream = 4
)

// golden is the golden ratio less 1. Its multiples modulo 1 are as even as those of any number, however many there
// are: of n of them neighbours are between 0.38/n and 1.9/n apart (V. T. Sós, 1958, on three distances).
const golden = math.Phi - 1

// modulo1 returns the part of x that is behind the point.
func modulo1(x float64) float64 { return x - math.Floor(x) }

// drawn takes a share of the sessions, each as likely as any other. It takes about that share of the sessions of each
// length, so that they have about that share of the requests, too. A larger share has all these sessions as well. A
// load has at least one session.
func drawn(sessions []wholeSession, share float64, atLeastOne bool, seed uint64) []bool {
	rng := rand.NewPCG(seed, thinStream)
	order := shuffled(len(sessions), rng)
	slices.SortStableFunc(order, func(a, b int32) int { return sessions[b].requests - sessions[a].requests })
	from := uniform(rng)
	rank := make([]float64, len(sessions))
	taken := make([]bool, len(sessions))
	for i, number := range order {
		rank[number] = modulo1(from + float64(i)*golden)
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Compare(rank[a], rank[b]) })
	n := int(uniform(rng) + share*float64(len(sessions)))
	if atLeastOne {
		n = max(1, n)
	}
	for _, number := range order[:n] {
		taken[number] = true
	}
	return taken
}

// uniform returns a number in [0, 1).
func uniform(rng *rand.PCG) float64 { return float64(rng.Uint64()>>11) / (1 << 53) }

// shuffled returns the numbers below n in random order. It uses the generator's bits itself: the order must not
// change with Go's releases.
func shuffled(n int, rng *rand.PCG) []int32 {
	order := make([]int32, n)
	for i := range order {
		j := int(rng.Uint64() % uint64(i+1)) // with n below 2^31 the bias is below 2^-33
		order[i] = order[j]
		order[j] = int32(i)
	}
	return order
}

// Clones are moved by at most maxShift, which nobody sees in a plot of an hour, and by at most 1/shiftShare of the
// span. The conversation trace of Mooncake has up to 28 requests at one instant and nothing for the next 3 s.
const (
	maxShift   = 30 * time.Second
	shiftShare = 20
)

// shiftGrid is what shifts are rounded to, as instants in files are, if the span is long enough.
const shiftGrid = int64(time.Microsecond)

// shifts spreads clones evenly around the recorded load, some earlier and some later. How far one is moved does not
// depend on how many there are.
type shifts struct{ mostNS float64 }

func newShifts(arrivalNS []int64, seed uint64) shifts {
	most := float64(maxShift)
	if n := len(arrivalNS); n > 0 {
		most = min(most, float64(arrivalNS[n-1])/shiftShare)
	}
	return shifts{most * (1 - uniform(rand.NewPCG(seed, shiftStream))/4)}
}

// of returns by how much a clone is moved, in ns.
func (s shifts) of(clone int) int64 {
	ns := int64(math.Round(s.mostNS * (2*modulo1(0.5+float64(clone)*golden) - 1)))
	if s.mostNS > float64(100*shiftGrid)*float64(clone) {
		ns -= ns % shiftGrid
	}
	return ns
}

// add appends the taken sessions of a clone, or all if taken is nil.
func (a *Amplified) add(
	arrivalNS []int64,
	session []int32,
	sessions []wholeSession,
	taken []bool,
	clone int32,
	shiftNS int64,
) {
	for i, at := range arrivalNS {
		if taken != nil && !taken[session[i]] {
			continue
		}
		s := &sessions[session[i]]
		room := arrivalNS[len(arrivalNS)-1] - s.forNS
		a.Source, a.Clone = append(a.Source, int32(i)), append(a.Clone, clone)
		a.ArrivalNS = append(a.ArrivalNS, at-s.fromNS+wrapped(s.fromNS+shiftNS, room))
	}
}

// wrapped returns at if it lies in [0, room], else its place from the other end.
func wrapped(at, room int64) int64 {
	switch {
	case at >= 0 && at <= room:
		return at
	case room == 0:
		return 0
	}
	at %= room
	if at < 0 {
		at += room
	}
	return at
}

// sort orders the requests by arrival, equal ones as they were recorded, and lets the first arrive at 0.
func (a *Amplified) sort() {
	order := make([]int32, len(a.Source))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(x, y int32) int {
		return cmp.Or(
			cmp.Compare(a.ArrivalNS[x], a.ArrivalNS[y]),
			cmp.Compare(a.Source[x], a.Source[y]),
			cmp.Compare(a.Clone[x], a.Clone[y]),
		)
	})
	out := Amplified{make([]int32, len(order)), make([]int32, len(order)), make([]int64, len(order))}
	for i, from := range order {
		out.Source[i] = a.Source[from]
		out.Clone[i] = a.Clone[from]
		out.ArrivalNS[i] = a.ArrivalNS[from] - a.ArrivalNS[order[0]]
	}
	*a = out
}
