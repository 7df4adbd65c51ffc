package collect

import (
	"math/rand/v2"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// TestInteractivity: as many tokens/s as most requests had at least, by a search that knows no percentiles of times. Failed
// requests, answers without tokens and what prepares do not count; whether a load is one or comes in parts does not matter.
func TestInteractivity(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 31))
		all := workload(seed, 3+rng.IntN(400), 1)
		var speeds []float64
		for i := range all {
			r := &all[i].r
			r.Phase = []record.Phase{record.Profiled, record.Profiled, record.Primer, record.Warmup}[rng.IntN(4)]
			if rng.IntN(9) == 0 {
				r.CompletionTokens = []int64{0, record.None}[rng.IntN(2)]
			}
			if r.Phase == record.Profiled && r.Outcome == record.OK && r.CompletionTokens > 0 {
				speeds = append(speeds, float64(r.CompletionTokens)/(float64(r.LastTokenNS-r.SentNS)/1e9))
			}
		}
		// the fastest speed that so many requests had
		least := func(share float64) (most float64) {
			for _, v := range speeds {
				n := 0
				for _, o := range speeds {
					n += int(btoi(o >= v))
				}
				if float64(n) >= share*float64(len(speeds))-1e-9 {
					most = max(most, v)
				}
			}
			return most
		}
		s := collect(all, urls(1)).Summary(metrics.Summary{Run: metrics.Run{DurationS: 50, Lanes: 7}}, Probed{})
		got := s.Interactivity
		if len(speeds) == 0 {
			if got != nil {
				t.Errorf("seed %d: %+v of nothing", seed, got)
			}
			continue
		}
		for _, c := range [][2]float64{{got.P75, least(0.75)}, {got.P90, least(0.9)}, {got.Users, 7}, {*got.PerUser, s.Throughput.OutputTokensPerS / 7}} {
			expect.Near(t, c[0], c[1], 1e-5*c[1], "seed %d: %+v", seed, got)
		}
		for _, in := range []struct {
			of95  *[2]float64
			value float64
		}{{got.P75Interval, got.P75}, {got.P90Interval, got.P90}} {
			if in.of95 != nil && !(in.of95[0] <= in.value && in.value <= in.of95[1]) {
				t.Errorf("seed %d: %g is not in %v", seed, in.value, *in.of95)
			}
		}
		for users, slots := range map[float64]int64{3: 3, *s.InFlight: 0} {
			s.Run.Concurrency, s.Run.Lanes = slots, 0
			if s.SetInteractivity(); s.Interactivity.Users != users {
				t.Errorf("seed %d: %g users, want %g", seed, s.Interactivity.Users, users)
			}
		}
	}
}
