package engine

import (
	"math"
	"runtime"
	"runtime/debug"
)

// replayProcs is how many Ps the runtime gets during a replay. A thread needs one after each system call; with as many
// as cores, busy receivers leave the lane none: p99 of its lateness 27 ms against 9–13 µs with 16 (2 cores, 100,000
// events/s).
const replayProcs = 16

// heapShare of the free memory is how far the heap may grow during a replay before the collector runs.
const heapShare = 0.5

// quietRuntime keeps the collector and the scheduler out of the lane's way until the returned function is called. The
// collector still runs when memory demands it.
func quietRuntime() (restore func()) {
	runtime.GC()
	procs := runtime.GOMAXPROCS(max(replayProcs, runtime.NumCPU()+replayProcs/2))
	percent := debug.SetGCPercent(-1)
	limit := int64(math.MaxInt64)
	if free, err := FreeMemory(); err == nil {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		limit = int64(m.Sys) + int64(heapShare*float64(free))
	}
	limit = debug.SetMemoryLimit(limit)
	return func() {
		debug.SetMemoryLimit(limit)
		debug.SetGCPercent(percent)
		runtime.GOMAXPROCS(procs)
	}
}
