package engine

import (
	"sync/atomic"
	"time"

	"github.com/fastreplay/fastreplay/sched"
)

// closedPacer keeps a number of requests in flight: each request that ends releases the next one.
type closedPacer struct {
	pacing
	next atomic.Int64 // requests before this one have been released
}

// closedTick is how often a pacer that waits for answers checks whether the plan's time is over.
const closedTick = 10 * time.Millisecond

// run releases the first requests, and stays until all are released or the plan's time is over. Nothing there is worth
// spinning for, so it does not use the sender's waiter.
func (p *closedPacer) run(*sched.Waiter) (left []int32, over bool) {
	w := sched.NewWaiter(p.clock, 0, p.stop)
	if !w.Wait(0) {
		return p.rest(), false
	}
	p.next.Store(int64(p.plan.Concurrency))
	for i := range p.plan.Concurrency {
		p.send(int32(i), 0)
	}
	for p.next.Load() < int64(p.plan.Requests) {
		waited := w.Wait(min(p.plan.UntilNS, p.clock.Now()+int64(closedTick)))
		if over = p.clock.Now() >= p.plan.UntilNS; over || !waited {
			return p.rest(), over
		}
	}
	return nil, false
}

// rest takes every request that nobody has released.
func (p *closedPacer) rest() []int32 {
	n := int64(p.plan.Requests)
	return requestsFrom(p.next.Swap(n), n)
}

func (p *closedPacer) done(int32, int64) {
	if p.stop.Load() {
		return
	}
	now := p.clock.Now()
	if now >= p.plan.UntilNS {
		return
	}
	if i := p.next.Add(1) - 1; i < int64(p.plan.Requests) {
		p.send(int32(i), now)
	}
}
