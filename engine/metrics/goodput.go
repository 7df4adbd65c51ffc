package metrics

import "github.com/fastreplay/fastreplay/codec/record"

// Goodput is what the requests that met every bound make. The planned requests are requests + failed + those that were ok and missed
// a bound + what the user left out. One that missed several counts in missed for each of them, so missed says which bound binds.
type Goodput struct {
	SLO          map[string]float64 `json:"slo,omitempty"`  // the bounds in ms, as ttft_ms, tpot_ms, …; only in the run's own, not in a target's
	Requests     int64              `json:"requests"`       // good ones: ok, and within every bound
	RequestsPerS float64            `json:"requests_per_s"` // good requests over the run's duration
	Share        *float64           `json:"share"`          // of the planned requests that were not left out (--too-long drop); of a target: of its requests
	Missed       map[string]int64   `json:"missed"`         // ok requests by the bound that they missed: ttft, tpot, …
	Unmeasured   map[string]int64   `json:"unmeasured"`     // requests of missed that have no such latency
	Failed       int64              `json:"failed"`         // requests that were not ok, and so in neither
}

// goodCounts is over OK requests.
type goodCounts struct {
	slos       []SLO
	good       int64
	missed     [latencies]int64 // requests
	unmeasured [latencies]int64 // of those missed
}

func (g *goodCounts) add(r *record.Record) {
	if len(g.slos) == 0 {
		return
	}
	good := true
	for i := range g.slos {
		o := &g.slos[i]
		met, measured := o.met(r)
		if !met {
			good = false
			g.missed[o.latency]++
		}
		if !measured {
			g.unmeasured[o.latency]++
		}
	}
	if good {
		g.good++
	}
}

func (g *goodCounts) merge(o *goodCounts) {
	g.good += o.good
	for i := range g.missed {
		g.missed[i] += o.missed[i]
		g.unmeasured[i] += o.unmeasured[i]
	}
}

// Goodput puts the goodput of what was added into s and its targets, by the
// duration, planned requests and targets of s, which are the Collector's in
// the same order. Without SLOs there is none. Call it after the last Add.
func (c *Collector) Goodput(s *Summary) {
	all, targets := c.merged()
	setGoodput(s, &all, targets)
}

func setGoodput(s *Summary, all *series, targets []series) {
	s.Goodput = all.goodput(s.Run.DurationS, s.Requests.Planned-s.Workload.LeftOut)
	if s.Goodput != nil {
		s.Goodput.Failed -= s.Workload.LeftOut
		s.Goodput.SLO = bounds(all.good.slos)
	}
	for i := range targets {
		s.Targets[i].Goodput = targets[i].goodput(s.Run.DurationS, targets[i].recorded())
	}
}

// goodput is nil where there is no SLO.
func (s *series) goodput(durationS float64, planned int64) *Goodput {
	if len(s.good.slos) == 0 {
		return nil
	}
	g := &Goodput{
		Requests: s.good.good, Share: ratio(s.good.good, planned), Failed: s.recorded() - s.outcomes[record.OK],
		Missed: make(map[string]int64, latencies), Unmeasured: make(map[string]int64, latencies),
	}
	if durationS > 0 {
		g.RequestsPerS = float64(g.Requests) / durationS
	}
	for _, o := range s.good.slos {
		name := Latencies()[o.latency].Name
		g.Missed[name], g.Unmeasured[name] = s.good.missed[o.latency], s.good.unmeasured[o.latency]
	}
	return g
}

// bounds lists SLOs in ms, as results do.
func bounds(slos []SLO) map[string]float64 {
	ms := make(map[string]float64, len(slos))
	for _, o := range slos {
		ms[Latencies()[o.latency].Name+"_ms"] = float64(o.limitNS) / 1e6
	}
	return ms
}
