package mockllm

import (
	"math"
	"sync"
	"time"
)

// pacer writes the events of many replies at their instants, from one goroutine that never blocks on a socket.
type pacer struct {
	clock *clock
	wake  chan struct{}
	stop  chan struct{}

	mu      sync.Mutex
	wheel   wheel
	sleepTo int64 // the pacer sleeps until then; math.MinInt64 while it is awake

	batch []*reply
	out   eventBuffer
}

func newPacer(c *clock) *pacer {
	return &pacer{clock: c, wake: make(chan struct{}, 1), stop: make(chan struct{}), sleepTo: math.MinInt64}
}

// add takes over r until it ends or blocks.
func (p *pacer) add(r *reply) {
	p.mu.Lock()
	if r.gone.Load() {
		p.mu.Unlock()
		r.end(endGone)
		return
	}
	p.insert(r)
	early := r.due < p.sleepTo
	if early {
		p.sleepTo = r.due
	}
	p.mu.Unlock()
	if early {
		select {
		case p.wake <- struct{}{}:
		default: // already woken
		}
	}
}

func (p *pacer) insert(r *reply) {
	r.inWheel = true
	p.wheel.add(r)
}

// cancel takes r back, whose client is gone. It reports false when the pacer is just serving r; then r.gone, set
// before, makes the pacer end it.
func (p *pacer) cancel(r *reply) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !r.inWheel {
		return false
	}
	r.inWheel = false
	p.wheel.remove(r)
	return true
}

// timerSlack is by how much the runtime's timers may be late: up to it the pacer sleeps by other means, which nothing
// interrupts.
const timerSlack = time.Millisecond

func (p *pacer) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		p.mu.Lock()
		p.batch = p.wheel.expire(p.clock.now(), p.batch[:0])
		for _, r := range p.batch {
			r.inWheel = false
		}
		if len(p.batch) == 0 {
			wait := p.prepareSleep()
			p.mu.Unlock()
			if wait < timerSlack {
				finePause(wait)
				continue
			}
			timer.Reset(wait - timerSlack)
			select {
			case <-timer.C:
			case <-p.wake:
			case <-p.stop:
				return
			}
			continue
		}
		p.sleepTo = math.MinInt64
		p.mu.Unlock()
		p.serve()
	}
}

// prepareSleep notes until when the pacer sleeps and returns for how long.
func (p *pacer) prepareSleep() time.Duration {
	instant, ok := p.wheel.next()
	if !ok {
		p.sleepTo = math.MaxInt64
		return time.Hour
	}
	p.sleepTo = instant
	return max(time.Duration(instant-p.clock.now()), 0)
}

// serve writes what is due in the batch and takes back what is not at its end.
func (p *pacer) serve() {
	kept := p.batch[:0]
	for _, r := range p.batch {
		if r.advance(&p.out) {
			kept = append(kept, r)
		}
	}
	gone := kept[:0]
	p.mu.Lock()
	for _, r := range kept {
		if r.gone.Load() {
			gone = append(gone, r)
		} else {
			p.insert(r)
		}
	}
	p.mu.Unlock()
	for _, r := range gone {
		r.end(endGone)
	}
}
