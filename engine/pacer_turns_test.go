package engine

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

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

// TestTurnsWait holds every turn to its rule, in trace time and in a closed loop, with and without time to think.
func TestTurnsWait(t *testing.T) {
	const n = 200
	after := conversations(n)
	think := make([]int64, n)
	for i := range think {
		think[i] = int64(i%4) * 700_000
	}
	for name, c := range map[string]struct {
		turns       *sched.Dependencies
		concurrency int
	}{
		"gated":               {turnsAfter(after, nil), 0},
		"think":               {turnsAfter(after, think), 0},
		"gated, closed loop":  {turnsAfter(after, nil), 6},
		"think, closed loop":  {turnsAfter(after, think), 6},
		"nobody follows":      {turnsAfter(slices.Repeat([]int32{trace.NoTurn}, n), nil), 0},
		"one after the other": {turnsAfter(chain(n), nil), 4},
	} {
		t.Run(name, func(t *testing.T) {
			w, s := equalWork(t, n, following(c.turns, c.concurrency, 0))
			peak := s.counted(func() { time.Sleep(time.Duration(rand.IntN(4)) * time.Millisecond) })
			k := new(sink)
			r := newRun(t, oneThread, w, k)
			f := do(t, s, r)
			rows := byRow(k.records)
			if len(rows) != n || len(k.records) != n || k.outcomes()[record.OK] != n {
				t.Fatalf("%d rows in %d records, %v", len(rows), len(k.records), k.outcomes())
			}
			if most := int64(c.concurrency); most > 0 && (peak.Load() > most || f.Connections.Dialled > most+1+dialSpare || f.Client.Machine.SenderRunQueueS != nil) {
				t.Errorf("%d in flight, want at most %d; %+v, %+v", peak.Load(), most, f.Connections, f.Client.Machine)
			}
			for i := range n {
				checkTurn(t, w.Plan, i, rows)
			}
		})
	}
}

func chain(n int) []int32 {
	after := make([]int32, n)
	for i := range after {
		after[i] = int32(i) - 1
	}
	return after
}

// checkTurn checks the rule for turn i by the records alone.
func checkTurn(t *testing.T, p sched.Plan, i int, rows map[int64]*record.Record) {
	t.Helper()
	rec := rows[int64(i)]
	if rec.DriftNS() < 0 {
		t.Errorf("row %d left %d ns before it was released", i, -rec.DriftNS())
	}
	end := int64(0)
	waits := p.Dependencies.Of(int32(i))
	for _, w := range waits {
		before := rows[int64(w.On)]
		since := before.DoneNS
		if w.Dispatch {
			since = before.SentNS
		}
		end = max(end, since+w.DelayNS)
	}
	if rec.PlannedNS < end {
		t.Errorf("row %d was released %d ns before those that it waits for allowed it: %v", i, end-rec.PlannedNS, waits)
	}
	if !p.Open() {
		return
	}
	own := p.ReleaseNS[i]
	switch {
	case len(waits) == 0 && rec.PlannedNS != own:
		t.Errorf("row %d follows nobody and was released at %d, want %d", i, rec.PlannedNS, own)
	case !p.Dependencies.Think && rec.PlannedNS < own:
		t.Errorf("row %d was released %d ns before its own instant", i, own-rec.PlannedNS)
	}
}
