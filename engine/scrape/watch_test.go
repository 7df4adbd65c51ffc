package scrape

import (
	"math"
	"math/rand/v2"
	"testing"
)

// reported is one sample with two gauges and three counters.
func reported(phase Phase, running, waiting, kv float64, hits, queries, tokens float64) *Sample {
	s := &Sample{Phase: phase}
	s.Engine, s.Engines = "vllm", 1
	s.Running, s.Waiting, s.KVUsage, s.MostKVUsage = &running, &waiting, &kv, &kv
	s.PrefixHits, s.PrefixQueries, s.GenerationTokens = &hits, &queries, &tokens
	return s
}

func failed(phase Phase) *Sample { return &Sample{Phase: phase, Error: "connection refused"} }

// TestWatch computes everything again from lists: deltas as Prometheus' increase() has them, gauges from the latest of
// each page.
func TestWatch(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		pages := 1 + rng.IntN(4)
		names := make([]string, pages)
		for p := range names {
			names[p] = []string{"http://a", "http://b"}[rng.IntN(2)]
		}
		w := NewWatch(names)
		var history []struct {
			page int
			s    *Sample
		}
		value, down := make([][3]float64, pages), make([]bool, pages)
		take := func(p int, phase Phase) {
			s := failed(phase)
			if phase == Before || rng.IntN(8) > 0 {
				if down[p] && rng.IntN(2) == 0 {
					value[p] = [3]float64{} // started anew
				}
				for i := range value[p] {
					value[p][i] += float64(rng.IntN(100))
				}
				value[p][0] = min(value[p][0], value[p][1])
				s = reported(phase, float64(rng.IntN(20)), float64(rng.IntN(3)), rng.Float64(), value[p][0], value[p][1], value[p][2])
			}
			w.Add(p, s)
			down[p] = s.Error != ""
			history = append(history, struct {
				page int
				s    *Sample
			}{p, s})
		}
		for p := range pages {
			take(p, Before)
		}
		for range rng.IntN(60) {
			take(rng.IntN(pages), During)
		}
		for p := range pages {
			take(p, After)
		}
		check := func(got Server, of func(page int) bool) {
			t.Helper()
			var running, waiting, kv []float64
			var grown [3]float64
			mostKV, queued, missed, restarts := 0.0, 0, int64(0), int64(0)
			latest, counted := map[int]*Sample{}, map[int]*Sample{}
			for _, h := range history {
				if !of(h.page) {
					continue
				}
				if h.s.Error != "" {
					missed++
				}
				if h.s.Phase != After {
					latest[h.page] = h.s
				}
				if h.s.Error == "" {
					is := [3]float64{*h.s.PrefixHits, *h.s.PrefixQueries, *h.s.GenerationTokens}
					if last := counted[h.page]; last != nil {
						was := [3]float64{*last.PrefixHits, *last.PrefixQueries, *last.GenerationTokens}
						if is[0] < was[0] || is[1] < was[1] || is[2] < was[2] {
							restarts++
							was = [3]float64{}
						}
						for i := range grown {
							grown[i] += is[i] - was[i]
						}
					}
					counted[h.page] = h.s
				}
				if h.s.Phase != During {
					continue
				}
				r, q, k, n := 0.0, 0.0, 0.0, 0.0
				for _, s := range latest {
					if s.Error == "" {
						r, q, k, n = r+*s.Running, q+*s.Waiting, k+*s.KVUsage, n+1
					}
				}
				if n == 0 {
					continue
				}
				for _, s := range latest {
					if s.Error == "" {
						mostKV = max(mostKV, *s.KVUsage)
					}
				}
				running, waiting, kv = append(running, r), append(waiting, q), append(kv, k/n)
				if q > 0 {
					queued++
				}
			}
			if got.Missed != missed || got.Restarts != restarts {
				t.Errorf("seed %d: %d missed, %d restarts; want %d, %d", seed, got.Missed, got.Restarts, missed, restarts)
			}
			for i, v := range []*float64{got.PrefixHits, got.PrefixQueries, got.GenerationTokens} {
				if v == nil || math.Abs(*v-grown[i]) > 1e-6 {
					t.Errorf("seed %d: counter %d grew by %s, want %v", seed, i, show(v), grown[i])
				}
			}
			if grown[1] > 0 && math.Abs(*got.PrefixHitRatio-grown[0]/grown[1]) > 1e-9 {
				t.Errorf("seed %d: ratio %v, want %v", seed, *got.PrefixHitRatio, grown[0]/grown[1])
			}
			near(t, "running", got.Running, running, 0)
			near(t, "waiting", got.Waiting, waiting, 0)
			near(t, "KV use", got.KVUsage, kv, mostKV)
			if n := len(waiting); n > 0 && math.Abs(*got.WaitingShare-float64(queued)/float64(n)) > 1e-9 {
				t.Errorf("seed %d: a queue in %v of the samples, want %d of %d", seed, *got.WaitingShare, queued, n)
			}
		}
		got := w.Servers(1)
		check(got.All, func(int) bool { return true })
		for _, target := range got.Targets {
			check(target, func(p int) bool { return names[p] == target.Target })
		}
	}
}

// near compares a gauge with the list it is of; most replaces the list's largest where it is above 0.
func near(t *testing.T, what string, got *Gauge, list []float64, most float64) {
	t.Helper()
	if len(list) == 0 {
		if got != nil {
			t.Errorf("%s: %+v of nothing", what, got)
		}
		return
	}
	sum, largest := 0.0, 0.0
	for _, v := range list {
		sum, largest = sum+v, max(largest, v)
	}
	if most > 0 {
		largest = most
	}
	if got == nil || math.Abs(got.Mean-sum/float64(len(list))) > 1e-9 || math.Abs(got.Max-largest) > 1e-9 {
		t.Errorf("%s: %+v, want mean %v, max %v", what, got, sum/float64(len(list)), largest)
	}
}

// TestWatchOfNothingReported: what a server does not report stays absent.
func TestWatchOfNothingReported(t *testing.T) {
	w := NewWatch([]string{"http://a"})
	s := &Sample{Phase: Before}
	s.Engine = "tgi"
	w.Add(0, s)
	w.Add(0, &Sample{Phase: During, Reading: s.Reading})
	w.Add(0, &Sample{Phase: After, Reading: s.Reading})
	got := w.Servers(1).All
	if got.Running != nil || got.KVUsage != nil || got.WaitingShare != nil || got.PrefixHits != nil || got.PrefixHitRatio != nil || got.Incomplete || got.Samples != 3 {
		t.Errorf("%+v", got)
	}
	w.Add(0, failed(After))
	if !w.Servers(1).All.Incomplete {
		t.Error("without a sample after the run counts are not whole")
	}
}

// TestTiersOfPrefillAndDecode: what vLLM calls external is told without the host's part, and what NIXL brought to an
// instance that decodes is no hit of any cache.
func TestTiersOfPrefillAndDecode(t *testing.T) {
	w := NewWatch([]string{"http://prefill", "http://decode"})
	for i, phase := range []Phase{Before, During, After} {
		for page, transfers := range []float64{0, 3} {
			s := reported(phase, 0, 0, 0, 100*float64(i), 400*float64(i), 0)
			s.HostHits, s.ExternalHits, s.Transfers = new(20*float64(i)), new(50*float64(i)), new(transfers*float64(i))
			w.Add(page, s)
		}
	}
	got := w.Servers(1)
	for _, s := range []Server{got.Targets[0], got.All} {
		if *s.PrefixHits != 200 || *s.PrefixQueries != 800 || *s.HostHits != 40 || *s.ExternalHits != 60 || *s.PrefixHitRatio != 0.25 {
			t.Errorf("%s: %v of %v hits, %v of the host, %v beyond", s.Target, *s.PrefixHits, *s.PrefixQueries, *s.HostHits, *s.ExternalHits)
		}
	}
	if d := got.Targets[1]; d.PrefixHits != nil || d.ExternalHits != nil || *d.Transfers != 6 || *got.All.Transfers != 6 {
		t.Errorf("the one that decodes: %+v", d)
	}
}

// TestAlternatingServers: behind a balancer a page is another server's at each reading. It is known by the processes'
// beginnings, or by counters that fall again and again, and then nothing is summed. A server that is restarted is no
// such case.
func TestAlternatingServers(t *testing.T) {
	type reading struct{ began, tokens float64 } // 0 = not said; tokens below 0 = it does not answer
	for name, c := range map[string]struct {
		list       []reading
		alternates bool
		restarts   int64
	}{
		"one":                        {[]reading{{5, 10}, {5, 20}, {5, 20}}, false, 0},
		"two, the older one again":   {[]reading{{5, 10}, {7, 20}, {5, 30}}, true, 0},
		"two, the younger one first": {[]reading{{7, 10}, {5, 20}}, true, 0},
		"two that say no beginning":  {[]reading{{0, 100}, {0, 50}, {0, 110}, {0, 60}}, true, 0},
		"three, each younger":        {[]reading{{5, 10}, {6, 20}, {7, 30}}, true, 0},
		"started anew":               {[]reading{{5, 100}, {5, -1}, {9, 5}, {9, 20}}, false, 1},
		"anew, and ahead by then":    {[]reading{{5, 10}, {9, 50}, {9, 60}}, false, 1},
		"twice, by its counters":     {[]reading{{0, 100}, {0, -1}, {0, 50}, {0, -1}, {0, 20}}, false, 2},
	} {
		w := NewWatch([]string{"http://a", "http://b"})
		for i, r := range c.list {
			phase := During
			switch i {
			case 0:
				phase = Before
			case len(c.list) - 1:
				phase = After
			}
			s := failed(phase)
			if r.tokens >= 0 {
				s = reported(phase, 1, 0, 0, 0, r.tokens, r.tokens)
			}
			if r.began > 0 {
				s.BeganS = &r.began
			}
			w.Add(0, s)
			w.Add(1, reported(phase, 1, 0, 0, 0, 1, 1))
		}
		got := w.Servers(1)
		for _, s := range []Server{got.All, got.Targets[0]} {
			if s.Alternates != c.alternates || s.Restarts != c.restarts || (s.GenerationTokens == nil) != c.alternates || c.alternates && (s.Running != nil || s.PrefixHitRatio != nil) {
				t.Errorf("%s: %+v", name, s)
			}
		}
		if other := got.Targets[1]; other.Alternates || other.GenerationTokens == nil {
			t.Errorf("%s: the other one: %+v", name, other)
		}
	}
}
