package model

import (
	"time"

	"github.com/fastreplay/fastreplay/sched"
)

// What follows stands for the types and functions of the same names of sync/atomic, sync, sched, time and ants.

// Number is an atomic integer.
type Number[T int32 | int64 | uint32 | uint64] struct{ v T }

type (
	Int32  = Number[int32]
	Int64  = Number[int64]
	Uint32 = Number[uint32]
	Uint64 = Number[uint64]
)

func (x *Number[T]) Load() T {
	Point()
	return x.v
}

// Peek is Load within a condition that a process waits for.
func (x *Number[T]) Peek() T { return x.v }

func (x *Number[T]) Store(v T) { x.Swap(v) }

func (x *Number[T]) Swap(v T) (old T) {
	Point()
	return x.set(v)
}

func (x *Number[T]) set(v T) (old T) {
	if old = x.v; old != v {
		x.v = v
		Changed()
	}
	return old
}

func (x *Number[T]) Add(d T) T {
	Point()
	x.set(x.v + d)
	return x.v
}

func (x *Number[T]) And(mask T) (old T) {
	Point()
	return x.set(x.v & mask)
}

func (x *Number[T]) Or(mask T) (old T) {
	Point()
	return x.set(x.v | mask)
}

func (x *Number[T]) CompareAndSwap(old, v T) bool {
	Point()
	if x.v != old {
		return false
	}
	x.set(v)
	return true
}

// Bool is an atomic bool.
type Bool struct{ v bool }

func (x *Bool) Load() bool {
	Point()
	return x.v
}

// Peek is Load within a condition that a process waits for.
func (x *Bool) Peek() bool { return x.v }

func (x *Bool) Store(v bool) { x.Swap(v) }

func (x *Bool) Swap(v bool) (old bool) {
	Point()
	if old = x.v; old != v {
		x.v = v
		Changed()
	}
	return old
}

// Pointer is an atomic pointer.
type Pointer[T any] struct{ v *T }

func (x *Pointer[T]) Load() *T {
	Point()
	return x.v
}

func (x *Pointer[T]) Store(v *T) {
	Point()
	x.v = v
	Changed()
}

func (x *Pointer[T]) CompareAndSwap(old, v *T) bool {
	Point()
	swaps := x.v == old
	if swaps {
		x.v = v
		Changed()
	}
	return swaps
}

// Mutex is a lock.
type Mutex struct{ locked bool }

func (m *Mutex) Lock() {
	Point()
	Until("a lock", func() bool { return !m.locked })
	m.locked = true
}

func (m *Mutex) Unlock() {
	m.locked = false
	Changed()
	Point()
}

// RWMutex is a lock that readers share.
type RWMutex struct {
	readers int
	locked  bool
}

func (m *RWMutex) Lock() {
	Point()
	Until("a lock", func() bool { return !m.locked && m.readers == 0 })
	m.locked = true
}

func (m *RWMutex) Unlock() {
	m.locked = false
	Changed()
	Point()
}

func (m *RWMutex) RLock() {
	Point()
	Until("a lock", func() bool { return !m.locked })
	m.readers++
}

func (m *RWMutex) RUnlock() {
	m.readers--
	Changed()
	Point()
}

// WaitGroup counts processes.
type WaitGroup struct{ n int }

func (g *WaitGroup) Add(d int) {
	g.n += d
	Changed()
}

func (g *WaitGroup) Done() { g.Add(-1) }
func (g *WaitGroup) Wait() { Until("the end of others", func() bool { return g.n == 0 }) }

func (g *WaitGroup) Go(f func()) {
	g.Add(1)
	start(nameOf(f), func() {
		defer g.Done()
		f()
	})
}

// Receive takes a value out of a channel that has room for all.
func Receive[T any](c <-chan T) T {
	Until("a message", func() bool { return len(c) > 0 })
	return <-c
}

// Monotonic is the clock of the world. A reading takes no time.
type Monotonic struct{}

func NewMonotonic() *Monotonic                 { return new(Monotonic) }
func (*Monotonic) Now() int64                  { return current.nowNS }
func (*Monotonic) Pair() (nowNS, wallNS int64) { return current.nowNS, current.nowNS }
func (*Monotonic) Start(time.Duration)         {}
func (*Monotonic) StartAt(int64)               {}
func (*Monotonic) StartAtWall(time.Time)       {}
func (*Monotonic) StartedAt() time.Time        { return time.Unix(0, 0) }
func (*Monotonic) MonotonicStartNS() int64     { return 1 }
func Now() time.Time                           { return time.Unix(0, current.nowNS) }
func AfterFunc(d time.Duration, f func()) *Timer {
	t := new(Timer)
	at := current.nowNS + int64(d)
	GoDaemon("timer", func() {
		UntilTime("its time", at, func() bool { return t.stopped })
		if !t.stopped {
			f()
		}
	})
	return t
}

// Timer is what AfterFunc returns.
type Timer struct{ stopped bool }

func (t *Timer) Stop() bool {
	t.stopped = true
	return true
}

// Waiter waits until instants.
type Waiter struct{ stop *Bool }

func NewWaiter(_ *Monotonic, _ time.Duration, stop *Bool) *Waiter { return &Waiter{stop} }

func (w *Waiter) Wait(deadlineNS int64) bool {
	Point()
	UntilTime("its instant", deadlineNS, func() bool { return w.stop.v })
	return !w.stop.v
}

// Sleep and then Wait are one wait here: nothing happens between them.
func (w *Waiter) Sleep(int64) bool { return !w.stop.v }

func (*Waiter) Spin() time.Duration { return 0 }

// Place and PlaceReader have no threads to place.
func Place(sched.Realtime) (p sched.Placement, err error) { return p, nil }
func PlaceReader(sched.Realtime)                          {}

// Pool runs each function in a process.
type Pool struct{}

func NewPool(int, ...any) (*Pool, error) { return new(Pool), nil }
func WithPanicHandler(func(any)) any     { return nil }
func (*Pool) Submit(f func()) error      { Spawn(f); return nil }
func (*Pool) Release()                   {}
