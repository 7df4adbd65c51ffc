package stats

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// The oracle of this file: a sorted slice of all samples.
type oracle []int64

func (o oracle) sorted() oracle {
	s := slices.Clone(o)
	slices.Sort(s)
	return s
}

// quantile is the definition of nearest rank: the smallest sample that at least permille/1000 of the samples do not
// exceed. o is sorted.
func (o oracle) quantile(permille int) int64 {
	for i, v := range o {
		if (i+1)*1000 >= permille*len(o) {
			return v
		}
	}
	panic("no sample")
}

// mean is exact, rounded half away from zero to a whole ns.
func (o oracle) mean() int64 {
	sum := new(big.Int)
	for _, v := range o {
		sum.Add(sum, big.NewInt(v))
	}
	text := new(big.Rat).SetFrac(sum, big.NewInt(int64(len(o)))).FloatString(0)
	var mean int64
	if _, err := fmt.Sscan(text, &mean); err != nil {
		panic(err)
	}
	return mean
}

// resolution is the largest error of a HdrHistogram with three significant
// digits: 2,048 sub-buckets, so exact below 2,048 and a 1,024th above.
func resolution(v int64) int64 {
	if v = max(v, -v); v < 2048 {
		return 0
	}
	return v/1024 + 1
}

// check compares the count and the percentiles of d with the oracle's.
func check(t *testing.T, name string, d *Distribution, all oracle) {
	t.Helper()
	must.Equal(t, d.Count(), int64(len(all)), "%s: count", name)
	checkPercentiles(t, name, d.Percentiles(1), all, 1)
}

// checkPercentiles compares p, whose unit is unitNS, with the oracle's: exactly, unless p is from a histogram.
func checkPercentiles(t *testing.T, name string, p *Percentiles, all oracle, unitNS float64) {
	t.Helper()
	o := all.sorted()
	if (p == nil) != (len(o) == 0) {
		t.Fatalf("%s: %d samples, got %+v", name, len(o), p)
	}
	if p == nil {
		return
	}
	for permille, got := range map[int]float64{500: p.P50, 900: p.P90, 950: p.P95, 990: p.P99, 999: p.P999} {
		want := o.quantile(permille)
		slack := int64(0)
		if p.FromHistogram {
			slack = resolution(want)
		}
		low, high := want, min(want+slack, o[len(o)-1])
		if want < 0 { // the magnitude is rounded up
			low, high = want-slack, want
		}
		if got < float64(low)/unitNS || got > float64(high)/unitNS {
			t.Errorf("%s: p%d of %d samples = %v, want %d ns (up to %d)", name, permille, len(o), got, low, high)
		}
	}
	if want := float64(o[len(o)-1]) / unitNS; p.Max != want {
		t.Errorf("%s: max %v, want %v", name, p.Max, want)
	}
	if want := float64(o.mean()) / unitNS; p.Mean != want {
		t.Errorf("%s: mean %v, want %v", name, p.Mean, want)
	}
}

// weighted repeats each value by its weight.
func weighted(pairs ...int64) (o oracle) {
	for i := 0; i < len(pairs); i += 2 {
		for range pairs[i+1] {
			o = append(o, pairs[i])
		}
	}
	return o
}

func TestDistributionWeighted(t *testing.T) {
	ms := int64(1e6)
	for name, samples := range map[string]oracle{
		"empty":                 {},
		"one":                   {51199588},
		"zero":                  {0},
		"two":                   {1, 2},
		"heavy head":            weighted(1*ms, 9000, 2*ms, 990, 5000*ms, 10),
		"heavy tail":            weighted(1*ms, 10, 77*ms, 9990),
		"p99 on the edge":       weighted(1*ms, 990, 2*ms, 10),
		"p99 over the edge":     weighted(1*ms, 989, 2*ms, 11),
		"p999 on the edge":      weighted(1*ms, 999, 9*ms, 1),
		"p999 over the edge":    weighted(1*ms, 998, 9*ms, 2),
		"half and half":         weighted(3, 500, 1000, 500),
		"half and one":          weighted(3, 500, 1000, 501),
		"negative":              {-5, -4, -3, -2, -1},
		"mostly negative":       weighted(-700, 900, -3, 50, 12, 50),
		"one early":             weighted(-40, 1, 300, 999),
		"large negatives":       weighted(-5*ms, 60, -9*ms, 40, 1, 20),
		"151, p99 rounds wrong": weighted(1, 149, 5, 1, 9, 1), // rank ceil(149.49) = 150, not 149
	} {
		for kind, d := range []*Distribution{new(Distribution), NewHistogram(), {limit: 100}} {
			for _, v := range samples {
				d.Add(v)
			}
			check(t, name, d, samples)
			check(t, name+", again", d, samples)
			if p := d.Percentiles(1); p != nil && p.FromHistogram != (kind > 0 && len(samples) > d.limit) {
				t.Errorf("%s: from a histogram: %v, with %d values of at most %d", name, p.FromHistogram, len(samples), d.limit)
			}
		}
	}
}

// TestDistributionRanks asks for every rank of every small size. Values are
// their own rank and below 2,048, so the answer must be exact.
func TestDistributionRanks(t *testing.T) {
	for _, d := range []*Distribution{new(Distribution), NewHistogram()} {
		for n := int64(1); n <= 1200; n++ {
			d.Add(n)
			for _, permille := range []int64{1, 10, 250, 500, 900, 950, 990, 999, 1000} {
				want := int64(math.Ceil(float64(n*permille) / 1000))
				must.Equal(t, d.QuantileNS(permille), want, "%d samples 1..%d: quantile %d/1000", n, n, permille)
			}
		}
	}
}

// TestDistributionParts asks now and then, while a distribution grows over several parts.
func TestDistributionParts(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	var all oracle
	d := new(Distribution)
	for n := 1; n <= 5*partValues+3; n++ {
		v := rng.Int64N(1 << 40)
		all = append(all, v)
		if d.Add(v); n%(partValues+partValues/2) == 0 {
			check(t, fmt.Sprint(n, " values"), d, all)
		}
	}
	sum := new(Distribution)
	sum.Add(5)
	sum.Merge(d)
	check(t, "all", d, all)
	check(t, "merged", sum, append(all, 5))
}

func TestDistributionRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for round := range 15 {
		var all oracle
		parts := []*Distribution{new(Distribution), new(Distribution), new(Distribution)}
		if round%2 == 0 {
			parts[1] = NewHistogram()
			parts[2].limit = 300
		}
		for range 1 + rng.IntN(4000) {
			v := int64(math.Exp(rng.NormFloat64()*3 + 12)) // log-normal around 0.16 ms
			if round%3 == 0 && rng.IntN(20) == 0 {
				v = -v
			}
			v = min(v, HighestNS)
			for range 1 + rng.IntN(3) {
				all = append(all, v)
				parts[rng.IntN(len(parts))].Add(v)
			}
		}
		sum := new(Distribution)
		for _, p := range parts {
			sum.Merge(p)
		}
		check(t, fmt.Sprint("round ", round), sum, all)
	}
}

func TestDistributionAboveAnHour(t *testing.T) {
	d := NewHistogram()
	for range 9 {
		d.Add(1000)
	}
	d.Add(3 * HighestNS)
	p := d.Percentiles(1)
	if p.P50 != 1000 || p.Max != 3*HighestNS || p.Mean != (9*1000+3*HighestNS)/10 {
		t.Errorf("got %+v", *p)
	}
	if p.P99 < HighestNS || p.P99 > HighestNS+float64(resolution(HighestNS)) {
		t.Errorf("p99 = %v, want an hour", p.P99)
	}
}

// TestAbove: exact while values are kept, within 0.1 % in a histogram.
func TestAbove(t *testing.T) {
	kept, counted := new(Distribution), NewHistogram()
	for _, v := range []int64{-70_000_000, 0, 4_000_000, 5_000_000, 5_000_001, 5_100_000, math.MaxInt64} {
		kept.Add(v)
		counted.Add(max(v, -70_000_000))
	}
	for ns, want := range map[int64][2]int64{0: {5, 5}, 4_500_000: {4, 4}, 5_000_000: {3, 2}, 5_050_000: {2, 2}, 5_100_000: {1, 1}, 6_000_000: {1, 1}} {
		expect.Equal(t, [2]int64{kept.Above(ns), counted.Above(ns)}, want, "above %d (of a histogram the second)", ns)
	}
	expect.Equal(t, new(Distribution).Above(0), 0, "of nothing are above 0")
}
