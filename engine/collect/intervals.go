package collect

import (
	"slices"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// perMille are the percentiles that have intervals. Each makes those behind it wider, so p75 stands apart.
var perMille, median75 = []int64{500, 900, 950, 990, 999}, []int64{500, 750}

// sequence is a run in the order in which its requests were sent, or planned where they were not. It is cut into parts
// of equally many.
type sequence struct {
	all  []*timing
	part []uint8 // of each of all
	cuts []int64 // the first instants of parts but the first
}

// sequence is that of all requests, of which none is spilled.
func (t *timings) sequence() *sequence {
	type dated struct {
		ns int64
		of *timing
	}
	dates := make([]dated, 0, t.len())
	t.each(func(k *timing) { dates = append(dates, dated{k.atNS, k}) })
	stats.SortBy(dates, func(d *dated) int64 { return d.ns }) // which are near, while timings are not
	s := &sequence{
		all:  make([]*timing, len(dates)),
		part: make([]uint8, len(dates)),
	}
	for i := 1; i < stats.MostSections && len(dates) > 0; i++ {
		s.cuts = append(s.cuts, dates[i*len(dates)/stats.MostSections].ns)
	}
	part := 0
	for i, d := range dates {
		for part < len(s.cuts) && s.cuts[part] <= d.ns {
			part++
		}
		s.all[i] = d.of
		s.part[i] = uint8(part)
	}
	return s
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
func (c *Collector) intervals(s *metrics.Summary, run *sequence) (out []metrics.Interval) {
	group, groups := c.timings.sessionGroups()
	values := make([]stats.Sample, 0, c.timings.len()) // of one latency after the other
	for i := range latencies {
		if q, _ := s.Latency(i); q == nil || q.FromHistogram {
			continue
		}
		sections := run.sections(i, group, groups, values)
		if sections == nil {
			continue
		}
		interval := metrics.Interval{
			Metric:      latencies[i].Key,
			Independent: sections.Effective(),
			Unknown:     sections.Unknown(),
		}
		for _, some := range [][]int64{median75, perMille} {
			for k, ns := range sections.Intervals(some) {
				if ns != nil {
					*interval.Of(some[k]) = &[2]float64{float64(ns[0]) / 1e6, float64(ns[1]) / 1e6}
				}
			}
		}
		out = append(out, interval)
	}
	return out
}

// sections are the values of a latency by section, in the memory of values, which is empty; nil if there are none.
func (s *sequence) sections(latency int, group map[int64]uint8, groups int, values []stats.Sample) *stats.Sections {
	for i, k := range s.all {
		if ns := k.of(latency); ns != record.None {
			values = append(values, stats.Sample{Value: ns, Section: s.part[i], Group: group[k.session]})
		}
	}
	if len(values) == 0 {
		return nil
	}
	return stats.NewSections(values, groups)
}

// of is a latency of the table; record.None if the request has none, or timings do not keep it.
func (k *timing) of(latency int) int64 {
	if latency == metrics.Drift {
		if !k.sent {
			return record.None
		}
		return k.driftNS()
	}
	if k.outcome != record.OK {
		return record.None
	}
	if latency == metrics.NTPOT {
		return metrics.PerOutputToken(k.latency(metrics.E2E), int64(k.output))
	}
	if at := slices.Index(timedLatencies, latency); at >= 0 {
		return k.latencies[at]
	}
	for i, of := range timedLatencies {
		late := k.driftNS()
		if latencies[of].Planned == latencies[latency].Key && k.latencies[i] != record.None && late != record.None {
			return k.latencies[i] + late
		}
	}
	return record.None
}
