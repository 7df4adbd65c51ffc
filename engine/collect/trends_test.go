package collect

import (
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/worlds"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

func worldOf(t *testing.T, name string) worlds.World {
	t.Helper()
	all := worlds.Worlds()
	i := slices.IndexFunc(all, func(w worlds.World) bool { return w.Name == name })
	if i < 0 {
		t.Fatal("no world " + name)
	}
	return all[i]
}

func trendsOf(s *metrics.Summary) (names []string) {
	for i := range s.Trends {
		names = append(names, s.Trends[i].Quantity)
	}
	return names
}

// TestTrends: a server that slows is told of, and so is one that does not carry its load.
func TestTrends(t *testing.T) {
	overload := worlds.World{Slots: 4, Busy: 1.2, Noise: []worlds.Effect{worlds.LogNormal(0.3)}}
	for seed := range uint64(5) {
		s := summaryOf(recordsOf(worldOf(t, "drift").Run(seed, 0, 2000, 1)))
		i := slices.Index(trendsOf(s), "tpot")
		if i < 0 {
			t.Fatalf("a server that slows by 30 %%: %+v", s.Trends)
		}
		// the middles of the first and last quarter are three quarters of the run apart
		if got := &s.Trends[i]; math.Abs(got.Last/got.First-1.2625/1.0375) > 0.03 || len(got.Load) > 0 ||
			!strings.Contains(got.Words(), "TPOT p50 rose by ") || s.Notes[i] != got.Words() {
			t.Errorf("%+v: %s; notes %q", got, got.Words(), s.Notes)
		}
		s = summaryOf(recordsOf(overload.Run(seed, 0, 2000, 1)))
		if len(s.Trends) < 2 || s.Trends[0].Quantity != metrics.InFlightTrend || s.Trends[0].Last < 2*s.Trends[0].First ||
			!strings.Contains(s.Trends[0].Words(), "the server cannot carry this load") {
			t.Errorf("an overload: %+v", s.Trends)
		}
	}
}

// TestNoTrends: of servers whose latencies only vary, almost no run has a trend. FASTREPLAY_WORLDS is how many runs of
// each world; 4 otherwise.
func TestNoTrends(t *testing.T) {
	seeds := 4
	if text := os.Getenv("FASTREPLAY_WORLDS"); text != "" {
		seeds, _ = strconv.Atoi(text)
	}
	for _, name := range []string{"independent", "pareto", "outliers", "failures", "turns-4", "queue-50", "queue-70",
		"queue-90", "correlated-1", "stalls"} {
		found := map[string]int{}
		w := worldOf(t, name)
		for seed := range uint64(seeds) {
			for _, quantity := range trendsOf(summaryOf(recordsOf(w.Run(seed, 1, 2000, 1)))) {
				found[quantity]++
			}
		}
		for quantity, n := range found {
			if low, _ := (worlds.Share{Hits: n, Of: seeds}).Wilson(); low > 0.01 || seeds == 4 {
				t.Errorf("%s: %d of %d runs have a trend of %s", name, n, seeds, quantity)
			}
		}
		t.Log(name, found)
	}
}

// TestTrendOfLoad: if the load rose, too, that is said, and not that the server cannot carry it. A day's traffic that
// rises and falls has no trend.
func TestTrendOfLoad(t *testing.T) {
	of := func(rate func(share float64) float64) *metrics.Summary {
		rng := rand.New(rand.NewPCG(4, 5))
		var all []record.Record
		at := 0.0
		const n = 4000
		for i := range n {
			r := rate(float64(i) / n)
			at += rng.ExpFloat64() / r
			ttft := 1e8 * math.Pow(r/20, 0.7) * math.Exp(0.3*rng.NormFloat64())
			all = append(all, answeredAfter(int64(at*1e9), 0, int64(ttft), record.None))
		}
		return summaryOf(all)
	}
	s := of(func(share float64) float64 { return 20 * (1 + 2*share) })
	i := slices.Index(trendsOf(s), "ttft")
	if i < 0 {
		t.Fatalf("%+v", s.Trends)
	}
	words := s.Trends[i].Words()
	if change := s.Trends[i].Load["requests_per_s"]; change < 0.8 || change > 1.6 ||
		!strings.Contains(words, "the load changed, too, and may be the cause (requests/s ") ||
		strings.Contains(words, "cannot carry") {
		t.Errorf("%+v: %s", s.Trends, words)
	}
	day := of(func(share float64) float64 { return 20 * (1 - 0.6*math.Cos(2*math.Pi*share)) })
	if len(day.Trends) > 0 {
		t.Errorf("a day: %+v", day.Trends)
	}
	if p50, sought := day.Interval("ttft", 500); p50 != nil || !sought {
		t.Error("a day has intervals, though it changes over the run")
	}
}
