// Package stats has the formulas that summaries of runs and of traces share, so that both count alike.
//
// It knows numbers, not what they mean. Functions are pure, allocate nothing and may be called from anywhere.
package stats

import "math"

// Rank is the place, from 1, of a percentile by nearest rank among n sorted values: the first that at least that share of them do
// not exceed.
func Rank(n, perMille int64) int64 {
	return max(1, n/1000*perMille+(n%1000*perMille+999)/1000) // n*perMille might not fit
}

// Variation is the coefficient of variation: population standard deviation / mean. There is none where the mean is 0.
func Variation[T int64 | float64](values []T) (cv float64, exists bool) {
	sum, squares := 0.0, 0.0
	for _, v := range values {
		sum += float64(v)
	}
	if sum == 0 {
		return 0, false
	}
	n := float64(len(values))
	mean := sum / n
	for _, v := range values {
		d := float64(v) - mean
		squares += d * d
	}
	return math.Sqrt(squares/n) / mean, true
}
