package sched

import (
	"sync"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// fakePair advances by step at each reading; the wall clock is offset ahead of the run's.
type fakePair struct {
	now, step, offset int64
	hiccups           int   // so many pairs …
	hiccup            int64 // … are read this far apart
}

func (f *fakePair) Now() int64 { f.now += f.step; return f.now }

func (f *fakePair) Pair() (int64, int64) {
	f.now += f.step
	if f.hiccups > 0 {
		f.hiccups--
		return f.now, f.now + f.offset + f.hiccup
	}
	return f.now, f.now + f.offset
}

const (
	wallZero = 1_700_000_000_000_000_000
	second   = 1_000_000_000
)

// at converts one stamp by a reading of its own.
func (w *Wall) at(stampNS int64) (atNS, nowNS int64, ok bool) {
	r := w.Read()
	atNS, ok = r.At(stampNS)
	return atNS, r.NowNS, ok
}

func TestWallConvertsExactly(t *testing.T) {
	f := &fakePair{step: 40, offset: wallZero}
	w := NewWall(f)
	for range 100 {
		f.now += second
		must.Equal(t, w.Sample(), 0, "step of a steady clock, ns")
		arrived := f.now
		f.now += 7000
		at, now, ok := w.at(arrived + f.offset)
		if !ok || at != arrived || now != arrived+7040 {
			t.Fatalf("converted to %d at %d, %v; want %d at %d", at, now, ok, arrived, arrived+7040)
		}
	}
	if n, _ := w.Steps(); n != 0 {
		t.Errorf("%d steps", n)
	}
}

// TestWallDropsStampsAroundAStep: none is converted from the step to the next sample, nor later one from before it.
func TestWallDropsStampsAroundAStep(t *testing.T) {
	for _, step := range []int64{second, -second, 50_000, -50_000, 3600 * second, -3600 * second} {
		f := &fakePair{step: 40, offset: wallZero}
		w := NewWall(f)
		f.now += second
		w.Sample()
		before := f.now + f.offset
		f.now += 400_000
		f.offset += step
		for _, stamp := range []int64{before, f.now + f.offset} {
			if at, now, ok := w.at(stamp); ok || at != now {
				t.Errorf("step %d: a stamp was converted to %d although the clock had been set", step, at)
			}
		}
		f.now += second / 2
		expect.Equal(t, w.Sample(), step, "a step")
		if at, _, ok := w.at(before); step > 0 && ok { // a clock set back shows such a stamp as one of the future, or as just now
			t.Errorf("step %d: a stamp from before it was converted to %d", step, at)
		}
		arrived := f.now
		f.now += 5000
		if at, _, ok := w.at(arrived + f.offset); !ok || at != arrived {
			t.Errorf("step %d: after the next sample %d, %v; want %d", step, at, ok, arrived)
		}
		w.Sample()
		if n, largest := w.Steps(); n != 1 || largest != step {
			t.Errorf("%d steps, the largest %d; want one of %d", n, largest, step)
		}
	}
}

func TestWallRefusesTheFuture(t *testing.T) {
	f := &fakePair{step: 40, offset: wallZero}
	w := NewWall(f)
	if at, now, ok := w.at(f.now + f.offset + second); ok || at != now {
		t.Errorf("a stamp a second ahead became %d at %d", at, now)
	}
	if at, now, ok := w.at(f.now + f.offset + 500); !ok || at > now { // the noise of the bracket
		t.Errorf("a stamp within the noise became %d at %d, %v", at, now, ok)
	}
}

func TestWallForgivesInterruptedReadings(t *testing.T) {
	f := &fakePair{step: 40, offset: wallZero}
	w := NewWall(f)
	for _, far := range []int64{100_000, -100_000} {
		f.hiccups, f.hiccup = 1, far
		arrived := f.now
		f.now += 300
		if at, now, ok := w.at(arrived + f.offset); !ok || at != arrived || now != arrived+340 {
			t.Errorf("an interruption of %d between two readings: %d at %d, %v; want %d", far, at, now, ok, arrived)
		}
	}
}

func TestWallOnTheRealClock(t *testing.T) {
	c := NewMonotonic()
	w := NewWall(c)
	var group sync.WaitGroup
	group.Go(func() {
		for range 100 {
			if step := w.Sample(); step != 0 {
				t.Logf("this machine's clock was set by %d ns", step)
			}
		}
	})
	for range 2000 {
		before := c.Now()
		_, wall := c.Pair()
		at, now, ok := w.at(wall)
		// The pair's clocks are read one after the other, and the offset is exact to its bracket.
		if ok && (at < before-wallTolerance || at > now) {
			t.Fatalf("%d is outside [%d, %d]", at, before, now)
		}
	}
	group.Wait()
	t.Logf("the offset is known to ±%d ns", w.epoch.Load().widthNS/2)
}

func TestWallDoesNotAllocate(t *testing.T) {
	c := NewMonotonic()
	w := NewWall(c)
	_, wall := c.Pair()
	expect.Equal(t, testing.AllocsPerRun(100, func() { w.at(wall) }), 0, "allocations")
}

func BenchmarkWallAt(b *testing.B) {
	c := NewMonotonic()
	w := NewWall(c)
	_, wall := c.Pair()
	b.ReportAllocs()
	for b.Loop() {
		w.at(wall)
	}
}
