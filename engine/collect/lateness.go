package collect

import (
	"math"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/stats"
	"github.com/fastreplay/fastreplay/engine/verdict"
)

// lateness examines the run whose distributions are in s.
func (c *Collector) lateness(s *metrics.Summary, all *targetStats) metrics.Lateness {
	out := metrics.Lateness{Sending: []metrics.Unsafe{}, Reading: all.LateReads.unsafe(all)}
	if d := s.DriftUS; s.Run.Concurrency > 0 && d != nil {
		if whole := s.Run.DurationS * float64(s.Run.Concurrency); whole > 0 {
			out.SlotsLostShare = new(max(0, d.Mean) * float64(d.Count) / 1e6 / whole)
		}
		return out
	}
	gap := 0.0
	first := int64(math.MaxInt64)
	last := int64(math.MinInt64)
	n := 0
	c.timings.each(func(k *timing) {
		if k.plannedNS != record.None {
			first = min(first, k.plannedNS)
			last = max(last, k.plannedNS)
			n++
		}
	})
	if n > 1 {
		gap = float64(last-first) / float64(n-1)
		out.MeanGapMS = new(gap / 1e6)
	}
	drift := &all.Latencies[metrics.Drift]
	limit := verdict.DisplacedNS(int64(gap), all.Latencies[metrics.E2E].QuantileNS(500))
	out.DisplacedMS = float64(limit) / 1e6
	out.Displaced = drift.Above(limit)
	for i := range latencies {
		if twin := metrics.FindLatency(latencies[i].Planned); twin >= 0 {
			sent := &all.Latencies[i]
			planned := &all.Latencies[twin]
			effect := func(permille int64) int64 { return planned.QuantileNS(permille) - sent.QuantileNS(permille) }
			out.Sending = append(out.Sending, latencyUncertainty{i, sent, drift, effect}.unsafe()...)
		}
	}
	if drift.Above(metrics.ToleratedNS) > 1 {
		moved, behind := c.behindBursts(all)
		out.Sending = metrics.OnceEach(append(out.Sending, moved...))
		out.Behind = behind
	}
	return out
}

// latencyUncertainty is a latency that the client may have moved: each time by as much as is in by, and a percentile
// by effectNS.
type latencyUncertainty struct {
	latency  int
	all      *stats.Distribution
	by       *stats.Distribution
	effectNS func(permille int64) int64
}

// unsafe are the percentiles that the client may have moved by more than is tolerated, of those that need not hang on
// a single request. An effect does not count if the percentile has too few samples. Nor does it if the client was
// late less often than chance alone moves the percentile's rank, √(n·q·(1−q)).
func (u latencyUncertainty) unsafe() (out []metrics.Unsafe) {
	n := u.all.Count()
	l := &latencies[u.latency]
	for _, key := range stats.PercentileKeys() {
		permille := stats.PerMille(key)
		q := float64(permille) / 1000
		value := u.all.QuantileNS(permille)
		most := max(l.ToleratedNS, int64(metrics.ToleratedShare*float64(value)))
		if !stats.EnoughSamples(n, q) ||
			float64(u.by.Above(most)) <= max(1, math.Sqrt(float64(n)*q*(1-q))) {
			continue
		}
		if effect := u.effectNS(permille); effect > most {
			out = append(out,
				metrics.Unsafe{
					Metric:     l.Key,
					Percentile: key,
					ValueMS:    float64(value) / 1e6,
					EffectMS:   float64(effect) / 1e6,
				})
		}
	}
	return out
}

// lateReadBounds are the values of a latency that the client may have changed, and what they can have been.
type lateReadBounds struct {
	From  stats.Distribution `merge:"union"`
	Least stats.Distribution `merge:"union"`
	Most  stats.Distribution `merge:"union"`
	By    stats.Distribution `merge:"union"`
}

// add adds a latency of ns, if there is one, that can have been so much less or more.
func (m *lateReadBounds) add(ns, less, more int64) {
	if ns == record.None || less <= 0 && more <= 0 {
		return
	}
	m.From.Add(ns)
	m.Least.Add(max(0, ns-less))
	m.Most.Add(ns + more)
	m.By.Add(max(less, more))
}

// uncertainty is that of a latency of which these are some values. A percentile can be as far from the true one,
// within 0.1 % of its value.
func (m *lateReadBounds) uncertainty(latency int, all *stats.Distribution) latencyUncertainty {
	measured := all.With(nil, nil)
	least := all.With(&m.From, &m.Least)
	most := all.With(&m.From, &m.Most)
	return latencyUncertainty{latency, all, &m.By, func(permille int64) int64 {
		at := measured.QuantileNS(permille)
		return max(at-least.QuantileNS(permille), most.QuantileNS(permille)-at)
	}}
}

// latencyBounds are the values of each latency that the client may have changed.
type latencyBounds [metrics.NumLatencies]lateReadBounds

// add counts an ok request.
func (m *latencyBounds) add(r *record.Record) {
	for i := range latencies {
		if l := &latencies[i]; l.LateRead != nil {
			if less, more := l.LateRead(r); less > 0 || more > 0 {
				m[i].add(l.Of(r), less, more)
			}
		}
	}
}

// unsafe are the percentiles of all that are so far from the true ones.
func (m *latencyBounds) unsafe(all *targetStats) []metrics.Unsafe {
	out := []metrics.Unsafe{}
	for i := range latencies {
		if d := &all.Latencies[i]; m[i].From.Count() > 0 && d.Count() > 0 {
			out = append(out, m[i].uncertainty(i, d).unsafe()...)
		}
	}
	return out
}
