package engine

import (
	"sync"

	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/sched"
)

// cappedPacer lets at most the plan's cap of requests be in flight. It holds back what is due meanwhile, and releases it in
// order as others end. The mutex guards all of its fields.
type cappedPacer struct {
	pacing
	mu       sync.Mutex
	inFlight int
	due      int     // the planned instants of the requests before this one have come
	next     int     // requests before this one have been released
	heldBack []int64 // for how many ns each request was held back; 0 = it was not
	heldFor  *metrics.Distribution
}

func newCappedPacer(p pacing) *cappedPacer {
	return &cappedPacer{pacing: p, heldBack: make([]int64, p.plan.Requests), heldFor: metrics.NewHistogram()}
}

// run releases requests at their planned instants if the cap allows it, and stays until all have left.
func (p *cappedPacer) run(w *sched.Waiter) (left []int32, over bool) {
	for _, at := range p.plan.ReleaseNS {
		if !w.Wait(at) {
			return p.rest(), false
		}
		p.release(1, 0)
	}
	tick := sched.NewWaiter(p.clock, 0, p.stop) // nothing here is worth spinning for
	for p.holdsBack() {
		if !tick.Wait(p.clock.Now() + int64(closedTick)) {
			return p.rest(), false
		}
	}
	return nil, false
}

// done releases what the cap has held back.
func (p *cappedPacer) done(int32, int64) { p.release(0, 1) }

// release counts requests that are due or have ended, and sends what may leave now.
func (p *cappedPacer) release(due, ended int) {
	for {
		p.mu.Lock()
		p.due, p.inFlight = p.due+due, p.inFlight-ended
		if p.next >= p.due || p.inFlight >= p.plan.Cap || p.stop.Load() {
			if due > 0 && p.next < p.due {
				p.heldBack[p.due-1] = 1 // at least
			}
			p.mu.Unlock()
			return
		}
		i := p.next
		p.next++
		p.inFlight++
		if p.heldBack[i] > 0 {
			p.heldBack[i] = p.clock.Now() - p.plan.ReleaseNS[i]
			p.heldFor.Add(p.heldBack[i])
		}
		p.mu.Unlock()
		p.send(int32(i), p.plan.ReleaseNS[i])
		due, ended = 0, 0
	}
}

// holdsBack reports whether a request waits for others to end.
func (p *cappedPacer) holdsBack() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.next < p.plan.Requests
}

// rest takes every request that was not released.
func (p *cappedPacer) rest() []int32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	from := p.next
	p.next = p.plan.Requests
	return requestsFrom(int64(from), int64(p.plan.Requests))
}

func (p *cappedPacer) heldNS(i int32) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.heldBack[i]
}

func (p *cappedPacer) held() *metrics.Distribution { return p.heldFor }
