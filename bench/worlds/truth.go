package worlds

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
)

// Metric is a time of a request in ms.
type Metric string

// The metrics.
const (
	TTFT Metric = "ttft"
	TPOT Metric = "tpot"
	E2E  Metric = "e2e"
)

// Of returns a request's time.
func (m Metric) Of(q Request) float64 {
	switch m {
	case TTFT:
		return q.TTFT
	case TPOT:
		return q.TPOT
	}
	return q.E2E
}

// Stat is a number that sums up a metric: a quantile such as 0.95, or one of Mean and Pairs.
type Stat struct {
	Metric Metric
	Of     float64
}

// Mean is the arithmetic mean. Pairs is the median ratio of a request's time in B to its time in A.
const (
	Mean  = -1
	Pairs = -2
)

// Value is the truth of one run: the statistic of all requests of many repetitions of it. What the run drew once stays
// as it is. A quantile is known at whole permilles.
func (w World) Value(seed, run uint64, n int, s Stat) float64 {
	return w.sum(question{seed: seed, n: n, of: side{w.drawn(run), 1}}, s)
}

// Between is the true change between two servers, 0.02 for 2 % more: what a run draws once is averaged away.
func (w World) Between(seed uint64, n int, change float64, s Stat) float64 {
	return w.change(seed, n, side{anyRun, 1}, side{anyRun, change}, s)
}

// Within is the true change from run a to run b, whose server's times are multiplied by change. What the two drew once
// belongs to it.
func (w World) Within(seed, a, b uint64, n int, change float64, s Stat) float64 {
	return w.change(seed, n, side{w.drawn(a), 1}, side{w.drawn(b), change}, s)
}

// anyRun stands for every run: each repetition draws anew what a run draws once.
const anyRun = math.MaxUint64

// drawn is the run, or anyRun where runs draw nothing once.
func (w World) drawn(run uint64) uint64 {
	if len(w.Once) == 0 {
		return anyRun
	}
	return run
}

// repetitions is how many runs make a truth.
const repetitions = 100

// question asks for the times of a run, or for their ratios to those of another.
type question struct {
	world string
	seed  uint64
	n     int
	of    side
	over  side // the other run; zero: none
}

type side struct {
	run    uint64
	change float64
}

// digest sums up many values.
type digest struct {
	mean      float64
	permilles [1001]float64
}

var digests sync.Map // map[Metric]digest by question

func (w World) change(seed uint64, n int, a, b side, s Stat) float64 {
	switch {
	case a == b:
		return 0
	case w.Slots == 0 && a.run == b.run:
		return b.change/a.change - 1
	case s.Of == Pairs:
		return w.sum(question{seed: seed, n: n, of: b, over: a}, Stat{s.Metric, 0.5}) - 1
	}
	return w.sum(question{seed: seed, n: n, of: b}, s)/w.sum(question{seed: seed, n: n, of: a}, s) - 1
}

func (w World) sum(q question, s Stat) float64 {
	q.world = w.Name
	known, ok := digests.Load(q)
	if !ok {
		known = w.answer(q)
		digests.Store(q, known)
	}
	d := known.(map[Metric]digest)[s.Metric]
	if s.Of == Mean {
		return d.mean
	}
	return d.permilles[int(math.Round(1000*s.Of))]
}

func (w World) answer(q question) map[Metric]digest {
	trace := w.Trace(q.seed, q.n)
	values := map[Metric][]float64{}
	for i := range uint64(repetitions) {
		run := w.repeat(trace, q.seed, i, q.of)
		var other []Request
		if q.over != (side{}) {
			other = w.repeat(trace, q.seed, i+repetitions, q.over)
		}
		for j, r := range run {
			if !r.OK || other != nil && !other[j].OK {
				continue
			}
			for _, m := range []Metric{TTFT, TPOT, E2E} {
				v := m.Of(r)
				if other != nil {
					v /= m.Of(other[j])
				}
				values[m] = append(values[m], v)
			}
		}
	}
	out := map[Metric]digest{}
	for m, v := range values {
		out[m] = digestOf(v)
	}
	return out
}

// repeat plays a side again. One repetition has the same noise on every side: so their difference is known well.
func (w World) repeat(trace []Request, seed, repetition uint64, s side) []Request {
	once := s.run
	if once == anyRun {
		once -= 1 + repetition
	}
	return w.play(trace, onceOf(seed, once), rand.New(rand.NewPCG(^seed, repetition)), s.change)
}

func digestOf(values []float64) digest {
	slices.Sort(values)
	var d digest
	for _, v := range values {
		d.mean += v / float64(len(values))
	}
	for i := range d.permilles {
		at := float64(i) / 1000 * float64(len(values)-1)
		low := int(at)
		d.permilles[i] = values[low] + (at-float64(low))*(values[min(low+1, len(values)-1)]-values[low])
	}
	return d
}
