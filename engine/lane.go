package engine

import (
	"context"
	"errors"
	"time"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/sched"
)

// lane is the thread that fires. Its goroutine ends with the thread still locked, so that Go drops the thread.
func (r *Run) lane(placed chan<- error) {
	var err error
	r.placement, err = sched.Place(r.cfg.Realtime)
	placed <- err
	if err != nil {
		return
	}
	w := sched.NewWaiter(r.clock, r.cfg.Spin, &r.stop)
	if r.work.Plan.Open() {
		r.fireOpen(w)
	} else {
		r.fireClosed(w)
	}
}

func (r *Run) fireOpen(w *sched.Waiter) {
	for i, at := range r.work.Plan.ReleaseNS {
		if !w.Wait(at) {
			r.abandon(i)
			return
		}
		r.fire(int32(i))
	}
}

// closedLook is how often the lane of a closed loop looks whether its time is over.
const closedLook = 10 * time.Millisecond

// fireClosed releases the first requests; each completion then releases another one. At the end of the loop's time, what
// is left is not part of the run.
func (r *Run) fireClosed(w *sched.Waiter) {
	plan := r.work.Plan
	if !w.Wait(0) {
		r.abandon(0)
		return
	}
	r.next.Store(int64(plan.Concurrency))
	for i := range plan.Concurrency {
		r.records[i].PlannedNS = 0
		r.fire(int32(i))
	}
	for r.next.Load() < int64(plan.Requests) {
		if !w.Wait(min(plan.UntilNS, r.clock.Now()+int64(closedLook))) {
			r.abandon(r.takeRest())
			return
		}
		if r.clock.Now() >= plan.UntilNS {
			r.skip(r.takeRest())
			return
		}
	}
}

// takeRest takes every request of a closed loop that nobody has released and returns the first of them.
func (r *Run) takeRest() int {
	n := int64(r.work.Requests())
	return int(min(r.next.Swap(n), n))
}

// releaseNext releases the next request of a closed loop, on the goroutine that completed another one.
func (r *Run) releaseNext() {
	if r.work.Plan.Open() || r.stop.Load() {
		return
	}
	now := r.clock.Now()
	if now >= r.work.Plan.UntilNS {
		return
	}
	if i := r.next.Add(1) - 1; i < int64(r.work.Requests()) {
		r.records[i].PlannedNS = now
		r.fire(int32(i))
	}
}

// fire sends request i now: the hot path.
func (r *Run) fire(i int32) {
	p := r.peerOf(i)
	p.fired.Add(1)
	for {
		c := p.take()
		if c == nil {
			r.sendLate(i, p)
			return
		}
		if c.start(i, parked) {
			return
		}
	}
}

// sendLate sends request i, for which no connection is ready, on one that a worker dials for it.
func (r *Run) sendLate(i int32, p *peer) {
	wanted := r.clock.Now()
	r.workers.do(func() { r.dialAndSend(i, p, wanted) })
}

// dialAttempts: a server, or a balancer without one, may close a connection as soon as it is open.
const dialAttempts = 2

func (r *Run) dialAndSend(i int32, p *peer, wantedNS int64) {
	for range dialAttempts {
		if r.aborted() {
			break
		}
		c, err := p.connect(r.ctx)
		if errors.Is(err, context.Canceled) {
			break
		}
		if err != nil {
			r.connectFailed(i, err)
			return
		}
		c.wantedNS = wantedNS
		late := r.work.Plan.Open() && r.records[i].Resent == 0
		if c.start(i, opening) {
			if late {
				r.notReady.Add(1)
			}
			return
		}
	}
	if r.aborted() {
		r.unsent(i, "the run was interrupted before a connection was ready")
		return
	}
	r.connectFailed(i, errors.New("the server closes new connections before a request is sent"))
}

func (r *Run) connectFailed(i int32, err error) {
	rec := &r.records[i]
	rec.Outcome, rec.Error = record.ConnectError, redactor(r.cfg.Secrets).line(err.Error())
	r.finish(i)
	r.releaseNext()
}
