package main

import (
	"context"
	"errors"
	"fmt"
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
	check := r.tokenizer.CheckIDs
	if r.o.prompt == promptText {
		check = func(prompt []byte) (int, error) { return r.tokenizer.Count(string(prompt), false), nil }
	}
	err := r.recipe.Verify(ctx, r.work, requests, check)
	if wrong := (*engine.PromptError)(nil); errors.As(err, &wrong) {
		return fmt.Errorf("%s:%w by %s; replay token ids instead (--api completions --prompt token-ids), and please report this", r.trace.Name, wrong, r.tokenizer.Name())
	}
	if err != nil {
		return err
	}
	r.say.line("verified: %s of %s encoded again with %s, each exact, in %s", human.Count(int64(len(requests))),
		human.Many(int64(r.work.Requests()), "prompt"), r.tokenizer.Name(), human.Duration(float64(time.Since(began)), 3))
	return nil
}
