package main

import (
	"context"
	"fmt"

	"github.com/fastreplay/fastreplay/codec/prompt"
	"github.com/fastreplay/fastreplay/codec/tokenizer"
	"github.com/fastreplay/fastreplay/engine/format"
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
