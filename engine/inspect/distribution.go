package inspect

import (
	"math"
	"slices"

	"github.com/fastreplay/fastreplay/engine/stats"
)

// Distribution describes exact values, with the keys of a replay's summary. Percentiles are by nearest rank: the smallest value that at least that share of
// the values do not exceed.
type Distribution struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
	Mean float64 `json:"mean"`
}

// perMille are the percentiles of a Distribution, in order.
func perMille() [5]int64 { return [5]int64{500, 900, 950, 990, 999} }

// describe sorts values and describes them in units of unit; nil without values.
func describe[T int32 | int64](values []T, unit float64) *Distribution {
	if len(values) == 0 {
		return nil
	}
	slices.Sort(values)
	sum := 0.0
	for _, v := range values {
		sum += float64(v)
	}
	at := func(i int) float64 { return float64(values[i]) / unit }
	var p [5]float64
	for i, share := range perMille() {
		p[i] = at(int(stats.Rank(int64(len(values)), share)) - 1)
	}
	return &Distribution{P50: p[0], P90: p[1], P95: p[2], P99: p[3], P999: p[4], Max: at(len(values) - 1), Mean: sum / float64(len(values)) / unit}
}

// describeCounts is describe for values that were counted: counts[v] times v. The unit is what a value of 1 stands for.
func describeCounts(counts []int64, unit float64) *Distribution {
	n, sum, most := int64(0), 0.0, 0
	for v, c := range counts {
		n += c
		sum += float64(v) * float64(c)
		if c > 0 {
			most = v
		}
	}
	if n == 0 {
		return nil
	}
	var p [5]float64
	shares := perMille()
	seen, next := int64(0), 0
	for v, c := range counts {
		seen += c
		for next < len(p) && seen >= stats.Rank(n, shares[next]) {
			p[next] = float64(v) * unit
			next++
		}
	}
	return &Distribution{P50: p[0], P90: p[1], P95: p[2], P99: p[3], P999: p[4], Max: float64(most) * unit, Mean: sum / float64(n) * unit}
}

// binned counts values between edges, which ascend and enclose all values; bins at both ends that are empty are left out.
func binned(edges []float64, each func(count func(value float64, times int64))) []Bin {
	bins := make([]Bin, len(edges)-1)
	for i := range bins {
		bins[i] = Bin{From: edges[i], To: edges[i+1]}
	}
	each(func(v float64, times int64) {
		i, exact := slices.BinarySearch(edges, v)
		if !exact {
			i--
		}
		bins[min(max(0, i), len(bins)-1)].Count += times
	})
	from, to := 0, len(bins)
	for from < to && bins[from].Count == 0 {
		from++
	}
	for to > from && bins[to-1].Count == 0 {
		to--
	}
	return bins[from:to]
}

// powersOfTwo is 1, 2, 4, … beyond the longest lengths of a trace.
func powersOfTwo() []float64 {
	edges := make([]float64, 32)
	for i := range edges {
		edges[i] = math.Exp2(float64(i))
	}
	return edges
}

// oneThreeTen is 0, then 1, 3, 10, 30, … times the unit.
func oneThreeTen(unit float64, steps int) []float64 {
	edges := []float64{0}
	for i := range steps {
		edges = append(edges, unit*math.Pow(10, float64(i/2))*float64(1+2*(i%2)))
	}
	return edges
}
