package collect

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/stats"
)

const msNS = 1_000_000

// spaced are n ok requests, one each gapNS, whose TTFT is about 40 ms and whose E2E about 300 ms, all sent in time.
func spaced(seed uint64, n int, gapNS int64) []record.Record {
	chance := rand.New(rand.NewPCG(seed, 1))
	all := make([]record.Record, n)
	for i := range all {
		r := &all[i]
		r.Clear()
		r.Outcome, r.PlannedNS, r.CompletionTokens = record.OK, int64(i)*gapNS, 50
		r.SentNS = r.PlannedNS
		r.FirstTokenNS = r.SentNS + 30*msNS + chance.Int64N(20*msNS)
		r.LastTokenNS = r.FirstTokenNS + 200*msNS + chance.Int64N(120*msNS)
	}
	return all
}

// summed is the summary of records, in a closed loop of that many slots if there are any.
func summed(all []record.Record, slots int64) *metrics.Summary {
	c := NewCollector([]string{"http://a:1"})
	end := int64(0)
	for i := range all {
		c.Add(&all[i], 0)
		end = max(end, all[i].LastTokenNS)
	}
	return c.Summary(metrics.Summary{
		Requests: metrics.Requests{Planned: int64(len(all))}, Limits: metrics.DefaultLimits(), Run: metrics.Run{DurationS: float64(end) / 1e9, Concurrency: slots},
		Client: metrics.Client{ReceiveLagUS: &stats.Percentiles{P99: 9000}},
	}, Probed{})
}

// unsafeBySorting is what may be unsafe of a latency, by sorting: value and other are of each request.
func unsafeBySorting(metric string, n int, floor float64, value func(int) float64, others ...func(int) float64) (out []string) {
	sorted := func(of func(int) float64) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = of(i)
		}
		slices.Sort(v)
		return v
	}
	base := sorted(value)
	for _, p := range []struct {
		name  string
		q     float64
		least int
	}{{"p50", 0.5, 11}, {"p75", 0.75, 24}, {"p90", 0.9, 64}, {"p95", 0.95, 130}, {"p99", 0.99, 662}, {"p999", 0.999, 6636}} {
		rank := int(math.Ceil(p.q*float64(n)-1e-9)) - 1
		limit, effect, late := max(floor, 0.05*base[rank]), 0.0, 0
		for i := range n {
			worst := 0.0
			for _, other := range others {
				worst = max(worst, math.Abs(other(i)-value(i)))
			}
			if worst > limit {
				late++
			}
		}
		for _, other := range others {
			effect = max(effect, math.Abs(sorted(other)[rank]-base[rank]))
		}
		if n >= p.least && effect > limit && float64(late) > max(1, math.Sqrt(float64(n)*p.q*(1-p.q))) {
			out = append(out, fmt.Sprintf("%s %s %.3g of %.3g", metric, p.name, effect/1e6, base[rank]/1e6))
		}
	}
	return out
}

func listed(all []metrics.Unsafe) (out []string) {
	for _, u := range all {
		out = append(out, fmt.Sprintf("%s %s %.3g of %.3g", u.Metric, u.Percentile, u.EffectMS, u.ValueMS))
	}
	return out
}

// TestSendingAgainstOracle: what lateness of the sender changes, for runs of every size and share of late requests.
func TestSendingAgainstOracle(t *testing.T) {
	chance, found := rand.New(rand.NewPCG(5, 6)), 0
	for trial := range 48 {
		n := []int{1, 5, 30, 100, 200, 700, 1500, 7000}[trial%8]
		all := spaced(uint64(trial), n, 5*msNS)
		share, most := chance.Float64()*chance.Float64(), 1+chance.Int64N(60*msNS)
		for i := range all {
			if chance.Float64() < share {
				late := chance.Int64N(most)
				r := &all[i]
				r.SentNS, r.FirstTokenNS, r.LastTokenNS = r.SentNS+late, r.FirstTokenNS+late, r.LastTokenNS+late
			}
		}
		of := func(to func(*record.Record) int64) func(int) float64 {
			return func(i int) float64 { return float64(to(&all[i])) }
		}
		want := slices.Concat(
			unsafeBySorting("ttft", n, msNS, of(func(r *record.Record) int64 { return r.FirstTokenNS - r.SentNS }), of(func(r *record.Record) int64 { return r.FirstTokenNS - r.PlannedNS })),
			unsafeBySorting("e2e", n, msNS, of(func(r *record.Record) int64 { return r.LastTokenNS - r.SentNS }), of(func(r *record.Record) int64 { return r.LastTokenNS - r.PlannedNS })))
		s := summed(all, 0)
		expect.List(t, listed(s.Lateness.Sending), want, "%d requests, %.3f late by up to %d ns", n, share, most)
		found += len(want)
		displaced, limit := int64(0), s.Lateness.DisplacedMS
		for i := range all {
			displaced += btoi(float64(all[i].SentNS-all[i].PlannedNS) > limit*1e6)
		}
		if n > 1 && (displaced != s.Lateness.Displaced || limit < 5 || limit < 0.05*s.E2EMS.P50-1e-6 || limit > 17 || *s.Lateness.MeanGapMS != 5) {
			t.Errorf("%d displaced by more than %v ms, want %d; gap %v", s.Lateness.Displaced, limit, displaced, *s.Lateness.MeanGapMS)
		}
	}
	if found < 20 {
		t.Errorf("only %d percentiles were unsafe in all trials", found)
	}
}

// TestReadingAgainstOracle: what late reads can have changed. Histograms have values within 0.1 %, so what is near a
// limit is left out.
func TestReadingAgainstOracle(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing in it runs beside another")
	}
	chance, found := rand.New(rand.NewPCG(7, 8)), 0
	for trial := range 12 {
		n := []int{5, 100, 200, 700, 1500, 7000}[trial%6]
		all := spaced(uint64(trial), n, 5*msNS)
		share, most := chance.Float64(), 1+chance.Int64N(40*msNS)
		for i := range all {
			if chance.Float64() < share {
				all[i].FirstSlackNS, all[i].LastSlackNS = chance.Int64N(most), chance.Int64N(most)
			}
		}
		value := func(to func(r *record.Record) int64) func(int) float64 {
			return func(i int) float64 { return float64(to(&all[i])) }
		}
		names := func(of []string) (out []string) {
			for _, text := range of {
				var metric, percentile string
				_, _ = fmt.Sscan(text, &metric, &percentile)
				out = append(out, metric+" "+percentile)
			}
			return out
		}
		want := func(margin float64) []string {
			return names(slices.Concat(
				unsafeBySorting("ttft", n, msNS*margin, value((*record.Record).TTFTNS), value(func(r *record.Record) int64 { return r.TTFTNS() - r.FirstSlackNS })),
				unsafeBySorting("tpot", n, msNS/10*margin, value((*record.Record).TPOTNS), value(func(r *record.Record) int64 { return r.TPOTNS() - r.LastSlackNS/49 }),
					value(func(r *record.Record) int64 { return r.TPOTNS() + r.FirstSlackNS/49 })),
				unsafeBySorting("e2e", n, msNS*margin, value((*record.Record).E2ENS), value(func(r *record.Record) int64 { return r.E2ENS() - r.LastSlackNS }))))
		}
		// A percentile that is unsafe by the sorted values has an effect within 0.2 % of its value of the true one.
		s := summed(all, 0)
		got := names(listed(s.Lateness.Reading))
		for _, u := range slices.Concat(want(1), got) {
			if slices.Contains(want(1), u) != slices.Contains(got, u) && !near(s, &all, u) {
				t.Errorf("%d requests, %.3f read late by up to %d ns: %s:\ngot  %q\nwant %q", n, share, most, u, listed(s.Lateness.Reading), want(1))
			}
		}
		found += len(got)
	}
	if found < 8 {
		t.Errorf("only %d percentiles were unsafe in all trials", found)
	}
}

// near reports whether the effect on a percentile is within 0.5 % of its value of the limit.
func near(s *metrics.Summary, all *[]record.Record, name string) bool {
	var low, base []float64
	percentile := name[len(name)-3:]
	q := map[string]float64{"p50": 0.5, "p75": 0.75, "p90": 0.9, "p95": 0.95, "p99": 0.99, "999": 0.999}[percentile]
	for i := range *all {
		r := &(*all)[i]
		switch name[:3] {
		case "ttf":
			base, low = append(base, float64(r.TTFTNS())), append(low, float64(r.TTFTNS()-r.FirstSlackNS))
		case "e2e":
			base, low = append(base, float64(r.E2ENS())), append(low, float64(r.E2ENS()-r.LastSlackNS))
		default:
			return math.Abs(s.TPOTMS.P50) < 10 // of 0.25 ms the histogram's steps are 4 µs
		}
	}
	slices.Sort(base)
	slices.Sort(low)
	rank := int(math.Ceil(q*float64(len(base))-1e-9)) - 1
	return math.Abs(base[rank]-low[rank]-max(msNS, 0.05*base[rank])) < 0.005*base[rank]
}

// TestOneLateRequestDecidesNothing: however late one request is, or is read, the verdict stays.
func TestOneLateRequestDecidesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing in it runs beside another")
	}
	chance := rand.New(rand.NewPCG(9, 10))
	for trial := range 60 {
		slots := int64(trial%2) * 4
		n := max(1, int(slots)) + chance.IntN(1+trial*20)
		all := spaced(uint64(trial), n, 5*msNS)
		if v := summed(all, slots).Verdict; v.Measurement != metrics.Valid {
			t.Fatalf("%d requests in time: %q", n, said(v))
		}
		r, late := &all[chance.IntN(n)], chance.Int64N(10_000*msNS)
		if trial%3 == 0 {
			r.FirstSlackNS, r.LastSlackNS = r.TTFTNS(), r.E2ENS()
		} else {
			r.SentNS, r.FirstTokenNS, r.LastTokenNS = r.SentNS+late, r.FirstTokenNS+late, r.LastTokenNS+late
		}
		if v := summed(all, slots).Verdict; v.Measurement != metrics.Valid || len(v.Unsafe) > 0 {
			t.Errorf("%d requests, one %d ms late, %d slots: %q", n, late/msNS, slots, said(v))
		}
	}
}

// TestLatenessThatDecides: how late, how often, and what it makes of the verdict.
func TestLatenessThatDecides(t *testing.T) {
	for _, c := range []struct {
		what  string
		every int // one request of so many is late
		by    int64
		slots int64
		grade metrics.Grade
		bad   []string
	}{
		{"one in a hundred, by what nobody sees", 100, msNS / 2, 0, metrics.Valid, nil},
		{"one in a hundred, by 6 ms: less than 5 % of E2E, and TTFT's tail", 100, 6 * msNS, 0, metrics.Valid, nil},
		{"one in twenty, by 40 ms", 20, 40 * msNS, 0, metrics.Limited, []string{"ttft p99"}},
		{"all, by 10 ms", 1, 10 * msNS, 0, metrics.Limited, []string{"ttft p50", "ttft p75", "ttft p90", "ttft p95", "ttft p99"}},
		{"one in eight, by 2 s", 8, 2000 * msNS, 0, metrics.Invalid, nil},
		{"all, by 300 ms", 1, 300 * msNS, 0, metrics.Invalid, nil},
		{"a closed loop, by 6 ms each", 1, 6 * msNS, 8, metrics.Valid, nil},
		{"a closed loop that sends half as much", 1, 300 * msNS, 8, metrics.Invalid, nil},
	} {
		const n = 2000
		all := spaced(3, n, 5*msNS)
		for i := range all {
			r := &all[i]
			if c.slots > 0 { // each slot sends as soon as it is free
				r.PlannedNS, r.SentNS = int64(i)/c.slots*(300*msNS+c.by), int64(i)/c.slots*(300*msNS+c.by)
				r.FirstTokenNS, r.LastTokenNS = r.SentNS+40*msNS, r.SentNS+300*msNS
			}
			if i%c.every == 0 {
				r.SentNS, r.FirstTokenNS, r.LastTokenNS = r.SentNS+c.by, r.FirstTokenNS+c.by, r.LastTokenNS+c.by
			}
		}
		v := summed(all, c.slots).Verdict
		var bad []string
		for _, u := range v.Unsafe {
			bad = append(bad, u.Metric+" "+u.Percentile)
		}
		if v.Measurement != c.grade || c.grade != metrics.Invalid && !slices.Equal(bad, c.bad) {
			t.Errorf("%s: %s %q, unsafe %q; want %s, %q", c.what, v.Measurement, said(v), bad, c.grade, c.bad)
		}
	}
}

// TestMovedGaps: merged chunks make the percentiles of ITL uncertain, and of no other latency.
func TestMovedGaps(t *testing.T) {
	all := spaced(3, 100, 5*msNS)
	c := NewCollector([]string{"http://a:1"})
	for i := range all {
		c.Add(&all[i], 0)
		gaps, moved := make([]int64, 100), []metrics.LateReadGap(nil)
		for j := range gaps {
			gaps[j] = 5 * msNS
		}
		if i%2 == 0 { // a quarter of the reads found two chunks
			for j := 0; j < 50; j += 2 {
				gaps[j], gaps[j+1] = 10*msNS, 0
				moved = append(moved, metrics.LateReadGap{NS: 10 * msNS, LikelyNS: 5 * msNS}, metrics.LateReadGap{NS: 0, LikelyNS: 5 * msNS})
			}
		}
		c.AddGaps(0, gaps, moved...)
	}
	s := c.Summary(metrics.Summary{Requests: metrics.Requests{Planned: 100}, Client: metrics.Client{ReceiveLagUS: &stats.Percentiles{P99: 9000}}}, Probed{})
	want := []string{"itl p90 5 of 10", "itl p95 5 of 10", "itl p99 5 of 10", "itl p999 5 of 10"}
	if got := listed(s.Lateness.Reading); !slices.Equal(got, want) || s.Verdict.Measurement != metrics.Limited {
		t.Errorf("%s: %q, want %q", s.Verdict.Measurement, got, want)
	}
}
