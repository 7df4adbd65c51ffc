package engine

import (
	"encoding/json"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/sched"
)

func TestGrown(t *testing.T) {
	const none = record.None
	for _, tt := range []struct {
		readings []int64
		want     int64
	}{
		{nil, none}, {[]int64{none}, none}, {[]int64{5}, 0}, {[]int64{5, 8, 9}, 4}, {[]int64{5, 5}, 0}, {[]int64{0, 7}, 7},
		{[]int64{5, 4}, 0}, {[]int64{5, 9, 2, 10}, 5}, // a counter that falls back
		{[]int64{5, none, 8}, 3}, {[]int64{none, 5, 8, none}, 3}, // readings that fail
	} {
		c := meter{nil, none, none}
		for _, v := range tt.readings {
			c.take(v, v != none)
		}
		if got := grown(c); got != tt.want {
			t.Errorf("%v: grown by %d, want %d", tt.readings, got, tt.want)
		}
		if got, want := grown(c, meter{nil, none, none}, meter{nil, 10, 13}), max(0, tt.want)+3; got != want {
			t.Errorf("%v, one unknown, and 3 more: grown by %d, want %d", tt.readings, got, want)
		}
	}
}

func TestWaitedSince(t *testing.T) {
	for _, tt := range []struct {
		before, after map[int]int64
		except        []int
		want          int64
	}{
		{nil, nil, nil, record.None},
		{map[int]int64{1: 5}, nil, nil, record.None},
		{nil, map[int]int64{1: 5, 2: 7}, nil, 12}, // begun meanwhile
		{map[int]int64{1: 2, 2: 7, 3: 9}, map[int]int64{1: 5, 2: 7}, nil, 3},
		{map[int]int64{1: 20}, map[int]int64{1: 5, 2: 1}, nil, 1}, // another thread of that id
		{map[int]int64{1: 2, 2: 7}, map[int]int64{1: 5, 2: 11}, []int{1, 9}, 4},
		{map[int]int64{1: 2}, map[int]int64{1: 5}, []int{1}, 0},
	} {
		if got := waitedSince(tt.before, tt.after, tt.except); got != tt.want {
			t.Errorf("from %v to %v without %v: %d, want %d", tt.before, tt.after, tt.except, got, tt.want)
		}
	}
}

// TestRunWatchesTheMachine: whatever the machine does, a run knows what it can know.
func TestRunWatchesTheMachine(t *testing.T) { eachLane(t, runWatchesTheMachine) }

func runWatchesTheMachine(t *testing.T, lane laneKind) {
	w, s := equalWork(t, 400, openPlan)
	r := newRun(t, lane, w, new(sink))
	if r.Machine() != (metrics.Machine{}) {
		t.Error("a run that has not begun knows what the machine took")
	}
	do(t, s, r)
	if runtime.GOOS == "linux" {
		senders := slices.Clone(r.soleSenders())
		slices.Sort(senders)
		if senders = slices.Compact(senders); len(senders) != lane.n || senders[0] == 0 {
			t.Errorf("threads %v send, want %d", senders, lane.n)
		}
	}
	c := r.Machine()
	for name, v := range map[string]*float64{"stolen": c.StolenS, "stolen share": c.StolenShare, "worst second": c.StolenWorst, "run queue": c.RunQueueS, "lane's run queue": c.LaneRunQueueS} {
		if (v != nil) != (runtime.GOOS == "linux") {
			t.Errorf("%s on %s: %v", name, runtime.GOOS, v)
		}
	}
	for name, v := range map[string]*float64{"stolen share": c.StolenShare, "worst second": c.StolenWorst} {
		if v != nil && (*v < 0 || *v > 1) {
			t.Errorf("%s is %g", name, *v)
		}
	}
}

// TestClosedLoopHasNoSender: those that receive send too, so no thread's wait tells why one was late.
func TestClosedLoopHasNoSender(t *testing.T) {
	w, s := equalWork(t, 50, func(a []int64) (sched.Plan, error) { return sched.Closed(len(a), 8, 0) })
	r := newRun(t, oneThread, w, new(sink))
	do(t, s, r)
	text, err := json.Marshal(r.Machine())
	if err != nil || !strings.Contains(string(text), `"lane_run_queue_delay_s":null`) {
		t.Errorf("%s, %v", text, err)
	}
}
