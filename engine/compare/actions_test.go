package compare

import (
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// TestActionsLineUp: the actions of two runs at the same instants are compared, in whatever order they were noted, and
// others are not.
func TestActionsLineUp(t *testing.T) {
	of := func(failed int64, back *float64, landed bool, at ...float64) *run {
		r := &run{summary: new(metrics.Summary)}
		for i, s := range at {
			action := metrics.Action{AtS: s, Landed: landed && i == 0, LandedS: new(s + 1), Ran: &metrics.Command{StartedS: s}}
			action.Cost = &metrics.ActionCost{Failed: failed, BandMS: new(100.0), Left: new(true), BackS: back, SLODebt: new(12.7)}
			r.summary.Actions = append(r.summary.Actions, action)
		}
		return r
	}
	a := &Side{runs: []*run{of(88, nil, true, 8, 4)}}
	b := &Side{runs: []*run{of(1200, new(11.5), true, 8, 4), of(9, new(9.25), false, 8, 4)}}
	r := new(Result)
	r.compareActions(a, b)
	expect.Equal(t, len(r.Actions), 2, "%+v", r.Notes)
	expect.Equal(t, r.Actions[0].Words, "action at 4.00 s: was not seen to land in A and was not seen to land, was not seen to land in B", "the first")
	expect.Equal(t, r.Actions[1].Words, "action at 8.00 s: landed in A and landed, was not seen to land in B; failed 88 in A and 1,200, – in B; "+
		"SLO debt 12 in A and 12, – in B; TTFT p95 back after never in A and 2.50 s, – in B", "the second")
	r = new(Result)
	r.compareActions(a, &Side{runs: []*run{of(1200, nil, false, 8, 4)}})
	expect.Equal(t, r.Actions[1].Words, "action at 8.00 s: landed in A and was not seen to land in B", "landed in A alone")
	for _, sides := range [][2]*Side{{a, {runs: []*run{of(0, nil, true)}}}, {{runs: []*run{of(0, nil, true)}}, a}} {
		r = new(Result)
		r.compareActions(sides[0], sides[1])
		expect.Equal(t, strings.Join(r.Notes, ""), "a run has no actions, so those of others are not compared")
	}
	r = new(Result)
	r.compareActions(a, &Side{runs: []*run{of(1, nil, true, 8)}})
	expect.Equal(t, len(r.Actions), 0, "others")
	expect.Contains(t, strings.Join(r.Notes, ""), "different instants")
}
