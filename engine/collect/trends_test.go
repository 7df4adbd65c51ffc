package collect

import (
	"fmt"
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

// worldSeeds is how many runs of each world are judged: FASTREPLAY_WORLDS, 4 otherwise.
func worldSeeds() int {
	if seeds, err := strconv.Atoi(os.Getenv("FASTREPLAY_WORLDS")); err == nil {
		return seeds
	}
	return 4
}

// TestNoTrends: of servers whose latencies only vary, almost no run has a trend.
func TestNoTrends(t *testing.T) {
	seeds := worldSeeds()
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

// TestNoSteps: where a server drifts, waves, walks, queues or pauses, almost no run has a step. Warm-ups, neighbours, and
// servers that grow or start again have steps of their own.
func TestNoSteps(t *testing.T) {
	seeds := worldSeeds()
	all := worlds.Worlds()
	quiet := func(name string, effects ...worlds.Effect) {
		all = append(all, worlds.World{Name: name, Noise: append([]worlds.Effect{worlds.LogNormal(0.1)}, effects...)})
	}
	quiet("ramp", worlds.Drift(3))
	quiet("fast leak", worlds.Leak(0.5))
	quiet("deep wave", worlds.Wave(0.5, 0.5))
	quiet("deep walk", worlds.Walk(0.3))
	quiet("deep and slow", worlds.Correlated(0.2, 0.3))
	quiet("for a third", worlds.Step(1.0/3, 1.5), worlds.Step(2.0/3, 1/1.5))
	all = append(all, worlds.World{Name: "overload", Slots: 4, Busy: 1.2, Noise: []worlds.Effect{worlds.LogNormal(0.3)}})
	for _, w := range all {
		if slices.Contains([]string{"step", "warm-up", "warm-cache", "autoscaler", "restart", "neighbour"}, w.Name) ||
			!strings.HasPrefix(w.Name, os.Getenv("FASTREPLAY_WORLD")) {
			continue
		}
		found := map[string]int{}
		for seed := range uint64(seeds) {
			for _, n := range []int{300, 2000} {
				for _, trend := range summaryOf(recordsOf(w.Run(seed, 1, n, 1))).Trends {
					if trend.StepS > 0 {
						found[fmt.Sprint(trend.Quantity, " of ", n)]++
					}
				}
			}
		}
		for quantity, n := range found {
			if low, _ := (worlds.Share{Hits: n, Of: seeds}).Wilson(); low > 0.01 || seeds == 4 {
				t.Errorf("%s: %d of %d runs have a step of %s", w.Name, n, seeds, quantity)
			}
		}
		t.Log(w.Name, found)
	}
}

// TestSteps: a server that becomes slower, or faster, at once and stays so is told of, with when and by how much.
func TestSteps(t *testing.T) {
	seeds := worldSeeds()
	for _, c := range []struct {
		from, factor float64
		busy         float64 // of a queue; 0 is none
		n            int
	}{{0.5, 1.3, 0, 2000}, {0.25, 1.2, 0, 2000}, {0.78, 1.3, 0, 2000}, {0.5, 0.75, 0, 2000}, {0.5, 1.5, 0, 300}, {0.5, 1.3, 0.3, 2000}} {
		var found worlds.Share
		w := worlds.World{Noise: []worlds.Effect{worlds.LogNormal(0.1), worlds.Step(c.from, c.factor)}}
		if c.busy > 0 {
			w.Slots, w.Busy = 4, c.busy
		}
		for seed := range uint64(seeds) {
			run := w.Run(seed, 1, c.n, 1)
			s := summaryOf(recordsOf(run))
			i := slices.Index(trendsOf(s), "tpot")
			found.Add(i >= 0 && s.Trends[i].StepS > 0)
			if i < 0 || s.Trends[i].StepS == 0 {
				continue
			}
			got := &s.Trends[i]
			at, lasts := run[int(c.from*float64(c.n))].At, run[c.n-1].At
			if math.Abs(got.StepS-at) > 0.06*lasts || math.Abs(got.Last/got.First/c.factor-1) > 0.05 {
				t.Errorf("%+v, seed %d: %+v, want %.1f s", c, seed, got, at)
			}
			if words := got.Words(); !strings.Contains(words, " at about ") || !strings.Contains(words, " of the run and stayed so, from ") {
				t.Error(words)
			}
		}
		if t.Logf("%+v: found %s", c, found); found.Hits*10 < found.Of*9 {
			t.Errorf("%+v: found %s", c, found)
		}
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
