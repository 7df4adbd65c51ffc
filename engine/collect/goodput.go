package collect

import (
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// goodputCounts is over OK requests.
type goodputCounts struct {
	slos       []metrics.SLO               `merge:"none"`
	Good       int64                       `merge:"sum"`
	Missed     [metrics.NumLatencies]int64 `merge:"sum"` // requests
	Unmeasured [metrics.NumLatencies]int64 `merge:"sum"` // of those missed
}

func (g *goodputCounts) add(r *record.Record) {
	good := true
	missed := -1
	for i := range g.slos {
		o := &g.slos[i]
		if o.Latency == missed || o.Met(r) { // one request may be bounded by its tenant and its class
			continue
		}
		good = false
		missed = o.Latency
		g.Missed[o.Latency]++
		if latencies[o.Latency].Of(r) == record.None {
			g.Unmeasured[o.Latency]++
		}
	}
	if good {
		g.Good++
	}
}

// Goodput sets the goodput of s and of its targets, by the duration and planned requests of s. The targets of s must be
// the Collector's, in the same order. Without SLOs there is none. Call it after the last Add.
func (c *Collector) Goodput(s *metrics.Summary) {
	all, targets := c.merged()
	setGoodput(s, &all, targets)
}

func setGoodput(s *metrics.Summary, all *targetStats, targets []targetStats) {
	over := s.Run.Partial || s.Run.Cut
	s.Goodput = all.goodput(s.Run.DurationS, s.Requests.Planned-s.Requests.Stopped, over)
	if s.Goodput != nil {
		s.Goodput.SLO = map[string]float64{}
		for _, o := range all.Goodput.slos {
			s.Goodput.SLO[o.Name()+"_ms"] = float64(o.LimitNS) / 1e6
		}
	}
	for i := range targets {
		s.Targets[i].Goodput = targets[i].goodput(s.Run.DurationS, targets[i].recorded()-targets[i].stopped(over), over)
	}
}

// goodput is nil where there is no SLO.
func (s *targetStats) goodput(durationS float64, planned int64, over bool) *metrics.Goodput {
	if len(s.Goodput.slos) == 0 {
		return nil
	}
	g := &metrics.Goodput{
		Requests:   s.Goodput.Good,
		Share:      stats.Ratio(s.Goodput.Good, planned),
		Failed:     s.failed(over),
		Missed:     map[string]int64{},
		Unmeasured: map[string]int64{},
	}
	if durationS > 0 {
		g.RequestsPerS = float64(g.Requests) / durationS
	}
	for _, o := range s.Goodput.slos {
		key := latencies[o.Latency].Key
		g.Missed[key] = s.Goodput.Missed[o.Latency]
		g.Unmeasured[key] = s.Goodput.Unmeasured[o.Latency]
	}
	return g
}
