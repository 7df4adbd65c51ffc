package main

import (
	"github.com/fastreplay/fastreplay/codec/prompt"
	"github.com/fastreplay/fastreplay/codec/prompt/tokenizer"
)

// makeSource decides what prompts are made of: the tokenizer's own tokens where one is given, else the built-in ones.
func (r *replay) makeSource(context.Context) (err error) {
	if r.o.tokenizer == "" {
		if r.o.prompt == promptText {
			r.source, err = prompt.NewText(r.o.seed, prompt.BuiltIn())
			return err
		}
		r.source, err = prompt.NewTokenIDs(r.o.seed, prompt.IDRange{})
		return err
	}
	return nil
}
