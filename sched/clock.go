// Package sched owns all time. It has the run's clock, the plan of release instants, and loads that are multiplied.
// Its waiter sleeps and spins up to a deadline, and it places the thread that waits.
//
// It does not know what a request contains. Any goroutine may read a Monotonic clock. A Plan does not change once it
// is made. A Waiter and a Placement belong to the one locked thread that uses them. Nothing here allocates after it
// is made.
package sched

import (
	"math"
	"sync/atomic"
	"time"
	_ "unsafe" // for go:linkname
)

// Clock is the clock of a run. All instants of the project are readings of one Clock.
type Clock interface {
	// Now returns the time since the run's start in nanoseconds; negative before it.
	Now() int64
}

// Monotonic is the machine's monotonic clock (CLOCK_MONOTONIC on Linux), counted from the run's start. Before Start it
// counts from the moment it was made. Safe for concurrent use; a reading costs a few tens of nanoseconds.
type Monotonic struct {
	madeAt   time.Time
	madeNS   int64 // the machine's clock at madeAt
	originNS atomic.Int64
}

// NewMonotonic returns a clock whose zero is now.
func NewMonotonic() *Monotonic {
	c := &Monotonic{madeAt: time.Now(), madeNS: nanotime()}
	c.originNS.Store(c.madeNS)
	return c
}

// nanotime returns the machine's monotonic clock, as time.Now has it. It is one call into the vDSO and checks no
// stack, so Go's scheduler never runs while a sender spins on it.
//
//go:linkname nanotime runtime.nanotime
func nanotime() int64

// MonotonicNS is a reading of the machine's monotonic clock, from which a clock's MonotonicStartNS is its zero.
func MonotonicNS() int64 { return nanotime() }

// Now implements Clock.
//
//go:nosplit
func (c *Monotonic) Now() int64 { return nanotime() - c.originNS.Load() }

// Pair implements PairClock.
func (c *Monotonic) Pair() (nowNS, wallNS int64) { return c.Now(), time.Now().UnixNano() }

// Start moves the clock's zero to lead from now: the run's start.
func (c *Monotonic) Start(lead time.Duration) { c.StartAt(nanotime() + int64(lead)) }

// StartAt moves the clock's zero to an instant of the machine's monotonic clock, which another process has sent.
func (c *Monotonic) StartAt(monotonicNS int64) { c.originNS.Store(monotonicNS) }

// StartAtWall moves the clock's zero to a moment of the wall clock. Both clocks are read several times, and the reading
// during which the least time passed counts. So a thread that loses its core meanwhile does not move the start.
func (c *Monotonic) StartAtWall(moment time.Time) {
	const readings = 5
	least := int64(math.MaxInt64)
	for range readings {
		before := nanotime()
		wall := time.Now().Round(0) // without its monotonic reading
		if took := nanotime() - before; took < least {
			least = took
			c.originNS.Store(before + took/2 + int64(moment.Round(0).Sub(wall)))
		}
	}
}

// StartedAt returns the wall-clock time of the run's start, by the wall clock when the Monotonic was made.
func (c *Monotonic) StartedAt() time.Time {
	return c.madeAt.Add(time.Duration(c.originNS.Load() - c.madeNS))
}

// MonotonicStartNS returns the reading of the machine's monotonic clock at the run's start. With it a second process
// on the same machine can compare its own instants with ours.
//
//go:nosplit
func (c *Monotonic) MonotonicStartNS() int64 { return c.originNS.Load() }
