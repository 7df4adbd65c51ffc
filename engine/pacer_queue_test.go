package engine

import (
	"sync/atomic"
	"testing"

	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/sched"
)

// TestConnectionsAreReadyForAll: before anything is released, the queue has counted each request that leaves within a
// time, those that are released by others' ends, and those by others' sending.
func TestConnectionsAreReadyForAll(t *testing.T) {
	turns := &sched.Dependencies{Think: true, Job: []int32{0, 0, 0, 0, 0, 1, 1, 1}}
	turns.Add() // 0
	turns.Add(sched.Dependency{On: 0})
	turns.Add(sched.Dependency{On: 0})
	turns.Add(sched.Dependency{On: 0, DelayNS: 50})
	turns.Add(sched.Dependency{On: 2}, sched.Dependency{On: 3})
	turns.Add() // 5
	turns.Add(sched.Dependency{On: 5, Dispatch: true})
	turns.Add(sched.Dependency{On: 6, Dispatch: true})
	plan, err := sched.Closed(8, 2, 0)
	must.Do(t, err)
	plan.Concurrency = 1
	if plan, err = plan.Following(turns); err != nil {
		t.Fatal(err)
	}
	q := newQueue(plan, new(atomic.Bool))
	ends := func(i int32, now int64) int {
		leaving, _ := q.ended(nil, i, now)
		return len(leaving)
	}
	for _, step := range []struct {
		what string
		do   func() int // requests that leave
		left int
		soon int // within 10 ns
	}{
		{"before the start", func() int { return 0 }, 0, 1},
		{"0 leaves; as it ends 1, 2 and 3 may, one on its connection; the next job needs 3", func() int { return len(q.begin(0)) }, 1, 2 + 3},
		{"0 ends, 3 is delayed", func() int { return ends(0, 5) }, 2, 3},
		{"1 ends, 3 is due soon", func() int { return ends(1, 46) }, 0, 1 + 3},
		{"3 leaves", func() int { return len(q.due(55)) }, 1, 3},
		{"2 and 3 end, 4 leaves", func() int { return ends(2, 60) + ends(3, 60) }, 1, 3},
		{"the next job begins", func() int { return ends(4, 70) }, 1, 0},
	} {
		now := map[string]int64{"1 ends, 3 is due soon": 46}[step.what]
		if left := step.do(); left != step.left || q.soon(now+10) != step.soon {
			t.Errorf("%s: %d left and %d soon; want %d and %d", step.what, left, q.soon(now+10), step.left, step.soon)
		}
	}
}
