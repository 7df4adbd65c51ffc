package sched

import "golang.org/x/sys/unix"

// monotonicNS reads CLOCK_MONOTONIC, the clock that Go's own monotonic readings come from and that
// clock_nanosleep(TIMER_ABSTIME) sleeps by.
func monotonicNS() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("BUG: CLOCK_MONOTONIC cannot be read: " + err.Error())
	}
	return ts.Nano()
}
