package workload

import (
	"cmp"
	"slices"

	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/codec/trace/lists"
	"github.com/fastreplay/fastreplay/sched"
)

// IdleCut is what a cap on idle times cut out of a trace.
type IdleCut struct {
	Gaps           int   // idle times that were longer than the cap
	CutNS          int64 // that they lost in all, of each job on its own
	FromNS, SpanNS int64 // of the instants of the trace, before and after
}

// CapIdle returns the trace with its instants moved so that no idle time lasts longer than capNS, in trace time. In an
// idle time nothing is in flight, by the recorded or assumed durations: nothing of the job, or with system nothing at
// all. All that comes later, of the job or with system in the trace, comes earlier by what is cut. A request stays
// behind those that it depends on.
func CapIdle(t *trace.Trace, capNS int64, system bool, a sched.AssumedLatency) (*trace.Trace, IdleCut) {
	type timeline struct{ busyNS, cutNS int64 }
	jobs := make([]int32, t.Len())
	if !system {
		jobs, _ = t.JobNumbers()
	}
	graph := t.Graph(t.Len())
	cut := IdleCut{FromNS: t.SpanNS()}
	lines := map[int32]*timeline{}
	at := slices.Clone(t.ArrivalNS)
	bound := slices.Clone(t.NotBeforeNS)
	for i := range at {
		l := lines[jobs[i]]
		if l == nil {
			l = &timeline{busyNS: at[i]}
			lines[jobs[i]] = l
		}
		over := at[i] - l.busyNS - capNS
		if over > 0 {
			l.cutNS += over
			cut.Gaps++
			cut.CutNS += over
		}
		endNS := at[i] + TookNS(t, int32(i), a)
		l.busyNS = max(l.busyNS, endNS)
		at[i] -= l.cutNS
		if bound != nil && bound[i] >= 0 {
			bound[i] = max(0, bound[i]-l.cutNS)
		}
		for _, w := range graph.Of(i) {
			at[i] = max(at[i], at[w.On])
		}
	}
	order := lists.UpTo(len(at))
	slices.SortStableFunc(order, func(a, b int32) int {
		return cmp.Compare(at[a], at[b])
	})
	out := t.Fitted(order, t.InputTokens, t.OutputTokens)
	out.ArrivalNS = lists.Pick(order, at)
	out.NotBeforeNS = lists.Pick(order, bound)
	cut.SpanNS = out.SpanNS()
	return out, cut
}

// CapDelays shortens the delays of waits to capNS. It returns how many requests had longer ones, and what they lost in
// all. All delays of a request count until it leaves, so it loses only what its longest one does.
func CapDelays(d *sched.Dependencies, capNS int64) (n int, cutNS int64) {
	for i := range len(d.First) - 1 {
		most := int64(0)
		waits := d.List[d.First[i]:d.First[i+1]]
		for k := range waits {
			w := &waits[k]
			most = max(most, w.DelayNS-capNS)
			w.DelayNS = min(w.DelayNS, capNS)
		}
		if most > 0 {
			n++
			cutNS += most
		}
	}
	return n, cutNS
}
