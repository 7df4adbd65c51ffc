package engine

import (
	"context"
	"io"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/sched"
)

// openFiles returns how many descriptors this process has; -1 if the system does not report it.
func openFiles() int {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return -1
	}
	return len(list)
}

// TestNothingIsLeftBehind: however a run ends, no goroutine, thread-locked or not, and no descriptor outlives it.
func TestNothingIsLeftBehind(t *testing.T) { eachSender(t, nothingIsLeftBehind) }

func nothingIsLeftBehind(t *testing.T, kind senderKind) {
	took := func(s *server, c net.Conn) bool {
		_, err := io.ReadFull(c, make([]byte, s.request))
		s.served.Add(1)
		return err == nil
	}
	for _, c := range []struct {
		name   string
		plan   func([]int64) (sched.Plan, error)
		handle func(s *server, c net.Conn) // nil: answers
		end    func(r *Run)                // once a request has been served
	}{
		{name: "all answered", plan: fasterPlan},
		{name: "stopped", plan: fasterPlan, end: (*Run).Stop},
		{name: "aborted with answers open", plan: fasterPlan, end: (*Run).Abort, handle: func(s *server, c net.Conn) {
			if took(s, c) {
				_, _ = c.Write(s.answer[:len(s.answer)/2])
				_, _ = io.Copy(io.Discard, c)
			}
		}},
		{name: "reset", plan: fasterPlan, handle: func(s *server, c net.Conn) {
			took(s, c)
			_ = c.(*net.TCPConn).SetLinger(0)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, s := equalWork(t, 100, c.plan)
			before, files := goleak.IgnoreCurrent(), openFiles()
			if c.handle != nil {
				s.handle = func(_ int64, conn net.Conn) {
					defer func() { _ = conn.Close() }()
					c.handle(s, conn)
				}
			}
			k := new(sink)
			r := newRun(t, kind, w, k)
			serving := make(chan struct{})
			go func() { defer close(serving); s.run() }()
			r.dialer.fillFirst(context.Background())
			if c.end != nil {
				go s.after(1, func() { c.end(r) })
			}
			must.Have(r.Do(context.Background()))(t)
			expect.Equal(t, len(k.records), 100, "records")
			_ = s.Close()
			<-serving
			// The listener is gone too. Servers, those of earlier tests too, close their ends in their own time.
			deadline := time.Now().Add(patience)
			for err := goleak.Find(before); err != nil; err = goleak.Find(before) {
				if time.Now().After(deadline) {
					t.Fatal(err)
				}
			}
			for ; files >= 0 && openFiles() > files-1; runtime.Gosched() {
				if time.Now().After(deadline) {
					t.Fatalf("%d descriptors, want at most %d", openFiles(), files-1)
				}
			}
		})
	}
}
