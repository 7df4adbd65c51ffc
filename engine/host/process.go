//go:build unix

// Package host is what the machine gives a run and takes from it:
//   - the memory that this process may use (memory_*.go) or shares with another (mapped_*.go), and its open files
//     (process.go),
//   - what this process has used, what the machine offers before a run, and the settings of Go's runtime during it
//     (process.go),
//   - the processor time that it did not get (watch.go),
//   - commands of the user's, beside what the process does (shell.go).
//
// It does not decide what happens if there is too little. It does not know sockets, requests or results.
//
// A Watch belongs to one goroutine until its Run has returned. A GCLimit belongs to the goroutine that calls
// RaiseLimit. Samples of a Watch and RaiseLimit allocate nothing. Any goroutine may call all else, which allocates:
// call it before or after a run.
//
// The package is not an API: any release may change it.
package host

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
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
	unit := int64(1 << 10) // of ru_maxrss: kB on Linux, bytes on macOS (getrusage(2) of each)
	if runtime.GOOS == "darwin" {
		unit = 1
	}
	cpu := ru.Utime.Nano() + ru.Stime.Nano() + ended.Utime.Nano() + ended.Stime.Nano()
	return Usage{
		CPU:         time.Duration(cpu),
		MaxRSSBytes: int64(ru.Maxrss) * unit,
		GCCycles:    int64(m.NumGC),
	}
}

// Since is the usage between before and u. MaxRSSBytes stays that of u.
func (u Usage) Since(before Usage) Usage {
	return Usage{
		CPU:         u.CPU - before.CPU,
		MaxRSSBytes: u.MaxRSSBytes,
		GCCycles:    u.GCCycles - before.GCCycles,
	}
}

// DescriptorsBesides are for all but requests in flight.
const DescriptorsBesides = 1 << 10

// RaiseDescriptors raises the limit of open files up to want, as far as the process may. It returns the new limit.
func RaiseDescriptors(want int) (int, error) {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return 0, err
	}
	wanted := uint64(want)
	if l.Cur >= wanted {
		return int(l.Cur), nil
	}
	for _, higher := range []unix.Rlimit{
		{Cur: wanted, Max: max(l.Max, wanted)},
		{Cur: min(l.Max, wanted), Max: l.Max},
	} {
		if unix.Setrlimit(unix.RLIMIT_NOFILE, &higher) == nil {
			return int(higher.Cur), nil
		}
	}
	return int(l.Cur), nil
}

// Offer is what the machine offers to this process before a run. A zero says that the system does not report it.
type Offer struct {
	Cores       int     // of the machine
	UsableCores int     // those that affinity and cpusets leave to this process
	QuotaCores  float64 // the CPU limit of its control groups, in cores
	Governor    string  // frequency governor of the first core
}

// ReadOffer reads what the machine offers now.
func ReadOffer() (o Offer) {
	o.UsableCores = runtime.NumCPU()
	o.Cores = max(o.UsableCores, strings.Count(textOf("/proc/stat"), "\ncpu"))
	for _, dir := range cgroupsOf("cpu") {
		quota := textOf(path.Join(dir, "cpu.max")) // version 2; version 1 has two files
		if quota == "" {
			quota = textOf(path.Join(dir, "cpu.cfs_quota_us")) + " " + textOf(path.Join(dir, "cpu.cfs_period_us"))
		}
		cores := quotaCores(quota)
		least := o.QuotaCores == 0 || cores < o.QuotaCores
		if cores > 0 && least {
			o.QuotaCores = cores
		}
	}
	o.Governor = textOf("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
	return o
}

// textOf is a file's text without the spaces around it; empty if it cannot be read.
func textOf(name string) string {
	text, _ := os.ReadFile(name)
	return string(bytes.TrimSpace(text))
}

// quotaCores reads a quota and its period, both in µs; 0 if there is no limit ("max" in version 2, -1 in version 1).
func quotaCores(text string) float64 {
	var quota, period float64
	if n, _ := fmt.Sscan(text, &quota, &period); n != 2 || quota <= 0 || period <= 0 {
		return 0
	}
	return quota / period
}

// BusyTime is how much processor time everybody on the machine has used since it started, in seconds; false if that is
// unknown.
func BusyTime() (seconds float64, ok bool) { return parseBusy(textOf("/proc/stat")) }

// parseBusy adds up the first line of /proc/stat, in which idle, iowait and stolen time are not busy.
func parseBusy(stat string) (seconds float64, ok bool) {
	var name string
	var user, nice, system, idle, iowait, irq, softirq int64
	n, _ := fmt.Sscan(stat, &name, &user, &nice, &system, &idle, &iowait, &irq, &softirq)
	return float64(user+nice+system+irq+softirq) / tickHz, n == 8 && name == "cpu"
}

// replayProcs is how many Ps the runtime has during a run. A thread needs a P after each system call. With one P a
// core, busy receivers leave the sender none. Then p99 of its lateness is 27 ms, against 9–13 µs with 16 (2 cores,
// 100,000 events/s).
const replayProcs = 16

const (
	// heapShare of the free memory is how much the heap may grow during a run before the collector runs.
	heapShare = 0.5
	// leastHeadroom of the live heap is how much it may grow in any case. A collector that never stops takes half of
	// the cores.
	leastHeadroom = 0.25
)

// BoundHeap makes the garbage collector keep this process within FreeMemory, unless GOMEMLIMIT sets a limit.
func BoundHeap() {
	if free, _, err := FreeMemory(); err == nil && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(free)
	}
}

// GCLimit is the garbage collector's memory limit during a run.
type GCLimit struct {
	Free  int64 // memory at the beginning, bytes; math.MaxInt64 = unknown
	limit int64 // of all memory that Go has, bytes
	other int64 // of Go's memory, what is not heap, bytes
	live  []metrics.Sample
}

// QuietRuntime keeps the garbage collector and the scheduler from delaying senders, until restore is called. The
// collector runs only if memory becomes short. Call RaiseLimit regularly, so that the limit stays above the live heap.
func QuietRuntime() (c *GCLimit, restore func()) {
	runtime.GC()
	procs := runtime.GOMAXPROCS(max(replayProcs, runtime.NumCPU()+replayProcs/2))
	percent := debug.SetGCPercent(-1)
	c = &GCLimit{
		Free:  math.MaxInt64,
		limit: math.MaxInt64,
		live:  []metrics.Sample{{Name: "/gc/heap/live:bytes"}},
	}
	if free, _, err := FreeMemory(); err == nil {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		c.Free = free
		c.limit = int64(m.Sys) + int64(heapShare*float64(free))
		c.other = int64(m.Sys - m.HeapSys)
	}
	before := debug.SetMemoryLimit(c.limit)
	return c, func() {
		debug.SetMemoryLimit(before)
		debug.SetGCPercent(percent)
		runtime.GOMAXPROCS(procs)
	}
}

// RaiseLimit raises the memory limit if the live heap has come close to it.
func (c *GCLimit) RaiseLimit() {
	metrics.Read(c.live)
	if least := c.other + int64((1+leastHeadroom)*float64(c.live[0].Value.Uint64())); least > c.limit {
		c.limit = least
		debug.SetMemoryLimit(least)
	}
}
