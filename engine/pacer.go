package engine

import (
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

func newPacer(p pacing) pacer {
	if p.plan.ByClock() {
		return &openPacer{pacing: p}
	}
	return &queuePacer{p, newQueue(p.plan, p.stop)}
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

func (p *openPacer) requestEnded(int32, int64)   {}
func (p *openPacer) requestSent(int32, int64)    {}
func (p *openPacer) heldNS(int32) int64          { return 0 }
func (p *openPacer) held() *metrics.Distribution { return nil }

// queuePacer holds requests back until those that they wait for have been sent or have ended, or until there is room for them in a
// closed loop or under a cap. Its queue says which leave. The pacer sends them without holding the queue's mutex.
type queuePacer struct {
	pacing
	queue *queue
}

// How often the pacer checks whether its time is over, and, if requests think, whether an answer has set an instant that is earlier
// than the next known one.
const (
	queueTick = 10 * time.Millisecond
	thinkTick = time.Millisecond
)

// atOnce is for how many requests that leave together no memory is needed.
const atOnce = 8

// run releases what the clock releases, and returns when all are released or the plan's time is over.
func (p *queuePacer) run(w *sched.Waiter) (left []int32, over bool) {
	tick, every := sched.NewWaiter(p.clock, 0, p.stop), int64(queueTick) // nothing has to be as exact as spinning is
	until, thinks := p.queue.endNS(), p.queue.turns.Think
	if thinks {
		every = int64(thinkTick)
	}
	if !p.plan.Open() && tick.Wait(0) {
		p.sendAll(p.queue.begin(0))
	}
	for {
		at, unreleased := p.queue.nextDue()
		if unreleased == 0 {
			return nil, false
		}
		waited, soon := false, p.clock.Now()+every
		if at <= soon || at < until && !thinks {
			waited = w.Wait(at)
		} else {
			waited = tick.Wait(min(soon, until))
		}
		now := p.clock.Now()
		if waited {
			p.sendAll(p.queue.due(now)) // even if the sender is late, it releases what was due before the end
		}
		if over = now >= until; over || !waited {
			return p.queue.rest(), over
		}
	}
}

func (p *queuePacer) requestSent(i int32, nowNS int64) {
	if p.queue.announces(i) {
		p.sendAll(p.queue.sent(i, nowNS))
	}
}

func (p *queuePacer) requestEnded(i int32, nowNS int64) {
	var room [atOnce]release
	p.sendAll(p.queue.ended(room[:0], i, nowNS))
}

func (p *queuePacer) heldNS(i int32) int64 { return p.queue.heldNS(i) }

// held is nil in a closed loop, whose requests have no instants of their own.
func (p *queuePacer) held() *metrics.Distribution {
	if !p.plan.Open() {
		return nil
	}
	return p.queue.heldFor
}

// sendAll sends requests that were released just now.
func (p *queuePacer) sendAll(leaving []release) {
	for _, x := range leaving {
		if p.send(x.request, x.atNS) {
			p.requestSent(x.request, p.clock.Now())
		}
	}
}
