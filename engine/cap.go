package engine

import (
	"sync"

	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/sched"
)

// gate lets no more than the plan's cap of requests be in flight. What is due meanwhile is held back, and leaves in order as
// others end. All of it is guarded by its mutex.
type gate struct {
	sync.Mutex
	inFlight int
	due      int    // requests before this one have reached their instants
	next     int    // requests before this one have been released
	held     []bool // requests that did not leave at their instants
	heldFor  *metrics.Distribution
}

// newGate is nil for a plan without a cap.
func newGate(p sched.Plan) *gate {
	if p.Cap == 0 {
		return nil
	}
	return &gate{held: make([]bool, p.Requests), heldFor: metrics.NewDistribution()}
}

// fireCapped releases requests at their instants as far as the cap allows, and stays until all have left.
func (r *Run) fireCapped(w *sched.Waiter) {
	for _, at := range r.work.Plan.ReleaseNS {
		if !w.Wait(at) {
			r.abandon(r.takeHeld())
			return
		}
		r.pass(1, 0)
	}
	for r.holdsBack() {
		if !w.Wait(r.clock.Now() + int64(closedLook)) {
			r.abandon(r.takeHeld())
			return
		}
	}
}

// pass notes that requests are due or have ended, and releases what may leave now.
func (r *Run) pass(due, ended int) {
	g := r.gate
	for {
		g.Lock()
		g.due, g.inFlight = g.due+due, g.inFlight-ended
		if g.next >= g.due || g.inFlight >= r.work.Plan.Cap || r.stop.Load() {
			if due > 0 && g.next < g.due {
				g.held[g.due-1] = true
			}
			g.Unlock()
			return
		}
		i := g.next
		g.next++
		g.inFlight++
		if g.held[i] {
			g.heldFor.Add(r.clock.Now() - r.work.Plan.ReleaseNS[i])
		}
		g.Unlock()
		r.fire(int32(i))
		due, ended = 0, 0
	}
}

// holdsBack tells whether a request waits for others to end.
func (r *Run) holdsBack() bool {
	r.gate.Lock()
	defer r.gate.Unlock()
	return r.gate.next < r.work.Requests()
}

// takeHeld takes every request that was not released and returns the first of them.
func (r *Run) takeHeld() int {
	r.gate.Lock()
	defer r.gate.Unlock()
	i := r.gate.next
	r.gate.next = r.work.Requests()
	return i
}

// heldBack tells whether request i, which was released, left later than at its instant because of the cap.
func (r *Run) heldBack(i int32) bool {
	if r.gate == nil {
		return false
	}
	r.gate.Lock()
	defer r.gate.Unlock()
	return r.gate.held[i]
}
