package sched

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fastreplay/fastreplay/bench/must"
)

// TestMonotonicIsTheMachinesClock compares with CLOCK_MONOTONIC, by which other processes and clock_nanosleep go.
func TestMonotonicIsTheMachinesClock(t *testing.T) {
	c := NewMonotonic()
	c.Start(0)
	for range 100 {
		before := monotonicNS(t)
		now := c.Now() + c.MonotonicStartNS()
		if after := monotonicNS(t); now < before || now > after {
			t.Fatalf("our reading %d lies outside [%d, %d] of the machine's clock", now, before, after)
		}
	}
}

func monotonicNS(t *testing.T) int64 {
	var ts unix.Timespec
	must.Do(t, unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts))
	return ts.Nano()
}
