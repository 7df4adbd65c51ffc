package sched

import (
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// longestSleep bounds one sleep, so that a Waiter notices a stop request.
const longestSleep = int64(20 * time.Millisecond)

// Waiter waits for deadlines on the calling thread: it sleeps until shortly before a deadline, then spins. It belongs
// to one locked thread (see Place).
type Waiter struct {
	clock *Monotonic
	stop  *atomic.Bool
	spin  spinWindow
	alone bool
}

// NewWaiter returns a waiter on clock. It spins before each deadline for the given time, 0 or more, or as AutoSpin
// finds. When stop is set, it waits no more.
func NewWaiter(clock *Monotonic, spin time.Duration, stop *atomic.Bool) *Waiter {
	return &Waiter{
		clock: clock,
		stop:  stop,
		spin:  newSpinWindow(spin),
	}
}

// NewLoneWaiter returns a waiter as NewWaiter does, for a process in which Wait never enters Go's scheduler. Go takes
// a thread that has run for 10 ms off its P. An ordinary thread has to give it another P, and waits for a core on a
// busy machine: 0.3 to 1 ms of lateness, a hundred times a second. On the other hand the world cannot be stopped
// while the thread waits: see Alone and LoneGODEBUG.
func NewLoneWaiter(clock *Monotonic, spin time.Duration, stop *atomic.Bool) *Waiter {
	w := NewWaiter(clock, spin, stop)
	w.alone = true
	return w
}

// Wait returns true at the first reading of the clock at or after deadlineNS, and false if the stop flag was set
// before.
//
// A lone waiter's Wait, and what it calls, checks no stack: in such a check Go's scheduler takes the thread away.
//
//go:nosplit
func (w *Waiter) Wait(deadlineNS int64) bool {
	if !w.Sleep(deadlineNS) {
		return false
	}
	for w.clock.Now() < deadlineNS {
	}
	return true
}

// Sleep is the first part of Wait. It returns true when only the time is left during which Wait spins, or false if the
// stop flag was set before.
//
//go:nosplit
func (w *Waiter) Sleep(deadlineNS int64) bool {
	for {
		if w.stop.Load() {
			return false
		}
		now := w.clock.Now()
		left := deadlineNS - now - w.spin.ns
		if left <= 0 {
			return true
		}
		w.sleep(now + min(left, longestSleep))
	}
}

// sleep sleeps until wakeNS, and notes how late the sleep ended.
//
//go:nosplit
func (w *Waiter) sleep(wakeNS int64) {
	sleepUntil(w.clock, wakeNS, w.alone)
	w.spin.learn(w.clock.Now() - wakeNS)
}

// Spin returns how long before its deadlines the waiter stops sleeping now.
func (w *Waiter) Spin() time.Duration { return time.Duration(w.spin.ns) }

// AutoSpin makes a Waiter find how long before a deadline it must stop sleeping.
const AutoSpin time.Duration = -1

// The bounds of what AutoSpin finds, and where it begins.
const (
	leastSpin = int64(20 * time.Microsecond)
	firstSpin = int64(100 * time.Microsecond)
	mostSpin  = int64(200 * time.Microsecond)
)

// A sleep that ends later than the window allows for widens it by 1/widenBy; every other one narrows it by
// 1/narrowBy. The two balance if one in narrowBy/widenBy sleeps is too late: one in 300. Sleeps that end later than
// any window allows for are ignored. Their host takes the processor away, and would take more of it if the waiter
// spun more.
const (
	widenBy  = 4
	narrowBy = 300 * widenBy
)

// spinWindow is how long before a deadline a Waiter stops sleeping: as long as sleeps have lately ended late.
type spinWindow struct {
	ns   int64
	auto bool
}

func newSpinWindow(spin time.Duration) spinWindow {
	if spin == AutoSpin {
		return spinWindow{ns: firstSpin, auto: true}
	}
	return spinWindow{ns: int64(spin)}
}

// learn adapts the window to a sleep that ended late by lateNS.
//
//go:nosplit
func (s *spinWindow) learn(lateNS int64) {
	switch {
	case !s.auto || lateNS > mostSpin:
	case lateNS > s.ns:
		s.ns = min(s.ns+s.ns/widenBy, mostSpin)
	default:
		s.ns = max(s.ns-s.ns/narrowBy, leastSpin)
	}
}

// LoneGODEBUG is the setting of GODEBUG that a process with lone waiters must be started with.
const LoneGODEBUG = "asyncpreemptoff=1"

// Alone prepares this process for so many lone waiters. A waiter never gives its P back, so there is a P for each and
// one for all else. Nothing may stop the world any more, so garbage is not collected from now on.
func Alone(waiters int) {
	debug.SetGCPercent(-1)
	runtime.GOMAXPROCS(waiters + 1)
	// A cycle that still cleans up would keep its P until it had seen every other one. To stop the world is to wait for
	// its end.
	runtime.ReadMemStats(new(runtime.MemStats))
}
