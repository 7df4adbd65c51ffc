//go:build unix

// Package host is what the machine gives a run and takes from it:
//   - the memory that this process may use (memory_*.go) or shares with another (mapped_*.go), and its open files (process.go),
//   - the settings of Go's runtime during a run (runtime.go),
//   - what the machine offers before a run: cores, ports, memory (offer.go),
//   - what this process has used (process.go),
//   - the processor time that it did not get (watch.go).
//
// It does not decide what happens if there is too little. It does not know sockets, requests or results.
//
// A Watch belongs to one goroutine until its Run has returned. A GCLimit belongs to the goroutine that calls RaiseLimit. Samples
// of a Watch and RaiseLimit allocate nothing. Any goroutine may call all else, which allocates: call it before or after a run.
package host

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Usage is what this process and its ended children have used.
type Usage struct {
	CPU         time.Duration // processor time of all threads, and of child processes that have ended
	MaxRSSBytes int64         // the most that this process has had in memory
	GCCycles    int64         // garbage collections
}

// UsageNow is the usage since the process began.
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

// Since is the usage between before and u. MaxRSSBytes stays that of u.
func (u Usage) Since(before Usage) Usage {
	return Usage{CPU: u.CPU - before.CPU, MaxRSSBytes: u.MaxRSSBytes, GCCycles: u.GCCycles - before.GCCycles}
}

// RaiseDescriptors raises the limit of open files up to want, as far as the process may. It returns the new limit.
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
