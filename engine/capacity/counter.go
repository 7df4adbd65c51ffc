package capacity

import (
	"iter"
	"slices"

	"github.com/fastreplay/fastreplay/codec/record"
)

// Span is the part of a probe that counts, its measured window. Instants and durations are in ns; instants since the probe's start.
type Span struct {
	FromNS  int64 // where the warm-in ends
	ForNS   int64
	SliceNS int64
}

// Has reports whether a request is in the window, by its planned instant.
func (w Span) Has(plannedNS int64) bool {
	return plannedNS >= w.FromNS && plannedNS < w.FromNS+w.ForNS
}

// Ongoing is a request that was to be sent and has not ended. SentNS and FirstNS, of its first token, are record.None if it did not
// come to that.
type Ongoing struct{ PlannedNS, SentNS, FirstNS int64 }

// Counter counts the requests of a probe by slices of its window. One goroutine uses it.
type Counter struct {
	window     Span
	objectives []Objective
	slices     []Slice // InFlight is the time in ns that requests were in flight
}

// NewCounter returns a counter that has seen nothing.
func NewCounter(objectives []Objective, w Span) *Counter {
	return &Counter{w, objectives, emptySlices(int((w.ForNS+w.SliceNS-1)/w.SliceNS), len(objectives))}
}

func emptySlices(n, objectives int) []Slice {
	all := make([]Slice, n)
	for i := range all {
		all[i].Beyond = make([]int64, objectives)
	}
	return all
}

// Counts reports whether a request that has ended is one of the window's. Those that were left out, or that ended because the probe did,
// are not.
func (w Span) Counts(r *record.Record) bool {
	return w.Has(r.PlannedNS) && r.Outcome != record.Cancelled && r.Outcome != record.NotSent
}

// Add counts a request that has ended.
func (c *Counter) Add(r *record.Record) {
	if r.SentNS != record.None {
		c.inFlight(c.slices, r.SentNS, max(r.SentNS, r.DoneNS, r.LastTokenNS))
	}
	if !c.window.Counts(r) {
		return
	}
	s := &c.slices[(r.PlannedNS-c.window.FromNS)/c.window.SliceNS]
	s.Requests++
	for i := range c.objectives {
		if c.objectives[i].Beyond(r) {
			s.Beyond[i]++
		}
	}
}

// inFlight adds the time of a request to the slices that it was in flight in.
func (c *Counter) inFlight(of []Slice, fromNS, toNS int64) {
	fromNS, toNS = max(0, fromNS-c.window.FromNS), toNS-c.window.FromNS
	for i := fromNS / c.window.SliceNS; i < int64(len(of)) && i*c.window.SliceNS < toNS; i++ {
		of[i].InFlight += float64(min(toNS, (i+1)*c.window.SliceNS) - max(fromNS, i*c.window.SliceNS))
	}
}

// Look returns what is known at nowNS: of the slices that are over, or of all if the probe has ended. ongoing are the requests that have
// not ended. One of them that is late already counts as beyond that limit.
func (c *Counter) Look(nowNS int64, ongoing iter.Seq[Ongoing], ended bool) Look {
	over := len(c.slices)
	if !ended {
		over = int(max(0, min(int64(over), (nowNS-c.window.FromNS)/c.window.SliceNS)))
	}
	all := make([]Slice, over)
	for i := range all {
		all[i] = c.slices[i]
		all[i].Beyond = slices.Clone(c.slices[i].Beyond)
	}
	for r := range ongoing {
		if r.SentNS != record.None {
			c.inFlight(all, r.SentNS, nowNS)
		}
		at := (r.PlannedNS - c.window.FromNS) / c.window.SliceNS
		if !c.window.Has(r.PlannedNS) || at >= int64(over) {
			continue
		}
		late := false
		for i := range c.objectives {
			if c.objectives[i].late(r, nowNS) {
				all[at].Beyond[i]++
				late = true
			}
		}
		if late {
			all[at].Requests++
		} else {
			all[at].Open++
		}
	}
	for i := range all {
		all[i].InFlight /= float64(c.window.SliceNS)
	}
	for ended && len(all) > 0 && all[len(all)-1].Requests == 0 { // the trace has no more
		all = all[:len(all)-1]
	}
	return Look{SliceS: float64(c.window.SliceNS) / 1e9, Slices: all, WindowS: float64(c.window.ForNS) / 1e9, Ended: ended}
}

// late reports whether a request that has not ended is beyond the limit, whatever becomes of it.
func (o *Objective) late(r Ongoing, nowNS int64) bool {
	from, to := r.SentNS, nowNS
	switch o.Metric {
	case "ttft_planned", "e2e_planned":
		from = r.PlannedNS
	case "ttft", "e2e":
	default:
		return false
	}
	if first := o.Metric == "ttft" || o.Metric == "ttft_planned"; first && r.FirstNS != record.None {
		to = r.FirstNS
	}
	return from != record.None && to-from >= o.LimitNS
}
