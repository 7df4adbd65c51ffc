package engine

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/sched"
)

// conversations gives most of n requests an earlier one to follow, some of them the same one.
func conversations(n int) []int32 {
	rng := rand.New(rand.NewPCG(3, 4))
	after := make([]int32, n)
	for i := range after {
		after[i] = trace.NoTurn
		if i > 5 && rng.IntN(4) > 0 {
			after[i] = int32(i - 1 - rng.IntN(5))
		}
	}
	return after
}

// turnsAfter makes each request wait for the end of one before it, and then for the time to think, if there is one.
func turnsAfter(after []int32, think []int64) *sched.Dependencies {
	turns := &sched.Dependencies{Think: think != nil}
	for i, before := range after {
		switch {
		case before == trace.NoTurn:
			turns.Add()
		case think == nil:
			turns.Add(sched.Dependency{On: before})
		default:
			turns.Add(sched.Dependency{On: before, DelayNS: think[i]})
		}
	}
	return turns
}

// following plans turns that wait for each other, 50 µs apart or in a closed loop. end is when the plan ends; 0 = it
// does not.
func following(turns *sched.Dependencies, concurrency int, end time.Duration) func([]int64) (sched.Plan, error) {
	return func(arrivals []int64) (sched.Plan, error) {
		plan, err := sched.FromTrace(arrivals, 10, end)
		if concurrency > 0 {
			plan, err = sched.Closed(len(arrivals), concurrency, end)
		}
		if err != nil {
			return plan, err
		}
		return plan.Following(turns)
	}
}

// capped plans equal gaps with at most inFlight requests at once.
func capped(inFlight int, scale float64) func([]int64) (sched.Plan, error) {
	return func(a []int64) (sched.Plan, error) {
		p, err := sched.FromTrace(a, scale, 0)
		if err != nil {
			return p, err
		}
		return p.Capped(inFlight)
	}
}

func byRow(records []*record.Record) map[int64]*record.Record {
	rows := map[int64]*record.Record{}
	for _, r := range records {
		rows[r.Row] = r
	}
	return rows
}

// TestTurnsWait: without jobs, in trace time and in a closed loop, with and without time to think, each turn leaves at
// the very instant that those which it waits for, its own instant and a free slot allow.
func TestTurnsWait(t *testing.T) {
	const n = 100
	for seed := range graphs(200) {
		rng := rand.New(rand.NewPCG(seed, 33))
		think, slots := rng.IntN(2) == 0, rng.IntN(8) // 0 = in trace time
		delays, own := make([]int64, n), make([]int64, n)
		l := &lanesLoad{took: make([]int64, n), refused: make([]bool, n), seenNS: make([]int64, n)}
		for i := range n {
			delays[i], own[i] = rng.Int64N(3e9), int64(i)*1e9
			l.took[i] = 1 + rng.Int64N(4e9)
		}
		if !think {
			delays = nil
		}
		d := turnsAfter(conversations(n), delays)
		plan := must.Have(sched.FromTrace(own, 1, 0))(t)
		if slots > 0 {
			plan = must.Have(sched.Closed(n, slots, 0))(t)
		}
		l.plan = must.Have(plan.Following(d))(t)
		got := l.drive(t)
		inFlight := func(at int64) (n int) {
			for k, from := range got.released {
				n += number(from <= at && got.ended[k] > at)
			}
			return n
		}
		for i, at := range got.released {
			earliest := int64(0)
			for _, w := range d.Of(int32(i)) {
				earliest = max(earliest, got.ended[w.On]+w.DelayNS)
			}
			switch {
			case slots == 0 && (!think || len(d.Of(int32(i))) == 0):
				must.Equal(t, at, max(earliest, own[i]), "seed %d: turn %d in trace time", seed, i)
			case slots == 0 || at == earliest:
				must.Equal(t, at, earliest, "seed %d: turn %d", seed, i)
			default:
				must.Equal(t, inFlight(at-1), slots, "seed %d: in flight while turn %d could have left at %d: %d", seed, i, earliest, at)
			}
			must.Equal(t, at >= earliest && (slots == 0 || inFlight(at) <= slots), true, "seed %d: turn %d of %d slots at %d", seed, i, slots, at)
		}
	}
}

func number(is bool) int {
	if is {
		return 1
	}
	return 0
}
