//go:build !race

// Under the race detector atomic operations check the stack.

package sched

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fastreplay/fastreplay/bench/must"
)

// loneArgument makes this test program a process in which a lone waiter waits.
const loneArgument = "lone-waiter"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == loneArgument {
		waitAlone()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const (
	loneDeadlines = 1000
	loneEvery     = time.Millisecond
)

// waitAlone prints how often the thread blocked while it waited for the deadlines, beside a goroutine that keeps
// another P busy.
func waitAlone() {
	Alone(1)
	var stop atomic.Bool
	go func() {
		for !stop.Load() {
			time.Sleep(100 * time.Microsecond)
		}
	}()
	runtime.LockOSThread()
	clock := NewMonotonic()
	w := NewLoneWaiter(clock, AutoSpin, new(atomic.Bool))
	before := blocked()
	waitForAll(w)
	after := blocked()
	stop.Store(true)
	fmt.Println(after - before)
}

//go:nosplit
func waitForAll(w *Waiter) {
	for i := range int64(loneDeadlines) {
		w.Wait((i + 1) * int64(loneEvery))
	}
}

func blocked() int64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		panic(err)
	}
	return u.Nvcsw
}

// TestLoneWaiterStaysOutOfGosScheduler: in a second Go would take the thread off its P a hundred times, and each time
// the thread would block. It may block for nothing but its sleeps, one a deadline.
func TestLoneWaiterStaysOutOfGosScheduler(t *testing.T) {
	c := exec.Command(os.Args[0], loneArgument)
	c.Env = append(os.Environ(), "GODEBUG="+LoneGODEBUG)
	out := must.Have(c.Output())(t)
	var times int
	if _, err := fmt.Sscan(strings.TrimSpace(string(out)), &times); err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	const others = 20 // a page that is not there blocks, too
	if times == 0 {
		t.Skip("this machine had no time for the thread until the last deadline was over")
	}
	if times > loneDeadlines+others {
		t.Errorf("the thread blocked %d times for %d deadlines", times, loneDeadlines)
	}
}
