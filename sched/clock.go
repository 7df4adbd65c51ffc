// Package sched owns all time: the run's clock, the plan of release instants, loads that are multiplied, the waiter that sleeps
// and spins up to a deadline, and the placement of the thread that waits.
//
// It does not know what a request contains. A Monotonic clock may be read by any goroutine; a Plan is immutable once
// made; a Waiter and a Placement belong to the one locked thread that uses them. Nothing here allocates after it is made.
package sched

import (
	"sync/atomic"
	"time"
	_ "unsafe" // for go:linkname
)

// Clock tells the time of a run. All instants of the project are readings of one Clock.
type Clock interface {
	// Now is the time since the run's start in nanoseconds; negative before it.
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

// nanotime is the machine's monotonic clock as time.Now carries it along: one call into the vDSO, and no check of the
// stack, so that a sender can spin on it without meeting Go's scheduler.
//
//go:linkname nanotime runtime.nanotime
func nanotime() int64

// Now implements Clock.
//
//go:nosplit
func (c *Monotonic) Now() int64 { return nanotime() - c.originNS.Load() }

// Pair implements PairClock.
func (c *Monotonic) Pair() (nowNS, wallNS int64) { return c.Now(), time.Now().UnixNano() }

// Start moves the clock's zero to lead from now: the run's start.
func (c *Monotonic) Start(lead time.Duration) { c.StartAt(nanotime() + int64(lead)) }

// StartAt moves the clock's zero to an instant of the machine's monotonic clock, which another process has told.
func (c *Monotonic) StartAt(monotonicNS int64) { c.originNS.Store(monotonicNS) }

// StartedAt is the wall-clock time of the run's start, as the wall clock stood when the clock was made.
func (c *Monotonic) StartedAt() time.Time {
	return c.madeAt.Add(time.Duration(c.originNS.Load() - c.madeNS))
}

// MonotonicStartNS is the reading of the machine's monotonic clock at the run's start: what a second process on the
// same machine needs to compare its own instants with ours.
//
//go:nosplit
func (c *Monotonic) MonotonicStartNS() int64 { return c.originNS.Load() }
