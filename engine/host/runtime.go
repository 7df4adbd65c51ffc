package host

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// replayProcs is how many Ps the runtime has during a run. A thread needs a P after each system call. With one P a core,
// busy receivers leave the sender none. Then p99 of its lateness is 27 ms, against 9–13 µs with 16 (2 cores, 100,000
// events/s).
const replayProcs = 16

const (
	// heapShare of the free memory is how much the heap may grow during a run before the collector runs.
	heapShare = 0.5
	// leastHeadroom of the live heap is how much it may grow in any case. A collector that never stops takes half of the cores.
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

// QuietRuntime keeps the garbage collector and the scheduler from delaying senders, until restore is called. The collector runs
// only if memory becomes short. Call RaiseLimit regularly, so that the limit stays above the live heap.
func QuietRuntime() (c *GCLimit, restore func()) {
	runtime.GC()
	procs := runtime.GOMAXPROCS(max(replayProcs, runtime.NumCPU()+replayProcs/2))
	percent := debug.SetGCPercent(-1)
	c = &GCLimit{Free: math.MaxInt64, limit: math.MaxInt64, live: []metrics.Sample{{Name: "/gc/heap/live:bytes"}}}
	if free, _, err := FreeMemory(); err == nil {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		c.Free, c.limit, c.other = free, int64(m.Sys)+int64(heapShare*float64(free)), int64(m.Sys-m.HeapSys)
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
