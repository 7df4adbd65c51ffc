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

// TestShortSliceKeepsTheNiceValue: a program that nice(1) has started keeps what it was given.
func TestShortSliceKeepsTheNiceValue(t *testing.T) {
	ordinary := niceAfter(t, runtime.LockOSThread)
	if ordinary == 19 {
		t.Skip("this process has the lowest priority already")
	}
	var p Placement
	got := niceAfter(t, func() {
		runtime.LockOSThread()
		expect.Equal(t, unix.Setpriority(unix.PRIO_PROCESS, 0, ordinary+1), nil)
		p, _ = Place(RealtimeOff)
	})
	expect.Equal(t, got, ordinary+1, "nice with %+v", p)
	var without Placement
	niceAfter(t, func() { without, _ = Place(RealtimeOff) })
	expect.Equal(t, p, without, "placement")
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
