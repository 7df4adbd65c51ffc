// Package worlds simulates runs of known truth, in which a conclusion about latencies could lie.
//
// It shares no code with what it judges: it imports the standard library alone.
//
// A World composes three parts: a trace, what a run draws once, and what it draws all along.
// The seed fixes the trace: arrivals, conversations and sizes. The run's number fixes all that this run draws.
package worlds

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Request is one request of a run. Times of a failed request are 0.
type Request struct {
	At                     float64 // arrival in seconds from the run's begin
	Conversation, Turn     int     // from 0
	OK                     bool
	TTFT, TPOT, E2E        float64 // ms; TTFT includes waiting
	Prompt, Cached, Output int     // tokens; Prompt includes Cached
}

// World makes runs. Two runs of one seed replay one trace.
type World struct {
	Name string

	Pass   int                        // the trace is so many requests, and then begins again with other content; 0: all
	Turns  int                        // of each conversation; 0 and 1: a request is a conversation of its own
	Answer func(r *rand.Rand) float64 // length of an answer, on average about 1; nil: log-normal
	Rate   func(at float64) float64   // arrivals a second; nil: 20
	Slots  int                        // requests served at once; 0: as many as come
	Busy   float64                    // share of the slots that is busy on average, which sets the rate; 0: any

	Once  []Effect // drawn once a run: they are known in the truth within runs
	Noise []Effect // drawn all along: they are averaged away in every truth
	Rules []Rule   // what a long queue does
}

// Run returns run number run of n requests on a server whose times are multiplied by change: 1.02 is 2 % slower.
func (w World) Run(seed, run uint64, n int, change float64) []Request {
	return w.Replay(w.Trace(seed, n), seed, run, change)
}

// Replay is Run for a trace of any kind, such as a part of another or one whose requests arrive faster.
func (w World) Replay(trace []Request, seed, run uint64, change float64) []Request {
	return w.play(trace, onceOf(seed, run), rand.New(rand.NewPCG(seed, run<<1)), change)
}

// Kept is the world whose state is drawn once a run: all but the noise of single requests, which is the first.
func (w World) Kept() World {
	w.Once = slices.Concat(w.Once, w.Noise[1:])
	w.Noise = w.Noise[:1]
	return w
}

// Again is a run with what another run drew once, and other noise.
func (w World) Again(seed, run, noise uint64, n int) []Request {
	return w.play(w.Trace(seed, n), onceOf(seed, run), rand.New(rand.NewPCG(^seed, noise)), 1)
}

// onceOf draws what run number run draws once.
func onceOf(seed, run uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, run<<1|1)) }

// play replays a trace on a server.
func (w World) play(trace []Request, once, noise *rand.Rand, change float64) []Request {
	out := slices.Clone(trace)
	for _, effect := range w.Once {
		effect(once, out)
	}
	for _, effect := range w.Noise {
		effect(noise, out)
	}
	queue := Queue{free: make([]float64, w.Slots)}
	for i := range out {
		q := &out[i]
		q.TTFT *= change
		q.TPOT *= change
		if w.Slots > 0 {
			queue.serve(q, w.Rules)
		} else {
			q.finish(0)
		}
		if !q.OK {
			q.TTFT = 0
			q.TPOT = 0
			q.E2E = 0
		}
	}
	return out
}

// finish adds the wait to the times of a request that is served at once, and sums them.
func (q *Request) finish(wait float64) {
	q.TTFT += wait
	q.E2E = q.TTFT + q.TPOT*float64(q.Output-1)
}

// perToken is how many ms a token of the prompt takes that is not cached.
const perToken = 0.1

// Trace returns the requests with the times that a lone request would take.
func (w World) Trace(seed uint64, n int) []Request {
	if w.Pass == 0 || n <= w.Pass {
		return w.pass(seed, n)
	}
	pass := w.pass(seed, w.Pass)
	last := pass[w.Pass-1].At
	period := last + last/float64(w.Pass-1)
	out := make([]Request, n)
	for i := range out {
		out[i] = pass[i%w.Pass]
		out[i].At += float64(i/w.Pass) * period
		out[i].Conversation += i / w.Pass * n
	}
	return out
}

// pass returns them of one pass of the trace.
func (w World) pass(seed uint64, n int) []Request {
	r := rand.New(rand.NewPCG(seed, math.MaxUint64))
	turns := max(1, w.Turns)
	open := make([]Request, max(1, min(20, n/turns))) // each conversation's latest turn
	for i := range open {
		open[i] = Request{Conversation: i, Turn: -1}
	}
	rate := w.Rate
	answer := w.Answer
	if rate == nil {
		rate = func(float64) float64 { return 20 }
	}
	if answer == nil {
		answer = func(r *rand.Rand) float64 { return math.Exp(0.6 * r.NormFloat64()) }
	}
	begun := len(open)
	at := 0.0
	service := 0.0
	out := make([]Request, n)
	for i := range out {
		last := &open[r.IntN(len(open))]
		if last.Turn+1 == turns {
			*last = Request{Conversation: begun, Turn: -1}
			begun++
		}
		at += r.ExpFloat64() / rate(at)
		q := Request{At: at, Conversation: last.Conversation, Turn: last.Turn + 1, OK: true}
		q.Cached = last.Prompt + last.Output
		q.Prompt = q.Cached + 1 + int(500*math.Exp(0.6*r.NormFloat64()))
		q.Output = 2 + int(80*answer(r))
		q.TTFT = 50 + perToken*float64(q.Prompt-q.Cached)
		q.TPOT = 20
		service += q.TTFT + q.TPOT*float64(q.Output-1)
		out[i] = q
		*last = q
	}
	if w.Busy > 0 {
		slower := service / 1000 / at / float64(w.Slots) / w.Busy
		for i := range out {
			out[i].At *= slower
		}
	}
	return out
}
