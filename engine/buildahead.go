package engine

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/internal/gather"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// ringTick is how often a builder without room looks for room.
const ringTick = 2 * time.Millisecond

// batch has the requests up to, not including, to. All of them were built at atNS.
type batch struct {
	to   int
	atNS int64
}

// buildAhead builds the requests that are not built yet, until all are built or ctx ends.
func (r *Run) buildAhead(ctx context.Context) {
	m := r.work.Prebuilt
	var built atomic.Int64
	tick := time.NewTicker(ringTick)
	defer tick.Stop()
	r.batches = []batch{{to: m.Built(), atNS: math.MinInt64}}
	for from := m.Built(); from < r.work.Requests(); from = m.Built() {
		to, err := m.BuildMore(ctx, r.needsBytes, &built)
		if err != nil {
			r.endBuilding()
			return
		}
		if to > from {
			r.batches = append(r.batches, batch{to, r.clock.Now()})
			continue
		}
		select {
		case <-ctx.Done():
			r.endBuilding()
			return
		case <-tick.C:
		}
	}
}

// endBuilding notes the requests that were not built as built now: none of them was built before.
func (r *Run) endBuilding() {
	r.batches = append(r.batches, batch{r.work.Requests(), r.clock.Now()})
	if !r.stop.Load() { // else not all were sent
		r.work.Prebuilt.DigestRest()
	}
}

// builtAhead returns how building during the run went; nil if all requests fit into memory. Call it at the end of Do.
func (r *Run) builtAhead() *metrics.BuildAhead {
	if !r.work.Prebuilt.InRing() {
		return nil
	}
	found := &metrics.BuildAhead{WindowBytes: r.work.Prebuilt.RingBytes()}
	least := int64(math.MaxInt64)
	i := r.batches[0].to
	for _, b := range r.batches[1:] {
		for ; i < b.to; i++ {
			if r.records[i].Outcome == record.NotSent {
				continue
			}
			lead := r.records[i].PlannedNS + r.pacer.heldNS(int32(i)) - b.atNS // until it could be sent
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

// needsBytes reports whether the arena must still hold request i.
func (r *Run) needsBytes(i int) bool {
	if r.work.Prebuilt.Unneeded(i) {
		return false
	}
	return r.process == nil || r.process.slots[i].state.Load() != slotWhole
}

// bytesOf returns what is written for request i: the bytes of its live history, or else the arena's. If the
// connection was dialled for the request (fresh), a ring may have overwritten its bytes, so bytesOf builds them
// again.
func (r *Run) bytesOf(i int32, fresh bool) gather.List {
	if b := r.cfg.History.Bytes(i); b != nil {
		return gather.Of(b)
	}
	if fresh && r.work.Prebuilt.InRing() {
		r.work.Prebuilt.MarkUnneeded(i)
		return gather.Of(r.work.Prebuilt.Whole(int(i)))
	}
	return r.work.Prebuilt.List(int(i))
}
