package engine

import (
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
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

// following plans turns that wait for each other, 50 µs apart or in a closed loop. end is when the plan ends; 0 = it does not.
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
			do(t, s, r)
			rows := byRow(k.records)
			if len(rows) != n || len(k.records) != n || k.outcomes()[record.OK] != n {
				t.Fatalf("%d rows in %d records, %v", len(rows), len(k.records), k.outcomes())
			}
			if c.concurrency > 0 && peak.Load() > int64(c.concurrency) {
				t.Errorf("%d in flight, want at most %d", peak.Load(), c.concurrency)
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

// TestPacersGoOnAfterFailures: a request that failed has ended, too. It makes room under a cap, and releases the next turn.
func TestPacersGoOnAfterFailures(t *testing.T) {
	const n = 60
	turns := turnsAfter(chain(n), nil)
	for name, plan := range map[string]func([]int64) (sched.Plan, error){"capped": capped(2, 20), "turns": following(turns, 0, 0), "closed turns": following(turns, 3, 0)} {
		w, s := equalWork(t, n, plan)
		s.handle = func(_ int64, c net.Conn) {
			_, _ = io.ReadFull(c, make([]byte, s.request))
			_ = c.Close()
		}
		k := new(sink)
		do(t, s, newRun(t, oneThread, w, k))
		if k.outcomes()[record.Reset] != n || len(k.records) != n {
			t.Errorf("%s: %v, want %d reset", name, k.outcomes(), n)
		}
	}
}

// TestStopAbandonsTurns that wait for an answer which does not come.
func TestStopAbandonsTurns(t *testing.T) {
	for _, concurrency := range []int{0, 4} {
		for _, thinks := range []bool{false, true} {
			turns := turnsAfter(conversations(100), nil)
			if thinks {
				turns.Think = true
			}
			w, s := equalWork(t, 100, following(turns, concurrency, 0))
			got := s.silent(100)
			k := new(sink)
			r := newRun(t, oneThread, w, k)
			go func() {
				for range 4 {
					<-got
				}
				for concurrency == 0 && r.clock.Now() < w.Plan.SpanNS() {
					time.Sleep(time.Millisecond)
				}
				r.Stop()
				r.Abort()
			}()
			do(t, s, r)
			count := k.outcomes()
			if len(k.records) != 100 || len(byRow(k.records)) != 100 || count[record.NotSent]+count[record.Cancelled] != 100 || count[record.Cancelled] < 4 {
				t.Errorf("concurrency %d, thinks %v: %d records, %v", concurrency, thinks, len(k.records), count)
			}
		}
	}
}

// TestTurnsEndInTime: what was not released when the time is over is left out, and nothing is released then. That holds while answers
// come that others wait for, and if the run is stopped, or its requests are cancelled, at that very time.
func TestTurnsEndInTime(t *testing.T) {
	const n = endingTurns
	think := slices.Repeat([]int64{int64(time.Millisecond)}, n)
	for name, c := range map[string]turnsEnding{
		"gated":                  {turnsAfter(conversations(n), nil), 0, nil},
		"think":                  {turnsAfter(conversations(n), think), 0, nil},
		"gated, closed loop":     {turnsAfter(conversations(n), nil), 3, nil},
		"think, closed loop":     {turnsAfter(conversations(n), think), 3, nil},
		"think, stopped then":    {turnsAfter(conversations(n), think), 0, (*Run).Stop},
		"gated, stopped then":    {turnsAfter(conversations(n), nil), 0, (*Run).Stop},
		"closed, stopped then":   {turnsAfter(conversations(n), nil), 3, (*Run).Stop},
		"gated, cancelled then":  {turnsAfter(conversations(n), nil), 0, (*Run).expire},
		"closed, cancelled then": {turnsAfter(conversations(n), nil), 3, (*Run).expire},
	} {
		t.Run(name, func(t *testing.T) {
			for end := 60 * time.Millisecond; !c.endInTime(t, end); end *= 4 { // a busy machine may have no answer by then
			}
		})
	}
}

const endingTurns = 400 // requests

// turnsEnding is a plan that has an end, and what happens then.
type turnsEnding struct {
	turns       *sched.Dependencies
	concurrency int
	then        func(*Run)
}

// endInTime returns false if no answer came before the end, so that nothing was shown.
func (c *turnsEnding) endInTime(t *testing.T, end time.Duration) bool {
	w, s := equalWork(t, endingTurns, following(c.turns, c.concurrency, end))
	first, over := make(chan struct{}), make(chan struct{})
	defer close(over)
	came := sync.OnceFunc(func() { close(first) })
	s.counted(func() {
		came()
		time.Sleep(end / 6) // the longest chain of turns takes many times as long as the plan, so some are always left
	})
	k := new(sink)
	r := newRun(t, oneThread, w, k)
	if c.then != nil {
		go func() {
			select {
			case <-first:
			case <-over: // nothing was released
				return
			}
			for r.clock.Now() < int64(end) {
				time.Sleep(100 * time.Microsecond)
			}
			c.then(r)
		}()
	}
	f := do(t, s, r)
	rows, count := byRow(k.records), k.outcomes()
	if count[record.OK] == 0 && end < time.Minute {
		return false
	}
	if len(k.records)+len(f.LeftOut) != endingTurns || len(rows) != len(k.records) {
		t.Errorf("%d records of %d rows, %d left out of %d; %v", len(k.records), len(rows), len(f.LeftOut), endingTurns, count)
	}
	if c.then == nil && (len(f.LeftOut) == 0 || count[record.OK] != len(k.records)) {
		t.Errorf("%d left out; %v", len(f.LeftOut), count)
	}
	for _, i := range f.LeftOut {
		if rows[int64(i)] != nil || c.concurrency == 0 && len(c.turns.Of(i)) == 0 {
			t.Errorf("row %d, which waits for %v, is left out; recorded: %v", i, c.turns.Of(i), rows[int64(i)] != nil)
		}
	}
	for _, rec := range k.records {
		if rec.SentNS != record.None && rec.PlannedNS >= int64(end) {
			t.Errorf("row %d was released at %d ns", rec.Row, rec.PlannedNS)
		}
	}
	return true
}

// TestTurnsAfterTheEndAreLeftOut: exactly those that wait for an answer that comes after the end, or think until then, and all that
// follow them.
func TestTurnsAfterTheEndAreLeftOut(t *testing.T) {
	const n, end = 100, 50 * time.Millisecond
	after := conversations(n)
	for name, c := range map[string]struct {
		turns    *sched.Dependencies
		answered bool // before the end
	}{
		"gated":             {turnsAfter(after, nil), false},
		"think":             {turnsAfter(after, make([]int64, n)), false},
		"think too long":    {turnsAfter(after, slices.Repeat([]int64{int64(end)}, n)), true},
		"one after another": {turnsAfter(chain(n), nil), false},
	} {
		t.Run(name, func(t *testing.T) {
			w, s := equalWork(t, n, following(c.turns, 0, end))
			var r *Run
			s.counted(func() {
				for !c.answered && r.clock.Now() < int64(end) {
					time.Sleep(time.Millisecond)
				}
			})
			k := new(sink)
			r = newRun(t, oneThread, w, k)
			f := do(t, s, r)
			var follow []int32
			for i := range int32(n) {
				if len(c.turns.Of(i)) > 0 {
					follow = append(follow, i)
				}
			}
			if got := f.LeftOut; !slices.Equal(got, follow) || k.outcomes()[record.OK] != n-len(follow) || len(k.records) != n-len(follow) {
				t.Errorf("left out are %v, want %v; %v", got, follow, k.outcomes())
			}
			if f.Turns != nil {
				t.Errorf("no turn followed another, but %+v", f.Turns)
			}
		})
	}
}

// TestTurnsFarBehind: turns with a think time may be released, and end, before earlier requests of the order are due. However the run
// ends then, each request has one record, or is left out.
func TestTurnsFarBehind(t *testing.T) {
	const n = 60
	after := slices.Repeat([]int32{trace.NoTurn}, n)
	for i := range 10 {
		after[n-10+i] = int32(i) // leave as soon as the first ones have ended
	}
	turns := turnsAfter(after, make([]int64, n))
	for name, c := range map[string]struct {
		concurrency int
		end         time.Duration
		stop        bool
	}{
		"trace time":              {0, 0, true},
		"closed loop":             {2, 100 * time.Millisecond, false},
		"closed loop, is stopped": {2, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			w, s := equalWork(t, n, func(arrivals []int64) (sched.Plan, error) {
				for i := range arrivals {
					arrivals[i] = int64(max(0, i-9)) * int64(50*time.Millisecond)
				}
				plan, err := sched.FromTrace(arrivals, 1, 0)
				if c.concurrency > 0 {
					plan, err = sched.Closed(n, c.concurrency, c.end)
				}
				if err != nil {
					return plan, err
				}
				return plan.Following(turns)
			})
			s.counted(func() { time.Sleep(5 * time.Millisecond) })
			k := new(sink)
			r := newRun(t, oneThread, w, k)
			const enough = 12
			if c.stop {
				go func() {
					for p := r.Progress(); p.OK < enough && p.Left > 0; p = r.Progress() {
						time.Sleep(time.Millisecond)
					}
					r.Stop()
				}()
			}
			f := do(t, s, r)
			rows, ok := byRow(k.records), k.outcomes()[record.OK]
			if len(k.records)+len(f.LeftOut) != n || len(rows) != len(k.records) || c.stop && ok < enough {
				t.Errorf("%d records of %d rows, %d left out of %d; %v", len(k.records), len(rows), len(f.LeftOut), n, k.outcomes())
			}
			for _, i := range f.LeftOut {
				if rows[int64(i)] != nil {
					t.Errorf("row %d is left out, and recorded as %v", i, rows[int64(i)].Outcome)
				}
			}
		})
	}
}
