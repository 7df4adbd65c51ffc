package capacity

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/fastreplay/fastreplay/bench/must"
)

// TestResume: a search that was killed after any probe, or in the midst of one, goes on from its journal to the same
// answer.
func TestResume(t *testing.T) {
	t.Parallel()
	for _, m := range knownModels(t) {
		if m.name != "hard edge" && (m.name != "refusing" || testing.Short()) {
			continue
		}
		s := &simulation{model: &m, objectives: m.objectives, seed: 7}
		whole := s.search(t, Config{Least: m.least})
		for killed := range whole.outcomes {
			again := must.Have(New(Config{Objectives: m.objectives, Least: m.least, WindowS: 600, BesidesS: startS + warmS}))(t)
			var outcomes []Outcome // as a file keeps them
			must.Do(t, json.Unmarshal(must.Have(json.Marshal(whole.outcomes[:killed]))(t), &outcomes))
			for _, o := range outcomes {
				again.Add(o)
			}
			if got := again.Answer(); got.Probes != killed {
				t.Fatalf("%s, killed in probe %d: the answer so far is %+v", m.name, killed+1, got)
			}
			if p, more := again.Next(); !more || p != whole.outcomes[killed].Probe {
				t.Fatalf("%s, killed in probe %d: goes on with %+v, want %+v", m.name, killed+1, p, whole.outcomes[killed].Probe)
			}
			if killed == len(whole.outcomes)/2 {
				for p, more := again.Next(); more; p, more = again.Next() {
					again.Add(s.probe(again, p))
				}
				if !reflect.DeepEqual(again.Answer(), whole.Answer()) || !reflect.DeepEqual(again.outcomes, whole.outcomes) {
					t.Errorf("%s, resumed in probe %d: got %+v, want %+v", m.name, killed+1, again.Answer(), whole.Answer())
				}
			}
		}
	}
}

// TestPeekAtTheEdge: if the share beyond is just what is allowed, and slices that follow each other are alike, a probe
// that is looked at after every slice is cut, or won, no more often than wrong says.
func TestPeekAtTheEdge(t *testing.T) {
	t.Parallel()
	objectives := objectivesOf(t, "ttft.p90<1s")
	runs := 100
	if testing.Short() {
		runs = 10
	}
	for _, alike := range []float64{0, 0.5, 0.8} { // correlation of a slice's state with that before
		rng := rand.New(rand.NewPCG(1, uint64(alike*100)))
		broke, held := 0, 0
		for range runs {
			s := must.Have(New(Config{Objectives: objectives, WindowS: 60, Least: 1}))(t)
			s.Add(Outcome{Probe: Probe{Number: 1, Load: 1}, Verdict: Holds, SliceS: 10, Slices: slicesOf(rng, 30, alike, -3.5)})
			s.Add(Outcome{Probe: Probe{Number: 2, Load: 2}, Verdict: Breaks, SliceS: 10, Slices: slicesOf(rng, 30, alike, 2)})
			all := slicesOf(rng, 60, alike, 0)
			for n := 1; n < len(all); n++ { // without the verdict at the end
				d := s.Peek(Probe{Number: 3, Load: 1.5}, Peek{SliceS: 1, WindowS: 60, Slices: all[:n]})
				if !d.End {
					continue
				}
				switch d.Verdict {
				case Breaks:
					broke++
				case Holds:
					held++
				}
				break
			}
		}
		t.Logf("slices alike by %.1f: of %d probes at the edge %d are cut and %d are won", alike, runs, broke, held)
		if most := alpha*float64(runs) + 3*math.Sqrt(alpha*float64(runs)); float64(broke) > most || float64(held) > most {
			t.Errorf("slices alike by %.1f: of %d probes at the edge %d are cut and %d are won; want at most %.1f each", alike, runs, broke, held, most)
		}
	}
}

// slicesOf makes slices of 40 requests whose share beyond follows a latent normal state. If above is 0, it is 10 % on
// average.
func slicesOf(rng *rand.Rand, n int, alike, above float64) (all []Slice) {
	const edge = 1.2815515655446004 // a normal number is above it with a probability of 10 %
	state := rng.NormFloat64()
	for range n {
		state = alike*state + math.Sqrt(1-alike*alike)*rng.NormFloat64()
		s := Slice{Requests: 40, Beyond: []int64{0}, InFlight: 5}
		for range s.Requests {
			if math.Sqrt(0.3)*state+math.Sqrt(0.7)*rng.NormFloat64()+above > edge {
				s.Beyond[0]++
			}
		}
		all = append(all, s)
	}
	return all
}

// TestPeekEndsEarly: what is clear ends within a small part of its window.
func TestPeekEndsEarly(t *testing.T) {
	t.Parallel()
	objectives := objectivesOf(t, "ttft.p90<1s")
	rng := rand.New(rand.NewPCG(2, 2))
	for above, want := range map[float64]string{-3: Holds, 2: Breaks} {
		s := must.Have(New(Config{Objectives: objectives, WindowS: 60, Least: 1}))(t)
		all := slicesOf(rng, 200, 0.5, above)
		for n := range all {
			if d := s.Peek(Probe{Number: 1, Load: 1}, Peek{SliceS: 1, WindowS: 200, Slices: all[:n]}); d.End {
				if d.Verdict != want || n > 20 || d.Why == "" {
					t.Errorf("%v above the edge: ends after %d slices, %+v; want it %s", above, n, d, want)
				}
				break
			}
		}
	}
}

// TestBacklog: a backlog that drifts upwards grows, one that only goes up and down does not.
func TestBacklog(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 3))
	grew := [2]int{}
	for drift := range grew {
		for range 200 {
			level, all := 20.0, make([]Slice, 40)
			for i := range all {
				level = math.Abs(level + float64(drift) + rng.NormFloat64())
				all[i].InFlight = level
			}
			if backlogGrows(all) {
				grew[drift]++
			}
		}
	}
	if grew[0] > 10 || grew[1] < 190 {
		t.Errorf("of 200 random walks %d grow, and %d of 200 that drift; want few and most", grew[0], grew[1])
	}
}

// TestOutcomesOfAnyNumbers: whatever Validate lets through, the search goes on with loads that can be probed, and does
// not panic.
func TestOutcomesOfAnyNumbers(t *testing.T) {
	objectives := objectivesOf(t, "ttft.p90<1s")
	rng := rand.New(rand.NewPCG(9, 9))
	extremes := []float64{1e-300, 1e-12, 0.5, 1, 3, 1e6, 9e11}
	for range 300 {
		s := must.Have(New(Config{Objectives: objectives, WindowS: 60, Least: 1, Whole: rng.IntN(2) == 0, Falling: rng.IntN(2) == 0, Most: []float64{0, 8}[rng.IntN(2)]}))(t)
		for n := range 1 + rng.IntN(5) {
			pick := func() float64 { return extremes[rng.IntN(len(extremes))] }
			o := Outcome{Probe: Probe{Number: n + 1, Load: pick()}, SliceS: pick(), SpentS: pick(), Verdict: []string{Holds, Breaks, Unsure}[rng.IntN(3)]}
			for range rng.IntN(80) {
				slice := Slice{Requests: int64(pick()), InFlight: pick()}
				slice.Beyond = []int64{rng.Int64N(slice.Requests + 1)}
				o.Slices = append(o.Slices, slice)
			}
			must.Do(t, o.Validate(n+1, 1))
			s.Add(o)
			if p, more := s.Next(); more && (!(p.Load > 0) || math.IsInf(p.Load, 0)) {
				t.Fatalf("after %+v the next load is %v", s.outcomes, p.Load)
			}
			_ = s.Answer()
		}
	}
}
