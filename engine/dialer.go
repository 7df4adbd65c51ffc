package engine

import (
	"context"
	"time"
)

const (
	// dialSpare is how many more connections it keeps, for those that die at the wrong moment.
	dialSpare = 4
	// dialTick is how often it dials what is missing.
	dialTick = 5 * time.Millisecond
	// mostDialling bounds how many connections to one endpoint are dialled at a time: listen backlogs of 128 to 4096
	// are common, and accepting is quick.
	mostDialling = 256
	// dialPause is how long the dialer leaves an endpoint alone that refused a connection.
	dialPause = 250 * time.Millisecond
	// endlessPause is longer than any wait for connections.
	endlessPause = 24 * time.Hour
)

// dialer dials ahead of demand: for each endpoint it keeps as many connections idle as requests are due to it within
// dialLead. It does not count on connections that become idle in the meantime, unless requests wait for others.
type dialer struct {
	run    *Run
	ahead  int           // requests of the plan counted into due so far
	soon   int64         // how many may be released within dialLead, if requests wait for others
	pause  time.Duration // how long an endpoint that refused is left alone
	paused []time.Time   // until when each endpoint is
}

// keepFilled keeps connections ready until halt is closed, the run stops, or its plan is over.
func (d *dialer) keepFilled(halt <-chan struct{}) {
	tick := time.NewTicker(dialTick)
	defer tick.Stop()
	for {
		select {
		case <-halt:
			return
		case <-tick.C:
			now := d.run.clock.Now()
			if d.run.stop.Load() || d.over(now) {
				return
			}
			d.dialMissing(now)
		}
	}
}

// over reports whether all of a plan by the clock has left: who still needs a connection then dials it.
func (d *dialer) over(nowNS int64) bool {
	plan := &d.run.work.Plan
	return plan.ByClock() && nowNS > plan.SpanNS()+int64(dialLead)
}

// fillFirst dials what is due within dialLead after the start and waits for it. An endpoint that refuses is not tried
// again before the start, so that the wait ends.
func (d *dialer) fillFirst(ctx context.Context) {
	tick := time.NewTicker(dialTick)
	defer tick.Stop()
	d.pause = endlessPause
	defer func() {
		d.pause = dialPause
		clear(d.paused)
	}()
	for d.dialMissing(0) {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// dialMissing dials what is missing at nowNS, and reports whether connections are being dialled.
func (d *dialer) dialMissing(nowNS int64) (underway bool) {
	d.advance(nowNS + int64(dialLead))
	for i, p := range d.run.pools {
		if p.refused.Swap(false) {
			d.paused[i] = time.Now().Add(d.pause)
		}
		dialing := p.dialing.Load()
		if missing := d.missing(p) - dialing; missing > 0 && !d.paused[i].After(time.Now()) {
			n := min(missing, mostDialling-dialing, p.unused.len()-dialing)
			for range n {
				p.dialAhead()
			}
			dialing += max(0, n)
		}
		underway = underway || dialing > 0
	}
	return underway
}

// missing returns how many connections an endpoint lacks. It does not count those that are being dialled.
func (d *dialer) missing(p *pool) int64 {
	if p.gone.Load() {
		return 0
	}
	plan := d.run.work.Plan
	pools := int64(len(d.run.pools) - d.run.work.Spare)
	if plan.Dependencies != nil && (plan.Open() || plan.Dependencies.Job != nil) {
		return (d.soon+pools-1)/pools + dialSpare - p.idle.len()
	}
	due := p.due + dialSpare - p.idle.len()
	if d.run.lateRouter == nil {
		due -= p.sent.Load()
	}
	if plan.Open() && plan.Cap == 0 {
		return due
	}
	// In a closed loop any endpoint may get all of the next requests, but in the long run each gets its share.
	share := int64(max(plan.Concurrency, plan.Cap))/pools + 1
	inFlight := max(share-p.open(), min(dialSpare, share)-p.idle.len())
	if plan.Open() {
		return min(due, inFlight)
	}
	return inFlight
}

// advance counts the requests due before horizonNS.
func (d *dialer) advance(horizonNS int64) {
	w := d.run.work
	if w.Plan.Dependencies != nil {
		d.soon = int64(d.run.pacer.queue.soon(horizonNS))
		return
	}
	for d.ahead < len(w.Plan.ReleaseNS) && w.Plan.ReleaseNS[d.ahead] < horizonNS {
		if d.run.lateRouter == nil {
			d.run.poolOf(int32(d.ahead)).due++
		}
		d.ahead++
	}
	if b := d.run.lateRouter; b != nil {
		b.needs(d.run.idealOrder.n.Load()+b.skipped.Load(), int64(d.ahead))
	}
}
