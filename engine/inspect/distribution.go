package inspect

import (
	"math"
	"slices"

	"github.com/fastreplay/fastreplay/engine/stats"
)

// Distribution describes exact values, as a replay's summary does.
type Distribution = stats.Percentiles

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
	shares := stats.PerMille()
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
