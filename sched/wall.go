package sched

import (
	"math"
	"sync"
	"sync/atomic"
)

// PairClock is a Clock that can be read together with the wall clock.
type PairClock interface {
	Clock
	// Pair reads the clock and the wall clock (CLOCK_REALTIME, ns since 1970), tens of ns apart.
	Pair() (nowNS, wallNS int64)
}

// Wall converts wall-clock instants of the kernel (it stamps packets by CLOCK_REALTIME) to a run's clock. Linux slews
// both clocks alike, so their difference is constant but for steps (settimeofday, leap seconds). The pair of readings
// with the narrowest bracket since the last step is the conversion: interpolating between pairs would only add their
// noise. Each Reading compares the clocks again, so that the first stamp after a step shows it. From there to the next
// Sample, no stamp is converted. Sample belongs to one goroutine; the rest is safe for concurrent use and allocates
// nothing.
type Wall struct {
	clock PairClock
	epoch atomic.Pointer[epoch]

	mu      sync.Mutex // of what Steps returns
	steps   int64
	largest int64
}

// epoch is a stretch of time without a step of the wall clock.
type epoch struct {
	offsetNS int64 // wall clock − run clock
	widthNS  int64 // of the bracket around the reading: the offset is exact to half of it
	fromNS   int64 // wall clock; a stamp before it may be from before the step
}

const (
	// wallTolerance is how far two readings of an undisturbed pair may disagree. The clocks are read 30 ns apart; an
	// interruption of a virtual machine between them lasts microseconds.
	wallTolerance = 10_000
	// wallRetries is how many readings distinguish an interruption, which passes, from a step, which stays.
	wallRetries = 3
	// wallRounds is how many readings are bracketed; the narrowest is kept: 50–100 ns wide on an idle machine.
	wallRounds = 16
)

// NewWall returns a converter to clock, sampled now. The clock's zero may not move afterwards.
func NewWall(clock PairClock) *Wall {
	w := &Wall{clock: clock}
	e := w.measure()
	e.fromNS = math.MinInt64
	w.epoch.Store(&e)
	return w
}

// measure reads the offset in the narrowest of several brackets.
func (w *Wall) measure() epoch {
	best := epoch{widthNS: math.MaxInt64}
	for range wallRounds {
		before := w.clock.Now()
		_, wall := w.clock.Pair()
		width := w.clock.Now() - before
		if width < best.widthNS {
			best = epoch{
				offsetNS: wall - before - width/2,
				widthNS:  width,
				fromNS:   wall,
			}
		}
	}
	return best
}

// Sample compares the clocks; call it once a second. It reports the size of a step of the wall clock since the last
// Sample in ns, 0 if there was none.
func (w *Wall) Sample() (stepNS int64) {
	last := w.epoch.Load()
	e := w.measure()
	moved := e.offsetNS - last.offsetNS
	switch {
	case max(moved, -moved) > max(wallTolerance, (e.widthNS+last.widthNS)/2):
		w.mu.Lock()
		w.steps++
		if max(moved, -moved) > max(w.largest, -w.largest) {
			w.largest = moved
		}
		w.mu.Unlock()
		w.epoch.Store(&e)
		return moved
	case e.widthNS < last.widthNS:
		e.fromNS = last.fromNS
		w.epoch.Store(&e)
	}
	return 0
}

// Reading is one reading of both clocks.
type Reading struct {
	NowNS int64 // of the run's clock
	epoch *epoch
}

// Read reads the clocks. It converts the stamps of all that came before.
func (w *Wall) Read() (r Reading) {
	var wall int64
	r.NowNS, wall = w.clock.Pair()
	e := w.epoch.Load()
	for later, n := r.NowNS, 0; n <= wallRetries; n++ {
		if off := wall - later - e.offsetNS; off <= wallTolerance && off >= -wallTolerance {
			r.epoch = e
			break
		}
		later, wall = w.clock.Pair()
	}
	return r
}

// At converts the wall-clock instant of a stamp. If it cannot be trusted, because the wall clock was just set, ok is
// false and the result NowNS.
func (r *Reading) At(stampNS int64) (atNS int64, ok bool) {
	if r.epoch == nil || stampNS < r.epoch.fromNS {
		return r.NowNS, false
	}
	at := stampNS - r.epoch.offsetNS
	if at > r.NowNS+wallTolerance {
		return r.NowNS, false
	}
	return min(at, r.NowNS), true
}

// Steps reports how often Sample found the wall clock set, and the largest step in ns.
func (w *Wall) Steps() (n, largestNS int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.steps, w.largest
}
