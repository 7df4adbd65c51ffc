//go:build !linux

package sched

import (
	"fmt"
	"runtime"
)

// Place is the portable twin: it only locks the calling goroutine to its thread.
func Place(mode Realtime) (Placement, error) {
	runtime.LockOSThread()
	if mode == RealtimeOn {
		return Placement{}, fmt.Errorf("SCHED_FIFO is Linux only; use --realtime auto")
	}
	return Placement{}, nil
}

// PlaceBelow is the same here.
func PlaceBelow(mode Realtime) (Placement, error) { return Place(mode) }

// PlaceReader only locks the calling goroutine to its thread.
func PlaceReader(Realtime) { runtime.LockOSThread() }

// ThreadID returns 0: only Linux has a use for thread ids.
func ThreadID() int { return 0 }
