package report

import (
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// TestIntervalsForPeople: screen and page have the intervals of percentiles, and say why there are none and what went
// one way.
func TestIntervalsForPeople(t *testing.T) {
	s := normalRun()
	s.TTFTMS = &stats.Percentiles{P50: 28.9, P90: 40, P95: 50, P99: 90, P999: 99, Max: 99, Count: 900}
	s.TPOTMS = &stats.Percentiles{P50: 10, P90: 11, P95: 12, P99: 13, P999: 14, Max: 14, Count: 900}
	s.Intervals = []metrics.Interval{
		{Metric: "ttft", P50: &[2]float64{28.2, 29.5}, P90: &[2]float64{39.5, 44}},
		{Metric: "tpot", Unknown: stats.Dependent},
	}
	s.Trends = []metrics.Trend{{Quantity: "tpot", First: 9, Last: 11.7}}
	var b strings.Builder
	must.Do(t, Screen(&b, s, PrintOptions{}))
	for _, want := range []string{
		"95 % within  TTFT p90 [39.5 ms, 44.0 ms]\n",
		"~10.0 ms", "~13.0 ms", "~ too few values (900): no interval   ~ values vary over the run",
		"over time    TPOT p50 rose by 30 %\n",
	} {
		expect.Contains(t, b.String(), want, "the screen lacks")
	}
	hints := map[string]string{}
	for _, row := range latencyTable(s).Rows {
		hints[row[0].Text+row[2].Text] = row[2].Hint
	}
	expect.Equal(t, hints["TTFT28.9 ms"], "95 % interval [28.2 ms, 29.5 ms]", "the page of TTFT p50: %q", hints)
	if got := hints["TPOT~10.0 ms"]; !strings.HasPrefix(got, "values depend on each other") {
		t.Errorf("the page says %q of TPOT p50: %q", got, hints)
	}
}
