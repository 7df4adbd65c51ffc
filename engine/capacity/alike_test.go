package capacity

import (
	"math/rand/v2"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// TestFailuresAtTheEnd: if as many requests fail as are allowed, alone or together in bursts, a window ends as breaking in
// at most 5 % of the tries. If ten times as many fail, each alone, it does in nearly all.
func TestFailuresAtTheEnd(t *testing.T) {
	objectives := objectivesOf(t, "ttft.p95<1s ok>=99%")
	const tries = 500
	for _, w := range []struct {
		perS        float64 // requests
		share       float64 // that fail
		burst       int     // slices that a burst of failures lasts; 0 = each fails alone
		least, most int     // tries that break
	}{
		{perS: 60, share: 0.01, most: 25},
		{perS: 16, share: 0.01, most: 25},
		{perS: 60, share: 0.01, burst: 1, most: 25},
		{perS: 60, share: 0.01, burst: 5, most: 25},
		{perS: 60, share: 0.01, burst: 20, most: 25},
		{perS: 16, share: 0.01, burst: 3, most: 25},
		{perS: 60, share: 0.1, least: 490, most: tries},
		{perS: 30, share: 0.1, least: 400, most: tries},
	} {
		rng := rand.New(rand.NewPCG(7, 7))
		broke := 0
		for range tries {
			s := must.Have(New(Config{Objectives: objectives, WindowS: 6, Least: 1}))(t)
			all := make([]Slice, 60)
			left := 0 // of a burst
			for i := range all {
				if w.burst > 0 && left == 0 && rng.Float64() < w.share/float64(w.burst) {
					left = w.burst
				}
				failed := int64(0)
				for at := rng.ExpFloat64() / w.perS; at < 0.1; at += rng.ExpFloat64() / w.perS {
					all[i].Requests++
					if left > 0 || w.burst == 0 && rng.Float64() < w.share {
						failed++
					}
				}
				all[i].InFlight = 2
				all[i].Beyond = []int64{failed, failed}
				left = max(0, left-1)
			}
			d := s.Peek(Probe{Number: 1, Load: 1}, Peek{SliceS: 0.1, WindowS: 6, Slices: all, Ended: true})
			if d.Verdict == Breaks {
				broke++
				expect.Contains(t, d.Why, "beyond ok>=99%", "failures are blamed on a latency")
			}
		}
		if broke < w.least || broke > w.most {
			t.Errorf("%+v: %d of %d break", w, broke, tries)
		}
	}
}
