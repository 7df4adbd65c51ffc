package stats

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/fastreplay/fastreplay/bench/must"
)

// TestSortBy sorts keys of every size and shape as the standard library does.
func TestSortBy(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 400 {
		keys := make([]int64, rng.IntN(3000))
		bits := rng.IntN(64)
		for i := range keys {
			keys[i] = int64(rng.Uint64() >> bits)
			if rng.IntN(1000) == 0 {
				keys[i] = []int64{math.MinInt64, math.MaxInt64, -1, 0}[rng.IntN(4)]
			}
		}
		want := slices.Sorted(slices.Values(keys))
		SortBy(keys, func(k *int64) int64 { return *k })
		must.Equal(t, slices.Equal(keys, want), true, "round %d: %d keys of %d bits", round, len(keys), 64-bits)
	}
}

func BenchmarkSort(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	made := make([]Sample, 200_000)
	for i := range made {
		made[i].Value = int64(1e6 * math.Exp(rng.NormFloat64()/4))
	}
	for name, sort := range map[string]func([]Sample){
		"library": func(s []Sample) {
			slices.SortFunc(s, func(x, y Sample) int { return cmp.Compare(x.Value, y.Value) })
		},
		"by": func(s []Sample) { SortBy(s, func(v *Sample) int64 { return v.Value }) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				sort(slices.Clone(made))
			}
		})
	}
	ints := make([]int64, len(made))
	for i := range ints {
		ints[i] = made[i].Value
	}
	for name, sort := range map[string]func([]int64){
		"library": slices.Sort[[]int64],
		"by":      func(s []int64) { SortBy(s, func(v *int64) int64 { return *v }) },
	} {
		b.Run("int64 "+name, func(b *testing.B) {
			for b.Loop() {
				sort(slices.Clone(ints))
			}
		})
	}
}
