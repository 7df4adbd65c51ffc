package sched

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
)

func TestMonotonicCountsFromTheStart(t *testing.T) {
	c := NewMonotonic()
	before := c.Now()
	if before < 0 {
		t.Fatalf("a new clock reads %d, want 0 or more", before)
	}
	c.Start(time.Hour)
	if now := c.Now(); now > -int64(59*time.Minute) {
		t.Errorf("an hour before the start the clock reads %v", time.Duration(now))
	}
	if ahead := time.Until(c.StartedAt()); ahead < 59*time.Minute || ahead > time.Hour {
		t.Errorf("the start is %v ahead, want just under an hour", ahead)
	}
}

// TestStartAtWall: the zero is the moment that was given, by the wall clock.
func TestStartAtWall(t *testing.T) {
	moment := time.Now().Add(time.Hour).UTC()
	c := NewMonotonic()
	c.StartAtWall(moment)
	if off := c.StartedAt().Sub(moment).Abs(); off > time.Minute {
		t.Errorf("the start is %v off", off)
	}
	if until := time.Duration(-c.Now()); (until - time.Until(moment)).Abs() > time.Minute {
		t.Errorf("the clock reads %v before the start, the wall clock %v", until, time.Until(moment))
	}
}

func TestClockReadsWithoutAllocating(t *testing.T) {
	c := NewMonotonic()
	var sum int64
	expect.Equal(t, testing.AllocsPerRun(100, func() { sum += c.Now() }), 0, "allocations a reading")
}

func TestWaitIsNeverEarly(t *testing.T) {
	c := NewMonotonic()
	w := NewWaiter(c, AutoSpin, new(atomic.Bool))
	for i := range 50 {
		deadline := c.Now() + int64(i)*20_000
		if !w.Wait(deadline) || c.Now() < deadline {
			t.Fatalf("woke before the deadline %d", deadline)
		}
	}
}

func TestSleepLeavesNoMoreThanTheSpin(t *testing.T) {
	const spin = 300 * time.Microsecond
	c := NewMonotonic()
	w := NewWaiter(c, spin, new(atomic.Bool))
	for range 10 {
		deadline := c.Now() + int64(2*time.Millisecond)
		if !w.Sleep(deadline) || deadline-c.Now() > int64(spin) {
			t.Fatalf("%d ns before the deadline it slept no more", deadline-c.Now())
		}
	}
}

func TestWaitGivesUpWhenStopped(t *testing.T) {
	var stop atomic.Bool
	w := NewWaiter(NewMonotonic(), AutoSpin, &stop)
	woke := make(chan bool)
	go func() { woke <- w.Wait(int64(time.Hour)) }()
	stop.Store(true)
	if <-woke {
		t.Error("a stopped waiter reported its deadline as reached")
	}
}

func TestPlaceLocksAThreadOfItsOwn(t *testing.T) {
	placed := make(chan Placement)
	go func() { // ends locked, and so does its thread
		p, err := Place(RealtimeAuto)
		expect.Equal(t, err, nil)
		placed <- p
	}()
	p := <-placed
	t.Logf("placement: %v %+v", p, p)
	if p.FIFO && p.Refused != "" {
		t.Errorf("%+v: granted and refused", p)
	}
}

func BenchmarkNow(b *testing.B) {
	c := NewMonotonic()
	b.ReportAllocs()
	for b.Loop() {
		c.Now()
	}
}

// BenchmarkWait reports how late the waiter is at 1,000 deadlines a second on a placed thread.
func BenchmarkWait(b *testing.B) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, err := Place(RealtimeAuto); err != nil {
			b.Error(err)
			return
		}
		c := NewMonotonic()
		w := NewWaiter(c, AutoSpin, new(atomic.Bool))
		var late, worst int64
		n := 0
		deadline := c.Now()
		for b.Loop() {
			deadline += int64(time.Millisecond)
			w.Wait(deadline)
			d := c.Now() - deadline
			late += d
			worst = max(worst, d)
			n++
		}
		b.ReportMetric(float64(late)/float64(n), "ns-late/op")
		b.ReportMetric(float64(worst), "ns-worst")
	}()
	<-done
}
