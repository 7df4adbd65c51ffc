package inspect

import (
	"math"
	"slices"
)

// binned counts values in units of unit between edges, which ascend and enclose all. Empty bins at both ends are left out.
func binned[T int32 | int64](edges []float64, values []T, unit float64) []Bin {
	bins := make([]Bin, len(edges)-1)
	for i := range bins {
		bins[i] = Bin{From: edges[i], To: edges[i+1]}
	}
	for _, v := range values {
		i, exact := slices.BinarySearch(edges, float64(v)/unit)
		if !exact {
			i--
		}
		bins[min(max(0, i), len(bins)-1)].Count++
	}
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
