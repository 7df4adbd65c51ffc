package engine

import (
	"context"
	"time"
)

const (
	// dialLead is how far ahead of their deadlines the dialer has connections ready: many times a round trip between
	// continents, TLS included.
	dialLead = 500 * time.Millisecond
	// dialSpare is how many more than that it keeps, for connections that die at the wrong moment.
	dialSpare = 4
	// dialTick is how often it looks.
	dialTick = 5 * time.Millisecond
	// mostDialling bounds the connections on their way to one endpoint: listen backlogs of 128 to 4096 are common, and accepting is quick.
	mostDialling = 256
	// dialPause keeps the dialer from hammering an address that refuses.
	dialPause = 250 * time.Millisecond
	// endlessPause outlasts any wait for connections.
	endlessPause = 24 * time.Hour
)

// dialer dials ahead of demand: for each endpoint it keeps as many connections idle as requests are due to it within the
// lead. Connections that come back in the meantime only help.
type dialer struct {
	run    *Run
	ahead  int           // requests of the plan counted into due so far
	needs  []int64       // by endpoint, where requests are balanced: how many of those ahead it gets
	pause  time.Duration // how long an endpoint that refuses is left alone
	paused []time.Time   // until when each endpoint is
}

func newDialer(r *Run) *dialer {
	return &dialer{run: r, pause: dialPause, paused: make([]time.Time, len(r.pools)), needs: make([]int64, len(r.pools))}
}

// keep keeps connections ready until halt is closed or the run stops.
func (k *dialer) keepFilled(halt <-chan struct{}) {
	tick := time.NewTicker(dialTick)
	defer tick.Stop()
	for {
		select {
		case <-halt:
			return
		case <-tick.C:
			if k.run.stop.Load() {
				return
			}
			k.dialMissing(k.run.clock.Now())
		}
	}
}

// fillFirst dials what is due within the lead after the start and waits for it. An endpoint that
// refuses is not tried again before the start, so that the wait ends.
func (k *dialer) fillFirst(ctx context.Context) {
	tick := time.NewTicker(dialTick)
	defer tick.Stop()
	k.pause = endlessPause
	defer func() {
		k.pause = dialPause
		clear(k.paused)
	}()
	for k.dialMissing(0) {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// look dials what is missing at nowNS, and reports whether connections are on their way.
func (k *dialer) dialMissing(nowNS int64) (underway bool) {
	k.advance(nowNS + int64(dialLead))
	for i, p := range k.run.pools {
		if p.refused.Swap(false) {
			k.paused[i] = time.Now().Add(k.pause)
		}
		dialing := p.dialing.Load()
		if missing := k.missing(i, p) - dialing; missing > 0 && !k.paused[i].After(time.Now()) {
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

// missing is how many connections endpoint i lacks, those on their way not counted.
func (k *dialer) missing(i int, p *pool) int64 {
	plan := k.run.work.Plan
	due := p.due - p.sent.Load() + dialSpare - p.idle.len()
	if k.run.balance != nil {
		due = k.needs[i] + dialSpare - p.idle.len()
	}
	if plan.Open() && plan.Cap == 0 {
		return due
	}
	// In a closed loop any endpoint may get all of the next requests, but over time each gets its share.
	share := int64(max(plan.Concurrency, plan.Cap)/len(k.run.pools) + 1)
	inFlight := max(share-p.open(), min(dialSpare, share)-p.idle.len())
	if plan.Open() {
		return min(due, inFlight)
	}
	return inFlight
}

// advance counts the requests due before horizonNS.
func (k *dialer) advance(horizonNS int64) {
	w := k.run.work
	for k.ahead < len(w.Plan.ReleaseNS) && w.Plan.ReleaseNS[k.ahead] < horizonNS {
		if k.run.balance == nil {
			k.run.poolOf(int32(k.ahead)).due++
		}
		k.ahead++
	}
	if b := k.run.balance; b != nil {
		b.needs(max(0, int64(k.ahead)-b.n.Load()), k.needs)
	}
}
