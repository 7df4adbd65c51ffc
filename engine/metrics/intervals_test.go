package metrics

import (
	"math"
	"math/rand/v2"
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
	equal(t, "ttft", s.TTFTMS.CI95, stats.NewSections(ttft, 0).Describe(1e6))
	equal(t, "ttft planned", s.TTFTPlannedMS.CI95, stats.NewSections(planned, 0).Describe(1e6))
	if c := s.TTFTMS.CI95; c.P50 == nil || c.P50[0] >= s.TTFTMS.P50 || c.P50[1] <= s.TTFTMS.P50 || c.P999 != nil {
		t.Errorf("p50 %g in %v, p999 in %v", s.TTFTMS.P50, c.P50, c.P999)
	}
	if s.DriftUS.CI95 == nil || s.E2EMS.CI95 == nil || s.TPOTMS.CI95 == nil || s.E2EPlannedMS.CI95 == nil ||
		s.Targets[0].TTFTMS.CI95 != nil {
		t.Error("a latency of the run has no intervals, or one of a target has")
	}
}

// TestIntervalsOfConversations: conversations that differ make intervals wider, and few of them make none.
func TestIntervalsOfConversations(t *testing.T) {
	of := func(conversations int64, differ float64) *stats.CI95 {
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
		return summaryOf(all).TTFTMS.CI95
	}
	alike, unlike := of(20, 0), of(20, 0.3)
	if alike.P50 == nil || unlike.P50 == nil || unlike.P50[1]-unlike.P50[0] < 2*(alike.P50[1]-alike.P50[0]) {
		t.Errorf("of conversations that are alike %v, that are not %v", alike.P50, unlike.P50)
	}
	if unlike.Independent > alike.Independent/4 {
		t.Errorf("%g and %g independent values", alike.Independent, unlike.Independent)
	}
	if few := of(5, 0); few.P50 != nil || few.Unknown != "there are too few conversations" {
		t.Errorf("of five: %+v", few)
	}
	if single := of(2000, 0); single.P50 == nil {
		t.Errorf("of conversations of one request: %+v", single)
	}
}
