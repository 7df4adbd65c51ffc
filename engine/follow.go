package engine

import (
	"math"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/sched"
)

// ThinkTimes is for each of a trace's first n requests how long after the end of the turn before it came when it was recorded, in
// ns: its delay where the trace has one, else what is left of the time since the turn before when that, as assumed, had ended. Speed
// shortens it.
func ThinkTimes(t *trace.Trace, before []int32, a sched.Assumed, speed float64) []int64 {
	think := make([]int64, len(before))
	for i, j := range before {
		if j == trace.NoTurn {
			continue
		}
		ns := t.ArrivalNS[i] - t.ArrivalNS[j] - a.LastNS(t.OutputTokens[j])
		if t.DelayNS != nil && t.DelayNS[i] >= 0 {
			ns = t.DelayNS[i]
		}
		think[i] = int64(math.Round(float64(max(0, ns)) / speed))
	}
	return think
}

// turns counts the turns that were sent before the previous turn had ended, and measures how long those that had to wait for it were
// held back. It returns nil for a trace without follow-up turns. Call it at the end of Do.
func (r *Run) turns() *metrics.Turns {
	before := r.work.Trace.TurnsBefore(r.work.Requests())
	var found metrics.Turns
	early := metrics.NewDistribution()
	for i, j := range before {
		if j == trace.NoTurn || r.isLeftOut(int32(i)) {
			continue
		}
		found.FollowUps++
		if by := overtook(&r.records[i], &r.records[j]); by > 0 {
			found.Overtaking++
			early.Add(by)
		}
	}
	if found.FollowUps == 0 {
		return nil
	}
	found.OvertakingMS = early.Percentiles(1e6)
	if held := r.pacer.held(); held != nil && r.work.Plan.Turns != nil {
		found.LaterMS = held.Percentiles(1e6)
	}
	return &found
}

// overtook is by how many ns a turn was sent before the turn before it had ended; 0 where it was not, or one of them was not sent.
func overtook(turn, before *record.Record) int64 {
	end := max(before.DoneNS, before.LastTokenNS, before.HeadersNS)
	if turn.SentNS == record.None || before.SentNS == record.None || end == record.None {
		return 0
	}
	return max(0, end-turn.SentNS)
}
