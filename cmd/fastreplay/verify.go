package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/workload"
)

// defaultVerified is how many prompts are counted again unless told otherwise: a second's work at most.
const defaultVerified = 64

// parseVerified reads how many prompts are to be counted again; -1 = all.
func parseVerified(text string) (int, error) {
	switch text {
	case "":
		return defaultVerified, nil
	case "all":
		return -1, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("--verify-prompts %q: want a number of prompts, or all", text)
	}
	return n, nil
}

// verifyPrompts counts built prompts again with the model's own tokenizer and stops the run at the first that has not the
// number of tokens that it should.
func (r *replay) verifyPrompts(ctx context.Context) error {
	if r.tokenizer == nil || r.o.verifyPrompts == 0 || r.literals.all {
		return nil
	}
	began := time.Now()
	check := func(prompt []byte) (int, error) { return r.tokenizer.Count(string(prompt), false) }
	if r.o.prompt == promptTokenIDs {
		check = countIDs(r.tokenizer.Ordinary())
	}
	n, err := r.builder.Verify(ctx, r.work, r.o.verifyPrompts, check)
	if wrong := (*workload.PromptError)(nil); errors.As(err, &wrong) {
		return fmt.Errorf("%w, counted with %s; nothing was sent. This is a bug: please report it; meanwhile replay without --tokenizer", wrong, r.tokenizer.Name())
	}
	if err != nil {
		return err
	}
	r.say.line("verified: %s of %s counted again with %s, each exact, in %s", format.Count(int64(n)),
		format.Many(int64(r.work.Requests()), "prompt"), r.tokenizer.Name(), format.Duration(float64(time.Since(began)), 3))
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
