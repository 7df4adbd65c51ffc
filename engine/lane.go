package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/sched"
)

// MostLanes bounds Config.Lanes.
const MostLanes = 16

// lanes is how many threads fire. A closed loop needs one, for the first requests: completions release
// the rest; a plan with a cap, or with turns that wait for others, has one, too.
func (r *Run) lanes() int {
	if !r.work.Plan.Open() || r.limiter != nil || r.turns != nil {
		return 1
	}
	return min(max(1, r.cfg.Lanes), MostLanes)
}

// spin is the largest of the lanes' windows, when they have ended.
func (r *Run) spin() time.Duration {
	if r.remote != nil {
		return r.remote.board.spin()
	}
	return slices.Max(r.spins)
}

// startLanes starts the threads that fire, which ended waits for, and returns when they are placed. After an error none of
// them fires.
func (r *Run) startLanes(ended *sync.WaitGroup) error {
	r.spins = make([]time.Duration, r.lanes())
	r.senders = make([]int, r.lanes())
	placed, start := make(chan lanePlacing), make(chan bool)
	for i := range r.lanes() {
		ended.Go(func() { r.lane(i, placed, start) })
	}
	all := gatherPlacings(placed, r.lanes())
	r.placement = all.Placement
	for range r.lanes() {
		start <- all.err == nil
	}
	return all.err
}

// lanePlacing is what became of a lane's placement.
type lanePlacing struct {
	sched.Placement
	err error
}

// gatherPlacings waits for every lane: they are placed alike.
func gatherPlacings(placed <-chan lanePlacing, lanes int) (all lanePlacing) {
	for range lanes {
		p := <-placed
		all = lanePlacing{p.Placement, cmp.Or(all.err, p.err)}
	}
	return all
}

// lane is a thread that fires. Its goroutine ends with the thread still locked, so that Go drops the thread.
func (r *Run) lane(i int, placed chan<- lanePlacing, start <-chan bool) {
	p, err := sched.Place(r.cfg.Realtime)
	r.senders[i] = threadID()
	placed <- lanePlacing{p, err}
	if !<-start {
		return
	}
	if r.turns != nil {
		w := sched.NewWaiter(r.clock, r.cfg.Spin, &r.stop)
		r.fireTurns(w)
		r.spins[i] = w.Spin()
		return
	}
	if !r.work.Plan.Open() {
		r.fireClosed(sched.NewWaiter(r.clock, 0, &r.stop)) // nothing there is worth spinning for
		return
	}
	w := sched.NewWaiter(r.clock, r.cfg.Spin, &r.stop)
	if r.limiter != nil {
		r.fireCapped(w)
	} else {
		r.fireOpen(w)
	}
	r.spins[i] = w.Spin()
}

// fireOpen fires what no other lane has claimed, or abandons it when the run is stopped.
func (r *Run) fireOpen(w *sched.Waiter) {
	at := r.work.Plan.ReleaseNS
	for i := r.claim(); i < len(at); i = r.claim() {
		if w.Wait(at[i]) {
			r.fire(int32(i))
		} else {
			r.unsent(int32(i), r.notItsTime())
		}
	}
}

// from lists the requests from i on.
func (r *Run) from(i int) (list []int32) {
	for ; i < r.work.Requests(); i++ {
		list = append(list, int32(i))
	}
	return list
}

// claim takes the next request that nobody has taken.
func (r *Run) claim() int { return int(r.next.Add(1) - 1) }

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
		waited := w.Wait(min(plan.UntilNS, r.clock.Now()+int64(closedLook)))
		if r.clock.Now() >= plan.UntilNS {
			r.skip(r.from(r.takeRest()))
			return
		}
		if !waited {
			r.abandon(r.takeRest())
			return
		}
	}
}

// takeRest takes every request of a closed loop that nobody has released and returns the first of them.
func (r *Run) takeRest() int {
	n := int64(r.work.Requests())
	return int(min(r.next.Swap(n), n))
}

// releaseNext releases the next request of a closed loop or of a plan with a cap, on the goroutine that completed another one.
func (r *Run) releaseNext() {
	switch {
	case r.limiter != nil:
		r.pass(0, 1)
		return
	case r.turns != nil:
		r.fireAll(r.turns.ready(r, 1))
		return
	}
	if r.work.Plan.Open() || r.stop.Load() {
		return
	}
	now := r.clock.Now()
	if now >= r.work.Plan.UntilNS {
		return
	}
	if i := r.claim(); i < r.work.Requests() {
		r.records[i].PlannedNS = now
		r.fire(int32(i))
	}
}

// fire sends request i now: the hot path.
func (r *Run) fire(i int32) {
	p := r.place(i)
	p.fired.Add(1)
	if !r.work.Images.Ready(int(i)) {
		r.sendLate(i, p)
		return
	}
	r.work.Images.aim(i, p.target)
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

// sendLate sends request i, for which no connection or no image is ready, on a connection that a worker dials for it.
func (r *Run) sendLate(i int32, p *peer) {
	wanted := r.clock.Now()
	unbuilt := !r.work.Images.Ready(int(i))
	r.workers.do(func() { r.dialAndSend(i, p, wanted, unbuilt) })
}

// dialAttempts: a server, or a balancer without one, may close a connection as soon as it is open.
const dialAttempts = 2

func (r *Run) dialAndSend(i int32, p *peer, wantedNS int64, unbuilt bool) {
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
		late := r.work.Plan.Open() && r.records[i].Resent == 0 && !unbuilt && r.heldBackNS(i) == 0
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
	rec.Outcome, rec.Error = record.ConnectError, r.cfg.Secrets.line(err.Error())
	r.finish(i)
	r.releaseNext()
}
