package sched

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fastreplay/fastreplay/bench/expect"
)

// TestPlaceReaderAsksForItsThreadAlone: a higher priority for the thread, and none where real-time is off.
func TestPlaceReaderAsksForItsThreadAlone(t *testing.T) {
	ordinary := niceAfter(t, runtime.LockOSThread)
	if got := niceAfter(t, func() { PlaceReader(RealtimeOff) }); got != ordinary {
		t.Errorf("real-time off: nice %d, was %d", got, ordinary)
	}
	want := readerNice
	if niceAfter(t, func() { runtime.LockOSThread(); _ = unix.Setpriority(unix.PRIO_PROCESS, 0, readerNice) }) != readerNice {
		want = ordinary // it is refused here
	}
	expect.Equal(t, niceAfter(t, func() { PlaceReader(RealtimeAuto) }), want, "real-time auto: nice")
	if got := niceAfter(t, runtime.LockOSThread); got != ordinary {
		t.Errorf("another thread: nice %d, was %d", got, ordinary)
	}
}

// niceAfter is the nice value of a thread after place, which locks it. The thread ends.
func niceAfter(t *testing.T, place func()) int {
	t.Helper()
	nice := make(chan int)
	go func() {
		place()
		raw, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
		if err != nil {
			t.Error(err)
		}
		nice <- 20 - raw // the system call's own form, above 0 at any rate
	}()
	return <-nice
}
