package sched

import (
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sleepUntil blocks the calling thread until the clock reads wakeNS, or a signal arrives. If raw, Go's scheduler does
// not know of it: the sleeping thread keeps its P, and stopping the world waits for it (seconds, measured).
//
//go:nosplit
func sleepUntil(c *Monotonic, wakeNS int64, raw bool) {
	at := wakeNS + c.MonotonicStartNS()
	ts := unix.Timespec{Sec: at / int64(time.Second), Nsec: at % int64(time.Second)}
	if raw {
		_, _, _ = syscall.RawSyscall6(
			unix.SYS_CLOCK_NANOSLEEP,
			unix.CLOCK_MONOTONIC,
			unix.TIMER_ABSTIME,
			uintptr(unsafe.Pointer(&ts)),
			0,
			0,
			0,
		)
	} else {
		_, _, _ = syscall.Syscall6(
			unix.SYS_CLOCK_NANOSLEEP,
			unix.CLOCK_MONOTONIC,
			unix.TIMER_ABSTIME,
			uintptr(unsafe.Pointer(&ts)),
			0,
			0,
			0,
		)
	}
}
