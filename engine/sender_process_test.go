package engine

import (
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/engine/workload"
	"github.com/fastreplay/fastreplay/sched"
)

func senderOfItsOwn(t *testing.T) senderKind {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("a sender process needs Linux")
	}
	return senderKind{[]string{os.Args[0], senderArgument}, 1}
}

// restInAnHour plans the first 200 requests as the trace has them and the others an hour later.
func restInAnHour(arrivals []int64) (sched.Plan, error) {
	for i := range arrivals[200:] {
		arrivals[200+i] += int64(time.Hour)
	}
	return openPlan(arrivals)
}

// TestSenderThatIsFrozen: an aborted run ends even if the sender process does not run any more.
func TestSenderThatIsFrozen(t *testing.T) {
	if testing.Short() {
		t.Skip("left out by -short: killGrace is a second")
	}
	kind := senderOfItsOwn(t)
	w, s := equalWork(t, 4000, restInAnHour)
	k := new(sink)
	r := newRun(t, kind, w, k)
	go s.after(100, func() {
		_ = r.process.cmd.Process.Signal(syscall.SIGSTOP)
		r.Abort()
	})
	if died := do(t, s, r).Run.SenderDied; len(k.records) != 4000 || died != "" {
		t.Errorf("%d records, sender died: %q", len(k.records), died)
	}
}

// TestSenderThatIsNone: if the command cannot be started, or is no sender process, the run sends from a thread and
// returns the cause.
func TestSenderThatIsNone(t *testing.T) {
	senderOfItsOwn(t)
	for _, command := range [][]string{{"/nonexistent/fastreplay"}, {"/bin/true"}} {
		w, s := equalWork(t, 20, openPlan)
		k := new(sink)
		r := New(Config{
			Backend: newRun(t, oneThread, w, k).cfg.Backend, Stream: true, Timeout: patience, IdleTimeout: patience, ConnectTimeout: patience, Descriptors: 256,
			Realtime: sched.RealtimeAuto, Spin: sched.AutoSpin, Senders: 1, SenderCommand: command,
		}, w, "a", workload.IdealHits{}, k)
		if r.process != nil || r.SenderErr() == nil {
			t.Fatalf("%v is taken for a sender process", command)
		}
		do(t, s, r)
		if len(k.records) != 20 || s.served.Load() != 20 {
			t.Errorf("%v: %d records, %d served", command, len(k.records), s.served.Load())
		}
	}
}
