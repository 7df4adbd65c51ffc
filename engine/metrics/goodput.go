package metrics

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// Goodput is what the requests that met every bound make. The planned requests are requests + failed + those that
// were ok and missed a bound + requests.stopped. One that missed several counts in missed for each of them, so missed
// shows which bound limits goodput.
type Goodput struct {
	// the bounds in ms, as ttft_ms, tpot_ms, …; only in the run's own, not in a target's
	SLO          map[string]float64 `json:"slo,omitempty"`
	Requests     int64              `json:"requests"`       // good ones: ok, and within every bound
	RequestsPerS float64            `json:"requests_per_s"` // good requests over the run's duration
	// of the planned requests without those of requests.stopped; of a target: of its requests
	Share      *float64         `json:"share"`
	Missed     map[string]int64 `json:"missed"`     // ok requests by the bound that they missed: ttft, tpot, …
	Unmeasured map[string]int64 `json:"unmeasured"` // requests of missed that have no such latency
	Failed     int64            `json:"failed"`     // requests that were not ok, and so in neither
}

// goodputCounts is over OK requests.
type goodputCounts struct {
	slos       []SLO               `merge:"none"`
	Good       int64               `merge:"sum"`
	Missed     [NumLatencies]int64 `merge:"sum"` // requests
	Unmeasured [NumLatencies]int64 `merge:"sum"` // of those missed
}

func (g *goodputCounts) add(r *record.Record) {
	good := true
	for i := range g.slos {
		o := &g.slos[i]
		if o.Met(r) {
			continue
		}
		good = false
		g.Missed[o.latency]++
		if latencies[o.latency].Of(r) == record.None {
			g.Unmeasured[o.latency]++
		}
	}
	if good {
		g.Good++
	}
}

// Goodput sets the goodput of s and of its targets, by the duration and planned requests of s. The targets of s must be
// the Collector's, in the same order. Without SLOs there is none. Call it after the last Add.
func (c *Collector) Goodput(s *Summary) {
	all, targets := c.merged()
	setGoodput(s, &all, targets)
}

func setGoodput(s *Summary, all *targetStats, targets []targetStats) {
	over := s.Run.Partial || s.Run.Cut
	s.Goodput = all.goodput(s.Run.DurationS, s.Requests.Planned-s.Requests.Stopped, over)
	if s.Goodput != nil {
		s.Goodput.SLO = map[string]float64{}
		for _, o := range all.Goodput.slos {
			s.Goodput.SLO[latencies[o.latency].Key+"_ms"] = float64(o.limitNS) / 1e6
		}
	}
	for i := range targets {
		s.Targets[i].Goodput = targets[i].goodput(s.Run.DurationS, targets[i].recorded()-targets[i].stopped(over), over)
	}
}

// goodput is nil where there is no SLO.
func (s *targetStats) goodput(durationS float64, planned int64, over bool) *Goodput {
	if len(s.Goodput.slos) == 0 {
		return nil
	}
	g := &Goodput{
		Requests:   s.Goodput.Good,
		Share:      stats.Ratio(s.Goodput.Good, planned),
		Failed:     s.recorded() - s.Outcomes[record.OK] - s.stopped(over),
		Missed:     map[string]int64{},
		Unmeasured: map[string]int64{},
	}
	if durationS > 0 {
		g.RequestsPerS = float64(g.Requests) / durationS
	}
	for _, o := range s.Goodput.slos {
		key := latencies[o.latency].Key
		g.Missed[key] = s.Goodput.Missed[o.latency]
		g.Unmeasured[key] = s.Goodput.Unmeasured[o.latency]
	}
	return g
}

// SLO bounds one latency of a request. A value as long as the bound meets it,
// an absent one does not. It is made by ParseSLOs.
type SLO struct {
	latency int // place in Latencies
	limitNS int64
}

// Met reports whether r, which ended OK, keeps within the bound.
func (o *SLO) Met(r *record.Record) bool {
	ns := latencies[o.latency].Of(r)
	return ns != record.None && ns <= o.limitNS
}

// Exceeds is the opposite of Met, but that an answer of one token, which has no TPOT, is within a bound of that.
func (o *SLO) Exceeds(r *record.Record) bool {
	return !o.Met(r) && (o.latency != TPOT || latencies[TPOT].Of(r) != record.None)
}

// maxSLOMS is more than 11 days: a bound beyond it is a mistake.
const maxSLOMS = 1e9

// ParseSLOs reads lists such as "ttft:500 tpot:50ms e2e:2s", milliseconds without a unit, separated
// by spaces or commas. The result is in the order of Latencies; no list makes
// no SLO, an empty list is an error.
func ParseSLOs(lists ...string) ([]SLO, error) {
	var slos []SLO
	for _, list := range lists {
		parts := strings.FieldsFunc(list, func(r rune) bool { return strings.ContainsRune(" ,\t\n", r) })
		if len(parts) == 0 {
			return nil, fmt.Errorf("%q has no SLO in it; want NAME:TIME, such as ttft:500ms", list)
		}
		for _, part := range parts {
			o, err := parseSLO(part)
			if err != nil {
				return nil, err
			}
			if slices.ContainsFunc(slos, func(other SLO) bool { return other.latency == o.latency }) {
				return nil, fmt.Errorf("%q: %s has a bound already", part, latencies[o.latency].Key)
			}
			slos = append(slos, o)
		}
	}
	slices.SortFunc(slos, func(a, b SLO) int { return cmp.Compare(a.latency, b.latency) })
	return slos, nil
}

func parseSLO(text string) (SLO, error) {
	name, value, ok := strings.Cut(text, ":")
	if !ok {
		return SLO{}, fmt.Errorf("%q has no colon; want NAME:TIME, such as ttft:500ms", text)
	}
	i := FindLatency(name)
	if i < 0 || !latencies[i].Bounded {
		return SLO{}, unknownLatency(name)
	}
	ms, err := parseMS(value)
	limit := math.Round(ms * 1e6)
	if err != nil || !(limit >= 1) || ms > maxSLOMS {
		return SLO{}, fmt.Errorf("%q: want a time above 0, such as 500 or 500ms, of at most %.0f ms", text, maxSLOMS)
	}
	return SLO{i, int64(limit)}, nil
}

func unknownLatency(name string) error {
	if name == "itl" {
		return errors.New(
			"itl has many values in one request; bound their mean with tpot, which AIPerf calls inter_token_latency")
	}
	var names, aliases []string
	for _, l := range BoundedLatencies() {
		names = append(names, l.Key)
		aliases = append(aliases, l.Aliases...)
	}
	return &UnknownName{name, names, fmt.Sprintf(
		"%q is no latency of a request; there are %s (and, as others call them, %s)",
		name, strings.Join(names, ", "), strings.Join(aliases, ", "))}
}
