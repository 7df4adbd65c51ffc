package worlds

import (
	"math"
	"math/rand/v2"
	"sync"
)

// Deployment is a world whose trace is replayed faster and faster, until it no longer keeps an objective.
type Deployment struct {
	World
	Requests int // of the trace
}

// Objective is kept if a share of all requests ends well, within a bound in ms.
type Objective struct {
	Metric Metric
	Share  float64
	Bound  float64
}

// FirstToken is the objective of most questions: a p95 of the TTFT below 1 s.
var FirstToken = Objective{TTFT, 0.95, 1000}

// Scope is what a largest load is about.
type Scope struct {
	Fresh   bool    // other traffic like the trace, not this very trace
	Busiest float64 // only the requests of the busiest so many seconds of trace time count; 0: all
}

// Trace returns the trace of a seed. Its requests hold the times that a lone request would take.
func (d Deployment) Trace(seed uint64) []Request { return d.trace(seed, d.Requests) }

// Serve replays a part of the trace at a load: 2 lets all arrive twice as fast. Times count from the part's first
// arrival. The probe fixes the noise.
func (d Deployment) Serve(part []Request, load float64, seed, probe uint64) []Request {
	out := make([]Request, len(part))
	for i, q := range part {
		out[i] = q
		out[i].At = (q.At - part[0].At) / load
	}
	return d.play(out, onceOf(seed, probe), rand.New(rand.NewPCG(seed, probe<<1)), 1)
}

// Carries is the truth: the largest load at which all replays of the whole trace, taken together, keep the objective.
func (d Deployment) Carries(o Objective, seed uint64, s Scope) float64 {
	type key struct {
		world string
		o     Objective
		seed  uint64
		s     Scope
	}
	k := key{d.Name, o, seed, s}
	if s.Fresh {
		k.seed = 0
	}
	if known, ok := loads.Load(k); ok {
		return known.(float64)
	}
	low, high := 1.0/16, 16.0
	for high/low > 1.003 {
		middle := math.Sqrt(low * high)
		if d.Kept(o, k.seed, s, middle) >= o.Share {
			low = middle
		} else {
			high = middle
		}
	}
	loads.Store(k, low)
	return low
}

var loads sync.Map // float64 by what Carries was asked

// Kept is the share of requests within the objective's bound at a load, over many replays of the whole trace.
func (d Deployment) Kept(o Objective, seed uint64, s Scope, load float64) float64 {
	replays := max(8, 60_000/d.Requests)
	if s.Fresh {
		replays *= 4
	}
	if len(d.Once) > 0 {
		replays = max(replays, 64)
	}
	var kept, of float64
	trace := d.Trace(seed)
	for i := range uint64(replays) {
		if s.Fresh {
			trace = d.Trace(fresh + i)
		}
		from, to := Busiest(trace, s.Busiest)
		for _, q := range d.Serve(trace, load, ^seed, i)[from:to] {
			of++
			if q.OK && o.Metric.Of(q) <= o.Bound {
				kept++
			}
		}
	}
	return kept / of
}

// fresh is the first seed of traffic that no experiment replays.
const fresh = 1 << 40

// Busiest returns which requests arrive in the so many seconds in which most arrive; of 0 seconds, all.
func Busiest(trace []Request, seconds float64) (from, to int) {
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

// Deployments returns the worlds of a largest load. All arrive 2 a second on average; 8 slots carry about 4.
func Deployments() []Deployment {
	steady := World{
		Slots: 8, Noise: []Effect{LogNormal(0.1)},
		Rate:   func(float64) float64 { return 2 },
		Answer: func(r *rand.Rand) float64 { return r.ExpFloat64() },
	}
	wave := func(depth, period float64) func(at float64) float64 {
		return func(at float64) float64 { return 2 - 2*depth*math.Cos(2*math.Pi*at/period) }
	}
	of := func(name, about string, requests int, change func(w *World)) Deployment {
		w := steady
		w.Name, w.About = name, about
		change(&w)
		return Deployment{w, requests}
	}
	return []Deployment{
		of("stationary", "M/M/8 for an hour", 7200, func(*World) {}),
		of("short", "M/M/8 for 150 s", 300, func(*World) {}),
		of("day", "2 h, 0.4 times the mean at first, then 1.6", 14400, func(w *World) { w.Rate = wave(0.6, 7200) }),
		of("bursts", "half the mean and 1.5 times, every 5 min", 7200, func(w *World) {
			w.Rate = func(at float64) float64 { return 1 + 2*math.Round(math.Mod(at/300, 1)) }
		}),
		of("probes", "each probe is 5 % off", 7200, func(w *World) { w.Once = []Effect{WholeRun(0.05)} }),
		of("cold", "half as long again for 2 min", 7200, func(w *World) { w.Noise = append(w.Noise, Cold(120, 1.5)) }),
		of("prefix cache", "conversations of 10 turns are forgotten after 10 s", 7200, func(w *World) {
			w.Turns, w.Noise = 10, append(w.Noise, Forget(10))
		}),
		of("collapse", "slower by 60 % from 16 waiting until 2 wait", 7200, func(w *World) {
			w.Rules = []Rule{Collapse(16, 2, 1.6)}
		}),
		of("autoscaling", "6 slots, 12 a minute after 4 wait", 7200, func(w *World) {
			w.Slots, w.Rules = 6, []Rule{Grow(4, 6, 60)}
		}),
		of("heavy tails", "answers whose tail falls as x^-1.8", 7200, func(w *World) {
			w.Answer = func(r *rand.Rand) float64 { return 0.8 / 1.8 * math.Pow(1-r.Float64(), -1/1.8) }
		}),
		of("pauses", "a stop of 10 s every 5 min", 7200, func(w *World) { w.Noise = append(w.Noise, Stalls(300, 10)) }),
		of("timer", "60 more within 1 s, every 10 min", 7200, func(w *World) {
			w.Rate = func(at float64) float64 {
				if math.Mod(at+300, 600) < 1 {
					return 62
				}
				return 1.9
			}
		}),
		of("gc", "a stop of 500 ms every 10 s", 7200, func(w *World) { w.Noise = append(w.Noise, Stalls(10, 0.5)) }),
		of("cron", "half as long again in the last 5 s of each minute", 7200, func(w *World) {
			w.Noise = append(w.Noise, Cron(60, 5, 1.5))
		}),
		of("restart", "10 s of failures every 15 min, half as long again for 1 min", 7200, func(w *World) {
			w.Noise = append(w.Noise, Restarts(900, 10, 60, 1.5))
		}),
		of("warm cache", "a TTFT of three times that falls within 2 min", 7200, func(w *World) {
			w.Noise = append(w.Noise, Warms(120, 3))
		}),
		of("starved", "the client stops for 2 s every minute", 7200, func(w *World) {
			w.Noise = append(w.Noise, Starve(60, 2))
		}),
		of("leak", "slower by 1 % every minute", 7200, func(w *World) { w.Noise = append(w.Noise, Leak(0.01)) }),
		of("limit", "who finds 3 waiting is refused", 7200, func(w *World) { w.Rules = []Rule{Refuse(3)} }),
	}
}
