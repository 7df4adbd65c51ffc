package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/fastreplay/fastreplay/codec/prompt"
	"github.com/fastreplay/fastreplay/codec/tokenizer"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/workload"
)

// makeSource decides what prompts are made of: the tokenizer's own tokens where one is given, else the built-in ones.
func (r *replay) makeSource(ctx context.Context) (err error) {
	if r.o.tokenizer == "" {
		if r.o.prompt == promptText {
			r.source, err = prompt.NewText(r.o.seed, prompt.BuiltIn())
		} else {
			r.source, err = prompt.NewTokenIDs(r.o.seed, prompt.BuiltInIDs())
		}
		return err
	}
	r.tokenizer, err = await(ctx, func() (*tokenizer.Tokenizer, error) {
		t, err := tokenizer.Open(r.o.tokenizer)
		if err == nil && r.o.prompt != promptTokenIDs {
			_, _, err = t.Words() // it keeps them for takeWords
		}
		return t, err
	})
	if err != nil {
		return fmt.Errorf("--tokenizer %s: %w", r.o.tokenizer, err)
	}
	if r.o.prompt == promptTokenIDs {
		return r.takeIDs()
	}
	return r.takeWords()
}

// takeIDs makes prompts of the tokenizer's ordinary ids.
func (r *replay) takeIDs() error {
	ids := r.tokenizer.Ordinary()
	source, err := prompt.NewTokenIDs(r.o.seed, ids)
	if err != nil {
		return fmt.Errorf("--tokenizer %s: of its %s ids of ordinary text, %w; use --prompt text", r.tokenizer.Name(), format.Count(int64(len(ids))), err)
	}
	r.source = source
	first, last := source.Range()
	r.say.line("tokenizer: %s, prompts of its ids from %d to %d", r.tokenizer.Name(), first, last)
	return nil
}

// takeWords makes prompts of the tokenizer's words.
func (r *replay) takeWords() error {
	words, first, err := r.tokenizer.Words()
	if err != nil {
		return fmt.Errorf("--tokenizer %s: %w", r.tokenizer.Name(), err)
	}
	text, err := prompt.NewText(r.o.seed, prompt.Vocabulary{Words: words, First: first})
	if err != nil {
		return fmt.Errorf("--tokenizer %s: %w", r.tokenizer.Name(), err)
	}
	r.source = text
	r.say.line("tokenizer: %s, prompts of %s that are single tokens of it in any company", r.tokenizer.Name(), format.Many(int64(text.Words()), "word"))
	return nil
}

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
	if r.tokenizer == nil || r.o.verifyPrompts == 0 || r.verbatims.all {
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
