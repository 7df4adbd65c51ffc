package host

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// replayProcs is how many Ps the runtime gets during a replay. A thread needs one after each system call; with as many
// as cores, busy receivers leave the lane none: p99 of its lateness 27 ms against 9–13 µs with 16 (2 cores, 100,000
// events/s).
const replayProcs = 16

const (
	// heapShare of the free memory is how far the heap may grow during a replay before the collector runs.
	heapShare = 0.5
	// leastHeadroom of the live heap is how far it may grow in any case: a collector that is always at work takes half of the cores.
	leastHeadroom = 0.25
)

// BoundHeap makes the collector keep this program within the memory that it may take, unless GOMEMLIMIT says how much that is.
func BoundHeap() {
	if free, _, err := FreeMemory(); err == nil && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(free)
	}
}

// Collector is kept out of the way of a replay, as far as memory allows.
type Collector struct {
	Free  int64 // memory at the start, bytes; math.MaxInt64 = unknown
	limit int64 // of all that Go has, bytes
	other int64 // of that, what is no heap
	live  []metrics.Sample
}

// QuietRuntime keeps the collector and the scheduler out of the lane's way until restore is called. The collector still runs when
// memory demands it; call Tend now and then, so that it keeps its distance to the live heap.
func QuietRuntime() (c *Collector, restore func()) {
	runtime.GC()
	procs := runtime.GOMAXPROCS(max(replayProcs, runtime.NumCPU()+replayProcs/2))
	percent := debug.SetGCPercent(-1)
	c = &Collector{Free: math.MaxInt64, limit: math.MaxInt64, live: []metrics.Sample{{Name: "/gc/heap/live:bytes"}}}
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

// Tend raises the limit where what is live has come close to it.
func (c *Collector) Tend() {
	metrics.Read(c.live)
	if least := c.other + int64((1+leastHeadroom)*float64(c.live[0].Value.Uint64())); least > c.limit {
		c.limit = least
		debug.SetMemoryLimit(least)
	}
}
