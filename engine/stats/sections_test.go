package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
)

var perMille = []int64{500, 900, 950, 990, 999}

// inSections are values in the order in which they were sent.
func inSections(values []int64) (all []Sample) {
	for i, v := range values {
		all = append(all, Sample{Value: v, Section: uint8(i * MostSections / len(values)), Group: uint8(i % 7)})
	}
	return all
}

// TestIntervalsOracle: intervals are those of a naive reading of their definition, with equal values, groups and
// sections of unlike size, and in whatever order values come.
func TestIntervalsOracle(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	some := 0
	for range 80 {
		n := 30 + rng.IntN(700)
		var all []Sample
		level := 0.0
		for i := range n {
			if i%50 == 0 {
				level = 0.3 * rng.NormFloat64()
			}
			all = append(all, Sample{
				Value:   int64(20 * math.Exp(level+0.5*rng.NormFloat64())), // many are equal
				Section: uint8(math.Sqrt(float64(i)/float64(n)) * MostSections),
				Group:   uint8(rng.IntN(8)),
			})
		}
		groups := 8 * rng.IntN(2)
		rng.Shuffle(n, func(i, j int) { all[i], all[j] = all[j], all[i] })
		want := naiveIntervals(all, groups)
		s := NewSections(slices.Clone(all), groups)
		for k, got := range s.Intervals(perMille) {
			if s.Unknown() != "" {
				want[k] = nil
			}
			if (got == nil) != (want[k] == nil) || got != nil && *got != *want[k] {
				t.Fatalf("%d values, %d groups, %d ‰: %v, want %v", n, groups, perMille[k], got, want[k])
			}
			if got != nil {
				some++
			}
		}
	}
	if some < 40 {
		t.Errorf("%d intervals are too few for a test", some)
	}
}

// naiveIntervals leaves the tests of dependence out.
func naiveIntervals(all []Sample, groups int) (out []*[2]int64) {
	n := float64(len(all))
	below := func(v int64) (less, upTo float64) {
		for _, s := range all {
			if s.Value < v {
				less++
			}
			if s.Value <= v {
				upTo++
			}
		}
		return less, upTo
	}
	midrank := map[int64]float64{}
	for _, s := range all {
		less, upTo := below(s.Value)
		midrank[s.Value] = (less+upTo)/2/n - 0.5
	}
	sorted := slices.SortedFunc(slices.Values(all), func(a, b Sample) int { return int(a.Value - b.Value) })
	type way struct {
		m        int
		of       func(Sample) int
		ranks    []float64
		neighbor float64
		worst    float64
	}
	var ways []*way
	for _, m := range []int{20, 10, 5} {
		if len(all) >= 5*m {
			ways = append(ways, &way{m: m, of: func(s Sample) int { return int(s.Section) / (20 / m) }})
		}
	}
	if groups > 0 {
		ways = append(ways, &way{m: groups, of: func(s Sample) int { return int(s.Group) }})
	}
	for k, w := range ways {
		w.ranks = make([]float64, w.m)
		for _, s := range all {
			w.ranks[w.of(s)] += midrank[s.Value]
		}
		if w.neighbor = 1; groups == 0 || k < len(ways)-1 {
			w.neighbor = naiveAlike(ways[0].ranks, n)
		}
		squared := 0.0
		for _, d := range w.ranks {
			squared += d * d
		}
		w.worst = max(1, squared*12*float64(w.m)/float64(w.m-1)/n*w.neighbor)
	}
	for _, p := range perMille {
		q := float64(p) / 1000
		rank := int(math.Ceil(q*n - 1e-9))
		theta := sorted[rank-1].Value
		less, upTo := below(theta)
		low, high := rank, rank
		for _, w := range ways {
			squared := 0.0
			for j := range w.m {
				excess := 0.0
				for _, s := range all {
					if w.of(s) != j {
						continue
					}
					excess -= float64(rank) / n
					if s.Value < theta {
						excess++
					} else if s.Value == theta {
						excess += (float64(rank) - less) / (upTo - less)
					}
				}
				squared += excess * excess
			}
			w.worst = max(w.worst, squared*float64(w.m)/float64(w.m-1)/n/(q*(1-q))*w.neighbor)
			sizes := 0.0
			for j := range w.m {
				size := 0.0
				for _, s := range all {
					if w.of(s) == j {
						size++
					}
				}
				sizes += size * size
			}
			reach := Student95(min(float64(w.m), n*n/sizes)-1) * math.Sqrt(w.worst*q*(1-q)/n)
			low = min(low, int(math.Floor(n*(q-reach))))
			high = max(high, int(math.Ceil(n*(q+reach)))+1)
		}
		if out = append(out, nil); low >= 1 && high <= len(all) {
			out[len(out)-1] = &[2]int64{sorted[low-1].Value, sorted[high-1].Value}
		}
	}
	return out
}

// naiveAlike is by how many times more sections may vary than they show.
func naiveAlike(ranks []float64, n float64) float64 {
	cross, squared, steps, wandered, sum := 0.0, 0.0, 0.0, 0.0, 0.0
	m := float64(len(ranks))
	for j, d := range ranks {
		squared += d * d
		sum += d
		wandered += sum * sum
		if j > 0 {
			cross += d * ranks[j-1]
			steps += math.Pow(d-ranks[j-1], 2)
		}
	}
	wander := wandered / (m * m) / max(n/m/12, steps/(2*m-2))
	return max(1, (squared+cross)/(squared-cross), wander/0.15)
}

// TestUnknownIntervals: there is no interval of what sections cannot tell, and the reason is said.
func TestUnknownIntervals(t *testing.T) {
	rising := make([]int64, 2000)
	same := make([]int64, 2000)
	for i := range rising {
		rising[i] = int64(1000 + i/100)
		same[i] = 7
	}
	atOnce := inSections(rising)
	for i := range atOnce {
		atOnce[i].Section = 4
	}
	for _, c := range []struct {
		name   string
		values []Sample
		groups int
		want   Unknown
	}{
		{"few", inSections(rising[:24]), 0, TooFew},
		{"five conversations", inSections(same), 5, FewGroups},
		{"at once", atOnce, 0, AtOnce},
		{"rising", inSections(rising), 0, Dependent},
		{"all the same", inSections(same), 7, ""},
	} {
		s := NewSections(c.values, c.groups)
		p50 := s.Intervals(perMille)[0]
		if s.Unknown() != c.want || (p50 == nil) != (c.want != "") {
			t.Errorf("%s: %v, %q, want %q", c.name, p50, s.Unknown(), c.want)
		}
		if p50 != nil && *p50 != [2]int64{7, 7} {
			t.Errorf("%s: %v", c.name, *p50)
		}
	}
}

// TestEffective: values in runs of ten equals say a tenth.
func TestEffective(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	mean := 0.0
	for range 100 {
		values := make([]int64, 4000)
		for i := range values {
			if values[i] = rng.Int64(); i%10 > 0 {
				values[i] = values[i-1]
			}
		}
		mean += NewSections(inSections(values), 0).Effective() / 100
	}
	if mean < 120 || mean > 400 { // the worst of three cuts counts, so that it is below 400
		t.Errorf("4,000 values in runs of ten count as %.0f", mean)
	}
}

// TestWander: independent values exceed the bounds as often as the doc says, those that rise always do.
func TestWander(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	above, all := 0, 0.0
	const draws = 20_000
	for range draws {
		values := make([]float64, 20)
		mean := 0.0
		for i := range values {
			values[i] = rng.NormFloat64()
			mean += values[i] / 20
		}
		for i := range values {
			values[i] -= mean
		}
		w := Wander(values, 1)
		if w > mostWander {
			above++
		}
		all += w
	}
	if share := float64(above) / draws; share < 0.01 || share > 0.03 || math.Abs(all/draws-usualWander) > 0.01 {
		t.Errorf("independent values: mean %.3f, %.4f above %g", all/draws, share, mostWander)
	}
	if w := Wander([]float64{-3, -2, -1, 0, 1, 2, 3}, 0); w < 1 {
		t.Errorf("rising: %g", w)
	}
}

// TestLagOne against the definition.
func TestLagOne(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{[]float64{1, -1, 1, -1}, -0.75}, {[]float64{1, 1, -1, -1}, 0.25}, {[]float64{0, 0, 0}, 0}} {
		expect.Equal(t, LagOne(c.values), c.want, c.values)
	}
}

// TestTrendT against least squares by the textbook, and how often independent values have a trend.
func TestTrendT(t *testing.T) {
	// over 0 1 2 3 the slope is 0.6, the squares of residuals sum to 0.2, and the slope's error is 0.1414
	expect.Near(t, TrendT([]float64{1, 2, 2, 3}), 4.2426, 1e-4)
	rng := rand.New(rand.NewPCG(7, 8))
	above, grown := 0, 0
	const draws = 20_000
	for range draws {
		values, walk := make([]float64, 20), make([]float64, 20)
		at := 0.0
		for i := range values {
			values[i] = rng.NormFloat64()
			at += rng.NormFloat64()
			walk[i] = at
		}
		if math.Abs(TrendT(values)) > 3.92 {
			above++
		}
		if StepsT(walk) > 3.58 {
			grown++
		}
	}
	if above > draws/1000*2 || grown > draws/1000*2 {
		t.Errorf("%d independent series have a trend and %d random walks grow, of %d", above, grown, draws)
	}
	if up, down := TrendT([]float64{1, 2, 3}), TrendT([]float64{3, 2, 1}); up < 1e6 || down > -1e6 {
		t.Errorf("%g and %g", up, down)
	}
	expect.Near(t, StepsT([]float64{0, 1, 3, 4}), 4, 1e-12) // steps 1 2 1: mean 4/3, sd 0.577, t 4
}

// TestStudent95 against the density, integrated.
func TestStudent95(t *testing.T) {
	for _, freedom := range []float64{1, 2, 3, 3.7, 4, 6, 8.2, 13, 19, 60} {
		nu := freedom
		half := math.Exp(lgamma((nu+1)/2)-lgamma(nu/2)) / math.Sqrt(nu*math.Pi)
		sum, to := 0.0, Student95(freedom)
		const steps = 100_000
		for i := range steps {
			x := (float64(i) + 0.5) * to / steps
			sum += 2 * half * math.Pow(1+x*x/nu, -(nu+1)/2) * to / steps
		}
		expect.Near(t, sum, 0.95, 2e-4, "%v degrees of freedom: %.3f holds", freedom, to)
	}
}

func lgamma(x float64) float64 {
	v, _ := math.Lgamma(x)
	return v
}

// TestStep by hand: a step needs a fifth of the values on each side, and a gap of half of it between them.
func TestStep(t *testing.T) {
	series := func(of func(i int) float64) (all []float64) {
		for i := range MostSections {
			all = append(all, of(i))
		}
		return all
	}
	level := func(from int, rest float64) []float64 {
		return series(func(i int) float64 {
			switch {
			case i < from:
				return 1 + 0.01*float64(i%2)
			case i == from:
				return 1 + rest
			}
			return 2 + 0.01*float64(i%2)
		})
	}
	for name, c := range map[string]struct {
		values []float64
		at     float64
	}{
		"in the middle":          {level(10, 0.75), 10.25},
		"fifth value":            {level(4, 0), 5},
		"too early":              {level(2, 0), 0},
		"too late":               {level(18, 0), 0},
		"a line":                 {series(func(i int) float64 { return float64(i) }), 0},
		"all equal":              {series(func(int) float64 { return 1 }), 0},
		"there and back":         {series(func(i int) float64 { return float64(i / 7 % 2) }), 0},
		"as wide as its half is": {series(func(i int) float64 { return float64(i/10) + 0.6*float64(i%2) }), 0},
	} {
		at, before, after := Step(c.values)
		if math.Abs(at-c.at) > 0.02 || c.at > 0 && (math.Abs(before-1) > 0.02 || math.Abs(after-2) > 0.02) {
			t.Errorf("%s: got %v, from %v to %v, want %v", name, at, before, after, c.at)
		}
	}
}
