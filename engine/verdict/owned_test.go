package verdict

import (
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// TestRequireOfOwners: an objective about one owner is judged by the numbers of its requests, and never by those of all.
func TestRequireOfOwners(t *testing.T) {
	s := measuredRun()
	values := func(ms float64, n int64) *stats.Percentiles {
		return &stats.Percentiles{P50: ms, P75: ms, P90: ms, P95: ms, P99: ms, P999: ms, Max: ms, Mean: ms, Count: n}
	}
	gold := metrics.Part{Name: "gold", OK: 90, Failed: 10, ReportedHitRatio: new(0.3), GoodShare: new(0.8)}
	gold.TTFTMS, gold.E2EMS = values(10, 5000), values(1000, 5000)
	few := metrics.Part{Name: "few", OK: 3}
	few.TTFTMS = values(10, 3)
	s.Owners = &metrics.Owners{
		Classes: &metrics.Breakdown{Parts: []metrics.Part{few, gold}},
		Tenants: &metrics.Breakdown{Parts: []metrics.Part{{Name: "gold", OK: 1}}},
	}
	for _, c := range []struct{ text, outcome string }{
		{"class=gold ttft.p99<20ms", "met 10.00 ms"},
		{"class=gold ttft.p99<5ms", "missed 10.00 ms"},
		{"class=gold e2e.p50 >= 1s", "met 1.000 s"},
		{"class=gold error_rate<=10%", "met 10 %"},
		{"class=gold error_rate<10%", "missed 10 %"},
		{"class=gold prefix_hits>20%", "met 30 %"},
		{"class=gold goodput>=90%", "missed 80 %"},
		{"class=gold tpot.p99<1s", "missed the run has no class=gold tpot.p99"},
		{"class=free ttft.p99<1s", "missed the run has no class=free ttft.p99"},
		{"tenant=gold ttft.p99<1s", "missed the run has no tenant=gold ttft.p99"},
		{"model=gold ttft.p99<1s", "missed the run has no model=gold ttft.p99"},
		{"class=few ttft.p99<20ms", "unknown unknown: ~10.00 ms of too few values, 662 would tell"},
		{"ttft.p99<20ms", "missed 199.0 ms"},
	} {
		s.Limits = metrics.Limits{Require: []string{c.text, "error_rate<=100%"}}
		o := Objectives(s, nil)[0]
		word := map[bool]string{true: "met", false: "missed"}[o.Met]
		if o.Needed > 0 {
			word = "unknown"
		}
		expect.Equal(t, word+" "+Outcome(&o), c.outcome, "%s", c.text)
	}
	for text, want := range map[string]string{
		"class=gold ttft.p50<20ms": "10.00 ms ± 15.0 ms: may be missed", // all of gold may be what was late
		"class=gold ttft.p50<30ms": "10.00 ms ± 15.0 ms: met all the same",
		"class=gold e2e.p50<2s":    "1.000 s",
	} {
		s.Limits = metrics.Limits{Require: []string{text, "error_rate<=100%"}}
		unsafe := []metrics.Unsafe{{Metric: "ttft", Percentile: "p99", EffectMS: 15}, {Metric: "ttft", Percentile: "p999", EffectMS: 2}}
		expect.Equal(t, Outcome(&Objectives(s, unsafe)[0]), want, text)
	}
	for text, words := range map[string]string{
		"class=gold itl.p99<1s":          "is not known by tenant",
		"class=gold requests_per_s>1":    "is not known by tenant",
		"class=gold ttft_planned.p99<1s": "is not known by tenant",
		"class=gold":                     "want NAME<LIMIT",
		"colour=gold ttft.p99<1s":        "no number of a run",
	} {
		_, _, _, err := ParseRequirement(text)
		expect.Error(t, err, words, text)
	}
}
