//go:build !linux

package sched

import "time"

// sleepUntil is the portable twin: Go's own timer, about a millisecond late.
func sleepUntil(c *Monotonic, wakeNS int64, _ bool) { time.Sleep(time.Duration(wakeNS - c.Now())) }
