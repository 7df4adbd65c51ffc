package inspect

import (
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/sched"
)

// TestTurnsAsReplayed: a turn follows what a replay has it follow, which is never a row that comes later.
func TestTurnsAsReplayed(t *testing.T) {
	made := &trace.Trace{
		ArrivalNS:    []int64{0, 1e9, 1e9, 2e9, 9e9},
		OutputTokens: []int32{5, 5, 5, 5, 5},
		Chat:         []int64{1, 2, 1, 3, 4},
		Parent:       []int64{3, 1, 1, 1, 7},
		Session:      []int64{1, 1, 1, 1, 4},
	}
	s := sessions(made, Options{Assumed: sched.Assumed{TTFT: time.Second}})
	// Row 0's parent arrives later, row 4's never. Rows 1 and 2 follow row 0, row 3 the later one of its id.
	if s.Orphans != 2 || s.Followups != 3 || s.AtOnce != 0 || s.Overlaps != 0 || s.GapS.Max != 1 || s.ThinkS.Max != 0 {
		t.Errorf("%+v, gaps %+v", s, s.GapS)
	}
	followUps := int64(0)
	for _, before := range made.TurnsBefore(5) {
		if before != trace.NoTurn {
			followUps++
		}
	}
	if followUps != s.Followups {
		t.Errorf("%d follow-up turns here, %d in a replay", s.Followups, followUps)
	}
}
