package metrics

import (
	"slices"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// Interval is how well the percentiles of a latency of the run are known: a 95 % interval of each, in ms, from its low
// to its high end, or null if that cannot be said.
type Interval struct {
	Metric string      `json:"metric"`  // ttft, tpot, e2e, drift, …; gaps (itl) and values in buckets have none
	P50    *[2]float64 `json:"p50_ms"`  // of the median
	P75    *[2]float64 `json:"p75_ms"`  // of the 75th percentile
	P90    *[2]float64 `json:"p90_ms"`  // of the 90th percentile
	P95    *[2]float64 `json:"p95_ms"`  // of the 95th percentile
	P99    *[2]float64 `json:"p99_ms"`  // of the 99th percentile
	P999   *[2]float64 `json:"p999_ms"` // of the 99.9th percentile
	// how many independent values would differ as much between parts of the run; at most its values
	Independent float64 `json:"independent_values"`
	// why there are no intervals: few, dependent, conversations or at_once; "" if it is not said of all
	Unknown stats.Unknown `json:"unknown"`
}

// perMille are the percentiles that have intervals. Each makes those behind it wider, so p75 stands apart.
var perMille, median75 = []int64{500, 900, 950, 990, 999}, []int64{500, 750}

// of is the interval of a percentile.
func (i *Interval) of(perMille int64) **[2]float64 {
	return map[int64]**[2]float64{500: &i.P50, 750: &i.P75, 900: &i.P90, 950: &i.P95, 990: &i.P99, 999: &i.P999}[perMille]
}

// Interval returns what is known of a percentile of a latency, in ms; nil if no interval can be said. sought is false
// of latencies that have none in any case.
func (s *Summary) Interval(metric string, perMille int64) (ms *[2]float64, sought bool) {
	for i := range s.Intervals {
		if s.Intervals[i].Metric == metric {
			if of := s.Intervals[i].of(perMille); of != nil {
				return *of, true
			}
		}
	}
	return nil, false
}

// Enough reports whether a percentile of so many values says something of the server: if it has an interval or, where
// none was sought, by stats.EnoughSamples.
func (s *Summary) Enough(metric string, perMille, count int64) bool {
	if interval, sought := s.Interval(metric, perMille); sought {
		return interval != nil
	}
	return stats.EnoughSamples(count, float64(perMille)/1000)
}

// sectionsOf cuts a run into parts of equally many requests, in the order in which they were sent. Each returned
// instant is the first of a part that follows another.
func (t *timings) sectionsOf() (cuts []int64) {
	var sent []int64
	t.each(func(k *timing) { sent = append(sent, k.atNS) })
	slices.Sort(sent)
	for i := 1; i < stats.MostSections && len(sent) > 0; i++ {
		cuts = append(cuts, sent[i*len(sent)/stats.MostSections])
	}
	return cuts
}

// sectionAt is the part of the run that an instant is in, by the first instants of parts but the first.
func sectionAt(cuts []int64, ns int64) int {
	at, begins := slices.BinarySearch(cuts, ns)
	if begins {
		at++
	}
	return at
}

// sessionGroups divides conversations into groups, by their numbers. Without conversations, or if most have only one
// request, there are none.
func (t *timings) sessionGroups() (of map[int64]uint8, groups int) {
	of = map[int64]uint8{}
	n := 0
	t.each(func(k *timing) {
		if k.session != record.None {
			of[k.session] = 0
			n++
		}
	})
	if n < 2*len(of) {
		return nil, 0
	}
	groups = min(len(of), stats.MostSections)
	sessions := make([]int64, 0, len(of))
	for session := range of {
		sessions = append(sessions, session)
	}
	slices.Sort(sessions)
	for i, session := range sessions {
		of[session] = uint8(i % groups)
	}
	return of, groups
}

// intervals are those of all latencies that timings have, or that follow from these. Of values in buckets there are
// none.
func (c *Collector) intervals(s *Summary) (out []Interval) {
	if c.timings.spilled > 0 {
		return nil
	}
	cuts := c.timings.sectionsOf()
	group, groups := c.timings.sessionGroups()
	for i := range latencies {
		if q, _ := s.Latency(i); q == nil || q.FromHistogram {
			continue
		}
		sections := c.timings.sections(i, cuts, group, groups)
		if sections == nil {
			continue
		}
		interval := Interval{
			Metric:      latencies[i].Key,
			Independent: sections.Effective(),
			Unknown:     sections.Unknown(),
		}
		for _, some := range [][]int64{median75, perMille} {
			for k, ns := range sections.Intervals(some) {
				if ns != nil {
					*interval.of(some[k]) = &[2]float64{float64(ns[0]) / 1e6, float64(ns[1]) / 1e6}
				}
			}
		}
		out = append(out, interval)
	}
	return out
}

// sections are the values of a latency by section; nil if there are none.
func (t *timings) sections(latency int, cuts []int64, group map[int64]uint8, groups int) *stats.Sections {
	var values []stats.Sample
	t.each(func(k *timing) {
		if ns := k.of(latency); ns != record.None {
			section := uint8(sectionAt(cuts, k.atNS))
			values = append(values, stats.Sample{Value: ns, Section: section, Group: group[k.session]})
		}
	})
	if len(values) == 0 {
		return nil
	}
	return stats.NewSections(values, groups)
}

// of is a latency of the table; record.None if the request has none, or timings do not keep it.
func (k *timing) of(latency int) int64 {
	if latency == Drift {
		if !k.sent {
			return record.None
		}
		return k.driftNS()
	}
	if at := slices.Index(timedLatencies, latency); at >= 0 {
		return k.latencies[at]
	}
	for i, of := range timedLatencies {
		late := k.driftNS()
		if latencies[of].planned == latencies[latency].Key && k.latencies[i] != record.None && late != record.None {
			return k.latencies[i] + late
		}
	}
	return record.None
}
