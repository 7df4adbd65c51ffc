package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/route"
	"github.com/fastreplay/fastreplay/sched"
)

// senderCount returns how many threads send. If anything but the clock releases requests it is one: then receivers
// release too.
func (r *Run) senderCount() int {
	if !r.work.Plan.ByClock() {
		return 1
	}
	return min(max(1, r.cfg.Senders), MaxSenders)
}

// spin returns the longest spinning time of a sender before an instant. The senders have ended.
func (r *Run) spin() time.Duration {
	if r.process != nil {
		return r.process.header.spin()
	}
	return slices.Max(r.spins)
}

// startSenders starts the threads that send and returns when they are placed. ended waits for them. After an error
// none of them sends.
func (r *Run) startSenders(ended *sync.WaitGroup) error {
	r.spins = make([]time.Duration, r.senderCount())
	r.senderThreads = make([]int, r.senderCount())
	placed := make(chan threadPlacement)
	start := make(chan bool)
	for i := range r.senderCount() {
		ended.Go(func() { r.runSender(i, placed, start) })
	}
	all := collectPlacements(placed, r.senderCount())
	r.placement = all.Placement
	for range r.senderCount() {
		start <- all.err == nil
	}
	return all.err
}

// threadPlacement is the result of placing a sender's thread.
type threadPlacement struct {
	sched.Placement
	err error
}

// collectPlacements waits until n senders are placed. All are placed alike, so it returns one placement, and the
// first error.
func collectPlacements(placed <-chan threadPlacement, n int) (all threadPlacement) {
	for range n {
		p := <-placed
		all = threadPlacement{p.Placement, cmp.Or(all.err, p.err)}
	}
	return all
}

// runSender sends on a thread of its own. Its goroutine ends with the thread still locked, so that Go drops the thread.
func (r *Run) runSender(i int, placed chan<- threadPlacement, start <-chan bool) {
	p, err := sched.Place(r.cfg.Realtime)
	r.senderThreads[i] = sched.ThreadID()
	placed <- threadPlacement{p, err}
	if !<-start {
		return
	}
	w := sched.NewWaiter(r.clock, r.cfg.Spin, &r.stop)
	left, over := r.pacer.run(w)
	if r.work.Plan.Open() {
		r.spins[i] = w.Spin()
	}
	if over || r.endedEarly.Load() {
		r.skip(left)
		return
	}
	var untaken []int32
	for _, i := range left {
		if r.pacer.isUntaken(i) {
			untaken = append(untaken, i)
		} else {
			r.fail(i, record.NotSent, r.notItsTime())
		}
	}
	r.skip(untaken)
}

// send sends request i now, or soon if no connection is ready; it was released for plannedNS. This is the hot path.
// Only ready sets planned_ns.
func (r *Run) send(i int32, plannedNS int64) {
	r.ready(i, plannedNS)
	p := r.choosePool(i)
	if r.idealOrder != nil {
		r.idealOrder.note(i)
	}
	p.sent.Add(1)
	if r.work.Prebuilt.Ready(int(i)) {
		r.work.Prebuilt.SetTarget(i, p.target)
		for c := p.takeIdle(); c != nil; c = p.takeIdle() {
			if c.start(i, idle) {
				return
			}
		}
	}
	r.sendLate(i, p)
}

// prefetch reads what send is going to read of request i and of the connection that it will probably take. Between two
// requests other threads use the processor and its caches. At 2,000 requests/s, a request left 0.66 µs after its
// instant at the median without it, and a quarter to a third less with it. The sum that it returns means nothing: it
// keeps the compiler from leaving the reads out.
func (r *Run) prefetch(i int32) int64 {
	p := r.poolOf(i)
	sum := r.recordOf(i).SentNS + p.sent.Load()
	if r.work.Prebuilt.Ready(int(i)) {
		sum += r.work.Prebuilt.List(int(i)).Skip
	}
	if c := p.nextIdle(); c != nil {
		sum += c.startedNS.Load() + int64(c.request.Load())
	}
	return sum
}

// sendLate sends request i on a connection that a worker dials for it: no connection was idle, or its bytes were not
// built.
func (r *Run) sendLate(i int32, p *pool) {
	wanted := r.clock.Now()
	unbuilt := !r.work.Prebuilt.Ready(int(i))
	r.workers.do(func() { r.dialAndSend(i, p, wanted, unbuilt) })
}

// dialAttempts is above 1, since a server, or a balancer without a server, may close a connection as soon as it is
// open.
const dialAttempts = 2

// lacksResources reports whether a connection failed since this machine has no more descriptors, local ports or
// memory for it.
func lacksResources(err error) bool {
	lacks := []error{
		ErrNoRoom,
		syscall.EMFILE,
		syscall.ENFILE,
		syscall.EADDRNOTAVAIL,
		syscall.ENOBUFS,
		syscall.ENOMEM,
	}
	return slices.ContainsFunc(lacks, func(lack error) bool { return errors.Is(err, lack) })
}

func (r *Run) dialAndSend(i int32, p *pool, wantedNS int64, unbuilt bool) {
	for range dialAttempts {
		if r.aborted() {
			break
		}
		c, err := p.connect(r.ctx)
		if errors.Is(err, context.Canceled) {
			break
		}
		if err != nil {
			if lacksResources(err) {
				r.noResources.Add(1)
			}
			r.fail(i, record.ConnectError, r.cfg.Secrets.Line(err.Error()))
			return
		}
		c.wantedNS = wantedNS
		before := r.forget(i)
		late := r.work.Plan.Open() && r.recordOf(i).Resent == 0 && !unbuilt && r.pacer.heldNS(i) == 0
		if c.start(i, opening) {
			if late {
				r.notReady.Add(1)
			}
			return
		}
		*r.recordOf(i) = before
	}
	if r.aborted() {
		r.fail(i, record.NotSent, "the run was interrupted before a connection was ready")
		return
	}
	r.fail(i, record.ConnectError, "the server closes new connections before a request is sent")
}

// forget clears what the record of a request that is sent again has of the first attempt, and returns the record as
// it was.
func (r *Run) forget(i int32) (before record.Record) {
	rec := r.recordOf(i)
	before = *rec
	if rec.Resent > 0 {
		rec.Outcome = record.NotSent
		rec.Error = ""
		rec.SentNS = record.None
		rec.WrittenNS = record.None
		rec.WrittenFirstBytes = record.None
		rec.BytesSent = 0
	}
	return before
}

// choosePool returns the pool for request i, which is released now.
func (r *Run) choosePool(i int32) *pool {
	b := r.lateRouter
	if b == nil {
		return r.poolOf(i)
	}
	p := b.choose(int(i))
	rec := r.recordOf(i)
	r.work.Places[i] = route.Place{Target: p.target, Endpoint: p.index}
	rec.Target = p.url
	rec.Endpoint = p.name
	return p
}
