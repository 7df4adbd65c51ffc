//go:build unix

package engine

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

func usageNow() Usage {
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

func (u Usage) since(before Usage) Usage {
	return Usage{CPU: u.CPU - before.CPU, MaxRSSBytes: u.MaxRSSBytes, GCCycles: u.GCCycles - before.GCCycles}
}
