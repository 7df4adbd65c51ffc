//go:build !race

// Under the race detector atomic operations check the stack.
package engine

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"
)

// TestSenderStaysOutOfGosScheduler: Go would take the sender's thread off its P a hundred times a second, and each time
// the thread would block. It may block for nothing but its sleeps, one a request.
func TestSenderStaysOutOfGosScheduler(t *testing.T) {
	w, s := equalWork(t, 2000, openPlan)
	r := newRun(t, senderOfItsOwn(t), w, new(sink))
	var sent, blocked [2]int64
	measured := make(chan struct{})
	go func() {
		defer close(measured)
		// The two readings of an instant are not made at one. In this order the requests between the instants are at
		// least those during which the thread was looked at.
		s.after(250, func() { sent[0], blocked[0] = r.process.header.passed(), timesBlocked(t, r.process) })
		s.after(1500, func() { blocked[1], sent[1] = timesBlocked(t, r.process), r.process.header.passed() })
	}()
	do(t, s, r)
	<-measured
	const others = 20 // a page that is not there blocks, too
	f, b := sent[1]-sent[0], blocked[1]-blocked[0]
	if f < 200 {
		t.Skipf("this machine had no time for the first reading until %d of 2,000 requests had left", sent[0])
	}
	if b > f+others {
		t.Errorf("the sender's thread blocked %d times for %d requests", b, f)
	}
}

var voluntary = regexp.MustCompile(`(?m)^voluntary_ctxt_switches:\s+(\d+)$`)

func timesBlocked(t *testing.T, l *senderProcess) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/status", l.cmd.Process.Pid, l.threads()[0]))
	if err != nil {
		t.Error(err)
		return 0
	}
	m := voluntary.FindSubmatch(status)
	if m == nil {
		t.Errorf("no count in %q", status)
		return 0
	}
	n, _ := strconv.ParseInt(string(m[1]), 10, 64)
	return n
}
