package engine

import (
	"runtime"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/sched"
)

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

// TestCapHoldsBackWhatIsTooMuch: never more in flight than allowed, in order, none early, and all of them in the end.
func TestCapHoldsBackWhatIsTooMuch(t *testing.T) {
	const n, most = 3000, 4
	w, s := equalWork(t, n, capped(most, 20)) // 40,000 a second
	peak := s.counted(func() {
		for range 20 {
			runtime.Gosched()
		}
	})
	k := new(sink)
	r := newRun(t, oneThread, w, k)
	f := do(t, s, r)
	if peak.Load() > most {
		t.Errorf("%d requests in flight, want at most %d", peak.Load(), most)
	}
	if len(k.records) != n {
		t.Errorf("%d records, want %d", len(k.records), n)
	}
	late := int64(0)
	for _, rec := range k.records {
		if rec.Outcome != record.OK || rec.DriftNS() < 0 || rec.PlannedNS != w.Plan.ReleaseNS[rec.Row] {
			t.Fatalf("row %d: %v, planned %d, drift %d", rec.Row, rec.Outcome, rec.PlannedNS, rec.DriftNS())
		}
		if rec.DriftNS() > 0 {
			late++
		}
	}
	if held := f.Cap.Held; held == 0 || held > late {
		t.Errorf("%d held back of %d that left late; want some, and all of them late", held, late)
	}
	if c := f.Connections; c.Dialled > most+1+dialSpare || c.NotReady != 0 {
		t.Errorf("%d connections dialled for %d in flight, %d not ready", c.Dialled, most, c.NotReady)
	}
}

// TestCapThatIsNeverReachedHoldsNothingBack: it changes no plan that has room.
func TestCapThatIsNeverReachedHoldsNothingBack(t *testing.T) {
	w, s := equalWork(t, 200, capped(200, 1))
	k := new(sink)
	r := newRun(t, oneThread, w, k)
	if f := do(t, s, r); f.Cap.Held != 0 || len(k.records) != 200 {
		t.Errorf("%d held back, %d records; want 0 and 200", f.Cap.Held, len(k.records))
	}
}

// TestStopAbandonsWhatIsHeldBack: also when every instant has passed and nobody answers.
func TestStopAbandonsWhatIsHeldBack(t *testing.T) {
	const n, most = 300, 3
	w, s := equalWork(t, n, capped(most, 20)) // 7.5 ms
	got := s.silent(n)
	k := new(sink)
	r := newRun(t, oneThread, w, k)
	go func() {
		for range most {
			<-got
		}
		for r.clock.Now() < w.Plan.SpanNS() {
			time.Sleep(time.Millisecond)
		}
		r.Stop()
		r.Abort()
	}()
	do(t, s, r)
	count := k.outcomes()
	if len(k.records) != n || count[record.NotSent] != n-most || count[record.Cancelled] != most {
		t.Errorf("outcomes %v, want %d cancelled and the rest not sent", count, most)
	}
}
