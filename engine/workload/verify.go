package workload

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// PromptError is a built prompt that has not the number of tokens that it should.
type PromptError struct {
	Row       int // in the trace file, from 0
	Want, Got int // tokens
	Why       error
}

// Error names row, want and got.
func (e *PromptError) Error() string {
	if e.Why != nil {
		return fmt.Sprintf("row %d: want %d tokens: %v", e.Row, e.Want, e.Why)
	}
	return fmt.Sprintf("row %d: want %d tokens, got %d", e.Row, e.Want, e.Got)
}

// Verify counts the tokens of n built prompts again, evenly chosen (all where n is negative or too large; literals are left out), in parallel and
// as they stand in the images. count is given a prompt as it lies in the body and is called by many goroutines. It returns
// how many were counted. The error is the PromptError of the first row of them that differs.
func (r *Recipe) Verify(ctx context.Context, w *Work, n int, count func(prompt []byte) (int, error)) (counted int, err error) {
	if n < 0 || n > w.Requests() {
		n = w.Requests()
	}
	var mu sync.Mutex
	var made atomic.Int64
	var wrong []*PromptError
	err = parallel(ctx, n, func(from, to int) {
		for k := from; k < to; k++ {
			i := k * w.Requests() / n
			if !w.Made(i) {
				continue
			}
			made.Add(1)
			image, spec := w.Images.whole(r, w, i), r.spec(w, i)
			size := r.Source.Size(spec)
			body := r.bodySize(w, i)
			before := len(r.backend(w, i).AppendPrefix(nil))
			text := image[len(image)-body+before:][:size]
			if got, err := count(text); got != spec.Tokens || err != nil {
				mu.Lock()
				wrong = append(wrong, &PromptError{Row: int(w.Trace.Row[i]), Want: spec.Tokens, Got: got, Why: err})
				mu.Unlock()
			}
		}
	})
	if err != nil || len(wrong) == 0 {
		return int(made.Load()), err
	}
	return int(made.Load()), slices.MinFunc(wrong, func(a, b *PromptError) int { return a.Row - b.Row })
}
