package compare

import (
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"testing"

	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// TestWeightsAreCopies: a draw by weights has the numbers of a draw that copies the rows of each group.
func TestWeightsAreCopies(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		n, groups := 1+random.IntN(300), 1+random.IntN(20)
		values, group := make([]float64, n), make([]int32, n)
		for i := range values {
			values[i], group[i] = math.Round(20*random.ExpFloat64()), int32(random.IntN(groups)) // many are equal
			if random.IntN(20) == 0 {
				values[i] = math.NaN()
			}
		}
		v, w := newWeighted(values, group), make([]int32, groups)
		over := sums{make([]float64, groups), make([]float64, groups)}
		for range groups {
			w[random.IntN(groups)]++
		}
		var copies []float64
		sum := 0.0
		for i, value := range values {
			if math.IsNaN(value) {
				continue
			}
			over.over[group[i]] += value
			over.under[group[i]]++
			for range w[group[i]] {
				copies, sum = append(copies, value), sum+value
			}
		}
		got, want := v.describe(w), stats.Describe(copies, 1)
		if want == nil {
			if !math.IsNaN(got[0]) || !math.IsNaN(got[4]) || !math.IsNaN(over.ratio(w)) {
				t.Fatalf("of nothing: %v", got)
			}
			continue
		}
		if [3]float64(got[:3]) != [3]float64{want.P50, want.P95, want.P99} || math.Abs(got[3]-want.Mean) > 1e-9 || math.Abs(over.ratio(w)-want.Mean) > 1e-9 {
			t.Fatalf("got %v, want %+v", got, want)
		}
		cut, middle := len(copies)/5, 0.0 // copies are sorted now
		for _, value := range copies[cut : len(copies)-cut] {
			middle += value
		}
		if middle /= float64(len(copies) - 2*cut); math.Abs(got[4]-middle) > 1e-9 {
			t.Fatalf("trimmed %v, want %v", got[4], middle)
		}
	}
}

// TestDraws: as many clusters are drawn as there are, neighbours together, and any number of processors draws the same.
func TestDraws(t *testing.T) {
	weights := func(clusters, together int) [][]float64 {
		return resample(7, 400, clusters, together, func(w []int32) (all []float64) {
			for _, n := range w {
				all = append(all, float64(n))
			}
			return all
		})
	}
	got := weights(30, 1)
	mean, squares := 0.0, 0.0
	for i, w := range got {
		sum := 0.0
		for _, n := range w {
			sum += n
		}
		if sum != 30 {
			t.Fatalf("draw %d has %v clusters", i, sum)
		}
		mean, squares = mean+w[3]/400, squares+w[3]*w[3]/400
	}
	if variance := squares - mean*mean; math.Abs(mean-1) > 0.2 || math.Abs(variance-29.0/30) > 0.3 { // binomial
		t.Errorf("mean %v, variance %v", mean, variance)
	}
	for i, w := range weights(70, 8) {
		edges := 0
		for c := range w {
			if w[c] != w[(c+1)%70] {
				edges++
			}
		}
		if edges > 18 {
			t.Fatalf("draw %d has %d edges, but draws 9 stretches", i, edges)
		}
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	if again := weights(30, 1); !reflect.DeepEqual(got, again) {
		t.Error("one processor draws otherwise")
	}
}

// TestStudent: against tables.
func TestStudent(t *testing.T) {
	for freedom, want := range map[float64]float64{3: 3.182, 4: 2.776, 5: 2.571, 9: 2.262, 14: 2.145, 29: 2.045, 1e6: 1.960} {
		if got := student95(freedom); math.Abs(got-want) > 0.005*want {
			t.Errorf("%v degrees: %v, want %v", freedom, got, want)
		}
	}
}

// TestIntervalCovers: of means of independent groups of any size, 95 % of the intervals hold the truth.
func TestIntervalCovers(t *testing.T) {
	if testing.Short() {
		t.Skip("600,000 draws")
	}
	random := rand.New(rand.NewPCG(5, 6))
	for _, groups := range []int{6, 40} {
		const trials = 1000
		covered := 0
		for trial := range trials {
			values, group := []float64{}, []int32{}
			for g := range groups {
				common := random.NormFloat64()
				for range 1 + random.IntN(4) {
					values, group = append(values, 10+common+0.5*random.NormFloat64()), append(group, int32(g))
				}
			}
			v, drawn := newWeighted(values, group), []float64(nil)
			for _, draw := range resample(uint64(trial), 300, groups, 1, func(w []int32) []float64 { return []float64{v.describe(w)[3]} }) {
				drawn = append(drawn, draw[0])
			}
			if low, high, _ := interval(drawn, widening(float64(groups))); low <= 10 && 10 <= high {
				covered++
			}
		}
		if share := float64(covered) / trials; share < 0.92 || share > 0.985 { // 0.95 ± 4 standard deviations, and ends that draws make coarse
			t.Errorf("%d groups: %v of the intervals hold the truth", groups, share)
		}
	}
}

func BenchmarkCompare(b *testing.B) {
	random, rows := rand.New(rand.NewPCG(1, 1)), [2][]row{}
	for i := range 10000 {
		for side := range rows {
			r := row{index: int64(i), group: int64(i / 5), planned: int64(i) * 1e8, sent: int64(i) * 1e8, cached: 10, prompt: 1000, output: 100, chunks: 100}
			r.first = r.sent + int64(1e8*math.Exp(random.NormFloat64()))
			r.last = r.first + int64(1e9*math.Exp(random.NormFloat64()))
			r.done = r.last
			rows[side] = append(rows[side], r)
		}
	}
	side := func(rows []row) *Side {
		summary := &metrics.Summary{Run: metrics.Run{DurationS: 1100}, Workload: metrics.Workload{Fingerprint: "sha256:1"}}
		return &Side{runs: []*run{{"dir", summary, rows}}}
	}
	for b.Loop() {
		if _, err := Compare(side(rows[0]), side(rows[1]), nil, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
