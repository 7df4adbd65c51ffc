package sched

import (
	"sync/atomic"
	"time"
)

// DefaultSpin is how long before a deadline a Waiter stops sleeping and spins. A wake-up of clock_nanosleep with 1 ns of
// timer slack is late by 27 µs at the median and rarely by more than 100 µs (2 cores, Linux 6.18).
const DefaultSpin = 100 * time.Microsecond

// longestSleep bounds one sleep, so that a Waiter notices a stop request.
const longestSleep = int64(20 * time.Millisecond)

// Waiter waits for deadlines on the calling thread: it sleeps to shortly before a deadline, then spins. It belongs to one
// locked thread (see Place).
type Waiter struct {
	clock  *Monotonic
	spinNS int64
	stop   *atomic.Bool
}

// NewWaiter returns a waiter on clock that spins for the last stretch before each deadline and gives up when stop is set.
func NewWaiter(clock *Monotonic, spin time.Duration, stop *atomic.Bool) *Waiter {
	return &Waiter{clock: clock, spinNS: int64(spin), stop: stop}
}

// Wait returns true at the first reading of the clock at or after deadlineNS, and false if the stop flag was set before.
func (w *Waiter) Wait(deadlineNS int64) bool {
	for {
		if w.stop.Load() {
			return false
		}
		left := deadlineNS - w.clock.Now()
		if left <= w.spinNS {
			break
		}
		sleepUntil(w.clock, w.clock.Now()+min(left-w.spinNS, longestSleep))
	}
	for w.clock.Now() < deadlineNS {
	}
	return true
}
