package compare

import (
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/worlds"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// asRun is a simulated run as a side has it.
func asRun(simulated []worlds.Request) *run {
	r := &run{summary: new(metrics.Summary)}
	r.summary.Run.StartedAt = time.Unix(1e9, 0) // as all others: no side is run behind the other
	for i, q := range simulated {
		w := &row{
			index: int64(i), atS: q.At, doneS: q.At + q.E2E/1e3, conversation: int64(q.Conversation), ok: q.OK,
			prompt: float64(q.Prompt), cached: float64(q.Cached), output: float64(q.Output), chunks: float64(q.Output), met: math.NaN(),
		}
		for l := range metrics.BoundedLatencies() {
			w.ms[l] = math.NaN()
		}
		if q.OK {
			w.ms[metrics.TTFT], w.ms[metrics.TPOT], w.ms[metrics.E2E] = q.TTFT, q.TPOT, q.E2E
		}
		r.rows = append(r.rows, w)
		r.summary.Run.DurationS = max(r.summary.Run.DurationS, w.doneS)
	}
	return r
}

// judged are the numbers that are judged in worlds.
func judged() map[string]worlds.Stat {
	return map[string]worlds.Stat{
		"ttft.paired": {Metric: worlds.TTFT, Of: worlds.Pairs}, "ttft.p50": {Metric: worlds.TTFT, Of: 0.5},
		"ttft.p95": {Metric: worlds.TTFT, Of: 0.95}, "ttft.p99": {Metric: worlds.TTFT, Of: 0.99},
		"tpot.paired": {Metric: worlds.TPOT, Of: worlds.Pairs}, "tpot.mean": {Metric: worlds.TPOT, Of: worlds.Mean},
		"e2e.p95": {Metric: worlds.E2E, Of: 0.95},
	}
}

// worldScore is what became of comparisons in a world, of all judged numbers together.
type worldScore struct {
	alike    score           // of servers that are alike
	slower   [2]worlds.Share // found: 2 and 5 % slower
	gates    gates           // with the limit at the truth, for servers that are 5 % slower, where every word but undecided may be wrong
	byMetric map[string]*score
	bySeed   []*worldScore // what it is the sum of
}

const worldRequests = 2000

// metricsOf are those of a comparison of simulated runs.
func metricsOf(a, b []*run) []Metric {
	r := &Result{Scope: ScopeServers, Margin: sameWithin}
	if len(a) == 1 {
		r.Scope = ScopePair
	}
	m := match(a, b, true)
	all := m.estimates()
	for i, spec := range specs() {
		metric := spec.metric(all[i], spec.mean(m.sides[0], i), spec.mean(m.sides[1], i))
		metric.judge(spec, r)
		r.Metrics = append(r.Metrics, metric)
	}
	return r.Metrics
}

// TestOrders: if a server remembers its runs, the intervals of runs by turns hold the truth all the same, and those of
// sides one behind the other if it changes evenly. FASTREPLAY_WORLDS=300 judges so many comparisons, otherwise 2.
func TestOrders(t *testing.T) {
	trials := 2
	if n, err := strconv.Atoi(os.Getenv("FASTREPLAY_WORLDS")); err == nil {
		trials = n
	}
	for _, order := range []string{"ABBABA", "AAABBB", "ABBABAAB", "AAAAABBBBB"} {
		for _, w := range orders() {
			var of worldScore
			for seed := range uint64(trials) {
				var sides [2][]*run
				for place, side := range order {
					r := asRun(w.at(seed, place, 400, 1))
					r.summary.Run.StartedAt = time.Unix(int64(1e9+place), 0)
					sides[side-'A'] = append(sides[side-'A'], r)
				}
				for _, m := range metricsOf(sides[0], sides[1]) {
					if _, ok := judged()[m.Name]; ok && m.Low != nil {
						of.alike.Add(*m.Low, *m.High, 0)
					}
				}
			}
			t.Log(of.alike.Row(order + " " + w.Name))
			even := w.Name == "fresh" || w.Name == "leak" || w.Name == "every other"
			if even || strings.HasPrefix(order, "ABBA") {
				of.demand(t, order+", "+w.Name)
			}
		}
	}
}

// judgeWorld compares as many runs a side, as often.
func judgeWorld(w worlds.World, trials uint64, runs int) *worldScore {
	all := &worldScore{byMetric: map[string]*score{}}
	first, _ := strconv.ParseUint(os.Getenv("FASTREPLAY_SEED"), 10, 64)
	for seed := first; seed < first+trials; seed++ {
		s := &worldScore{byMetric: all.byMetric}
		side := func(from uint64, change float64) (all []*run) {
			for k := range uint64(runs) {
				all = append(all, asRun(w.Run(seed, from+k, worldRequests, change)))
			}
			return all
		}
		a := side(0, 1)
		for k, change := range []float64{1, 1.02, 1.05} {
			if k == 1 && (runs == 1 || trials == 1) {
				continue // little is found, or little is known of how often
			}
			for _, m := range metricsOf(a, side(uint64(runs), change)) {
				stat, ok := judged()[m.Name]
				if !ok {
					continue
				}
				if s.byMetric[m.Name] == nil {
					s.byMetric[m.Name] = new(score)
				}
				low, high := math.NaN(), math.NaN()
				if m.Low != nil && m.Verdict != Unknown {
					low, high = *m.Low, *m.High
				}
				if k > 0 {
					s.slower[k-1].Add(low > 0)
				}
				switch {
				case k == 0:
					truth := 0.0
					if runs == 1 && len(w.Once) > 0 {
						truth = w.Within(seed, 0, 1, worldRequests, 1, stat)
					}
					s.alike.Add(low, high, truth)
					s.byMetric[m.Name].Add(low, high, truth)
				case k == 2 && runs > 1 && w.Slots == 0:
					// at the limit either word is wrong
					s.gates.Add(high <= 0.05-rounding, false, 0.05+rounding, 0.05)
					s.gates.Add(false, low > 0.05+rounding, 0.05, 0.05)
				}
			}
		}
		all.add(s)
		all.bySeed = append(all.bySeed, s)
	}
	return all
}

// TestWorlds: in every world intervals hold the truth, and false alarms are few, as far as a comparison answers. Three
// runs a side always answer, and a gate with its limit at the truth is mostly undecided. Servers that are 5 % slower are
// often found.
//
// FASTREPLAY_WORLDS=300 judges 300 comparisons a world, and demands that of each; FASTREPLAY_WORLD names the first
// letters of some, and FASTREPLAY_SEED the first seed. By default one comparison a world is made, and the demand is on
// all together.
func TestWorlds(t *testing.T) {
	if testing.Short() {
		t.Skip("many comparisons")
	}
	trials, many := uint64(1), false
	if text := os.Getenv("FASTREPLAY_WORLDS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		trials, many = uint64(n), true
	}
	for name, runs := range map[string]int{"pair": 1, "three": 3} {
		t.Run(name, func(t *testing.T) {
			t.Logf("%s  +2 %% and +5 %% found\n%s", scoreHead, gatesHead)
			var all worldScore
			for _, w := range worlds.Worlds() {
				if !strings.HasPrefix(w.Name, os.Getenv("FASTREPLAY_WORLD")) || runs == 1 && !many && len(w.Once) > 0 {
					continue // the truth within runs takes long
				}
				s := judgeWorld(w, trials, runs)
				t.Log(s.alike.Row(w.Name), s.slower[0].String(), s.slower[1].String())
				if runs > 1 {
					t.Log(s.gates.Row(w.Name))
				}
				if runs > 1 && s.alike.Answered.Hits < s.alike.Answered.Of {
					t.Errorf("%s: not all comparisons of three runs a side answer", w.Name)
				}
				all.add(s)
				if !many {
					continue
				}
				for name, score := range s.byMetric {
					t.Log(score.Row("  " + name))
				}
				s.demand(t, w.Name)
			}
			all.demand(t, "all worlds")
			want := map[int]float64{1: 0.15, 3: 0.45}[runs]
			if _, high := all.slower[1].Wilson(); high < want {
				t.Errorf("servers that are 5 %% slower are found in %v %%, want %v", all.slower[1], 100*want)
			}
		})
	}
}

// add counts what became of another world.
func (s *worldScore) add(other *worldScore) {
	for to, from := range map[*worlds.Share]worlds.Share{
		&s.alike.Answered: other.alike.Answered, &s.alike.Covers: other.alike.Covers, &s.alike.False: other.alike.False,
		&s.gates.Passed: other.gates.Passed, &s.gates.Failed: other.gates.Failed, &s.gates.Undecided: other.gates.Undecided,
		&s.slower[0]: other.slower[0], &s.slower[1]: other.slower[1],
	} {
		to.Hits, to.Of = to.Hits+from.Hits, to.Of+from.Of
	}
}

// independent is a share with as many trials as would vary as much from seed to seed if they were independent: the
// numbers of a comparison move together (L. Kish, Survey Sampling, 1965: the design effect).
func (s *worldScore) independent(of func(*worldScore) worlds.Share) worlds.Share {
	all := of(s)
	if len(s.bySeed) < 2 || all.Hits == 0 || all.Hits == all.Of {
		return all
	}
	share, n := float64(all.Hits)/float64(all.Of), float64(len(s.bySeed))
	squares := 0.0
	for _, one := range s.bySeed {
		seed := of(one)
		squares += square(float64(seed.Hits) - share*float64(seed.Of))
	}
	effect := max(1, squares*n/(n-1)/(share*(1-share)*float64(all.Of)))
	count := float64(all.Of) / effect
	return worlds.Share{Hits: int(math.Round(share * count)), Of: int(math.Round(count))}
}

// judged are the shares that are demanded, each as of independent trials.
func (s *worldScore) judged() (falsely, covers, passed, failed worlds.Share) {
	return s.independent(func(s *worldScore) worlds.Share { return s.alike.False }),
		s.independent(func(s *worldScore) worlds.Share { return s.alike.Covers }),
		s.independent(func(s *worldScore) worlds.Share { return s.gates.Passed }),
		s.independent(func(s *worldScore) worlds.Share { return s.gates.Failed })
}

// demand fails if what was counted is surely worse than it is to be.
func (s *worldScore) demand(t *testing.T, world string) {
	t.Helper()
	falsely, covers, passed, failed := s.judged()
	t.Log(line(world+", by seeds", covers.String(), falsely.String(), passed.String(), failed.String()))
	for what, c := range map[string]struct {
		share worlds.Share
		most  float64
	}{"false alarms": {falsely, 0.05}, "passed wrongly": {passed, 0.03}, "failed wrongly": {failed, 0.03}} {
		if low, _ := c.share.Wilson(); c.share.Of > 0 && low > c.most {
			t.Errorf("%s: %s in %v %%, want at most %v", world, what, c.share, 100*c.most)
		}
	}
	if _, high := covers.Wilson(); covers.Of > 0 && high < 0.94 {
		t.Errorf("%s: %v %% of the intervals hold the truth, want 94", world, covers)
	}
}
