package audit

import (
	"testing"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/workload"
	"github.com/fastreplay/fastreplay/sched"
)

// TestTurnsLeftOut: a follow-up turn that is not part of the run is not counted.
func TestTurnsLeftOut(t *testing.T) {
	w := &workload.Work{Trace: &trace.Trace{Chat: []int64{0, 1}, Parent: []int64{-1, 0}, ArrivalNS: []int64{0, 1}}, Plan: sched.Plan{Requests: 2}}
	records := make([]record.Record, 2)
	for i := range records {
		records[i].Clear()
	}
	if got := Turns(w, records, nil, nil); got == nil || got.FollowUps != 1 || got.Overtaking != 0 {
		t.Errorf("%+v, want one follow-up turn", got)
	}
	if got := Turns(w, records, []int32{1}, nil); got != nil {
		t.Errorf("%+v, want nil: the only follow-up turn is left out", got)
	}
}

func TestOvertook(t *testing.T) {
	rec := func(sent, done int64) *record.Record {
		var r record.Record
		r.Clear()
		r.SentNS, r.DoneNS = sent, done
		return &r
	}
	for _, c := range []struct {
		turn, before *record.Record
		want         int64
	}{
		{rec(100, 200), rec(0, 150), 50}, {rec(150, 200), rec(0, 150), 0}, {rec(160, 200), rec(0, 150), 0},
		{rec(record.None, record.None), rec(0, 150), 0}, {rec(100, 200), rec(record.None, record.None), 0}, {rec(100, 200), rec(50, record.None), 0},
	} {
		if got := overtook(c.turn, c.before); got != c.want {
			t.Errorf("%d after %d: %d, want %d", c.turn.SentNS, c.before.DoneNS, got, c.want)
		}
	}
}
