package sched

import (
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sleepUntil blocks the calling thread until the clock reads wakeNS, or a signal arrives. It goes through Syscall, never
// RawSyscall: a thread asleep in a raw system call holds its P, and stopping the world waits for it (seconds, measured).
func sleepUntil(c *Monotonic, wakeNS int64) {
	ts := unix.NsecToTimespec(wakeNS + c.MonotonicStartNS())
	_, _, _ = unix.Syscall6(unix.SYS_CLOCK_NANOSLEEP, unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME,
		uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
}

// sleepRaw is sleepUntil behind the back of Go's scheduler.
//
//go:nosplit
func sleepRaw(c *Monotonic, wakeNS int64) {
	at := wakeNS + c.MonotonicStartNS()
	ts := unix.Timespec{Sec: at / int64(time.Second), Nsec: at % int64(time.Second)}
	_, _, _ = syscall.RawSyscall6(unix.SYS_CLOCK_NANOSLEEP, unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME,
		uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
}
