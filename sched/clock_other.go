//go:build !linux

package sched

import "time"

// monotonicNS is the wall clock where the monotonic clock has no portable absolute reading.
func monotonicNS() int64 { return time.Now().UnixNano() }
