package live

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestWindowAgainstOracle compares a window with a list of all values, over minutes with gaps.
func TestWindowAgainstOracle(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	w := newWindow()
	type value struct{ at, ns int64 }
	var all []value
	now := int64(0)
	for range 20_000 {
		now += rng.Int64N(20e6)
		if rng.IntN(2000) == 0 {
			now += rng.Int64N(200e9)
		}
		v := value{now, 10_000 + rng.Int64N(1<<rng.IntN(40))}
		all = append(all, v)
		w.add(v.at, v.ns)
		if rng.IntN(100) > 0 {
			continue
		}
		var kept []int64
		for _, v := range all {
			if v.at/stepNS > now/stepNS-windowSteps {
				kept = append(kept, v.ns)
			}
		}
		slices.Sort(kept)
		got := w.describe(now)
		for share, got := range map[float64]float64{0.5: got.P50, 0.99: got.P99} {
			rank := int(share*float64(len(kept)) + 0.5)
			if want := float64(kept[max(1, rank)-1]); 100*math.Abs(got-want) > want {
				t.Fatalf("at %d: p%g of %d is %g, want %g", now, 100*share, len(kept), got, want)
			}
		}
	}
	if got := w.describe(now + 2*windowSteps*stepNS); !math.IsNaN(got.P50) || !math.IsNaN(got.P99) {
		t.Errorf("long after: %+v", got)
	}
}
