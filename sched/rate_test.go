package sched

import (
	"math"
	"testing"
	"time"
)

var ramps = []Rate{
	{10, 500, 60 * time.Second}, {500, 10, 60 * time.Second}, {0, 20, 3 * time.Second}, {7, 7, time.Second}, {1, 1.0001, time.Hour}, {100, 1000, time.Millisecond},
}

// due is how many requests the rate has released after ns: the integral of the line, by Simpson's rule in each part,
// which is exact for lines.
func (r Rate) due(ns float64) float64 {
	at := func(x float64) float64 {
		if x >= float64(r.Over) {
			return r.To
		}
		return r.From + (r.To-r.From)*x/float64(r.Over)
	}
	total := 0.0
	for _, part := range [][2]float64{{0, min(ns, float64(r.Over))}, {float64(r.Over), ns}} {
		const steps = 1000
		width := (part[1] - part[0]) / steps
		for i := 0; i < steps && width > 0; i++ {
			from := part[0] + float64(i)*width
			total += width / 6 * (at(from) + 4*at(from+width/2) + at(from+width*(1-1e-12)))
		}
	}
	return total / 1e9
}

// TestRampReleasesTheKthWhereTheIntegralReachesK compares with numerical integration.
func TestRampReleasesTheKthWhereTheIntegralReachesK(t *testing.T) {
	for _, r := range ramps {
		at := instants(t, 40_000, Arrivals{Rate: r, Process: Constant})
		for k := 1; k < len(at); k += 997 {
			got := r.due(float64(at[k]))
			if slack := 0.6e-9*max(r.From, r.To) + 1e-7*float64(k); math.Abs(got-float64(k)) > slack { // half a ns of the rate
				t.Fatalf("%+v: %v requests are due at %d ns, want %d", r, got, at[k], k)
			}
		}
	}
}

// TestRandomProcessesFollowTheRamp: seen in the rate's own time, gaps are those of a steady rate.
func TestRandomProcessesFollowTheRamp(t *testing.T) {
	for _, r := range ramps {
		for _, p := range []Process{Poisson, Gamma} {
			a := Arrivals{Rate: r, Process: p, Burstiness: 0.5, Seed: 3}
			bent := instants(t, 3000, a)
			a.Rate = Steady(r.To)
			straight := instants(t, 3000, a)
			for i := 1; i < len(bent); i += 101 {
				want := float64(straight[i]) * r.To / 1e9
				if got := r.due(float64(bent[i])); math.Abs(got-want) > 1e-6*want+1e-9*max(r.From, r.To) {
					t.Fatalf("%+v, %s: request %d at %d ns, when %v are due, want %v", r, p, i, bent[i], got, want)
				}
			}
		}
	}
}
