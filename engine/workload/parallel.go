package workload

import (
	"context"
	"runtime"
	"sync/atomic"

	"github.com/panjf2000/ants/v2"
)

// rowsAtOnce is how many rows a builder claims at a time: enough to make claiming cheap, few enough to share the end.
const rowsAtOnce = 32

// parallel calls f for all of 0..n-1 in ranges, on as many workers as there are processors. It stops early, with ctx's
// error, when ctx ends.
func parallel(ctx context.Context, n int, f func(from, to int)) error {
	var claimed atomic.Int64
	workers := runtime.NumCPU()
	pool, err := ants.NewPoolWithFuncGeneric(workers, func(done chan<- struct{}) {
		defer func() { done <- struct{}{} }()
		for ctx.Err() == nil {
			from := int(claimed.Add(rowsAtOnce)) - rowsAtOnce
			if from >= n {
				return
			}
			f(from, min(from+rowsAtOnce, n))
		}
	})
	if err != nil {
		return err
	}
	defer pool.Release()
	done := make(chan struct{}, workers)
	for range workers {
		if err := pool.Invoke(done); err != nil {
			return err
		}
	}
	for range workers {
		<-done
	}
	return ctx.Err()
}
