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
	expect.Equal(t, niceAfter(t, func() { PlaceReader(RealtimeOff) }), ordinary, "real-time off: nice")
	want := readerNice
	if niceAfter(t, func() { runtime.LockOSThread(); _ = unix.Setpriority(unix.PRIO_PROCESS, 0, readerNice) }) != readerNice {
		want = ordinary // it is refused here
	}
	expect.Equal(t, niceAfter(t, func() { PlaceReader(RealtimeAuto) }), want, "real-time auto: nice")
	expect.Equal(t, niceAfter(t, runtime.LockOSThread), ordinary, "another thread: nice")
}

// niceAfter is the nice value of a thread after place, which locks it. The thread ends.
func niceAfter(t *testing.T, place func()) int {
	t.Helper()
	nice := make(chan int)
	go func() {
		place()
		raw, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
		expect.Equal(t, err, nil)
		nice <- 20 - raw // the system call's own form, above 0 at any rate
	}()
	return <-nice
}
