//go:build !linux

package sched

import "time"

// sleepUntil is the portable twin: Go's own timer, about a millisecond late.
func sleepUntil(c *Monotonic, wakeNS int64) { time.Sleep(time.Duration(wakeNS - c.Now())) }

// sleepRaw is the same where nothing else is known.
func sleepRaw(c *Monotonic, wakeNS int64) { sleepUntil(c, wakeNS) }
