package engine

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/sched"
)

// A pacer decides when requests are released: by the clock, in a closed loop, under a cap, or after others. It releases a request
// by calling pacing.send.
type pacer interface {
	// run releases requests on the calling thread, which is a sender's, at w's deadlines. It returns the requests that nobody
	// has released, in ascending order. If over, the plan's time has ended and they are not part of the run; otherwise the run
	// was stopped. A pacer that only follows the clock may run on several threads at once.
	run(w *sched.Waiter) (left []int32, over bool)
	// requestEnded is called once for each request that has ended, at nowNS, by the goroutine that ended it. It may release others.
	requestEnded(i int32, nowNS int64)
	// requestSent is called for a request that send could not send at once, when it is sent. It may release others.
	requestSent(i int32, nowNS int64)
	// heldNS returns for how long request i was held back after its planned instant; planned_ns stays that instant.
	heldNS(i int32) int64
	// held returns for how long requests were held back, in ns; nil if the pacer holds none back. Call it after the run.
	held() *metrics.Distribution
}

// pacing is what every pacer has.
type pacing struct {
	plan  sched.Plan
	clock *sched.Monotonic
	stop  *atomic.Bool                               // if set, nothing more is released
	send  func(i int32, plannedNS int64) (sent bool) // sends request i now, on the calling thread, or lets another one send it soon
}

func (pacing) requestEnded(int32, int64)   {}
func (pacing) requestSent(int32, int64)    {}
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

// requestsFrom returns the requests from i up to n.
func requestsFrom(i, n int64) (list []int32) {
	for ; i < n; i++ {
		list = append(list, int32(i))
	}
	return list
}

// closedPacer keeps a number of requests in flight: each request that ends releases the next one.
type closedPacer struct {
	pacing
	next atomic.Int64 // requests before this one have been released
}

// closedTick is how often a pacer that waits for answers checks whether the plan's time is over.
const closedTick = 10 * time.Millisecond

// run releases the first requests, and returns when all are released or the plan's time is over. It does not use the sender's waiter,
// which spins before an instant: nothing here has to be that exact.
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

// rest returns the requests that nobody has released, and releases none of them any more.
func (p *closedPacer) rest() []int32 {
	n := int64(p.plan.Requests)
	return requestsFrom(p.next.Swap(n), n)
}

func (p *closedPacer) requestEnded(int32, int64) {
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

// run releases requests at their planned instants if the cap allows it, and returns when all are released.
func (p *cappedPacer) run(w *sched.Waiter) (left []int32, over bool) {
	for _, at := range p.plan.ReleaseNS {
		if !w.Wait(at) {
			return p.rest(), false
		}
		p.release(1, 0)
	}
	tick := sched.NewWaiter(p.clock, 0, p.stop) // nothing here has to be as exact as spinning is
	for p.holdsBack() {
		if !tick.Wait(p.clock.Now() + int64(closedTick)) {
			return p.rest(), false
		}
	}
	return nil, false
}

// requestEnded releases a request that the cap has held back.
func (p *cappedPacer) requestEnded(int32, int64) { p.release(0, 1) }

// release counts requests that are due or have ended, and sends those that the cap allows now.
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

// rest returns the requests that were not released, and releases none of them any more.
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
