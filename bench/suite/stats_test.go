package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestPercentile: against the definition, the smallest value with at least the share q of all at or below it.
func TestPercentile(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		values := make([]int64, 1+chance.IntN(40))
		for i := range values {
			values[i] = int64(chance.IntN(20))
		}
		slices.Sort(values)
		for _, q := range []float64{0.5, 0.9, 0.99, 0.999, 1} {
			want := math.NaN()
			for _, v := range values {
				below := 0
				for _, w := range values {
					if w <= v {
						below++
					}
				}
				if float64(below) >= q*float64(len(values)) {
					want = float64(v)
					break
				}
			}
			if got := percentile(values, q); got != want {
				t.Fatalf("percentile(%v, %v) = %v, want %v", values, q, got, want)
			}
		}
	}
	if got := percentile(nil, 0.5); !math.IsNaN(got) {
		t.Errorf("percentile of nothing: %v, want NaN", got)
	}
}

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   spread
	}{
		{[]float64{5}, spread{5, 5, 5}},
		{[]float64{9, 1, 2}, spread{2, 1, 9}},
		{[]float64{4, 1, 3, 100}, spread{3.5, 1, 100}},
	} {
		if got := spreadOf(c.values); got != c.want {
			t.Errorf("spreadOf(%v) = %v, want %v", c.values, got, c.want)
		}
	}
	if got := spreadOf(nil); !math.IsNaN(got.Median) {
		t.Errorf("spread of nothing: %v, want NaN", got)
	}
}

func TestUnits(t *testing.T) {
	for _, c := range []struct {
		u    unit
		v    float64
		want string
	}{
		{nanoseconds, 412, "412 ns"}, {nanoseconds, 1234, "1.23 µs"}, {nanoseconds, 56_700, "56.7 µs"}, {nanoseconds, 2e6, "2 ms"},
		{nanoseconds, 3.53e9, "3.53 s"}, {nanoseconds, 0, "0 ns"}, {bytes, 185e6, "185 MB"}, {bytes, -42.44e6, "-42.4 MB"}, {bytesPerS, 400e6, "400 MB/s"},
		{perSecond, 118_234.6, "118,235/s"}, {perSecond, 5e6, "5M/s"}, {ratio, 1.049, "1.05×"}, {ratio, 0.0123, "0.012×"}, {count, 12_031, "12,031"},
		{nanoseconds, math.NaN(), "–"},
	} {
		if got := c.u.text(c.v); got != c.want {
			t.Errorf("%v %s: got %q, want %q", c.v, c.u, got, c.want)
		}
	}
	if got, want := nanoseconds.spread(spread{1500, 900, 12_000}), "1.50 µs (0.90–12)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
