package sched

import (
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// longestSleep bounds one sleep, so that a Waiter notices a stop request.
const longestSleep = int64(20 * time.Millisecond)

// Waiter waits for deadlines on the calling thread: it sleeps to shortly before a deadline, then spins. It belongs to one
// locked thread (see Place).
type Waiter struct {
	clock *Monotonic
	stop  *atomic.Bool
	spin  spinWindow
	alone bool
}

// NewWaiter returns a waiter on clock that spins for the last stretch before each deadline, AutoSpin or a time of 0 or more,
// and gives up when stop is set.
func NewWaiter(clock *Monotonic, spin time.Duration, stop *atomic.Bool) *Waiter {
	return &Waiter{clock: clock, stop: stop, spin: newSpinWindow(spin)}
}

// NewLoneWaiter returns a waiter as NewWaiter does for a process in which Go's scheduler has nothing to decide: Wait then
// never enters it. Go takes a thread that has run for 10 ms off its P, and whoever has to give it back is an ordinary
// thread, which on a busy machine waits its turn: 0.3 to 1 ms of lateness, a hundred times a second. The price is that the
// world cannot be stopped while the thread waits: see Alone and LoneGODEBUG.
func NewLoneWaiter(clock *Monotonic, spin time.Duration, stop *atomic.Bool) *Waiter {
	w := NewWaiter(clock, spin, stop)
	w.alone = true
	return w
}

// Wait returns true at the first reading of the clock at or after deadlineNS, and false if the stop flag was set before.
//
// A lone waiter's Wait checks no stack, nor does what it calls: such a check is where Go's scheduler takes the thread away.
//
//go:nosplit
func (w *Waiter) Wait(deadlineNS int64) bool {
	for {
		if w.stop.Load() {
			return false
		}
		now := w.clock.Now()
		left := deadlineNS - now - w.spin.ns
		if left <= 0 {
			break
		}
		w.sleep(now + min(left, longestSleep))
	}
	for w.clock.Now() < deadlineNS {
	}
	return true
}

// sleep sleeps until wakeNS, and learns how late that ended.
//
//go:nosplit
func (w *Waiter) sleep(wakeNS int64) {
	sleepUntil(w.clock, wakeNS, w.alone)
	w.spin.learn(w.clock.Now() - wakeNS)
}

// Spin is how long before its deadlines the waiter stops sleeping, as it is now.
func (w *Waiter) Spin() time.Duration { return time.Duration(w.spin.ns) }

// AutoSpin asks a Waiter to find out by itself how long before a deadline it must stop sleeping.
const AutoSpin time.Duration = -1

// The bounds of what AutoSpin finds, and where it begins.
const (
	leastSpin = int64(20 * time.Microsecond)
	firstSpin = int64(100 * time.Microsecond)
	mostSpin  = int64(200 * time.Microsecond)
)

// A sleep that ends later than the window allows for widens it by 1/widenBy, every other narrows it by 1/narrowBy. The
// two balance where one in narrowBy/widenBy sleeps is too late: one in 300. Sleeps that end later than any window allows for
// say nothing: on a host that takes the processor away, spinning more would only make it take more.
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

// learn takes by how much a sleep ended late.
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

// Alone readies this process for so many lone waiters: nothing may stop the world any more, and each waiter, which never gives
// its P back, has one besides the one for all else. The garbage is not collected from now on.
func Alone(waiters int) {
	debug.SetGCPercent(-1)
	runtime.GOMAXPROCS(waiters + 1)
}
