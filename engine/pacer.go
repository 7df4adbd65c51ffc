package engine

import (
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fastreplay/fastreplay/engine/stats"
	"github.com/fastreplay/fastreplay/sched"
)

// A pacer decides when requests are released. It releases a request by calling send. If only the clock releases
// requests, it has no queue. Otherwise its queue holds requests back. They wait for others that must be sent or have
// ended, or until a closed loop or a cap has room. The pacer sends what leaves the queue without holding the queue's
// mutex.
type pacer struct {
	plan  sched.Plan
	clock *sched.Monotonic
	stop  *atomic.Bool // if set, nothing more is released
	// sends request i now, on the calling thread, or lets another one send it soon
	send func(i int32, plannedNS int64)
	// brings what send needs of request i near the processor
	prefetch func(i int32) int64
	next     atomic.Int64 // without a queue: requests before this one belong to some thread
	queue    *queue       // nil = none
	// called when all that prepares has ended; nothing is in flight then, and nothing leaves before it returns
	prepared func()

	beginNS int64 // when a closed loop begins
}

func newPacer(
	plan sched.Plan,
	clock *sched.Monotonic,
	stop *atomic.Bool,
	send func(i int32, plannedNS int64),
) *pacer {
	p := &pacer{
		plan:     plan,
		clock:    clock,
		stop:     stop,
		send:     send,
		prefetch: func(int32) int64 { return 0 },
		prepared: func() {},
	}
	if !plan.ByClock() {
		p.queue = newQueue(plan, stop)
	}
	return p
}

// skip takes out of the plan the requests whose own instants lie before fromNS, and returns them. A closed loop
// begins then. Call it before run.
func (p *pacer) skip(fromNS int64) (list []int32) {
	p.beginNS = fromNS
	if p.queue != nil {
		return p.queue.skip(fromNS)
	}
	first, _ := slices.BinarySearch(p.plan.ReleaseNS, fromNS)
	p.next.Store(int64(first))
	for i := range int32(first) {
		list = append(list, i)
	}
	return list
}

// run releases requests on the calling thread, which is a sender's, at w's deadlines. It returns the requests that
// nobody has released, in ascending order. If over, the plan's time has ended and they are not part of the run;
// otherwise the run was stopped. Without a queue it may run on several threads at once.
func (p *pacer) run(w *sched.Waiter) (left []int32, over bool) {
	if p.queue != nil {
		return p.runQueue(w)
	}
	at := p.plan.ReleaseNS
	for i := p.next.Add(1) - 1; i < int64(len(at)); i = p.next.Add(1) - 1 {
		if w.Sleep(at[i]) {
			p.prefetch(int32(i))
		}
		if w.Wait(at[i]) {
			p.send(int32(i), at[i])
		} else {
			left = append(left, int32(i))
		}
	}
	return left, false
}

// How often the pacer checks whether its time is over. If requests think, it also checks whether an answer has set an
// earlier instant than the next known one.
const (
	queueTick = 10 * time.Millisecond
	thinkTick = time.Millisecond
)

func (p *pacer) runQueue(w *sched.Waiter) (left []int32, over bool) {
	tick, every := sched.NewWaiter(p.clock, 0, p.stop), int64(queueTick) // nothing has to be as exact as spinning is
	thinks := p.queue.turns.Think
	if thinks {
		every = int64(thinkTick)
	}
	if !p.plan.Open() && tick.Wait(p.beginNS) {
		p.sendAll(p.queue.begin(p.beginNS))
	}
	for {
		at, unreleased := p.queue.nextDue()
		until := p.queue.planEndNS()
		if unreleased == 0 {
			return nil, false
		}
		waited := false
		soon := p.clock.Now() + every
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

// requestSent is called for each request whose first byte was written, at sentNS. It may release others.
func (p *pacer) requestSent(i int32, sentNS int64) {
	if p.queue != nil && p.queue.announces(i) {
		p.sendAll(p.queue.sent(i, sentNS))
	}
}

// atOnce is for how many requests that leave together no memory is needed.
const atOnce = 8

// cutStream takes out of the plan what only a good answer to request i leads to. The caller must end these requests.
func (p *pacer) cutStream(i int32) []int32 {
	if p.queue == nil {
		return nil
	}
	return p.queue.cutStream(i)
}

// requestEnded is called once for each request that has ended, at endNS, by the goroutine that ended it. It may release
// others.
func (p *pacer) requestEnded(i int32, endNS int64) {
	if p.queue == nil {
		return
	}
	var room [atOnce]release
	leaving, prepared := p.queue.ended(room[:0], i, endNS)
	p.sendAll(leaving)
	if prepared && !p.stop.Load() {
		p.prepared()
		p.sendAll(p.queue.passBarrier(p.clock.Now()))
	}
}

// isPreparing reports whether the barrier is to come.
func (p *pacer) isPreparing() bool { return p.queue != nil && !p.queue.isOpen() }

// barrierNS is when the barrier was passed; 0 if there is none, or it was not.
func (p *pacer) barrierNS() int64 {
	if p.queue == nil {
		return 0
	}
	return max(0, p.queue.barrierNS.Load())
}

// sendAll sends requests that were released just now.
func (p *pacer) sendAll(leaving []release) {
	for _, x := range leaving {
		p.send(x.request, x.atNS)
	}
}

// isUntaken reports whether request i is part of a job that no lane has taken, in a plan with an end. How many jobs
// lanes take by then is not planned. Call it after run.
func (p *pacer) isUntaken(i int32) bool {
	q := p.queue
	return q != nil && q.inJobs() && p.plan.EndNS < math.MaxInt64 && q.turns.Job[i] >= q.taken
}

// heldNS returns for how long request i was held back after its planned instant; planned_ns stays that instant.
func (p *pacer) heldNS(i int32) int64 {
	if p.queue == nil {
		return 0
	}
	return p.queue.heldNS(i)
}

// held returns for how long requests were held back, in ns. It is nil if none is, and in a closed loop, whose
// requests have no instants of their own. Call it after the run.
func (p *pacer) held() *stats.Distribution {
	if p.queue == nil || !p.plan.Open() {
		return nil
	}
	return p.queue.heldFor
}
