package report

import (
	"cmp"
	"slices"

	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// shownLatency is a row of a table of latencies.
type shownLatency struct {
	key    string // "" of jobs
	label  string
	name   string // is longer
	q      *stats.Percentiles
	unitNS float64
}

// shownLatencies are the latencies of s that stand at a place for people, and how long jobs took.
func shownLatencies(s *metrics.Summary, at metrics.Shown) (rows []shownLatency) {
	for i, l := range metrics.Latencies() {
		q, unitNS := s.Latency(i)
		if q != nil && l.Shown >= at && !s.LikeTwin(i) {
			rows = append(rows, shownLatency{l.Key, l.Label, cmp.Or(l.Long, l.Label), q, unitNS})
		}
	}
	j := agentsOf(s)
	if j != nil && j.CompletionS != nil {
		rows = append(rows, shownLatency{"", "JOB", "jobs", j.CompletionS, 1e9})
	}
	return rows
}

// shownNumber is a number of a latency, and whether it says something of the server.
type shownNumber struct {
	name     string // p50 to p999, max or mean
	ns       float64
	mark     string // markFew, markMoved or ""
	hint     string // why it has a mark or, without one, its 95 % interval
	interval string // its 95 % interval, as "[28.3 ms, 30.1 ms]"; "" if none is known
	isMax    bool   // a percentile of so few values that it is the largest
}

// The marks of numbers that say little of the server.
const (
	markFew   = "~"
	markMoved = "!"
)

// numbers are all that the table of the page has.
func (l *shownLatency) numbers(s *metrics.Summary) []shownNumber {
	numbers := []shownNumber{
		{name: "p50", ns: l.q.P50},
		{name: "p75", ns: l.q.P75},
		{name: "p90", ns: l.q.P90},
		{name: "p95", ns: l.q.P95},
		{name: "p99", ns: l.q.P99},
		{name: "p999", ns: l.q.P999},
		{name: "max", ns: l.q.Max},
		{name: "mean", ns: l.q.Mean},
	}
	for i := range numbers {
		n := &numbers[i]
		n.ns *= l.unitNS
		p := stats.PerMille(n.name)
		if interval, _ := s.Interval(l.key, p); interval != nil {
			n.interval = "[" + format.Milliseconds(interval[0]) + ", " + format.Milliseconds(interval[1]) + "]"
			n.hint = "95 % interval " + n.interval
		} else if p > 0 && l.q.Count > 0 && !s.Enough(l.key, p, l.q.Count) {
			n.mark = markFew
			n.isMax = stats.Rank(l.q.Count, p) == l.q.Count
			n.hint = format.Many(l.q.Count, "value") + " are too few"
			if l.depends(s) {
				n.hint = "values depend on each other, or change, for longer than a part of the run"
			}
		}
		for _, u := range s.Verdict.Unsafe {
			if u.Metric == l.key && u.Percentile == n.name {
				n.mark = markMoved
				n.hint = "the client's lateness may have moved it by " + format.Milliseconds(u.EffectMS)
			}
		}
	}
	return numbers
}

// depends reports whether values depend on each other, or change, for too long to say how well percentiles are known.
func (l *shownLatency) depends(s *metrics.Summary) bool {
	return slices.ContainsFunc(s.Intervals, func(i metrics.Interval) bool {
		return i.Metric == l.key && i.Unknown == stats.Dependent
	})
}

// agentsOf are the results by job of a trace of agents; nil of any other, also of one of conversations.
func agentsOf(s *metrics.Summary) *metrics.Jobs {
	if s.Jobs == nil || len(s.Jobs.Depths) == 0 {
		return nil
	}
	return s.Jobs
}
