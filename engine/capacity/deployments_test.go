package capacity

import (
	"math"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/worlds"
)

// deployment is a world whose trace is replayed faster and faster, until it no longer keeps an objective.
type deployment struct {
	worlds.World
	Requests int // of the trace
}

// bounded is an objective, which is kept if a share of all requests ends well, within a bound in ms.
type bounded struct {
	metric worlds.Metric
	share  float64
	most   float64
}

// firstToken is the objective of most questions: a p95 of the TTFT below 1 s.
var firstToken = bounded{worlds.TTFT, 0.95, 1000}

// extent is what a largest load is about.
type extent struct {
	fresh   bool    // other traffic like the trace, not this very trace
	busiest float64 // only the requests of the busiest so many seconds of trace time count; 0: all
}

// Trace returns the trace of a seed. Its requests hold the times that a lone request would take.
func (d deployment) Trace(seed uint64) []worlds.Request { return d.World.Trace(seed, d.Requests) }

// serve replays a part of the trace at a load: 2 lets all arrive twice as fast. Times count from the part's first
// arrival. The probe fixes the noise.
func (d deployment) serve(part []worlds.Request, load float64, seed, probe uint64) []worlds.Request {
	out := make([]worlds.Request, len(part))
	for i, q := range part {
		out[i] = q
		out[i].At = (q.At - part[0].At) / load
	}
	return d.Replay(out, seed, probe, 1)
}

// carries is the truth: the largest load at which all replays of the whole trace, taken together, keep the objective.
func (d deployment) carries(o bounded, seed uint64, s extent) float64 {
	type key struct {
		world string
		o     bounded
		seed  uint64
		s     extent
	}
	k := key{d.Name, o, seed, s}
	if s.fresh {
		k.seed = 0
	}
	if known, ok := loads.Load(k); ok {
		return known.(float64)
	}
	low, high := 1.0/16, 16.0
	for high/low > 1.003 {
		middle := math.Sqrt(low * high)
		if d.kept(o, k.seed, s, middle) >= o.share {
			low = middle
		} else {
			high = middle
		}
	}
	loads.Store(k, low)
	return low
}

var loads sync.Map // float64 by what carries was asked

// kept is the share of requests within the objective's bound at a load, over many replays of the whole trace.
func (d deployment) kept(o bounded, seed uint64, s extent, load float64) float64 {
	replays := max(8, 60_000/d.Requests)
	if s.fresh {
		replays *= 4
	}
	if len(d.Once) > 0 {
		replays = max(replays, 64)
	}
	var kept, of float64
	trace := d.Trace(seed)
	for i := range uint64(replays) {
		if s.fresh {
			trace = d.Trace(fresh + i)
		}
		from, to := busiestOf(trace, s.busiest)
		for _, q := range d.serve(trace, load, ^seed, i)[from:to] {
			of++
			if q.OK && o.metric.Of(q) <= o.most {
				kept++
			}
		}
	}
	return kept / of
}

// fresh is the first seed of traffic that no experiment replays.
const fresh = 1 << 40

// busiestOf returns which requests arrive in the so many seconds in which most arrive; of 0 seconds, all.
func busiestOf(trace []worlds.Request, seconds float64) (from, to int) {
	if seconds == 0 {
		return 0, len(trace)
	}
	first := 0
	for i := range trace {
		for trace[i].At-trace[first].At > seconds {
			first++
		}
		if i+1-first > to-from {
			from, to = first, i+1
		}
	}
	return from, to
}

// deployments are the worlds of a largest load. All arrive 2 a second on average; 8 slots carry about 4.
func deployments() []deployment {
	steady := worlds.World{
		Slots: 8, Noise: []worlds.Effect{worlds.LogNormal(0.1)},
		Rate:   func(float64) float64 { return 2 },
		Answer: func(r *rand.Rand) float64 { return r.ExpFloat64() },
	}
	wave := func(depth, period float64) func(at float64) float64 {
		return func(at float64) float64 { return 2 - 2*depth*math.Cos(2*math.Pi*at/period) }
	}
	of := func(name string, requests int, change func(w *worlds.World)) deployment {
		w := steady
		w.Name = name
		change(&w)
		return deployment{w, requests}
	}
	return []deployment{
		of("stationary", 7200, func(*worlds.World) {}),                       // M/M/8 for an hour
		of("short", 300, func(*worlds.World) {}),                             // M/M/8 for 150 s
		of("day", 14400, func(w *worlds.World) { w.Rate = wave(0.6, 7200) }), // 2 h, 0.4 times the mean at first, then 1.6
		// half the mean and 1.5 times, every 5 min
		of("bursts", 7200, func(w *worlds.World) {
			w.Rate = func(at float64) float64 { return 1 + 2*math.Round(math.Mod(at/300, 1)) }
		}),
		of("probes", 7200, func(w *worlds.World) { w.Once = []worlds.Effect{worlds.WholeRun(0.05)} }), // each probe is 5 % off
		of("cold", 7200, func(w *worlds.World) { w.Noise = append(w.Noise, worlds.Cold(120, 1.5)) }),  // half as long again for 2 min
		// conversations of 10 turns are forgotten after 10 s
		of("prefix cache", 7200, func(w *worlds.World) {
			w.Turns, w.Noise = 10, append(w.Noise, worlds.Forget(10))
		}),
		// slower by 60 % from 16 waiting until 2 wait
		of("collapse", 7200, func(w *worlds.World) {
			w.Rules = []worlds.Rule{worlds.Collapse(16, 2, 1.6)}
		}),
		// 6 slots, 12 a minute after 4 wait
		of("autoscaling", 7200, func(w *worlds.World) {
			w.Slots, w.Rules = 6, []worlds.Rule{worlds.Grow(4, 6, 60)}
		}),
		// answers whose tail falls as x^-1.8
		of("heavy tails", 7200, func(w *worlds.World) {
			w.Answer = func(r *rand.Rand) float64 { return 0.8 / 1.8 * math.Pow(1-r.Float64(), -1/1.8) }
		}),
		of("pauses", 7200, func(w *worlds.World) { w.Noise = append(w.Noise, worlds.Stalls(300, 10)) }), // a stop of 10 s every 5 min
		// 60 more within 1 s, every 10 min
		of("timer", 7200, func(w *worlds.World) {
			w.Rate = func(at float64) float64 {
				if math.Mod(at+300, 600) < 1 {
					return 62
				}
				return 1.9
			}
		}),
		of("gc", 7200, func(w *worlds.World) { w.Noise = append(w.Noise, worlds.Stalls(10, 0.5)) }), // a stop of 500 ms every 10 s
		// half as long again in the last 5 s of each minute
		of("cron", 7200, func(w *worlds.World) {
			w.Noise = append(w.Noise, worlds.Cron(60, 5, 1.5))
		}),
		// 10 s of failures every 15 min, half as long again for 1 min
		of("restart", 7200, func(w *worlds.World) {
			w.Noise = append(w.Noise, worlds.Restarts(900, 10, 60, 1.5))
		}),
		// a TTFT of three times that falls within 2 min
		of("warm cache", 7200, func(w *worlds.World) {
			w.Noise = append(w.Noise, worlds.Warms(120, 3))
		}),
		// the client stops for 2 s every minute
		of("starved", 7200, func(w *worlds.World) {
			w.Noise = append(w.Noise, worlds.Starve(60, 2))
		}),
		of("leak", 7200, func(w *worlds.World) { w.Noise = append(w.Noise, worlds.Leak(0.01)) }), // slower by 1 % every minute
		of("limit", 7200, func(w *worlds.World) { w.Rules = []worlds.Rule{worlds.Refuse(3)} }),   // who finds 3 waiting is refused
	}
}

// TestErlang: before eight slots with exponential services, as many wait as Erlang says, and as long.
func TestErlang(t *testing.T) {
	const slots, rate, seconds = 8, 2.0, 3.2
	d := deployment{worlds.World{
		Slots: slots, Rate: func(float64) float64 { return rate },
		Noise: []worlds.Effect{func(r *rand.Rand, run []worlds.Request) {
			for i := range run {
				run[i].TTFT, run[i].TPOT = 0, 1000*seconds*r.ExpFloat64()/float64(run[i].Output-1)
			}
		}},
	}, 400_000}
	offered, term, sum := rate*seconds, 1.0, 0.0
	for k := range slots {
		sum += term
		term *= offered / float64(k+1)
	}
	waits := term / (1 - offered/slots) / (sum + term/(1-offered/slots))
	var waited, ms float64
	for _, q := range d.serve(d.Trace(1), 1, 1, 0) {
		ms += q.TTFT / float64(d.Requests)
		if q.TTFT > 0 {
			waited += 1 / float64(d.Requests)
		}
	}
	expect.Near(t, waited/waits, 1, 0.03, "%.3f of the requests waited, want %.3f", waited, waits)
	if want := 1000 * waits * seconds / (slots - offered); math.Abs(ms/want-1) > 0.05 {
		t.Errorf("mean wait %.0f ms, want %.0f ms", ms, want)
	}
}

// TestServe: a probe is fixed by its numbers, and load presses its arrivals together.
func TestServe(t *testing.T) {
	for _, d := range deployments() {
		part := d.Trace(3)[100:200]
		a, again, b := d.serve(part, 2, 3, 0), d.serve(part, 2, 3, 0), d.serve(part, 2, 3, 1)
		if !reflect.DeepEqual(a, again) || reflect.DeepEqual(a, b) {
			t.Errorf("%s: a probe must equal itself, not another", d.Name)
		}
		if want := (part[99].At - part[0].At) / 2; a[0].At != 0 || math.Abs(a[99].At-want) > 1e-9 {
			t.Errorf("%s: arrivals from %v to %v s, want from 0 to %v s", d.Name, a[0].At, a[99].At, want)
		}
	}
}

// TestCarries: at the largest load the objective is just kept, and a slower server carries that much less.
func TestCarries(t *testing.T) {
	d := deployments()[1]
	load := d.carries(firstToken, 1, extent{})
	below, above := d.kept(firstToken, 1, extent{}, load/1.05), d.kept(firstToken, 1, extent{}, load*1.05)
	if below < 0.95 || above >= 0.95 {
		t.Errorf("a share of %.4f is kept below %.3f, of %.4f above; want 0.95 in between", below, load, above)
	}
	lone := deployment{worlds.World{Name: "lone", Slots: 1, Rate: func(float64) float64 { return 0.2 }}, 200}
	patient := bounded{worlds.E2E, 0.5, 4000}
	slow := lone
	slow.Name, slow.Noise = "slow", []worlds.Effect{worlds.Drift(1), worlds.Step(0, 2)}
	twice := bounded{worlds.E2E, 0.5, 8000}
	if a, b := lone.carries(patient, 1, extent{}), slow.carries(twice, 1, extent{}); math.Abs(a/b/2-1) > 0.01 {
		t.Errorf("with all times doubled, the load falls from %.3f to %.3f, want half", a, b)
	}
}

// TestBusiest: a day has its peak in the middle, and there 1.6 times as many arrive as on average.
func TestBusiest(t *testing.T) {
	trace := deployments()[2].Trace(1)
	from, to := busiestOf(trace, 600)
	if at := trace[from].At; at < 2400 || at > 4200 {
		t.Errorf("the busiest 10 min begin at %.0f s, want about 3300 s", at)
	}
	if got := float64(to-from) / 600; got < 3 || got > 3.5 {
		t.Errorf("%.2f arrivals a second at the peak, want about 3.2", got)
	}
	if from, to := busiestOf(trace, 0); from != 0 || to != len(trace) {
		t.Errorf("of 0 seconds: got %d to %d, want all", from, to)
	}
}
