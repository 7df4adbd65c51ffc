package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"
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
		return fmt.Sprintf("row %d: its prompt of %d tokens: %v", e.Row, e.Want, e.Why)
	}
	return fmt.Sprintf("row %d: its prompt was to have %d tokens and has %d", e.Row, e.Want, e.Got)
}

func (e *PromptError) Unwrap() error { return e.Why }

// Sample picks n of the requests, evenly; all where n is negative or too large.
func Sample(requests, n int) []int {
	if n < 0 || n > requests {
		n = requests
	}
	picked := make([]int, n)
	for k := range picked {
		picked[k] = k * requests / n
	}
	return picked
}

// Verify counts the tokens of built prompts again, in parallel, as they stand in the images. count is given a prompt as it
// lies in the body and is called by many goroutines. The error is the PromptError of the first request that differs.
func (r *Recipe) Verify(ctx context.Context, w *Work, requests []int, count func(prompt []byte) (int, error)) error {
	var mu sync.Mutex
	var wrong []*PromptError
	before := len(r.Backend.AppendPrefix(nil))
	err := parallel(ctx, len(requests), func(from, to int) {
		for _, i := range requests[from:to] {
			image, spec := w.Images.At(i), r.spec(w, i)
			size := r.Source.Size(spec)
			body := r.Backend.Size(size, int(w.Trace.OutputTokens[i]))
			text := image[len(image)-body+before:][:size]
			if got, err := count(text); got != spec.Tokens || err != nil {
				mu.Lock()
				wrong = append(wrong, &PromptError{Row: int(w.Trace.Row[i]), Want: spec.Tokens, Got: got, Why: err})
				mu.Unlock()
			}
		}
	})
	if err != nil || len(wrong) == 0 {
		return err
	}
	return slices.MinFunc(wrong, func(a, b *PromptError) int { return a.Row - b.Row })
}
