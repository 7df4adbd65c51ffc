package sched

import "time"

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
