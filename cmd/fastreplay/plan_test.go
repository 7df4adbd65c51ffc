package main

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/sched"
)

func TestPacingPlans(t *testing.T) {
	tr := &trace.Trace{ArrivalNS: []int64{0, 10, 30, 60}}
	for line, want := range map[string]struct {
		instants []int64
		inFlight int // of a closed loop, or the most of an open plan
		words    string
	}{
		"":                                      {[]int64{0, 10, 30, 60}, 0, metrics.TraceTime},
		"--fixed-schedule":                      {[]int64{0, 10, 30, 60}, 0, metrics.TraceTime},
		"--scale 2 --duration 20ns":             {[]int64{0, 5, 15}, 0, metrics.TraceTime},
		"--rate 1000":                           {[]int64{0, 1e6, 2e6, 3e6}, 0, "1,000 requests/s"},
		"--no-fixed-schedule --rate 1000":       {[]int64{0, 1e6, 2e6, 3e6}, 0, "1,000 requests/s"},
		"--rate 8 --arrival poisson --seed 1":   {[]int64{0, 32_772_000, 93_247_000, 123_597_000}, 0, "8.00 requests/s, Poisson"},
		"--rate 8 --arrival gamma:0.5 --seed 1": {[]int64{0, 224_440_000, 311_031_000, 375_669_000}, 0, "8.00 requests/s, gamma of burstiness 0.5"},
		"--ramp 0:2:1s":                         {[]int64{0, 1e9, 15e8, 2e9}, 0, "0.00 to 2.00 requests/s over 1s"},
		"--rate max":                            {[]int64{0, 0, 0, 0}, 0, "all at once"},
		"--fixed-schedule --concurrency 3":      {[]int64{0, 10, 30, 60}, 3, metrics.TraceTime},
		"--scale 1 --concurrency 3":             {[]int64{0, 10, 30, 60}, 3, metrics.TraceTime},
		"--rate 1000 --concurrency 3":           {[]int64{0, 1e6, 2e6, 3e6}, 3, "1,000 requests/s"},
		"--concurrency 3":                       {nil, 3, "closed loop of 3"},
		"--no-fixed-schedule --concurrency 3":   {nil, 3, "closed loop of 3"},
		"--rate max --concurrency 3":            {nil, 3, "closed loop of 3"},
	} {
		o, err := given(t, "trace.jsonl "+line)
		if err != nil {
			t.Errorf("%q: %v", line, err)
			continue
		}
		plan, err := o.Pacing.Plan(tr)
		if err != nil || !slices.Equal(plan.ReleaseNS, want.instants) || max(plan.Concurrency, plan.Cap) != want.inFlight || plan.Open() != (want.instants != nil) {
			t.Errorf("%q: %+v, %v; want %v and %d", line, plan, err, want.instants, want.inFlight)
		}
		expect.Equal(t, o.Pacing.Words(), want.words, line)
	}
}

// TestPacingSummary: results say which process and seed made the plan.
func TestPacingSummary(t *testing.T) {
	half, seven := 0.5, uint64(7)
	for line, want := range map[string]*metrics.Arrival{
		"": nil, "--rate max": nil, "--concurrency 2": nil,
		"--rate 5 --seed 7":                            {Process: "constant", FromPerS: 5, PerS: 5},
		"--rate 5 --seed 7 --arrival poisson":          {Process: "poisson", FromPerS: 5, PerS: 5, Seed: &seven},
		"--ramp 5:50:90s --seed 7 --arrival gamma:0.5": {Process: "gamma", FromPerS: 5, PerS: 50, RampS: 90, Burstiness: &half, Seed: &seven},
	} {
		o := must.Have(given(t, "trace.jsonl "+line))(t)
		if got := o.Pacing.Summary(); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, want %+v", line, got, want)
		}
	}
	o, _ := given(t, "trace.jsonl --ramp 5:50:90s")
	expect.Equal(t, o.Pacing.Arrivals.Rate, (sched.Rate{From: 5, To: 50, Over: 90 * time.Second}), "the ramp")
}
