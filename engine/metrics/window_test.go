package metrics

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// naiveSteady is the longest part of levels that is within band of its median, by its definition: longest first, then
// from the left.
func naiveSteady(levels []float64, band float64) (from, to int) {
	for n := len(levels); 10*n >= len(levels) && n > 0; n-- {
		for i := 0; i+n <= len(levels); i++ {
			part := slices.Sorted(slices.Values(levels[i : i+n]))
			median := part[n/2]
			if n%2 == 0 {
				median = (part[n/2-1] + part[n/2]) / 2
			}
			if median > 0 && !slices.ContainsFunc(part, func(v float64) bool { return v < (1-band)*median || v > (1+band)*median }) {
				return i, i + n
			}
		}
	}
	return 0, 0
}

func stepsOf(levels []float64) (steps []Step) {
	for i, level := range levels {
		steps = append(steps, Step{FromS: float64(i) / 2, ToS: float64(i+1) / 2, InFlight: level})
	}
	return steps
}

// TestFindSteady compares with all parts of random runs, and with a made one: ramp up, plateau, ramp down.
func TestFindSteady(t *testing.T) {
	found := 0
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 6))
		levels, level := make([]float64, 1+rng.IntN(60)), 20.0
		for i := range levels {
			level = max(0, level+rng.NormFloat64()*float64(seed%5))
			levels[i] = level
		}
		band := 0.05 + 0.6*rng.Float64()
		runS := float64(len(levels))/2 - 0.2 // the last step is not whole
		from, to := naiveSteady(levels, band)
		w, err := FindSteady(stepsOf(levels), runS, band)
		if to == 0 {
			if err == nil || !strings.Contains(err.Error(), "no steady part") {
				t.Errorf("seed %d: %+v, %v, want none", seed, w, err)
			}
			continue
		}
		found++
		if err != nil || w.FromS != float64(from)/2 || w.ToS != min(runS, float64(to)/2) || w.Least != slices.Min(levels[from:to]) || w.Most != slices.Max(levels[from:to]) {
			t.Errorf("seed %d: %+v, %v, want steps %d to %d", seed, w, err, from, to)
		}
	}
	if found < 100 || found == 300 {
		t.Errorf("%d of 300 runs have a steady part: the test covers too little", found)
	}
	var levels []float64
	for i := range 100 { // 20 steps up, 50 at 40 ± 3, 30 down
		switch {
		case i < 20:
			levels = append(levels, 2*float64(i))
		case i < 70:
			levels = append(levels, 40+3*math.Sin(float64(i)))
		default:
			levels = append(levels, 40*float64(99-i)/30)
		}
	}
	twice := stepsOf([]float64{5, 5, 5, 5, 5, 9, 5, 5, 5, 5, 5})
	for i := range twice { // 1.1 − 0.6 is more than 0.5 in floating point
		twice[i].FromS, twice[i].ToS = float64(i)/10, float64(i+1)/10
	}
	if w, err := FindSteady(twice, 1.1, 0.1); err != nil || w.FromS != 0 {
		t.Errorf("of two parts of five steps: %+v, %v, want the first", w, err)
	}
	w, err := FindSteady(stepsOf(levels), 50, 0.1)
	if err != nil || w.FromS < 9 || w.FromS > 10 || w.ToS < 35 || w.ToS > 36.5 || math.Abs(w.Level-40) > 1 || w.Band != 0.1 {
		t.Errorf("plateau from 10 to 35 s, and its ramps within 36: %+v, %v", w, err)
	}
	if w, err := FindSteady(stepsOf(make([]float64, 50)), 25, 0.2); err == nil {
		t.Errorf("nothing in flight is %+v", w)
	}
}
