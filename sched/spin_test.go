package sched

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// TestSpinWindowFollowsTheTail draws latenesses of known distributions: when the window has settled, the share of
// sleeps that end after it is what the steps balance at, unless a bound is in the way.
func TestSpinWindowFollowsTheTail(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	exponential := func(mean float64) func() int64 {
		return func() int64 { return int64(-mean * math.Log(1-rng.Float64())) }
	}
	for _, tt := range []struct {
		name     string
		draw     func() int64
		min, max float64 // of the share
		bound    int64   // where the window must lie; 0 = anywhere between the bounds
	}{
		{"exponential, 10 us", exponential(10e3), 1. / 450, 1. / 200, 0},
		{"exponential, 25 us", exponential(25e3), 1. / 450, 1. / 200, 0},
		{"uniform to 150 us", func() int64 { return rng.Int64N(150_000) }, 1. / 450, 1. / 200, 0},
		{"uniform to 150 us, and stalls", func() int64 {
			if rng.IntN(50) == 0 {
				return 10e6
			}
			return rng.Int64N(150_000)
		}, 1./50 + 1./450, 1./50 + 1./200, 0},
		{"always prompt", func() int64 { return 500 }, 0, 0, leastSpin},
		{"as late as a window can be", func() int64 { return mostSpin }, 0, 0.6, 0},
		{"always later than any window", func() int64 { return 2e6 }, 1, 1, firstSpin},
	} {
		s := newSpinWindow(AutoSpin)
		late, n := 0, 400_000
		for i := range 2 * n {
			d := tt.draw()
			if i >= n && d > s.ns {
				late++
			}
			s.learn(d)
			if s.ns < leastSpin || s.ns > mostSpin {
				t.Fatalf("%s: a window of %d ns is out of bounds", tt.name, s.ns)
			}
		}
		share := float64(late) / float64(n)
		if share < tt.min || share > tt.max || tt.bound != 0 && s.ns != tt.bound {
			t.Errorf("%s: a share of %.5f was later than the window, which ended at %d ns; want %.5f to %.5f", tt.name, share, s.ns, tt.min, tt.max)
		}
	}
}

func TestSpinWindowThatIsGivenStays(t *testing.T) {
	s := newSpinWindow(70 * time.Microsecond)
	for _, late := range []int64{0, 1e6, 10} {
		if s.learn(late); s.ns != 70_000 {
			t.Fatalf("the window went to %d ns", s.ns)
		}
	}
}
