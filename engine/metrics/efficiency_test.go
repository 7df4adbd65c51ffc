package metrics

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/scrape"
)

// TestCostAndEnergy: 3600 an hour is 1 a second, and 500 W are 500 J a second.
func TestCostAndEnergy(t *testing.T) {
	s := Summary{Run: Run{DurationS: 20}, Throughput: Throughput{RequestsPerS: 4, InputTokensPerS: 2000, OutputTokensPerS: 500}, Jobs: &Jobs{Finished: 5}}
	s.setEnergy()
	if s.Energy != nil {
		t.Errorf("energy %+v of no server", s.Energy)
	}
	s.Servers = &Servers{Servers: scrape.Servers{All: scrape.Server{PowerW: &scrape.Gauge{Mean: 500}}}}
	s.Price(3600)
	s.setEnergy()
	text := func(v any) string { b, _ := json.Marshal(v); return string(b) }
	expect.Equal(t, text(s.Cost), `{"price_per_hour":3600,"total":20,"per_1m_input_tokens":500,"per_1m_output_tokens":2000,"per_1m_tokens":400,"per_request":0.25,"per_job":4}`, "cost")
	expect.Equal(t, text(s.Energy), `{"joules":10000,"j_per_token":0.2,"j_per_output_token":1,"j_per_request":125,"j_per_job":2000}`, "energy")
	s.ByGPU(8)
	expect.Equal(t, text(s.PerGPU), `{"gpus":8,"requests_per_s":0.5,"input_tokens_per_s":250,"output_tokens_per_s":62.5}`, "of a GPU")
	s.Servers.All.GPUs = 4
	s.setEnergy()
	if s.ByGPU(0); s.PerGPU.GPUs != 4 || s.PerGPU.OutputTokensPerS != 125 {
		t.Errorf("%+v, want that of the 4 GPUs that report their power", s.PerGPU)
	}
	s.Throughput, s.Jobs = Throughput{}, &Jobs{}
	if s.Price(1); s.Cost.PerJob != nil || s.Cost.PerRequest != nil || s.Cost.PerMTokens != nil {
		t.Errorf("nothing came, and cost %s", fmt.Sprint(text(s.Cost)))
	}
}

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
		s := collect(all, urls(1)).Summary(Summary{Run: Run{DurationS: 50}, Turns: &Turns{Sessions: "lanes=7"}}, Probed{})
		got := s.Interactivity
		if len(speeds) == 0 {
			if got != nil {
				t.Errorf("seed %d: %+v of nothing", seed, got)
			}
			continue
		}
		for _, c := range [][2]float64{{got.P75, least(0.75)}, {got.P90, least(0.9)}, {got.Users, 7}, {*got.PerUser, s.Throughput.OutputTokensPerS / 7}} {
			if math.Abs(c[0]-c[1]) > 1e-5*c[1] {
				t.Errorf("seed %d: %g, want %g, in %+v", seed, c[0], c[1], got)
			}
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
			s.Run.Concurrency, s.Turns = slots, nil
			if s.setInteractivity(); s.Interactivity.Users != users {
				t.Errorf("seed %d: %g users, want %g", seed, s.Interactivity.Users, users)
			}
		}
	}
}
