package engine

import (
	"sync/atomic"

	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/sched"
)

// A pacer decides when requests leave. There is one kind for each way: by the clock, in a closed loop, under a cap, after
// earlier turns. It sends by calling pacing.send.
type pacer interface {
	// run releases requests on the calling thread, which is a sender's, at w's deadlines. It returns the requests that nobody
	// has released, in ascending order. If over, the plan's time has ended and they are not part of the run; otherwise the run
	// was stopped. A pacer that only follows the clock may run on several threads at once.
	run(w *sched.Waiter) (left []int32, over bool)
	// done is called once for each request that has ended, at nowNS, by the goroutine that ended it. It may release others.
	done(i int32, nowNS int64)
	// heldNS is for how long request i was held back after its planned instant; planned_ns stays that instant.
	heldNS(i int32) int64
	// held is for how long requests were held back, in ns; nil if this pacer holds none back. Call it after the run.
	held() *metrics.Distribution
}

// pacing is what every pacer has.
type pacing struct {
	plan  sched.Plan
	clock *sched.Monotonic
	stop  *atomic.Bool                   // if set, nothing more is released
	send  func(i int32, plannedNS int64) // sends request i now, on the calling thread
}

func (pacing) done(int32, int64)           {}
func (pacing) heldNS(int32) int64          { return 0 }
func (pacing) held() *metrics.Distribution { return nil }

func newPacer(p pacing) pacer {
	switch {
	case p.plan.Turns != nil:
		return newTurnsPacer(p)
	case !p.plan.Open():
		return &closedPacer{pacing: p}
	case p.plan.Cap > 0:
		return newCappedPacer(p)
	}
	return &openPacer{pacing: p}
}

// openPacer releases each request at its planned instant.
type openPacer struct {
	pacing
	next atomic.Int64 // requests before this one belong to some thread
}

func (p *openPacer) run(w *sched.Waiter) (left []int32, over bool) {
	at := p.plan.ReleaseNS
	for i := p.next.Add(1) - 1; i < int64(len(at)); i = p.next.Add(1) - 1 {
		if w.Wait(at[i]) {
			p.send(int32(i), at[i])
		} else {
			left = append(left, int32(i))
		}
	}
	return left, false
}

// requestsFrom lists the requests from i up to n.
func requestsFrom(i, n int64) (list []int32) {
	for ; i < n; i++ {
		list = append(list, int32(i))
	}
	return list
}
