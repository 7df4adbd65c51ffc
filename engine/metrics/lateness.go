package metrics

import (
	"math"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// What lateness of the client may change before a percentile counts as unsafe, and a load as another one. Two runs of the same load
// on the same server differ by some 5 % in their percentiles, so less than that cannot be seen. Below 1 ms a request, and 0.1 ms a
// token, differ by the event loops and networks between two programs.
const (
	tolerated      = 0.05      // of a percentile's value, of the median E2E, and of the time of a closed loop's slots
	toleratedNS    = 1_000_000 // of TTFT and E2E
	toleratedTokNS = 100_000   // of TPOT and ITL
	// wrongShare of the requests must leave at other times, before the load as a whole is another one.
	wrongShare = 0.1
	// wrongSlots is the share of a closed loop's time that its slots may be empty: with a quarter, 8 in flight were 6.
	wrongSlots = 0.25
)

// Lateness is how late the client was, and what that may have changed.
type Lateness struct {
	MeanGapMS      *float64 `json:"mean_gap_ms"`        // from one planned instant to the next; null in a closed loop, and below two requests
	DisplacedMS    float64  `json:"displaced_after_ms"` // requests that left later than this count as displaced: the mean gap, 5 % of the median E2E or 1 ms, whichever is most
	Displaced      int64    `json:"displaced"`          // requests; above a tenth of those sent the load was another one
	SlotsLostShare *float64 `json:"slots_lost_share"`   // of a closed loop: the share of its slots' time from the end of a request until the next one left; null otherwise
	Sending        []Unsafe `json:"sending"`            // percentiles that differ by more than 5 % (and 1 ms), if they are counted from the planned instants
	Reading        []Unsafe `json:"reading"`            // percentiles that late reads may have moved by more than 5 % (and 1 ms; of TPOT and ITL 0.1 ms)
}

// lateness examines the run whose distributions are in s.
func (c *Collector) lateness(s *Summary, all *series) Lateness {
	read := &all.reading
	out := Lateness{Sending: []Unsafe{}, Reading: unsafePercentiles(
		read.ttft.suspect("ttft", &all.ttft, toleratedNS), read.tpot.suspect("tpot", &all.tpot, toleratedTokNS),
		read.itl.suspect("itl", &all.itl, toleratedTokNS), read.e2e.suspect("e2e", &all.e2e, toleratedNS),
	)}
	if d := s.DriftUS; s.Run.Concurrency > 0 && d != nil {
		if whole := s.Run.DurationS * float64(s.Run.Concurrency); whole > 0 {
			out.SlotsLostShare = new(max(0, d.Mean) * float64(d.Count) / 1e6 / whole)
		}
		return out
	}
	gap, first, last, n := 0.0, int64(math.MaxInt64), int64(math.MinInt64), 0
	c.timings.each(func(k *timing) {
		if k.plannedNS != record.None {
			first, last, n = min(first, k.plannedNS), max(last, k.plannedNS), n+1
		}
	})
	if n > 1 {
		gap = float64(last-first) / float64(n-1)
		out.MeanGapMS = new(gap / 1e6)
	}
	limit := DisplacedNS(int64(gap), all.e2e.QuantileNS(500))
	out.DisplacedMS, out.Displaced = float64(limit)/1e6, all.drift.above(limit)
	fromPlanned := func(planned, sent *Distribution) func(int64) int64 {
		return func(permille int64) int64 { return planned.QuantileNS(permille) - sent.QuantileNS(permille) }
	}
	out.Sending = unsafePercentiles(
		suspect{"ttft", &all.ttft, toleratedNS, &all.drift, fromPlanned(&all.ttftPlanned, &all.ttft)},
		suspect{"e2e", &all.e2e, toleratedNS, &all.drift, fromPlanned(&all.e2ePlanned, &all.e2e)},
	)
	return out
}

// suspect is a latency that the client may have moved: each time by as much as is in by, and a percentile by effectNS.
type suspect struct {
	metric   string
	all      *Distribution
	floorNS  int64 // what is tolerated in any case
	by       *Distribution
	effectNS func(permille int64) int64
}

// unsafePercentiles are those that the client may have moved by more than is tolerated, of those that need not hang on a single request.
// An effect does not count if the percentile has too few samples. Nor does it if the client was late less often than chance alone moves
// the percentile's rank, √(n·q·(1−q)).
func unsafePercentiles(of ...suspect) []Unsafe {
	out := []Unsafe{}
	for _, m := range of {
		n := m.all.Count()
		for _, p := range []struct {
			name     string
			permille int64
		}{{"p50", 500}, {"p90", 900}, {"p95", 950}, {"p99", 990}, {"p999", 999}} {
			q, value := float64(p.permille)/1000, m.all.QuantileNS(p.permille)
			most := max(m.floorNS, int64(tolerated*float64(value)))
			if !stats.EnoughSamples(n, q) || float64(m.by.above(most)) <= max(1, math.Sqrt(float64(n)*q*(1-q))) {
				continue
			}
			if effect := m.effectNS(p.permille); effect > most {
				out = append(out, Unsafe{Metric: m.metric, Percentile: p.name, ValueMS: float64(value) / 1e6, EffectMS: float64(effect) / 1e6})
			}
		}
	}
	return out
}

// DisplacedNS is how late a request may leave before it counts as displaced, by the mean gap between requests and the median E2E.
func DisplacedNS(gapNS, e2eNS int64) int64 {
	return max(toleratedNS, gapNS, int64(tolerated*float64(e2eNS)))
}

// WrongLoad reports whether so many displaced requests make the load another one.
func WrongLoad(displaced, sent int64) bool {
	return displaced > 1 && float64(displaced) > wrongShare*float64(sent)
}

// moved are the values of a latency that late reads may have changed, and what they can have been.
type moved struct{ from, least, most, by Distribution }

func (m *moved) add(from, least, most int64) {
	if least >= from && most <= from {
		return
	}
	m.from.Add(from)
	m.least.Add(max(0, least))
	m.most.Add(most)
	m.by.Add(max(from-least, most-from))
}

// suspect is the latency of which these are some values. A percentile can be as far from the true one, within 0.1 % of its value.
func (m *moved) suspect(metric string, all *Distribution, floorNS int64) suspect {
	if m.from.Count() == 0 || all.Count() == 0 {
		return suspect{metric: metric, all: new(Distribution)}
	}
	measured, least, most := all.with(nil, nil), all.with(&m.from, &m.least), all.with(&m.from, &m.most)
	return suspect{metric, all, floorNS, &m.by, func(permille int64) int64 {
		at := measured.QuantileNS(permille)
		return max(at-least.QuantileNS(permille), most.QuantileNS(permille)-at)
	}}
}

// lateReads are the latencies that late reads may have changed.
type lateReads struct{ ttft, tpot, itl, e2e moved }

// add counts an ok request. Its first and last token chunk came at most FirstSlackNS and LastSlackNS before their instants.
func (l *lateReads) add(r *record.Record) {
	first, last := known(r.FirstSlackNS), known(r.LastSlackNS)
	if first == 0 && last == 0 {
		return
	}
	if ttft := r.TTFTNS(); ttft != record.None {
		l.ttft.add(ttft, ttft-first, ttft)
	}
	if e2e := r.E2ENS(); e2e != record.None {
		l.e2e.add(e2e, e2e-last, e2e)
	}
	if tpot := r.TPOTNS(); tpot != record.None {
		tokens := max(1, r.CompletionTokens-1)
		l.tpot.add(tpot, tpot-last/tokens, tpot+first/tokens)
	}
}
