package metrics

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// answeredAfter is an ok request of a conversation that left at sentNS and had its first token after ttftNS.
func answeredAfter(sentNS, lateNS, ttftNS, session int64) (r record.Record) {
	r.Clear()
	r.Outcome = record.OK
	r.Session = session
	r.PlannedNS = sentNS - lateNS
	r.SentNS = sentNS
	r.FirstTokenNS = sentNS + ttftNS
	r.LastTokenNS = r.FirstTokenNS + 1e9
	r.DoneNS = r.LastTokenNS
	r.CompletionTokens = 11
	return r
}

// summaryOf is that of a run of these records, in whatever order they come.
func summaryOf(all []record.Record) *Summary {
	c := NewCollector([]string{"http://a"})
	for i := range all {
		c.Add(&all[i], 0)
	}
	s := Summary{Requests: Requests{Planned: int64(len(all))}, Run: Run{DurationS: 100}, Limits: DefaultLimits()}
	return c.Summary(s, Probed{})
}

// TestIntervals: each latency of a request has the intervals of its values by section, whatever order records come in.
func TestIntervals(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	const n = 3000
	var all []record.Record
	var ttft, planned []stats.Sample
	for i := range int64(n) {
		late := rng.Int64N(1e6)
		ms := int64(1e8 * math.Exp(0.3*rng.NormFloat64()))
		all = append(all, answeredAfter(i*1e6, late, ms, record.None))
		section := uint8(i * stats.MostSections / n)
		ttft = append(ttft, stats.Sample{Value: ms, Section: section})
		planned = append(planned, stats.Sample{Value: ms + late, Section: section})
	}
	rng.Shuffle(n, func(i, j int) { all[i], all[j] = all[j], all[i] })
	s := summaryOf(all)
	check := func(metric string, sections *stats.Sections) {
		for k, want := range sections.Intervals(perMille) {
			got, sought := s.Interval(metric, perMille[k])
			if !sought || (got == nil) != (want == nil) ||
				want != nil && (got[0] != float64(want[0])/1e6 || got[1] != float64(want[1])/1e6) {
				t.Errorf("%s, %d ‰: %v, want %v", metric, perMille[k], got, want)
			}
			if s.Enough(metric, perMille[k], n) != (want != nil) {
				t.Errorf("%s, %d ‰: enough is not to have an interval", metric, perMille[k])
			}
		}
	}
	check("ttft", stats.NewSections(ttft, 0))
	check("ttft_planned", stats.NewSections(planned, 0))
	p50, _ := s.Interval("ttft", 500)
	p999, _ := s.Interval("ttft", 999)
	if p50 == nil || p50[0] >= s.TTFTMS.P50 || p50[1] <= s.TTFTMS.P50 || p999 != nil {
		t.Errorf("p50 %g in %v, p999 in %v", s.TTFTMS.P50, p50, p999)
	}
	for _, metric := range []string{"drift", "tpot", "e2e", "e2e_planned"} {
		if _, sought := s.Interval(metric, 500); !sought {
			t.Error(metric + " has no intervals")
		}
	}
	if _, sought := s.Interval("itl", 500); sought || s.Enough("itl", 990, 600) || !s.Enough("itl", 990, 700) {
		t.Error("gaps have intervals, or are not judged by their count")
	}
}

// TestIntervalsOfConversations: conversations that differ make intervals wider, and few of them make none.
func TestIntervalsOfConversations(t *testing.T) {
	of := func(conversations int64, differ float64) *Interval {
		rng := rand.New(rand.NewPCG(2, 1))
		level := make([]float64, conversations)
		for i := range level {
			level[i] = differ * rng.NormFloat64()
		}
		var all []record.Record
		for i := range int64(2000) {
			ms := int64(1e8 * math.Exp(level[i%conversations]+0.3*rng.NormFloat64()))
			all = append(all, answeredAfter(i*1e6, 0, ms, i%conversations))
		}
		s := summaryOf(all)
		return &s.Intervals[slices.IndexFunc(s.Intervals, func(i Interval) bool { return i.Metric == "ttft" })]
	}
	alike, unlike := of(20, 0), of(20, 0.3)
	if alike.P50 == nil || unlike.P50 == nil || unlike.P50[1]-unlike.P50[0] < 2*(alike.P50[1]-alike.P50[0]) {
		t.Errorf("of conversations that are alike %v, that are not %v", alike.P50, unlike.P50)
	}
	if unlike.Independent > alike.Independent/4 {
		t.Errorf("%g and %g independent values", alike.Independent, unlike.Independent)
	}
	if few := of(5, 0); few.P50 != nil || few.Unknown != stats.FewGroups {
		t.Errorf("of five: %+v", few)
	}
	if single := of(2000, 0); single.P50 == nil {
		t.Errorf("of conversations of one request: %+v", single)
	}
}

// TestBoundedLatenciesHaveIntervals: a latency that objectives take has a 95 % interval, as those of steps do, and those
// that count from the planned instant. Without one, nothing would tell how well its percentiles are known.
func TestBoundedLatenciesHaveIntervals(t *testing.T) {
	for at := range BoundedLatencies() {
		has := func(of int) bool { return of == at || latencies[of].planned == latencies[at].Key }
		if !slices.ContainsFunc(timedLatencies, has) {
			t.Errorf("%s has no interval: give it fields in StepLatencies", latencies[at].Key)
		}
	}
}
