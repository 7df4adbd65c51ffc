package sched

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

const (
	// senderPriority is low among real-time priorities: it need only exceed every SCHED_OTHER thread, and PlaceBelow's.
	senderPriority = 10
	// shortSliceNS is the slice for EEVDF: a waking thread with a short slice preempts one with a long slice.
	// Lateness: p90 from 190–260 µs to 8–12 µs beside 70,000 events/s (2 cores, Linux 6.18).
	shortSliceNS = 100_000
	// readerNice is a higher priority than most programs have. A reader is one thread in place of many goroutines,
	// and busy programs would halve its share. Lag p50 from 90–240 to 5 µs beside a mock and a load of 9 (1,000
	// streams, 2 cores, Linux 6.18).
	readerNice = -10
	// timerSlackNS is the smallest that PR_SET_TIMERSLACK takes; 0 would mean the default of 50 µs.
	timerSlackNS = 1
)

// Place locks the calling goroutine to its thread for good and gives the thread the best placement that mode allows.
// The goroutine must end without unlocking, so that the thread ends with it. An error means that mode "on" was not
// granted.
func Place(mode Realtime) (Placement, error) { return place(mode, senderPriority) }

// PlaceBelow is Place for a thread that senders depend on: its priority is just below theirs.
func PlaceBelow(mode Realtime) (Placement, error) { return place(mode, senderPriority-1) }

// PlaceReader locks the calling goroutine to its thread, as Place does. Unless mode is off, it gives the thread a
// higher priority than ordinary threads have. That needs CAP_SYS_NICE; without it the thread stays as it was.
func PlaceReader(mode Realtime) {
	runtime.LockOSThread()
	if mode != RealtimeOff {
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, readerNice) // of this thread
	}
}

func place(mode Realtime, priority uint32) (Placement, error) {
	runtime.LockOSThread()
	var p Placement
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, timerSlackNS, 0, 0, 0) // without it, wake-ups are some 50 µs later
	if mode != RealtimeOff {
		err := setAttr(unix.SchedAttr{Policy: unix.SCHED_FIFO, Priority: priority})
		if err == nil {
			p.FIFO = true
			return p, nil
		}
		p.Refused = err.Error()
		if mode == RealtimeOn {
			return p, fmt.Errorf(
				"SCHED_FIFO refused: %w; run as root, grant CAP_SYS_NICE or raise `ulimit -r`, or use --realtime auto",
				err,
			)
		}
	}
	p.ShortSlice = shortenSlice() == nil
	return p, nil
}

// shortenSlice leaves the thread's nice value as it is. To lower it needs CAP_SYS_NICE, and a program that was started
// with a high priority is to keep that.
func shortenSlice() error {
	raw, err := unix.Getpriority(unix.PRIO_PROCESS, 0) // of this thread, in the system call's own form: 20 - nice
	if err != nil {
		return err
	}
	return setAttr(unix.SchedAttr{Policy: unix.SCHED_NORMAL, Runtime: shortSliceNS, Nice: int32(20 - raw)})
}

// setAttr applies attr to the calling thread. Threads it starts do not inherit the placement.
func setAttr(attr unix.SchedAttr) error {
	attr.Size = unix.SizeofSchedAttr
	attr.Flags = unix.SCHED_FLAG_RESET_ON_FORK
	return unix.SchedSetAttr(0, &attr, 0)
}

// ThreadID returns the id of the calling thread.
func ThreadID() int { return unix.Gettid() }
