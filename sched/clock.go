package sched

import (
	"sync/atomic"
	"time"
)

// Clock tells the time of a run. All instants of the project are readings of one Clock.
type Clock interface {
	// Now is the time since the run's start in nanoseconds; negative before it.
	Now() int64
}

// Monotonic is the machine's monotonic clock (CLOCK_MONOTONIC on Linux), counted from the run's start. Before Start it
// counts from the moment it was made. Safe for concurrent use; a reading costs a few tens of nanoseconds.
type Monotonic struct {
	base     time.Time
	baseMono int64 // CLOCK_MONOTONIC at base, ns
	originNS atomic.Int64
}

// NewMonotonic returns a clock whose zero is now.
func NewMonotonic() *Monotonic {
	base, mono := anchor()
	return &Monotonic{base: base, baseMono: mono}
}

// Now implements Clock.
func (c *Monotonic) Now() int64 { return int64(time.Since(c.base)) - c.originNS.Load() }

// Pair implements PairClock.
func (c *Monotonic) Pair() (nowNS, wallNS int64) {
	t := time.Now() // reads both clocks
	return int64(t.Sub(c.base)) - c.originNS.Load(), t.UnixNano()
}

// Start moves the clock's zero to lead from now: the run's start.
func (c *Monotonic) Start(lead time.Duration) {
	c.originNS.Store(int64(time.Since(c.base) + lead))
}

// StartAt moves the clock's zero to an instant of the machine's monotonic clock, which another process has told.
func (c *Monotonic) StartAt(monotonicNS int64) { c.originNS.Store(monotonicNS - c.baseMono) }

// StartedAt is the wall-clock time of the run's start, as the wall clock stood when the clock was made.
func (c *Monotonic) StartedAt() time.Time { return c.base.Add(time.Duration(c.originNS.Load())) }

// MonotonicStartNS is the reading of the machine's monotonic clock at the run's start: what a second process on the
// same machine needs to compare its own instants with ours.
func (c *Monotonic) MonotonicStartNS() int64 { return c.baseMono + c.originNS.Load() }

// anchor reads Go's clock and the machine's monotonic clock as one instant, to within the shortest of several brackets.
func anchor() (time.Time, int64) {
	var base time.Time
	var mono int64
	narrowest := time.Duration(1 << 62)
	for range 16 {
		before := time.Now()
		m := monotonicNS()
		if width := time.Since(before); width < narrowest {
			narrowest, base, mono = width, before, m-int64(width)/2
		}
	}
	return base, mono
}
