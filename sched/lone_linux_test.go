//go:build !race

// Under the race detector atomic operations check the stack.

package sched

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/fastreplay/fastreplay/bench/must"
)

// loneArgument makes this test program a process in which a lone waiter waits.
const loneArgument = "lone-waiter"

// sleepArgument makes it a process in which goroutines sleep beside a call that keeps its P.
const sleepArgument = "sleep-beside-call"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 {
		switch os.Args[1] {
		case loneArgument:
			waitAlone()
			os.Exit(0)
		case sleepArgument:
			sleepBesideCall()
			os.Exit(0)
		}
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

// sleepBesideCall sleeps while a raw system call keeps the other P, each time after cycles of the collector.
func sleepBesideCall() {
	for round := range 100 {
		debug.SetGCPercent(100)
		var kept [][]*int
		for range 50 + 5*round { // some of these are reached while a cycle goes on
			kept = append(kept, make([]*int, 2000))
		}
		Alone(1)
		var pipe [2]int
		if err := unix.Pipe(pipe[:]); err != nil {
			panic(err)
		}
		started, ended := make(chan bool), make(chan bool)
		go func() {
			close(started)
			var b [1]byte
			_, _, _ = unix.RawSyscall(unix.SYS_READ, uintptr(pipe[0]), uintptr(unsafe.Pointer(&b)), 1)
			close(ended)
		}()
		<-started
		time.Sleep(time.Millisecond)
		_ = unix.Close(pipe[1]) // the call returns
		<-ended
		_ = unix.Close(pipe[0])
		runtime.KeepAlive(kept)
	}
}

// TestNoCycleOfTheCollectorHoldsAloneBack: a cycle that had not ended kept the only free P, and waited for the call. So
// a run against a closed port hung, whose sender waited for a first connection.
func TestNoCycleOfTheCollectorHoldsAloneBack(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // it takes 0.2 s
	defer cancel()
	c := exec.CommandContext(ctx, os.Args[0], sleepArgument)
	c.Env = append(os.Environ(), "GODEBUG="+LoneGODEBUG)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}
