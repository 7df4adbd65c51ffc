package engine

import (
	"sync"

	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/sched"
)

// limiter lets no more than the plan's cap of requests be in flight. What is due meanwhile is held back, and leaves in order as
// others end. All of it is guarded by its mutex.
type limiter struct {
	sync.Mutex
	inFlight int
	due      int     // requests before this one have reached their instants
	next     int     // requests before this one have been released
	heldNS   []int64 // how much later than at its instant each request was released; 0 = at its instant
	heldFor  *metrics.Distribution
}

// newLimiter is nil for a plan without a cap.
func newLimiter(p sched.Plan) *limiter {
	if p.Cap == 0 {
		return nil
	}
	return &limiter{heldNS: make([]int64, p.Requests), heldFor: metrics.NewHistogram()}
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
	look := sched.NewWaiter(r.clock, 0, &r.stop) // nothing here is worth spinning for
	for r.holdsBack() {
		if !look.Wait(r.clock.Now() + int64(closedLook)) {
			r.abandon(r.takeHeld())
			return
		}
	}
}

// pass notes that requests are due or have ended, and releases what may leave now.
func (r *Run) pass(due, ended int) {
	l := r.limiter
	for {
		l.Lock()
		l.due, l.inFlight = l.due+due, l.inFlight-ended
		if l.next >= l.due || l.inFlight >= r.work.Plan.Cap || r.stop.Load() {
			if due > 0 && l.next < l.due {
				l.heldNS[l.due-1] = 1 // at least
			}
			l.Unlock()
			return
		}
		i := l.next
		l.next++
		l.inFlight++
		if l.heldNS[i] > 0 {
			l.heldNS[i] = r.clock.Now() - r.work.Plan.ReleaseNS[i]
			l.heldFor.Add(l.heldNS[i])
		}
		l.Unlock()
		r.fire(int32(i))
		due, ended = 0, 0
	}
}

// holdsBack tells whether a request waits for others to end.
func (r *Run) holdsBack() bool {
	r.limiter.Lock()
	defer r.limiter.Unlock()
	return r.limiter.next < r.work.Requests()
}

// takeHeld takes every request that was not released and returns the first of them.
func (r *Run) takeHeld() int {
	r.limiter.Lock()
	defer r.limiter.Unlock()
	i := r.limiter.next
	r.limiter.next = r.work.Requests()
	return i
}

// heldBackNS is how much later than at its instant request i was released because of the cap.
func (r *Run) heldBackNS(i int32) int64 {
	if r.limiter == nil {
		return 0
	}
	r.limiter.Lock()
	defer r.limiter.Unlock()
	return r.limiter.heldNS[i]
}
