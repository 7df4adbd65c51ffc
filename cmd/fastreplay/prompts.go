package main

import (
	"context"
	"fmt"

	"github.com/fastreplay/fastreplay/codec/prompt"
	"github.com/fastreplay/fastreplay/codec/tokenizer"
	"github.com/fastreplay/fastreplay/engine/format"
)

// makeSource decides what prompts are made of: the tokenizer's own tokens where one is given, else the built-in ones.
func (t *target) makeSource(ctx context.Context, o *options, ui *terminal) (err error) {
	if o.tokenizer == "" {
		if o.prompt == promptText {
			t.source, err = prompt.NewText(o.seed, prompt.BuiltIn())
		} else {
			t.source, err = prompt.NewTokenIDs(o.seed, prompt.BuiltInIDs())
		}
		return err
	}
	t.tokenizer, err = await(ctx, func() (*tokenizer.Tokenizer, error) {
		read, err := tokenizer.Open(o.tokenizer)
		if err == nil && o.prompt != promptTokenIDs {
			_, _, err = read.Words() // it keeps them for takeWords
		}
		return read, err
	})
	if err != nil {
		return fmt.Errorf("--tokenizer %s: %w", o.tokenizer, err)
	}
	if o.prompt == promptTokenIDs {
		return t.takeIDs(o, ui)
	}
	return t.takeWords(o, ui)
}

// takeIDs makes prompts of the tokenizer's ordinary ids.
func (t *target) takeIDs(o *options, ui *terminal) error {
	ids := t.tokenizer.Ordinary()
	source, err := prompt.NewTokenIDs(o.seed, ids)
	if err != nil {
		return fmt.Errorf("--tokenizer %s: of its %s ids of ordinary text, %w; use --prompt text", t.tokenizer.Name(), format.Count(int64(len(ids))), err)
	}
	t.source = source
	first, last := source.Range()
	ui.detail("tokenizer: %s, prompts of its ids from %d to %d", t.tokenizer.Name(), first, last)
	return nil
}

// takeWords makes prompts of the tokenizer's words.
func (t *target) takeWords(o *options, ui *terminal) error {
	words, first, err := t.tokenizer.Words()
	if err != nil {
		return fmt.Errorf("--tokenizer %s: %w", t.tokenizer.Name(), err)
	}
	text, err := prompt.NewText(o.seed, prompt.Vocabulary{Words: words, First: first})
	if err != nil {
		return fmt.Errorf("--tokenizer %s: %w", t.tokenizer.Name(), err)
	}
	t.source = text
	ui.detail("tokenizer: %s, prompts of %s that are single tokens of it in any company", t.tokenizer.Name(), format.Many(int64(text.Words()), "word"))
	return nil
}
