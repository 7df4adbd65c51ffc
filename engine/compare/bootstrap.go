package compare

import (
	"cmp"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/fastreplay/fastreplay/engine/stats"
)

// resample draws clusters again, as many as there are, and returns what eval makes of each draw. A draw is a weight for each cluster: how
// often it was drawn. So many neighbours are drawn together: the circular block bootstrap (D. Politis and J. Romano, 1992). Draw i depends
// on the seed and i alone, so that the number of processors does not matter.
func resample(seed uint64, draws, clusters, together int, eval func(w []int32) []float64) [][]float64 {
	out := make([][]float64, draws)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(draws, runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			w := make([]int32, clusters)
			for draw := next.Add(1) - 1; draw < int64(draws); draw = next.Add(1) - 1 {
				random := rand.New(rand.NewPCG(seed, uint64(draw)))
				clear(w)
				for drawn, at := 0, 0; drawn < clusters; drawn, at = drawn+1, at+1 {
					if drawn%together == 0 {
						at = random.IntN(clusters)
					}
					w[at%clusters]++
				}
				out[draw] = eval(w)
			}
		})
	}
	wg.Wait()
	return out
}

// widening is how much wider than the bootstrap's an interval must be if n stretches are drawn, and n is small: as much as Student's t is
// than the normal distribution, and as a variance with n - 1 is than one with n. It is infinite below 4.
func widening(n float64) float64 {
	if n < 4 {
		return math.Inf(1)
	}
	return student95(n-1) / normal95 * math.Sqrt(n/(n-1))
}

// weighted is values in rising order, each with the cluster that it is drawn with. Weights replace copies, so values are sorted only once.
type weighted struct {
	values  []float64
	cluster []int32
}

// newWeighted takes the values that exist.
func newWeighted(values []float64, cluster []int32) weighted {
	order := make([]int32, 0, len(values))
	for i, v := range values {
		if finite(v) {
			order = append(order, int32(i))
		}
	}
	slices.SortFunc(order, func(i, j int32) int { return cmp.Compare(values[i], values[j]) })
	v := weighted{make([]float64, len(order)), make([]int32, len(order))}
	for k, i := range order {
		v.values[k], v.cluster[k] = values[i], cluster[i]
	}
	return v
}

// trimmed is the share of values that a trimmed mean leaves out at each end (R. Wilcox, Introduction to Robust Estimation, recommends 20 %).
const trimmed = 0.2

// describe returns the median, p95, p99 and the mean of what was drawn, as stats.Describe has them of copies, and the trimmed mean: all NaN
// of nothing.
func (v weighted) describe(w []int32) (all [kindsOf]float64) {
	n := int64(0)
	for _, c := range v.cluster {
		n += int64(w[c])
	}
	if n == 0 {
		return [kindsOf]float64(slices.Repeat([]float64{math.NaN()}, kindsOf))
	}
	ranks, next, cut := [...]int64{stats.Rank(n, 500), stats.Rank(n, 950), stats.Rank(n, 990), math.MaxInt64}, 0, int64(trimmed*float64(n))
	upTo, sum, middle := int64(0), 0.0, 0.0
	for i, c := range v.cluster {
		below := upTo
		upTo += int64(w[c])
		sum += float64(w[c]) * v.values[i]
		middle += float64(max(0, min(upTo, n-cut)-max(below, cut))) * v.values[i]
		for upTo >= ranks[next] {
			all[next] = v.values[i]
			next++
		}
	}
	all[3], all[4] = sum/float64(n), middle/float64(n-2*cut)
	return all
}

// sums is a numerator and a denominator for each cluster.
type sums struct{ over, under []float64 }

func (s sums) ratio(w []int32) float64 {
	over, under := 0.0, 0.0
	for c, n := range w {
		over += float64(n) * s.over[c]
		under += float64(n) * s.under[c]
	}
	return over / under // NaN of nothing
}

// normal95 is how many standard deviations from the mean 95 % of a normal distribution reach.
const normal95 = 1.959963984540054

// student95 is the same of Student's t (M. Abramowitz and I. Stegun, Handbook of Mathematical Functions, 26.7.5), within 0.5 % from 3
// degrees of freedom on.
func student95(freedom float64) float64 {
	z := normal95
	z2 := z * z
	return z * (1 + (z2+1)/(4*freedom) + ((5*z2+16)*z2+3)/(96*freedom*freedom) + (((3*z2+19)*z2+17)*z2-15)/(384*math.Pow(freedom, 3)) +
		((((79*z2+776)*z2+1482)*z2-1920)*z2-945)/(92160*math.Pow(freedom, 4)))
}

// interval returns the 95 % interval of the numbers that were drawn. Its ends are percentiles, further out for a widening (T. Hesterberg,
// What Teachers Should Know About the Bootstrap, 2015: expanded percentiles). It is false if a tenth of the draws have no value.
func interval(drawn []float64, widening float64) (low, high float64, exists bool) {
	known := slices.DeleteFunc(slices.Clone(drawn), func(v float64) bool { return !finite(v) })
	if len(known) < 10 || len(known)*10 < len(drawn)*9 {
		return 0, 0, false
	}
	slices.Sort(known)
	beyond := int(math.Erfc(normal95*widening/math.Sqrt2) / 2 * float64(len(known)))
	return known[beyond], known[len(known)-1-beyond], true
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// spread is the standard deviation of a sample.
func spread(values []float64) float64 {
	sum, squares := 0.0, 0.0
	for _, v := range values {
		sum += v
	}
	mean := sum / float64(len(values))
	for _, v := range values {
		squares += (v - mean) * (v - mean)
	}
	return math.Sqrt(squares / float64(len(values)-1))
}
