package engine

import (
	"math"
	"sync"

	"github.com/panjf2000/ants/v2"
)

// workers run what may block, away from the senders: dialling, completions of partial writes, re-sends. The pool has
// no limit, so that a caller never waits; the number of requests in flight bounds it.
type workers struct {
	goroutines *ants.Pool
	running    sync.WaitGroup
}

func newWorkers() *workers {
	// Without a handler the pool would log a panic and continue, and the run would wait for the panic's request
	// forever.
	goroutines, err := ants.NewPool(math.MaxInt32, ants.WithPanicHandler(func(p any) { panic(p) }))
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return &workers{goroutines: goroutines}
}

// do runs f soon, on another goroutine.
func (w *workers) do(f func()) {
	w.running.Add(1)
	if err := w.goroutines.Submit(func() {
		defer w.running.Done()
		f()
	}); err != nil {
		panic("BUG: " + err.Error())
	}
}

// wait returns when all work has ended, and frees the pool.
func (w *workers) wait() {
	w.running.Wait()
	w.goroutines.Release()
}
