package engine

import (
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/engine/wire"
	"github.com/fastreplay/fastreplay/sched"
)

// TestNoPauseWhereSomethingDependsOnIt: a reader pauses only if a ring tells segments apart, nothing waits for an answer
// or for room, and the last batch had nothing that must not wait.
func TestNoPauseWhereSomethingDependsOnIt(t *testing.T) {
	open := func(r *Run) {}
	for _, c := range []struct {
		name   string
		plan   func([]int64) (sched.Plan, error)
		change func(*Run)
		batch  func(*pause)
		want   bool
	}{
		{"nothing depends on it", openPlan, open, func(*pause) {}, true},
		{"a small read that the ring has seen", openPlan, open, func(p *pause) { p.note(leastWindow-1, 1, false) }, true},
		{"answers release requests", closedPlan(2), open, func(*pause) {}, false},
		{"no ring", openPlan, func(r *Run) { r.ring = nil }, func(*pause) {}, false},
		{"a bound on lag", openPlan, func(r *Run) { r.cfg.LagBounded = true }, func(*pause) {}, false},
		{"a writer waits for room", openPlan, func(r *Run) { r.flushing.Add(1) }, func(*pause) {}, false},
		{"a large read", openPlan, open, func(p *pause) { p.note(leastWindow, 1, false) }, false},
		{"the ring has missed segments", openPlan, open, func(p *pause) { p.note(1, 0, false) }, false},
		{"more is ready", openPlan, open, func(p *pause) { p.begin(p.batchNS, true) }, false},
		{"the batch took long", openPlan, open, func(p *pause) { p.batchNS -= int64(longestPause) }, false},
	} {
		w, _ := equalWork(t, 4, c.plan)
		r := newRun(t, oneThread, w, new(sink))
		r.ring = new(wire.Ring)
		c.change(r)
		const ahead = time.Hour // no load makes the batch old
		p := pause{}
		p.begin(r.clock.Now()+int64(ahead), false)
		c.batch(&p)
		if c.name == "the batch took long" {
			p.batchNS -= int64(ahead)
		}
		wake := must.Have(newEpollReader(r))(t)
		defer wake.close()
		r.epollReaders.all = append(r.epollReaders.all, wake)
		r.epollReaders.hurry() // so that the pause ends at once
		expect.Equal(t, p.take(r, wake.wake), c.want, c.name)
	}
}

// TestPausesGrowWhereNobodyDependsOnThem: they double while reads find few segments, and shrink where one finds many, or
// much of what a buffer may hold. They are as short as can be if a server may wait for acknowledgements.
func TestPausesGrowWhereNobodyDependsOnThem(t *testing.T) {
	p := pause{}
	for _, c := range []struct {
		n, segments int
		bound       bool
		want        time.Duration
	}{
		{100, 1, true, shortestPause},
		{100, mostLying / 2, false, 2 * shortestPause},
		{100, mostLying, false, 2 * shortestPause},
		{100, 1, false, 4 * shortestPause},
		{100, mostLying + 1, false, 2 * shortestPause},
		{leastWindow * 3 / 4, 1, false, shortestPause},
		{leastWindow * 3 / 4, 1, false, shortestPause},
	} {
		p.begin(0, false)
		p.note(100, 1, false)
		p.note(c.n, c.segments, c.bound)
		p.adapt()
		expect.Equal(t, time.Duration(p.lengthNS), c.want, "after %+v", c)
	}
	for range 10 {
		p.adapt()
	}
	p.segments = 1
	for range 10 {
		p.adapt()
	}
	expect.Equal(t, time.Duration(p.lengthNS), longestPause, "at most")
}
