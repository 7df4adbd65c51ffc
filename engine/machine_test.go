package engine

import (
	"encoding/json"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/sched"
)

// TestRunWatchesTheMachine: whatever the machine does, a run knows what it can know.
func TestRunWatchesTheMachine(t *testing.T) { eachSender(t, runWatchesTheMachine) }

func runWatchesTheMachine(t *testing.T, lane senderKind) {
	w, s := equalWork(t, 400, openPlan)
	r := newRun(t, lane, w, new(sink))
	c := do(t, s, r).Client.Machine
	if runtime.GOOS == "linux" {
		senders := slices.Clone(r.soleSenders())
		slices.Sort(senders)
		if senders = slices.Compact(senders); len(senders) != lane.n || senders[0] == 0 {
			t.Errorf("threads %v send, want %d", senders, lane.n)
		}
	}
	for name, v := range map[string]*float64{"stolen": c.StolenS, "stolen share": c.StolenShare, "worst second": c.StolenWorst, "run queue": c.RunQueueS, "lane's run queue": c.SenderRunQueueS} {
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
	text, err := json.Marshal(do(t, s, r).Client.Machine)
	if err != nil || !strings.Contains(string(text), `"sender_run_queue_delay_s":null`) {
		t.Errorf("%s, %v", text, err)
	}
}
