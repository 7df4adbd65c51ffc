package workload

import (
	"math"

	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/sched"
)

// FollowPolicy is how the requests of a trace follow those that they depend on, as they are to be replayed.
type FollowPolicy struct {
	// requests leave some time after what they wait for; else at their own instants, or later
	Think   bool
	Bounded bool                 // and not before the instants that the trace has as bounds
	Jobs    bool                 // whole jobs leave, one after the other
	Speed   float64              // divides delays and bounds
	Assumed sched.AssumedLatency // how long requests took of which the trace does not say it
	// The first Prepare requests prepare caches, without delays. Of these the first Primers leave at their own
	// instants. Others wait for all of them, and with instants that count from then on.
	Primers, Prepare int
	// The first jobs begin with the run, or in its preparation: instants of all of them count from BarrierNS. After is
	// for each of these jobs the one that must have ended before it may begin, -1 = none.
	After     []int32
	BarrierNS int64
}

// Dependencies returns what a trace's first n requests wait for, as its graph has it. A delay that the trace does not
// have is the recorded time from the trigger to the request. If several requests have to end, it counts from the last
// end.
func (p FollowPolicy) Dependencies(t *trace.Trace, n int) *sched.Dependencies {
	g := t.Graph(n)
	follow := &sched.Dependencies{
		Think:   p.Think,
		First:   make([]int32, 1, n+1),
		Primers: int32(p.Primers),
		Prepare: int32(p.Prepare),
	}
	if p.Jobs {
		jobs, _ := t.JobNumbers()
		follow.Job = jobs[:n]
		follow.Stream = t.Streams(n)
	}
	var waits []sched.Dependency
	for i := range n {
		waits = waits[:0]
		recorded := p.ofPhase(i, g.Of(i))
		since := p.lastEnd(t, recorded)
		for _, w := range recorded {
			if p.Jobs && follow.Job[w.On] != follow.Job[i] {
				continue // the other job may be one that starts when this one has ended
			}
			wait := sched.Dependency{
				On:       w.On,
				Dispatch: w.Trigger == trace.OnDispatch,
			}
			if p.Think && i >= p.Prepare {
				recorded := delay(t, i, w, since)
				wait.DelayNS = p.scaled(recorded)
			}
			waits = append(waits, wait)
		}
		if i >= p.Primers && i < p.Prepare && len(waits) == 0 {
			waits = p.beginning(follow.Job, i)
		}
		follow.Add(waits...)
	}
	if p.Think && (p.Bounded || p.Jobs) {
		follow.NotBeforeNS = p.bounds(t, follow)
	}
	return follow
}

// ofPhase is what is left of the waits of request i. Warm-up requests come after all primers of their jobs, and what is
// measured after all that prepares, so those waits are over.
func (p FollowPolicy) ofPhase(i int, waits []trace.Dependency) (list []trace.Dependency) {
	first := int32(p.Prepare)
	if i < p.Prepare {
		first = int32(p.Primers)
	}
	if first == 0 {
		return waits
	}
	for _, w := range waits {
		if w.On >= first {
			list = append(list, w)
		}
	}
	return list
}

// beginning makes warm-up request i wait for the primers of its job, and for the job that must have ended before.
func (p FollowPolicy) beginning(job []int32, i int) (waits []sched.Dependency) {
	for k := range i {
		if k < p.Primers && job[k] == job[i] || job[k] == p.After[job[i]] {
			waits = append(waits, sched.Dependency{On: int32(k)})
		}
	}
	return waits
}

// scaled is a recorded time at the replay's speed.
func (p FollowPolicy) scaled(ns int64) int64 {
	scaled := float64(max(0, ns)) / p.Speed
	return int64(math.Round(scaled))
}

// TookNS is how long request i took when it was recorded, or is assumed to have taken.
func TookNS(t *trace.Trace, i int32, a sched.AssumedLatency) int64 {
	if t.TookNS != nil && t.TookNS[i] >= 0 {
		return t.TookNS[i]
	}
	return a.LastNS(t.OutputTokens[i])
}

// lastEnd is when the last of the requests that have to end had ended, in trace time.
func (p FollowPolicy) lastEnd(t *trace.Trace, waits []trace.Dependency) (atNS int64) {
	for _, w := range waits {
		if w.Trigger == trace.OnCompletion {
			endNS := t.ArrivalNS[w.On] + TookNS(t, w.On, p.Assumed)
			atNS = max(atNS, endNS)
		}
	}
	return atNS
}

// delay is how long after a trigger request i was recorded. lastEnd is the end of the last request that it had to wait
// for.
func delay(t *trace.Trace, i int, w trace.Dependency, lastEnd int64) int64 {
	switch {
	case w.DelayNS != trace.NoDelay:
		return w.DelayNS
	case w.Trigger == trace.OnDispatch:
		return t.ArrivalNS[i] - t.ArrivalNS[w.On]
	}
	return t.ArrivalNS[i] - lastEnd
}

// bounds are the instants before which requests do not leave. They are those that the trace has as bounds, and in jobs
// the own instants of requests that wait for nothing. In jobs they count from the first instant of the job.
func (p FollowPolicy) bounds(t *trace.Trace, follow *sched.Dependencies) []int64 {
	bounds := make([]int64, len(follow.First)-1)
	begins := map[int32]int64{} // of jobs
	any := false
	for i := range bounds {
		var begin int64
		if p.Jobs {
			first, known := begins[follow.Job[i]]
			if !known {
				if first = t.ArrivalNS[i]; int(follow.Job[i]) < len(p.After) {
					first = p.BarrierNS
				}
				begins[follow.Job[i]] = first
			}
			begin = first
		}
		prepares := i < p.Prepare
		if prepares {
			begin = 0
		}
		if t.NotBeforeNS != nil && t.NotBeforeNS[i] >= 0 && !prepares {
			bounds[i] = p.scaled(t.NotBeforeNS[i] - begin)
		}
		if p.Jobs && (prepares || len(follow.Of(int32(i))) == 0) {
			own := p.scaled(t.ArrivalNS[i] - begin)
			bounds[i] = max(bounds[i], own)
		}
		any = any || bounds[i] > 0
	}
	if !any {
		return nil
	}
	return bounds
}
