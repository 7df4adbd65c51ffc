package engine

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/audit"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/workload"
	"github.com/fastreplay/fastreplay/sched"
)

const (
	// ringTick is how often a builder without room looks for room, and longestRingTick the same while little of the
	// ring is used at a time. To wake it takes as long as to build two or three requests.
	ringTick, longestRingTick = 2 * time.Millisecond, 16 * time.Millisecond
	// Of what share of the ring it is built anew at once, and below which share it waits longer the next time.
	muchOfRing, littleOfRing = 8, 32
)

// batch has the requests up to, not including, to. All of them were built at atNS.
type batch struct {
	to   int
	atNS int64
}

// aheadBuilder builds, during a run, the requests that did not fit into memory before it.
type aheadBuilder struct {
	work    *workload.Work
	clock   sched.Clock
	needed  func(i int) bool // whether the arena must still hold request i
	batches []batch          // the first has what was built before the run
}

// run builds until all is built or ctx ends.
func (a *aheadBuilder) run(ctx context.Context) {
	m := a.work.Prebuilt
	var built atomic.Int64
	every := ringTick
	tick := time.NewTicker(every)
	defer tick.Stop()
	a.batches = []batch{{to: m.Built(), atNS: math.MinInt64}}
	for from := m.Built(); from < a.work.Requests(); from = m.Built() {
		before := built.Load()
		to, err := m.BuildMore(ctx, a.needed, &built)
		if err != nil {
			a.end()
			return
		}
		if to > from {
			a.batches = append(a.batches, batch{to, a.clock.Now()})
		}
		switch more := built.Load() - before; {
		case more > m.RingBytes()/muchOfRing:
			every = ringTick
			continue
		case more < m.RingBytes()/littleOfRing:
			every = min(2*every, longestRingTick)
		}
		tick.Reset(every)
		select {
		case <-ctx.Done():
			a.end()
			return
		case <-tick.C:
		}
	}
}

// end notes the requests that were not built as built now: none of them was built before.
func (a *aheadBuilder) end() {
	a.batches = append(a.batches, batch{a.work.Requests(), a.clock.Now()})
}

// result returns how building went; nil if all requests fit into memory. It takes the fates of all requests, and how
// long after its planned time each could be sent, in ns. Call it when run has returned.
func (a *aheadBuilder) result(fates []audit.Fate, afterNS func(i int32) int64) *metrics.BuildAhead {
	if !a.work.Prebuilt.InRing() {
		return nil
	}
	found := &metrics.BuildAhead{WindowBytes: a.work.Prebuilt.RingBytes()}
	least := int64(math.MaxInt64)
	i := a.batches[0].to
	for _, b := range a.batches[1:] {
		for ; i < b.to; i++ {
			if fates[i].Outcome == record.NotSent {
				continue
			}
			lead := fates[i].PlannedNS + afterNS(int32(i)) - b.atNS // until it could be sent
			least = min(least, lead)
			if lead < 0 {
				found.Late++
			}
		}
	}
	if least != math.MaxInt64 {
		ms := float64(least) / 1e6
		found.LeastLeadMS = &ms
	}
	return found
}
