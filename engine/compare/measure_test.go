package compare

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// pairOf makes two runs of n requests each; of makes a request of a side.
func pairOf(n int, of func(side, i int) *row) *matched {
	m := &matched{paired: true}
	for side := range m.sides {
		var rows []*row
		for i := range n {
			rows = append(rows, of(side, i))
		}
		s := &sample{all: rows, good: rows}
		s.run = &run{summary: &metrics.Summary{Run: metrics.Run{DurationS: float64(n)}}, rows: rows}
		m.sides[side] = []*sample{s}
		m.samples = append(m.samples, s)
	}
	for i := range n {
		m.places = append(m.places, i)
	}
	return m
}

// TestNumbersWithoutGroup: they are those of a copy without the requests of the group, by other formulas.
func TestNumbersWithoutGroup(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		n, group := 100+random.IntN(300), random.IntN(sectionsMost+1)-1
		m := pairOf(n, func(int, int) *row {
			r := &row{cached: float64(random.IntN(50)), prompt: 100, ok: true}
			for l := range metrics.BoundedLatencies() {
				if r.ms[l] = math.Round(20 * (0.1 + random.ExpFloat64())); random.IntN(20) == 0 { // many are equal
					r.ms[l] = math.NaN()
				}
			}
			return r
		})
		var g *groups
		left := [2][]*row{}
		if group >= 0 {
			g = m.sections(sectionsMost)
		}
		for i := range n {
			if i*sectionsMost/n != group {
				left[0], left[1] = append(left[0], m.samples[0].all[i]), append(left[1], m.samples[1].all[i])
			}
		}
		m.addColumns()
		got := [2][]float64{m.numbersOf(m.samples[0], g, int8(group)), m.numbersOf(m.samples[1], g, int8(group))}
		at := 0
		for l := range metrics.BoundedLatencies() {
			for side := range left {
				var known, ratios []float64
				for i, r := range left[side] {
					if !math.IsNaN(r.ms[l]) {
						known = append(known, r.ms[l])
					}
					if ratio := math.Sqrt(r.ms[l] / left[1-side][i].ms[l]); !math.IsNaN(ratio) {
						ratios = append(ratios, ratio)
					}
				}
				of, want := got[side][at:], stats.Describe(known, 1)
				slices.Sort(ratios)
				if [4]float64(of[:4]) != [4]float64{want.P50, want.P95, want.P99, want.Mean} || math.Abs(of[4]-ratios[(len(ratios)-1)/2]) > 1e-9 {
					t.Fatalf("without %d of %d: got %v, want %+v", group, n, of[:5], want)
				}
			}
			at += kindsOf
		}
		hits := 0.0
		for _, r := range left[0] {
			hits += r.cached / 100 / float64(len(left[0]))
		}
		if at++; math.Abs(got[0][at]-hits) > 1e-9 {
			t.Fatalf("hits %v, want %v", got[0][at], hits)
		}
	}
}

// TestJackknife: the variance of a mean is that of its groups, and the pseudo-values are their means. Of groups of
// different sizes, it is the square of the standard error on average.
func TestJackknife(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	sizes := []int{10, 20, 30, 5, 60}
	sum, trials := 0.0, 4000
	for range trials {
		var groups []float64
		whole, n := 0.0, 0
		for _, size := range sizes {
			mean := 10 + random.NormFloat64()/math.Sqrt(float64(size))
			groups = append(groups, mean)
			whole, n = whole+mean*float64(size), n+size
		}
		whole /= float64(n)
		var without []float64
		for i, mean := range groups {
			without = append(without, (whole*float64(n)-mean*float64(sizes[i]))/float64(n-sizes[i]))
		}
		pseudo, variance := jackknife(whole, without, sizes)
		for i := range pseudo {
			if math.Abs(pseudo[i]-groups[i]) > 1e-9 {
				t.Fatalf("%v, want %v", pseudo, groups)
			}
		}
		sum += variance * float64(n) / float64(trials)
	}
	if math.Abs(sum-1) > 0.05 {
		t.Errorf("the variance of a value is %v, want 1", sum)
	}
}

// TestWelch: by the example of two samples in the field's textbooks, and of a lone run.
func TestWelch(t *testing.T) {
	// B. Welch's t of 1, 2, 3 and 2, 4, 9: variances 1 and 13, so 2.31 degrees of freedom
	e := ofRuns([]float64{1, 2, 3}, []float64{2, 4, 9})
	if se := math.Sqrt(14.0 / 3); e.distance != 3 || math.Abs(e.reach/se-3.857) > 0.001 {
		t.Errorf("%+v: %v standard errors", e, e.reach/se)
	}
	if e := ofRuns([]float64{1, 2}, []float64{5}); math.Abs(e.reach-12.706*math.Sqrt(0.5*1.5)) > 1e-9 || e.distance != 3.5 || math.Abs(e.floor-12.706) > 1e-9 {
		t.Errorf("%+v", e)
	}
	if e := ofRuns([]float64{1, 1, 1}, []float64{1, 1, 1}); e.reach != 0 {
		t.Errorf("%+v", e)
	}
}

// TestConversationsShareTheirFate: if a conversation that lasts as long as the run is slower as a whole, by chance,
// intervals hold the truth all the same. By parts of the time alone they would hold it in few cases, since each part
// has all conversations. Of too few conversations nothing is known, and it is said.
func TestConversationsShareTheirFate(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	const trials, at = 60, kindsOf - 1 // ttft.paired
	for _, conversations := range []int{4, 8, 20} {
		covered, byTime := 0, 0
		for range trials {
			slower := make([]float64, conversations)
			for i := range slower {
				slower[i] = math.Exp(0.1 * random.NormFloat64())
			}
			m := pairOf(600, func(side, i int) *row {
				r := &row{conversation: int64(i % conversations), ok: true}
				for l := range metrics.BoundedLatencies() {
					r.ms[l] = 100 * math.Exp(0.05*random.NormFloat64())
				}
				if side == 1 {
					r.ms[metrics.TTFT] *= slower[i%conversations]
				}
				return r
			})
			e := m.estimates()[at]
			if conversations < fewestGroups {
				if !math.IsNaN(e.reach) || e.why != "there are too few conversations, which say as much as 4.0 of one length: 6 would do, or 3 runs a side" {
					t.Fatalf("%+v", e)
				}
				continue
			}
			covered += int(b2f(math.Abs(e.distance) <= e.reach))
			for _, s := range m.samples {
				for _, r := range s.all {
					r.conversation = record.None
				}
			}
			whole := [2][]float64{m.samples[0].numbers, m.samples[1].numbers}
			e = within(&specs()[at], at, whole, m.cuts(), 1, 1)
			byTime += int(b2f(math.Abs(e.distance) <= e.reach))
		}
		t.Logf("%d conversations: of %d intervals %d hold the truth, and %d by time alone", conversations, trials, covered, byTime)
		if conversations >= fewestGroups && (covered < trials*85/100 || byTime > trials*9/10) {
			t.Errorf("%d conversations: of %d intervals %d hold the truth, and %d by time alone", conversations, trials, covered, byTime)
		}
	}
}

// TestWander: what goes up and down evenly does not wander, a step does, and what is equal says nothing.
func TestWander(t *testing.T) {
	for name, c := range map[string]struct {
		factor func(i int) float64
		want   func(float64) bool
	}{
		"equal":    {func(int) float64 { return 1 }, func(v float64) bool { return v == 1 }},
		"by turns": {func(i int) float64 { return 1 + float64(i%2) }, func(v float64) bool { return v == 1 }},
		"two equal halves": {func(i int) float64 { return 1 + float64(i/300) },
			func(v float64) bool { return v > 35 && v < 45 }}, // 1/76 by 20 sections, and 1/3,120 by neighbours among 40
	} {
		m := pairOf(600, func(side, i int) *row {
			r := &row{ok: true}
			for l := range metrics.BoundedLatencies() {
				r.ms[l] = 100
			}
			if side == 1 {
				r.ms[metrics.TTFT] *= c.factor(i)
			}
			return r
		})
		m.addColumns()
		if got := m.wander(0); !c.want(got) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func BenchmarkCompare(b *testing.B) {
	random, rows := rand.New(rand.NewPCG(1, 1)), [2][]*row{}
	for i := range 10000 {
		for side := range rows {
			r := &row{index: int64(i), atS: float64(i) / 10, cached: 10, prompt: 1000, output: 100, chunks: 100, ok: true}
			for l := range metrics.BoundedLatencies() {
				r.ms[l] = 100 * math.Exp(random.NormFloat64())
			}
			r.doneS = r.atS + r.ms[metrics.E2E]/1e3
			rows[side] = append(rows[side], r)
		}
	}
	side := func(rows []*row) *Side {
		summary := &metrics.Summary{Run: metrics.Run{DurationS: 1100}, Workload: metrics.Workload{Fingerprint: "sha256:1"}}
		return &Side{runs: []*run{{dir: "dir", summary: summary, rows: rows}}}
	}
	for b.Loop() {
		if _, err := Compare(side(rows[0]), side(rows[1]), false); err != nil {
			b.Fatal(err)
		}
	}
}
