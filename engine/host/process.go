//go:build unix

// Package host is what the machine gives a run and takes from it: the memory and the open files that this process may
// have (memory_*.go, process.go), the Go runtime's settings during a run (runtime.go), what this process has used
// (process.go), and the processor time that others took (watch.go).
//
// It does not decide what a run does with less than it wants, and it knows no sockets, requests or results.
//
// A Watch belongs to one goroutine until Run has returned; its samples allocate nothing. A Collector belongs to the goroutine
// that calls Tend, which allocates nothing either. All else may be called from any goroutine and allocates: call it before
// or after a run.
package host

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Usage is what the client itself took of the machine.
type Usage struct {
	CPU         time.Duration // processor time of all threads during the replay, and of the lanes' process
	MaxRSSBytes int64         // of the process so far
	GCCycles    int64         // collections during the replay
}

// UsageNow is what the process has used until now.
func UsageNow() Usage {
	var ru, ended unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &ru) // cannot fail with these arguments
	_ = unix.Getrusage(unix.RUSAGE_CHILDREN, &ended)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return Usage{
		CPU:         time.Duration(ru.Utime.Nano() + ru.Stime.Nano() + ended.Utime.Nano() + ended.Stime.Nano()),
		MaxRSSBytes: int64(ru.Maxrss) * maxRSSUnit(),
		GCCycles:    int64(m.NumGC),
	}
}

// maxRSSUnit is the unit of ru_maxrss: kB on Linux, bytes on macOS (getrusage(2) of each).
func maxRSSUnit() int64 {
	if runtime.GOOS == "darwin" {
		return 1
	}
	return 1 << 10
}

// Since is what was used since before was taken.
func (u Usage) Since(before Usage) Usage {
	return Usage{CPU: u.CPU - before.CPU, MaxRSSBytes: u.MaxRSSBytes, GCCycles: u.GCCycles - before.GCCycles}
}

// RaiseDescriptors raises the limit of open files as far as the process may, up to want, and returns what it is then.
func RaiseDescriptors(want int) (int, error) {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return 0, err
	}
	if l.Cur >= uint64(want) {
		return int(l.Cur), nil
	}
	for _, higher := range []unix.Rlimit{{Cur: uint64(want), Max: max(l.Max, uint64(want))}, {Cur: min(l.Max, uint64(want)), Max: l.Max}} {
		if unix.Setrlimit(unix.RLIMIT_NOFILE, &higher) == nil {
			return int(higher.Cur), nil
		}
	}
	return int(l.Cur), nil
}
