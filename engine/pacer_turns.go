package engine

import (
	"container/heap"
	"math"
	"sync"
	"time"

	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/sched"
)

// turnsPacer holds requests back until the turns before them have ended. The mutex guards all of its fields. It sends requests
// without holding the mutex.
type turnsPacer struct {
	pacing
	mu      sync.Mutex
	next    []int32 // the requests that follow request i, as a list: the first is follows[i], the one after j is next[j]
	follows []int32
	state   []turnState
	left    int                   // requests that have not been released
	delayed delayedReleases       // requests whose previous turn has ended, and that wait for their time
	heldFor *metrics.Distribution // how long after their own instants follow-up turns were released, ns

	inOrder int     // the own instants of the requests before this one have come; in a closed loop, their turns in the order
	waiting []int32 // in a closed loop: requests that may be released, in order
	free    int     // in a closed loop: how many more may be in flight
}

type turnState struct {
	ended, due, released bool
}

func newTurnsPacer(p pacing) *turnsPacer {
	n := p.plan.Requests
	t := &turnsPacer{pacing: p, next: make([]int32, n), follows: make([]int32, n), state: make([]turnState, n), left: n, heldFor: metrics.NewHistogram()}
	for i := range t.follows {
		t.follows[i], t.next[i] = trace.NoTurn, trace.NoTurn
	}
	for i := n - 1; i >= 0; i-- { // backwards, so that the lists are in order
		if before := p.plan.Turns.After[i]; before != trace.NoTurn {
			t.next[i], t.follows[before] = t.follows[before], int32(i)
		}
	}
	return t
}

// delayedReleases is a heap of requests by their time of release, the earliest on top.
type delayedReleases []release

type release struct {
	atNS    int64
	request int32
}

func (h delayedReleases) Len() int           { return len(h) }
func (h delayedReleases) Less(i, j int) bool { return h[i].atNS < h[j].atNS }
func (h delayedReleases) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *delayedReleases) Push(x any)        { *h = append(*h, x.(release)) }
func (h *delayedReleases) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}

// isDelayed reports whether request i is released some time after the previous turn, not at its own instant.
func (t *turnsPacer) isDelayed(i int) bool {
	return t.plan.Turns.ThinkNS != nil && t.plan.Turns.After[i] != trace.NoTurn
}

// mayLeave reports whether the turn before request i has ended, or there is none.
func (t *turnsPacer) mayLeave(i int) bool {
	before := t.plan.Turns.After[i]
	return before == trace.NoTurn || t.state[before].ended
}

// release adds request i to list, as released at atNS.
func (t *turnsPacer) release(list []release, i int32, atNS int64) []release {
	if t.plan.Open() && t.plan.Turns.After[i] != trace.NoTurn {
		t.heldFor.Add(max(0, atNS-t.plan.ReleaseNS[i]))
	}
	t.state[i].released = true
	t.left--
	return append(list, release{atNS, i})
}

// after notes that request i has ended, at nowNS, and returns the requests that this releases. A turn whose own instant came after
// nowNS is released for that instant.
func (t *turnsPacer) after(i int32, nowNS int64) (leaving []release) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.state[i].ended = true
	if t.stop.Load() {
		return nil
	}
	for j := t.follows[i]; j != trace.NoTurn; j = t.next[j] {
		switch {
		case t.state[j].released:
		case t.isDelayed(int(j)) && t.plan.Turns.ThinkNS[j] > 0:
			heap.Push(&t.delayed, release{nowNS + t.plan.Turns.ThinkNS[j], j})
		case !t.isDelayed(int(j)) && !t.state[j].due:
		case t.plan.Open():
			if at := t.notBefore(j, nowNS); at < t.plan.UntilNS {
				leaving = t.release(leaving, j, at)
			}
		default:
			t.waiting = append(t.waiting, j)
		}
	}
	return leaving
}

// notBefore returns atNS, or request i's own instant if that is later and the request is not delayed.
func (t *turnsPacer) notBefore(i int32, atNS int64) int64 {
	if t.isDelayed(int(i)) {
		return atNS
	}
	return max(atNS, t.plan.ReleaseNS[i])
}

// freePlaces lets freed more requests of a closed loop be in flight, and returns those it releases: the waiting ones, then the next in
// the order.
func (t *turnsPacer) freePlaces(freed int) (leaving []release) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Now()
	t.free += freed
	if t.plan.Open() || t.stop.Load() || now >= t.plan.UntilNS {
		return nil
	}
	for t.free > 0 {
		i := trace.NoTurn
		if len(t.waiting) > 0 {
			i, t.waiting = int(t.waiting[0]), t.waiting[1:]
		} else if i = t.nextInOrder(); i == trace.NoTurn {
			break
		}
		t.free--
		leaving = t.release(leaving, int32(i), now)
	}
	return leaving
}

// nextInOrder returns the next request in the order that may be released now. Those that it skips are released when the turns before
// them end.
func (t *turnsPacer) nextInOrder() int {
	for t.inOrder < t.plan.Requests {
		i := t.inOrder
		t.inOrder++
		if !t.isDelayed(i) && t.mayLeave(i) {
			return i
		}
		t.state[i].due = true
	}
	return trace.NoTurn
}

// due returns the requests that the clock releases: those whose own instants have come, unless they must wait, and those that have
// waited long enough. It releases none after the end of the plan.
func (t *turnsPacer) due(nowNS int64) (leaving []release) {
	nowNS = min(nowNS, t.plan.UntilNS-1)
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.delayed) > 0 && t.delayed[0].atNS <= nowNS {
		x := heap.Pop(&t.delayed).(release)
		if t.plan.Open() {
			leaving = t.release(leaving, x.request, x.atNS)
		} else {
			t.waiting = append(t.waiting, x.request)
		}
	}
	for t.plan.Open() && t.inOrder < t.plan.Requests && t.plan.ReleaseNS[t.inOrder] <= nowNS {
		i := t.inOrder
		t.inOrder++
		switch {
		case t.isDelayed(i):
		case t.mayLeave(i):
			leaving = t.release(leaving, int32(i), t.plan.ReleaseNS[i])
		default:
			t.state[i].due = true
		}
	}
	return leaving
}

// nextDue returns the next known instant at which the clock releases something, math.MaxInt64 if there is none, and how many requests are
// still to be released.
func (t *turnsPacer) nextDue() (atNS int64, left int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	atNS = math.MaxInt64
	if len(t.delayed) > 0 {
		atNS = t.delayed[0].atNS
	}
	if t.plan.Open() && t.inOrder < t.plan.Requests {
		atNS = min(atNS, t.plan.ReleaseNS[t.inOrder])
	}
	return atNS, t.left
}

// rest returns the requests that were not released, in ascending order, and releases none of them any more.
func (t *turnsPacer) rest() (list []int32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.state {
		if !t.state[i].released {
			t.state[i].released = true
			list = append(list, int32(i))
		}
	}
	t.inOrder, t.left = t.plan.Requests, 0
	return list
}

// turnsTick is how often the pacer checks whether an answer has set an instant that is earlier than the next known one.
const turnsTick = time.Millisecond

// run releases what the clock releases, and returns when all are released or the plan's time is over.
func (t *turnsPacer) run(w *sched.Waiter) (left []int32, over bool) {
	tick := sched.NewWaiter(t.clock, 0, t.stop) // nothing has to be as exact as spinning is
	until := t.plan.UntilNS
	if !t.plan.Open() && tick.Wait(0) {
		t.sendAll(t.freePlaces(t.plan.Concurrency))
	}
	for {
		at, unreleased := t.nextDue()
		if unreleased == 0 {
			return nil, false
		}
		waited, soon := false, t.clock.Now()+int64(turnsTick)
		if at <= soon || at < until && t.plan.Turns.ThinkNS == nil {
			waited = w.Wait(at)
		} else {
			waited = tick.Wait(min(soon, until))
		}
		now := t.clock.Now()
		if waited {
			t.sendAll(t.due(now)) // even if the sender is late, it releases what was due before the end
			t.sendAll(t.freePlaces(0))
		}
		if over = now >= until; over || !waited {
			return t.rest(), over
		}
	}
}

func (t *turnsPacer) requestEnded(i int32, nowNS int64) {
	t.sendAll(t.after(i, nowNS))
	t.sendAll(t.freePlaces(1))
}

// held is nil in a closed loop, whose requests have no instants of their own.
func (t *turnsPacer) held() *metrics.Distribution {
	if !t.plan.Open() {
		return nil
	}
	return t.heldFor
}

// sendAll sends requests that were released just now.
func (t *turnsPacer) sendAll(leaving []release) {
	for _, x := range leaving {
		t.send(x.request, x.atNS)
	}
}
