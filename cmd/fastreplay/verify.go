package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/fastreplay/fastreplay/engine"
	"github.com/fastreplay/fastreplay/engine/metrics/human"
)

// defaultVerified is how many prompts are encoded again unless told otherwise: a second's work at most.
const defaultVerified = 64

// verified is the number of prompts to encode again; -1 = all.
func (o *options) verified() (int, error) {
	if o.verify == "all" {
		return -1, nil
	}
	n, err := strconv.Atoi(o.verify)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("--verify-prompts %q: want a number of prompts, or all", o.verify)
	}
	return n, nil
}

// verifyPrompts encodes built prompts again with the model's own tokenizer and stops the run at the first that has not the
// number of tokens that it should.
func (r *replay) verifyPrompts(ctx context.Context) error {
	n, _ := r.o.verified() // checked with the flags
	if r.tokenizer == nil || n == 0 {
		return nil
	}
	requests := engine.Sample(r.work.Requests(), n)
	began := time.Now()
	check := func(prompt []byte) (int, error) { return r.tokenizer.Count(string(prompt), false), nil }
	if r.o.prompt == promptTokenIDs {
		check = countIDs(r.tokenizer.Ordinary())
	}
	err := r.recipe.Verify(ctx, r.work, requests, check)
	if wrong := (*engine.PromptError)(nil); errors.As(err, &wrong) {
		return fmt.Errorf("%s: %w by %s; nothing was sent; replay without --tokenizer, and please report this", r.trace.Name, wrong, r.tokenizer.Name())
	}
	if err != nil {
		return err
	}
	r.say.line("verified: %s of %s counted again with %s, each exact, in %s", human.Count(int64(len(requests))),
		human.Many(int64(r.work.Requests()), "prompt"), r.tokenizer.Name(), human.Duration(float64(time.Since(began)), 3))
	return nil
}

// countIDs counts the ids of a prompt and refuses those that are none of the vocabulary's ordinary ones.
func countIDs(ordinary []int) func([]byte) (int, error) {
	return func(prompt []byte) (n int, err error) {
		for text := range bytes.SplitSeq(prompt, []byte{','}) {
			id, err := strconv.Atoi(string(text))
			if err != nil {
				return n, err
			}
			if _, ok := slices.BinarySearch(ordinary, id); !ok {
				return n, fmt.Errorf("token %d is id %d, which is no ordinary one", n, id)
			}
			n++
		}
		return n, nil
	}
}
