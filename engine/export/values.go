package export

import (
	"encoding/json"
	"math"
	"slices"

	"github.com/fastreplay/fastreplay/codec/record"
)

// A value that is absent is NaN while one computes, so that what follows from it is absent too.

// known tells whether there is a value; a ratio to 0 is none.
func known(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// count is a number of a record.
func count(n int64) float64 {
	if n == record.None {
		return math.NaN()
	}
	return float64(n)
}

// spanNS is to - from.
func spanNS(from, to int64) float64 {
	if from == record.None || to == record.None {
		return math.NaN()
	}
	return float64(to - from)
}

// promptTokens is the prompt's length as the server counted it, or as recorded where it counts none.
func promptTokens(r *record.Record) float64 {
	if r.PromptTokens != record.None {
		return count(r.PromptTokens)
	}
	return count(r.InputTokens)
}

// number is null in JSON where it is absent.
type number float64

// MarshalJSON implements json.Marshaler.
func (n number) MarshalJSON() ([]byte, error) {
	if !known(float64(n)) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// sample is the known values of one quantity, ascending. Its statistics are numpy's, which both tools use; of an empty one
// they are absent.
type sample []float64

func newSample(values []float64) sample {
	s := sample(slices.DeleteFunc(slices.Clone(values), func(v float64) bool { return !known(v) }))
	slices.Sort(s)
	return s
}

// percentile interpolates between the two nearest ranks, as numpy.percentile does by default.
func (s sample) percentile(q float64) float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	rank := q / 100 * float64(len(s)-1)
	low := int(rank)
	high := min(low+1, len(s)-1)
	return s[low] + (rank-float64(low))*(s[high]-s[low])
}

func (s sample) sum() (sum float64) {
	for _, v := range s {
		sum += v
	}
	return sum
}

func (s sample) mean() float64 { return s.sum() / float64(len(s)) }

// deviation is the standard deviation of the population, as numpy.std by default.
func (s sample) deviation() float64 {
	mean, squares := s.mean(), 0.0
	for _, v := range s {
		squares += (v - mean) * (v - mean)
	}
	return math.Sqrt(squares / float64(len(s)))
}

// total is the sum of what is known; absent where there are values, all of them unknown.
func total(values []float64) float64 {
	s := newSample(values)
	if len(s) == 0 && len(values) > 0 {
		return math.NaN()
	}
	return s.sum()
}
