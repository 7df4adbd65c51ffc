package engine

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/sched"
)

// lateBy makes a run of w ready so much after its start.
func lateBy(t *testing.T, kind senderKind, plan func([]int64) (sched.Plan, error), by time.Duration, join bool) (*sink, error) {
	w, s := equalWork(t, 2000, plan)
	k := new(sink)
	r := newRun(t, kind, w, k)
	go s.run()
	r.dialer.fillFirst(context.Background())
	r.StartAt(time.Now().Add(-by), join)
	_, err := r.Do(context.Background())
	return k, err
}

// TestLateRunSendsWhatIsToCome: what was planned before a late run was ready is not sent, and the rest leaves at its
// own instants.
func TestLateRunSendsWhatIsToCome(t *testing.T) {
	eachSender(t, func(t *testing.T, kind senderKind) { lateRunSendsWhatIsToCome(t, kind, openPlan) })
	turns := turnsAfter(conversations(2000), nil)
	for name, plan := range map[string]func([]int64) (sched.Plan, error){
		"gated": func(at []int64) (sched.Plan, error) {
			p, _ := sched.FromTrace(at, 1, 0)
			return p.Following(turns)
		},
		"capped": func(at []int64) (sched.Plan, error) {
			p, _ := sched.FromTrace(at, 1, 0)
			return p.Capped(3)
		},
	} {
		t.Run(name, func(t *testing.T) { lateRunSendsWhatIsToCome(t, oneThread, plan) })
	}
}

func lateRunSendsWhatIsToCome(t *testing.T, kind senderKind, plan func([]int64) (sched.Plan, error)) {
	k, err := lateBy(t, kind, plan, 400*time.Millisecond, true)
	for rate := 0.5; err != nil && rate > 0.01 && strings.Contains(err.Error(), "nothing was left to send"); rate /= 2 { // a busy machine was later still
		slower := func(at []int64) (sched.Plan, error) {
			p, err := plan(at)
			for i := range p.ReleaseNS {
				p.ReleaseNS[i] = int64(float64(p.ReleaseNS[i]) / rate)
			}
			return p, err
		}
		k, err = lateBy(t, kind, slower, time.Duration(float64(400*time.Millisecond)/rate), true)
	}
	must.Do(t, err)
	var sent, skipped []int64
	for _, r := range k.records {
		switch {
		case r.Outcome == record.OK && r.DriftNS() >= 0:
			sent = append(sent, r.PlannedNS)
		case r.Outcome == record.NotSent && strings.Contains(r.Error, "too late for its start at "):
			skipped = append(skipped, r.PlannedNS)
		default:
			t.Fatalf("%+v", r)
		}
	}
	if len(k.records) != 2000 || len(sent) == 0 || len(skipped) < 800 || slices.Max(skipped) > slices.Min(sent) {
		t.Errorf("%d records, %d sent, %d skipped, to %d, then from %d", len(k.records), len(sent), len(skipped), slices.Max(skipped), slices.Min(sent))
	}
}

// TestNoConnectionForWhatIsOver: the dialer does not count requests whose instants a late run has missed.
func TestNoConnectionForWhatIsOver(t *testing.T) {
	w, _ := equalWork(t, 2000, openPlan)
	r := newRun(t, oneThread, w, new(sink))
	r.skipPast(400 * time.Millisecond)
	r.dialer.advance(int64(600 * time.Millisecond))
	expect.Equal(t, r.dialer.missing(r.pools[0]), 400+dialSpare, "connections are missing for the 400 requests of 200 ms, want %d more", dialSpare)
}

// TestLateRun: a late closed loop begins when it is ready, delayed turns follow those that were skipped, and a run that
// may not be late, or for which nothing is left, sends nothing.
func TestLateRun(t *testing.T) {
	t.Parallel()
	k, err := lateBy(t, oneThread, closedPlan(8), 400*time.Millisecond, true)
	if err != nil || k.outcomes()[record.OK] != 2000 {
		t.Errorf("a closed loop: %v, %v", err, k.outcomes())
	}
	for _, r := range k.records {
		if r.PlannedNS < int64(400*time.Millisecond) || r.DriftNS() < 0 {
			t.Fatalf("a closed loop that is 400 ms late: %+v", r)
		}
	}
	after := slices.Repeat([]int32{trace.NoTurn}, 2000)
	after[1999] = 0
	thinking := func(at []int64) (sched.Plan, error) {
		p, _ := sched.FromTrace(at, 1, 0)
		return p.Following(turnsAfter(after, make([]int64, 2000)))
	}
	if k, err = lateBy(t, oneThread, thinking, 400*time.Millisecond, true); err != nil || k.outcomes()[record.OK]+k.outcomes()[record.NotSent] != 2000 {
		t.Errorf("with time to think: %v, %v", err, k.outcomes())
	}
	for join, want := range map[bool]string{false: "s too late for its start at ", true: "and nothing was left to send"} {
		for name, plan := range map[string]func([]int64) (sched.Plan, error){"open": openPlan, "closed": func(at []int64) (sched.Plan, error) {
			return sched.Closed(len(at), 8, 2*time.Second)
		}} {
			if k, err := lateBy(t, oneThread, plan, 2*time.Second, join); err == nil || !strings.Contains(err.Error(), want) || len(k.records) > 0 {
				t.Errorf("%s, join %v: %v, %d records", name, join, err, len(k.records))
			}
		}
	}
}
