package engine

import (
	"runtime"
	"testing"

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
