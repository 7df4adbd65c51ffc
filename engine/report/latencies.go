package report

import (
	"cmp"

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
	if j := agentsOf(s); j != nil && j.CompletionS != nil {
		rows = append(rows, shownLatency{"", "JOB", "jobs", j.CompletionS, 1e9})
	}
	return rows
}

// shownNumber is a number of a latency, and whether it says something of the server.
type shownNumber struct {
	name string // p50 to p999, max or mean
	ns   float64
	mark string // markFew, markMoved or ""
	hint string // why it has a mark
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
		{name: "p90", ns: l.q.P90},
		{name: "p95", ns: l.q.P95},
		{name: "p99", ns: l.q.P99},
		{name: "p999", ns: l.q.P999},
		{name: "max", ns: l.q.Max},
		{name: "mean", ns: l.q.Mean},
	}
	quantiles := map[string]float64{"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999}
	for i := range numbers {
		n := &numbers[i]
		n.ns *= l.unitNS
		quantile, is := quantiles[n.name]
		if is && l.q.Count > 0 && !l.q.Enough(quantile) {
			n.mark = markFew
			n.hint = format.Many(l.q.Count, "value") + " are too few"
		}
		for _, u := range s.Verdict.Unsafe {
			if u.Metric == l.key && u.Percentile == n.name {
				n.mark = markMoved
				n.hint = "the client's lateness may have moved it by " + duration(u.EffectMS)
			}
		}
	}
	return numbers
}

// agentsOf are the results by job of a trace of agents; nil of any other, also of one of conversations.
func agentsOf(s *metrics.Summary) *metrics.Jobs {
	if s.Jobs == nil || len(s.Jobs.Depths) == 0 {
		return nil
	}
	return s.Jobs
}
