package main

import (
	"github.com/fastreplay/fastreplay/codec/prompt"
	"github.com/fastreplay/fastreplay/codec/trace"
)

// answerDomain marks the words of made answers: no request's key has this bit, and no probe has it alone.
const answerDomain = 1 << 62

// inWords gives a trace the words for formats that have what was said: the prompts that a replay with --prompt text and the same
// --seed sends, and answers of their own.
func inWords(t *trace.Trace, seed uint64, model string) (*trace.Trace, error) {
	source, err := prompt.NewText(seed, prompt.BuiltIn())
	if err != nil {
		return nil, err
	}
	return t.With(trace.Words{
		Model: model,
		Prompt: func(dst []byte, i int) []byte {
			return source.Append(dst, prompt.Spec{Blocks: t.Blocks(i), BlockTokens: t.BlockTokens, Tokens: int(t.InputTokens[i]), Unique: t.Unique(i)})
		},
		Answer: func(dst []byte, i int) []byte {
			return source.Append(dst, prompt.Spec{Tokens: int(t.OutputTokens[i]), Unique: answerDomain | t.Unique(i)})
		},
	}), nil
}
