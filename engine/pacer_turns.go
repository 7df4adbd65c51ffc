package engine

import (
	"time"

	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/sched"
)

// turnsPacer holds requests back until those that they wait for have been sent or have ended. Its queue says which leave. The pacer
// sends them without holding the queue's mutex.
type turnsPacer struct {
	pacing
	queue *turnQueue
}

func newTurnsPacer(p pacing) *turnsPacer { return &turnsPacer{p, newTurnQueue(p.plan, p.stop)} }

// turnsTick is how often the pacer checks whether an answer has set an instant that is earlier than the next known one.
const turnsTick = time.Millisecond

// run releases what the clock releases, and returns when all are released or the plan's time is over.
func (t *turnsPacer) run(w *sched.Waiter) (left []int32, over bool) {
	tick := sched.NewWaiter(t.clock, 0, t.stop) // nothing has to be as exact as spinning is
	until := t.plan.UntilNS
	if !t.plan.Open() && tick.Wait(0) {
		t.sendAll(t.queue.begin(t.clock.Now()))
	}
	for {
		at, unreleased := t.queue.nextDue()
		if unreleased == 0 {
			return nil, false
		}
		waited, soon := false, t.clock.Now()+int64(turnsTick)
		if at <= soon || at < until && !t.plan.Turns.Think {
			waited = w.Wait(at)
		} else {
			waited = tick.Wait(min(soon, until))
		}
		now := t.clock.Now()
		if waited {
			t.sendAll(t.queue.due(now)) // even if the sender is late, it releases what was due before the end
		}
		if over = now >= until; over || !waited {
			return t.queue.rest(), over
		}
	}
}

func (t *turnsPacer) requestSent(i int32, nowNS int64) {
	if t.queue.announces(i) {
		t.sendAll(t.queue.sent(i, nowNS))
	}
}

func (t *turnsPacer) requestEnded(i int32, nowNS int64) { t.sendAll(t.queue.ended(i, nowNS)) }

// held is nil in a closed loop, whose requests have no instants of their own.
func (t *turnsPacer) held() *metrics.Distribution {
	if !t.plan.Open() {
		return nil
	}
	return t.queue.heldFor
}

// sendAll sends requests that were released just now.
func (t *turnsPacer) sendAll(leaving []release) {
	for _, x := range leaving {
		if t.send(x.request, x.atNS) {
			t.requestSent(x.request, t.clock.Now())
		}
	}
}
