package compare

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// TestNumbersOfPart: they are those of a copy of the part's requests, by other formulas.
func TestNumbersOfPart(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		n := 5*parts + random.IntN(300)
		var m, copies matched
		m.paired, copies.paired = true, true
		part := random.IntN(parts+1) - 1
		for i := range n {
			for side := range m.good {
				r := &row{cached: float64(random.IntN(50)), prompt: 100, ok: true}
				for l := range metrics.BoundedLatencies() {
					if r.ms[l] = math.Round(20 * (0.1 + random.ExpFloat64())); random.IntN(20) == 0 { // many are equal
						r.ms[l] = math.NaN()
					}
				}
				m.good[side], m.rows[side] = append(m.good[side], r), append(m.rows[side], r)
				if part < 0 || i >= part*n/parts && i < (part+1)*n/parts {
					copies.good[side], copies.rows[side] = append(copies.good[side], r), append(copies.rows[side], r)
				}
			}
		}
		of := &m
		if part >= 0 {
			of = m.part(part)
		}
		got := of.numbers()
		at := 0
		for l := range metrics.BoundedLatencies() {
			var known, ratios []float64
			for i, r := range copies.good[1] {
				if math.IsNaN(r.ms[l]) {
					continue
				}
				known = append(known, r.ms[l])
				if ratio := r.ms[l] / copies.good[0][i].ms[l]; !math.IsNaN(ratio) {
					ratios = append(ratios, ratio)
				}
			}
			of, want := got[1][at:], stats.Describe(known, 1)
			at += kindsOf
			slices.Sort(ratios)
			if [5]float64(of[:5]) != [5]float64{want.P50, want.P95, want.P99, want.Mean, ratios[(len(ratios)-1)/2]} {
				t.Fatalf("part %d of %d: got %v, want %+v", part, n, of[:5], want)
			}
		}
		hits := 0.0
		for _, r := range copies.good[0] {
			hits += r.cached / 100 / float64(len(copies.good[0]))
		}
		if at++; math.Abs(got[0][at]-hits) > 1e-9 {
			t.Fatalf("hits %v, want %v", got[0][at], hits)
		}
	}
}

// TestStudent: 95 % of the density lie within, by its integral.
func TestStudent(t *testing.T) {
	for freedom := 1; freedom <= 12; freedom++ {
		v := float64(min(freedom, 9))
		above, _ := math.Lgamma((v + 1) / 2)
		below, _ := math.Lgamma(v / 2)
		within, end := 0.0, student95(freedom)
		const steps = 100_000
		for i := range steps {
			x := end * (float64(i) + 0.5) / steps
			within += 2 * end / steps * math.Exp(above-below) / math.Sqrt(v*math.Pi) * math.Pow(1+x*x/v, -(v+1)/2)
		}
		if math.Abs(within-0.95) > 1e-4 {
			t.Errorf("%d degrees of freedom: %v lie within %v", freedom, within, end)
		}
	}
}

// TestReach: that of a mean is from its standard error, and 95 % of the intervals of means, medians and p95 hold the
// truth, or more.
func TestReach(t *testing.T) {
	random, covered := rand.New(rand.NewPCG(5, 6)), [3]int{}
	const trials, n = 2000, 200
	for range trials {
		sample := make([]float64, n)
		for i := range sample {
			sample[i] = 10 + random.NormFloat64()
		}
		var ofParts [3][]float64
		for part := range parts {
			d := stats.Describe(slices.Clone(sample[part*n/parts:(part+1)*n/parts]), 1)
			for i, v := range []float64{d.Mean, d.P50, d.P95} {
				ofParts[i] = append(ofParts[i], v)
			}
		}
		all := stats.Describe(sample, 1)
		cv, _ := stats.Variation(ofParts[0])
		if got, want := reach95(all.Mean, ofParts[0]), student95(parts-2)*cv*all.Mean*math.Sqrt(parts)/(parts-1); math.Abs(got-want) > 1e-9 {
			t.Fatalf("%v, want %v", got, want)
		}
		for i, v := range [][2]float64{{all.Mean, 10}, {all.P50, 10}, {all.P95, 11.644854}} {
			if math.Abs(v[0]-v[1]) <= reach95(v[0], ofParts[i]) {
				covered[i]++
			}
		}
	}
	for i, n := range covered {
		if share := float64(n) / trials; share < 0.945 || share > 0.99 || i == 0 && share > 0.978 { // of means, 96.1 % ± 4 standard deviations
			t.Errorf("%d: %v of the intervals hold the truth", i, share)
		}
	}
}

// TestConversationsShareTheirFate: if a conversation that lasts as long as the run is slower as a whole, by chance,
// intervals hold the truth all the same. By parts of the time alone they would hold it in few cases, since each part
// has all conversations.
func TestConversationsShareTheirFate(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	const trials, conversations, turns = 300, 60, 40
	covered, byTime, at := 0, 0, 4 // ttft.paired
	for range trials {
		m := &matched{paired: true, runs: [2][]*run{{{summary: new(metrics.Summary)}}, {{summary: new(metrics.Summary)}}}, to: 1}
		var slower [conversations]float64
		for i := range slower {
			slower[i] = math.Exp(0.1 * random.NormFloat64())
		}
		for i := range conversations * turns {
			conversation := i % conversations
			for side := range m.rows {
				r := &row{conversation: int64(conversation), ok: true}
				for l := range metrics.BoundedLatencies() {
					r.ms[l] = 100 * math.Exp(0.05*random.NormFloat64())
				}
				if side == 1 {
					r.ms[metrics.TTFT] *= slower[conversation]
				}
				m.rows[side], m.good[side] = append(m.rows[side], r), append(m.good[side], r)
			}
		}
		metric := m.measure()[at]
		if metric.Name != "ttft.paired" {
			t.Fatal(metric.Name)
		}
		if *metric.Low <= 0 && *metric.High >= 0 {
			covered++
		}
		var distances []float64
		for part := range parts {
			sides := m.part(part).numbers()
			distances = append(distances, math.Log(sides[1][at]))
		}
		if distance := math.Log1p(*metric.Change); math.Abs(distance) <= reach95(distance, distances) {
			byTime++
		}
	}
	if covered < trials*92/100 || byTime > trials/2 {
		t.Errorf("of %d intervals %d hold the truth, and %d by time alone", trials, covered, byTime)
	}
	t.Logf("of %d intervals %d hold the truth, and %d by time alone", trials, covered, byTime)
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
		return &Side{runs: []*run{{"dir", summary, rows}}}
	}
	for b.Loop() {
		if _, err := Compare(side(rows[0]), side(rows[1]), false); err != nil {
			b.Fatal(err)
		}
	}
}
