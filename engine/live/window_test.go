package live

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/fastreplay/fastreplay/engine/stats"
)

func TestCellsAreNarrow(t *testing.T) {
	last := -1
	for ns := int64(0); ns < mostNS; ns += 1 + ns/100 {
		i := cell(ns)
		if i < last || i >= windowCells {
			t.Fatalf("%d ns: bucket %d after %d, of %d", ns, i, last, windowCells)
		}
		last = i
		if got := middle(i); 125*max(got-ns, ns-got) > ns {
			t.Fatalf("%d ns becomes %d", ns, got)
		}
	}
	if cell(mostNS+5) != cell(mostNS) || cell(-5) != 0 {
		t.Error("values out of range are not kept at its ends")
	}
}

// TestWindowAgainstOracle compares a window with a list of all values, over minutes with gaps.
func TestWindowAgainstOracle(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var w window
	type value struct{ at, ns int64 }
	var all []value
	now := int64(0)
	for range 20_000 {
		now += rng.Int64N(20e6)
		if rng.IntN(2000) == 0 {
			now += rng.Int64N(200e9)
		}
		v := value{now, rng.Int64N(1 << rng.IntN(40))}
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
		if got.Count != int64(len(kept)) {
			t.Fatalf("at %d: %d values, want %d", now, got.Count, len(kept))
		}
		for permille, got := range map[int64]int64{500: got.P50, 990: got.P99} {
			want := kept[stats.Rank(int64(len(kept)), permille)-1]
			if 125*max(got-want, want-got) > want {
				t.Fatalf("at %d: p%d is %d, want %d", now, permille/10, got, want)
			}
		}
	}
	if got := w.describe(now + 2*windowSteps*stepNS); got.Count != 0 || got.P99 != 0 {
		t.Errorf("long after: %+v", got)
	}
}
