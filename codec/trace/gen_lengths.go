package trace

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
)

// Lengths is how numbers of tokens are distributed: a Range or a Lognormal. What is drawn must not change with Go's releases,
// so it is made of the generator's bits.
type Lengths interface {
	draw(rng *rand.PCG) int
	longest() int
	check(what string, most int) error
}

// Range is the whole numbers from Min to Max, both included; each is equally likely.
type Range struct{ Min, Max int }

func (r Range) draw(rng *rand.PCG) int {
	high, _ := bits.Mul64(rng.Uint64(), uint64(r.Max-r.Min)+1)
	return r.Min + int(high)
}

func (r Range) longest() int { return r.Max }

func (r Range) check(what string, most int) error {
	if r.Min < 1 || r.Max < r.Min || r.Max > most {
		return fmt.Errorf("%s from %d to %d; the range must lie within 1 to %d", what, r.Min, r.Max, most)
	}
	return nil
}

// Lognormal is whole numbers whose logarithm is normal: many short ones and a long tail, as prompts have. Mean and StdDev
// are those of the numbers themselves, before what lies outside 1 to Max is drawn again.
type Lognormal struct {
	Mean, StdDev float64
	Max          int
}

func (l Lognormal) draw(rng *rand.PCG) int {
	variance := math.Log1p(l.StdDev / l.Mean * (l.StdDev / l.Mean))
	middle := math.Log(l.Mean) - variance/2
	for {
		u := (float64(rng.Uint64()>>12) + 0.5) / (1 << 52) // inside (0, 1)
		x := math.Exp(middle + math.Sqrt(variance)*math.Sqrt2*math.Erfinv(2*u-1))
		if x >= 0.5 && x < float64(l.Max)+0.5 {
			return int(math.Round(x))
		}
	}
}

func (l Lognormal) longest() int { return l.Max }

// check asks the mean to lie within the bounds, so that a draw is not repeated for long.
func (l Lognormal) check(what string, most int) error {
	switch {
	case !(l.Mean >= 1 && l.Mean <= float64(l.Max)):
		return fmt.Errorf("%s of mean %v; want 1 up to the longest, %d", what, l.Mean, l.Max)
	case !(l.StdDev >= 0 && l.StdDev <= 10*l.Mean):
		return fmt.Errorf("%s of standard deviation %v; want 0 to ten times the mean", what, l.StdDev)
	case l.Max > most:
		return fmt.Errorf("%s up to %d; want %d at most", what, l.Max, most)
	}
	return nil
}
