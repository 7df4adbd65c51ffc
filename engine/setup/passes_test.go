package setup

import (
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/sched"
)

// planned reads a trace and plans it. Its codes are those of the notes.
func planned(t *testing.T, o *Options) (p *Prepared, codes map[string]bool) {
	t.Helper()
	notes := &Notes{Observer: Silent{}}
	p = newPrepared(o, notes)
	must.Do(t, p.read(t.Context()))
	must.Do(t, p.plan(t.Context()))
	codes = map[string]bool{}
	for _, n := range notes.Kept {
		codes[n.Code] = true
	}
	return p, codes
}

// TestPasses: with --until, a trace that ends before --duration begins again, so that there is enough to send however
// fast servers are, and no more than there is time for by the clock.
func TestPasses(t *testing.T) {
	const rows = 100
	options := func(sample string, change func(*Options)) *Options {
		o := Defaults()
		o.Traces = []string{"../../bench/samples/" + sample}
		o.Read.Limit = rows
		o.Limits.Until = "ttft.p50±5%"
		change(&o)
		return &o
	}
	once, _ := planned(t, options("mooncake.jsonl", func(*Options) {}))
	period := time.Duration(once.Trace.PeriodNS())

	p, codes := planned(t, options("mooncake.jsonl", func(o *Options) {
		o.Pacing.Scale = 2
		o.Pacing.Duration = period * 5 / 4
	}))
	if p.Trace.Len() != 3*rows || p.Plan.Requests <= 2*rows || p.Plan.Requests > 3*rows || !codes["until_passes"] {
		t.Errorf("2.5 periods: %d rows, %d requests, notes %v", p.Trace.Len(), p.Plan.Requests, codes)
	}
	p, _ = planned(t, options("mooncake.jsonl", func(o *Options) {
		o.Pacing.Arrivals = &sched.Arrivals{Process: sched.Constant, Rate: sched.Rate{From: 50, To: 50}}
		o.Pacing.Duration = 10 * time.Second
	}))
	if p.Plan.Requests != 500 || p.Trace.Len() != 500 {
		t.Errorf("50/s in 10 s: %d rows, %d requests", p.Trace.Len(), p.Plan.Requests)
	}
	const seconds, lanes = 2, 4
	for _, change := range []func(*Options){
		func(o *Options) { o.Pacing.Concurrency = lanes },
		func(o *Options) { o.Pacing.Lanes, o.Sessions.Mode = lanes, SessionsLanes },
	} {
		p, _ = planned(t, options("weka.jsonl", func(o *Options) {
			change(o)
			o.Pacing.Duration = seconds * time.Second
		}))
		least := 0.0 // s
		for _, output := range p.Trace.OutputTokens {
			least += max(0.001, (0.2+0.01*float64(output-1))/100)
		}
		if least < seconds*lanes || p.passes < 2 {
			t.Errorf("closed: %d passes are over after %g s of %d lanes", p.passes, least/lanes, lanes)
		}
	}
	for name, change := range map[string]func(*Options){
		"no duration": func(*Options) {},
		"no goal":     func(o *Options) { o.Pacing.Duration, o.Limits.Until = 10*period, "" },
		"no time":     func(o *Options) { o.Pacing.Duration = period / 2 },
	} {
		if p, codes := planned(t, options("mooncake.jsonl", change)); p.Trace.Len() != rows || codes["until_passes"] {
			t.Errorf("%s: %d rows, notes %v", name, p.Trace.Len(), codes)
		}
	}
	p, _ = planned(t, options("mooncake.jsonl", func(o *Options) { o.Pacing.Duration, o.Repeat = 10*period, 2 }))
	expect.Equal(t, p.Trace.Len(), 2*rows, "rows repeated twice")
	p, codes = planned(t, options("single_turn.jsonl", func(o *Options) {
		o.Pacing.Arrivals = &sched.Arrivals{Process: sched.Constant, Rate: sched.Rate{From: 50, To: 50}}
		o.Pacing.Duration = time.Hour
	}))
	if p.passes != 0 || !codes["until_verbatim"] {
		t.Errorf("verbatim prompts: %d passes, notes %v", p.passes, codes)
	}
}
