package capacity

import (
	"slices"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// Span is the part of a probe that counts, its measured window. Instants and durations are in ns; instants since the
// probe's start.
type Span struct {
	FromNS  int64 // where the warm-in ends
	ForNS   int64
	SliceNS int64
}

// Has reports whether a request is in the window, by its planned instant.
func (w Span) Has(plannedNS int64) bool {
	return plannedNS >= w.FromNS && plannedNS < w.FromNS+w.ForNS
}

// Counts reports whether a request that has ended is one of the window's. Those that were left out, or that ended
// because the probe did, are not.
func (w Span) Counts(r *record.Record) bool {
	return w.Has(r.PlannedNS) && r.Outcome != record.Cancelled && r.Outcome != record.NotSent
}

// Counter counts the requests of a probe by slices of its window. One goroutine uses it.
type Counter struct {
	window     Span
	objectives []Objective
	slices     []Slice // InFlight is the time in ns that requests were in flight
}

// NewCounter returns a counter that has seen nothing.
func NewCounter(objectives []Objective, w Span) *Counter {
	c := &Counter{w, objectives, make([]Slice, (w.ForNS+w.SliceNS-1)/w.SliceNS)}
	owned := slices.ContainsFunc(objectives, func(o Objective) bool { return o.Field != "" })
	for i := range c.slices {
		c.slices[i].Beyond = make([]int64, len(objectives))
		if owned {
			c.slices[i].Of = make([]Tally, len(objectives))
		}
	}
	return c
}

// Add counts a request that has ended.
func (c *Counter) Add(r *record.Record) {
	c.count(c.slices, r, false)
}

// count adds a request to slices. One that is open is decided only if it is beyond a limit.
func (c *Counter) count(of []Slice, r *record.Record, open bool) {
	if r.SentNS != record.None {
		c.inFlight(of, r.SentNS, max(r.SentNS, r.DoneNS, r.LastTokenNS))
	}
	at := (r.PlannedNS - c.window.FromNS) / c.window.SliceNS
	if !c.window.Counts(r) || at >= int64(len(of)) {
		return
	}
	if ns := r.TPOTNS(); !open && r.Outcome == record.OK && ns != record.None {
		of[at].TPOTMS += float64(ns) / 1e6
		of[at].Timed++
	}
	for i := range c.objectives {
		if c.objectives[i].Beyond(r) {
			of[at].Beyond[i]++
			open = false
		}
	}
	ended := int64(1)
	if open {
		ended = 0
	}
	of[at].Requests += ended
	of[at].Open += 1 - ended
	for i := range of[at].Of {
		if c.objectives[i].concerns(metrics.OwnerOf(r)) {
			of[at].Of[i].Requests += ended
			of[at].Of[i].Open += 1 - ended
		}
	}
}

// inFlight adds the time of a request to the slices that it was in flight in.
func (c *Counter) inFlight(of []Slice, fromNS, toNS int64) {
	fromNS = max(0, fromNS-c.window.FromNS)
	toNS -= c.window.FromNS
	for i := fromNS / c.window.SliceNS; i < int64(len(of)) && i*c.window.SliceNS < toNS; i++ {
		of[i].InFlight += float64(min(toNS, (i+1)*c.window.SliceNS) - max(fromNS, i*c.window.SliceNS))
	}
}

// Peek returns what is known at nowNS: of the slices that are over, or of all if the probe has ended. eachOpen calls a
// function for each request that has not ended, with instants that are record.None if it did not come to that.
func (c *Counter) Peek(
	nowNS int64, eachOpen func(func(of rows.Owner, plannedNS, sentNS, firstNS int64)), ended bool,
) Peek {
	over := len(c.slices)
	if !ended {
		over = int(max(0, min(int64(over), (nowNS-c.window.FromNS)/c.window.SliceNS)))
	}
	all := slices.Clone(c.slices[:over])
	for i := range all {
		all[i].Beyond = slices.Clone(all[i].Beyond)
		all[i].Of = slices.Clone(all[i].Of)
	}
	eachOpen(func(of rows.Owner, plannedNS, sentNS, firstNS int64) {
		c.count(all, undecided(of, plannedNS, sentNS, firstNS, nowNS), true)
	})
	for i := range all {
		all[i].InFlight /= float64(c.window.SliceNS)
	}
	for ended && len(all) > 0 && all[len(all)-1].Requests == 0 { // the trace has no more
		all = all[:len(all)-1]
	}
	return Peek{
		SliceS:  float64(c.window.SliceNS) / 1e9,
		Slices:  all,
		WindowS: float64(c.window.ForNS) / 1e9,
		Ended:   ended,
	}
}

// undecided is a request that has not ended, as if all that it lacks came at nowNS. If that is beyond an objective, the
// request is, whatever becomes of it.
func undecided(of rows.Owner, plannedNS, sentNS, firstNS, nowNS int64) *record.Record {
	at := func(ns int64) int64 {
		if ns == record.None {
			return nowNS
		}
		return ns
	}
	return &record.Record{
		Tenant:       of.Tenant,
		Model:        of.Model,
		Class:        of.Class,
		Priority:     of.Priority,
		PlannedNS:    plannedNS,
		SentNS:       at(sentNS),
		FirstTokenNS: at(firstNS),
		LastTokenNS:  nowNS,
		DoneNS:       nowNS,
		Outcome:      record.OK,
	}
}
