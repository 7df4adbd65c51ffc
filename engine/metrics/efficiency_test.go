package metrics

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/engine/scrape"
)

// TestCostAndEnergy: 3600 an hour is 1 a second, and 500 W are 500 J a second.
func TestCostAndEnergy(t *testing.T) {
	s := Summary{Run: Run{DurationS: 20}, Throughput: Throughput{RequestsPerS: 4, InputTokensPerS: 2000, OutputTokensPerS: 500}, Jobs: &Jobs{Finished: 5}}
	s.SetOfGPUs()
	if s.Energy != nil {
		t.Errorf("energy %+v of no server", s.Energy)
	}
	s.Servers = &Servers{Servers: scrape.Servers{All: scrape.Server{PowerW: &scrape.Gauge{Mean: 500}}}}
	s.Price(3600)
	s.SetOfGPUs()
	text := func(v any) string { b, _ := json.Marshal(v); return string(b) }
	expect.Equal(t, text(s.Cost), `{"price_per_hour":3600,"total":20,"per_1m_input_tokens":500,"per_1m_output_tokens":2000,"per_1m_tokens":400,"per_request":0.25,"per_job":4}`, "cost")
	expect.Equal(t, text(s.Energy), `{"joules":10000,"j_per_token":0.2,"j_per_output_token":1,"j_per_request":125,"j_per_job":2000}`, "energy")
	s.ByGPU(8)
	expect.Equal(t, text(s.PerGPU), `{"gpus":8,"requests_per_s":0.5,"input_tokens_per_s":250,"output_tokens_per_s":62.5}`, "of a GPU")
	s.Servers.All.GPUs = 4
	s.SetOfGPUs()
	if s.ByGPU(0); s.PerGPU.GPUs != 4 || s.PerGPU.OutputTokensPerS != 125 {
		t.Errorf("%+v, want that of the 4 GPUs that report their power", s.PerGPU)
	}
	s.Throughput, s.Jobs = Throughput{}, &Jobs{}
	if s.Price(1); s.Cost.PerJob != nil || s.Cost.PerRequest != nil || s.Cost.PerMTokens != nil {
		t.Errorf("nothing came, and cost %s", fmt.Sprint(text(s.Cost)))
	}
}
