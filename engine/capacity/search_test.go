package capacity

import (
	"cmp"
	"math"
	"os"
	"strconv"
	"sync"
	"testing"
)

// searched sums up the searches of a model.
type searched struct {
	covered, tooLow, probes, bisections, believed int
	width, widest, spentS, bisectionS             float64
}

// seedsEach is how many searches of each model a test makes. FASTREPLAY_CAPACITY=500 takes an hour of a processor.
func seedsEach(usual int) int {
	if n, err := strconv.Atoi(os.Getenv("FASTREPLAY_CAPACITY")); err == nil {
		return n
	}
	return usual
}

// TestSearch: the interval covers the knee, is narrow, and takes less than half the time of bisection.
func TestSearch(t *testing.T) {
	t.Parallel()
	all := seedsEach(0)
	usual := map[string]int{"M/M/8": 8, "refusing": 8, "hard edge": 1, "log-normal": 6} // others take long
	if testing.Short() {
		usual = map[string]int{"hard edge": 1}
	}
	var sum searched
	seeds, models, ratios := 0, 0, 0.0
	for _, m := range knownModels(t) {
		n := all
		if n == 0 {
			n = usual[m.name]
		}
		if n == 0 {
			continue
		}
		one := searches(t, m, n)
		meanS, bisectionS := one.spentS/float64(n), one.bisectionS/float64(one.bisections)
		t.Logf("%-12s knee %6.3f: %3d of %3d cover it (%d too low), width %.4f, %4.1f probes, %6.0f s, %.2f of bisection, which covers %d of %d",
			m.name, m.knee, one.covered, n, one.tooLow, one.width/float64(n), float64(one.probes)/float64(n), meanS, meanS/bisectionS, one.believed, one.bisections)
		seeds, models, ratios = seeds+n, models+1, ratios+meanS/bisectionS
		sum.covered += one.covered
		sum.widest = max(sum.widest, one.widest)
	}
	if covered := float64(sum.covered) / float64(seeds); covered < 0.95 && (all > 0 || covered < 0.9) {
		t.Errorf("%d of %d intervals cover the knee; want 95 %%", sum.covered, seeds)
	}
	if sum.widest > 0.04 {
		t.Errorf("an interval is %.4f wide; want at most 0.04", sum.widest)
	}
	if testing.Short() {
		return // of too few
	}
	if ratio := ratios / float64(models); ratio > 0.5 {
		t.Errorf("searches take %.2f of the time of bisection; want at most half", ratio)
	}
}

func knownModels(t *testing.T) []model {
	all := models()
	for i := range all {
		objectives, err := ParseObjectives(all[i].slo)
		if err != nil {
			t.Fatal(err)
		}
		all[i].objectives = objectives
	}
	return all
}

// bisected is with how many seeds a test bisects, at least.
const bisected = 3

// searches searches with each of so many seeds.
func searches(t *testing.T, m model, seeds int) (all searched) {
	var lock sync.Mutex
	var group sync.WaitGroup
	for part := range 2 {
		group.Go(func() {
			for seed := part; seed < seeds; seed += 2 {
				s := &simulation{model: &m, objectives: m.objectives, seed: uint64(seed)}
				a := s.search(t, Config{Least: m.least}).Answer()
				if a.High == nil || !a.Complete {
					t.Errorf("%s, seed %d: %+v", m.name, seed, a)
					continue
				}
				low, high, bisectionS := 0.0, 0.0, 0.0
				if seed < max(bisected, seeds/5) {
					low, high, bisectionS = s.bisection(m.least)
				}
				lock.Lock()
				if bisectionS > 0 {
					all.bisections++
					all.bisectionS += bisectionS
				}
				switch {
				case *a.High < m.knee:
					all.tooLow++
				case a.Low <= m.knee:
					all.covered++
				}
				if low <= m.knee && m.knee <= high {
					all.believed++
				}
				width := (*a.High - a.Low) / a.Load
				all.width, all.widest = all.width+width, max(all.widest, width)
				all.probes, all.spentS = all.probes+a.Probes, all.spentS+a.SpentS
				lock.Unlock()
			}
		})
	}
	group.Wait()
	return all
}

// TestSearchRareFailures: an objective that allows few failures costs little if there are none below the edge.
func TestSearchRareFailures(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("three searches of some hours of virtual time")
	}
	for _, failing := range []float64{math.Inf(1), 1.5} { // the load above which requests fail, over the knee
		m := knownModels(t)[0]
		objectives, err := ParseObjectives(m.slo + " ok>=99.9%")
		if err != nil {
			t.Fatal(err)
		}
		plain := &simulation{model: &m, objectives: objectives[:1], seed: 1}
		alone := plain.search(t, Config{Least: m.least}).Answer()
		s := &simulation{model: &m, objectives: objectives, seed: 1, failing: failing * m.knee}
		search := s.search(t, Config{Least: m.least})
		a := search.Answer()
		if !a.Complete || a.Limits != m.slo || a.SpentS > 1.2*alone.SpentS || a.Low > m.knee || *a.High < m.knee {
			t.Errorf("failures above %v: got %+v to %v, want about what it is without the objective, %+v to %v", s.failing, a, *a.High, alone, *alone.High)
		}
		first := search.outcomes[0]
		if first.Verdict != Holds || first.SpentS > startS+warmS+60 {
			t.Errorf("the first probe, at an easy load: %s after %v s", first.Verdict, first.SpentS)
		}
	}
}

// TestSearchInstances: the fewest instances that hold are found exactly.
func TestSearchInstances(t *testing.T) {
	t.Parallel()
	objectives, err := ParseObjectives("ttft.p95<1s")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{1, 4, 11} {
		if testing.Short() && want != 4 {
			continue
		}
		rate := (erlang(want-1, 0.05, 1) + erlang(want, 0.05, 1)) / 2
		for seed := range uint64(3) {
			m := model{name: "instances", rate: rate, arrivals: poissonOf(rate), serveAt: func(load float64) server { return queue(int(load), 0, exponential) }}
			s := &simulation{model: &m, objectives: objectives, seed: seed}
			a := s.search(t, Config{Least: 16, Most: 16, Whole: true, Falling: true}).Answer()
			if !a.Complete || a.Load != float64(want) || a.Low != a.Load || *a.High != a.Load {
				t.Errorf("%v requests a second, seed %d: got %+v, want %d instances", rate, seed, a, want)
			}
		}
	}
}

// TestSearchBounds: what no probe bounds is open, and the search says why it ended.
func TestSearchBounds(t *testing.T) {
	t.Parallel()
	m := knownModels(t)[0] // its knee is at 3.01
	for name, c := range map[string]struct {
		config    Config
		rate      float64 // of the model, if it is another
		client    float64 // the load from which the client is too slow; 0 = none
		low, high float64 // bounds of the answer; high 0 = it has none
		why       string
	}{
		"holds at the most":      {Config{Least: 1, Most: 1.5}, 0, 0, 1.5, 0, "The objectives hold at 1.5, and nothing harder was to be tried."},
		"breaks at the least":    {Config{Least: 4, Whole: true}, 20, 0, 0, 1, "The objectives break even at 1."},
		"the client":             {Config{Least: 1}, 0, 2, 1, 0, "The client was the bottleneck at 2: slow. So the servers may carry more."},
		"the client at once":     {Config{Least: 1}, 0, 1, 0, 0, "The client was the bottleneck at 1: slow. So the servers' capacity stays unknown."},
		"the budget":             {Config{Least: 1, Budget: 200e9}, 0, 0, 0.5, 9, "The budget of 3.33 min is spent before the interval is as narrow as wanted; the same command goes on with a larger one."},
		"as narrow as is wanted": {Config{Least: 1, Precision: 0.3}, 0, 0, 2, 4, "The interval is as narrow as wanted."},
	} {
		m := m
		m.rate = cmp.Or(c.rate, m.rate)
		s := &simulation{model: &m, objectives: m.objectives, seed: 3, client: c.client}
		a := s.search(t, c.config).Answer()
		if a.Why != c.why || a.Low < c.low || (a.High == nil) != (c.high == 0) || a.High != nil && *a.High > c.high*1.4 || a.Complete != (c.config.Precision > 0) {
			t.Errorf("%s: got %+v", name, a)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	some := []Objective{{Text: "ok>=99%", Metric: ok, Allowed: 0.01}}
	for _, c := range []Config{
		{Least: 1},
		{Objectives: some},
		{Objectives: some, Least: math.Inf(1)},
		{Objectives: some, Least: 2, Most: 1},
		{Objectives: some, Least: 1.5, Whole: true},
		{Objectives: some, Least: 1, Precision: 1},
		{Objectives: some, Least: 1, Precision: math.NaN()},
	} {
		if _, err := New(c); err == nil {
			t.Errorf("%+v: no error", c)
		}
	}
}
