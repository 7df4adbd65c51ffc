package main

import (
	"cmp"
	"fmt"
	"time"

	"github.com/fastreplay/fastreplay/codec/tokenizer"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/format"
)

// countAnswers counts the tokens of recorded answers where the file does not, with a tokenizer by name, or the built-in one for
// "", and says so. Where there is nothing to count it returns the trace and says nothing.
func countAnswers(t *trace.Trace, name string) (counted *trace.Trace, said string, err error) {
	answers := int64(t.Uncounted())
	if answers == 0 {
		return t, "", nil
	}
	name = cmp.Or(name, tokenizer.CL100K)
	began := time.Now()
	tok, err := tokenizer.Open(name)
	if err != nil {
		return nil, "", fmt.Errorf("--tokenizer %s: %w", name, err)
	}
	counted, err = t.CountAnswers(func(text []byte) (int, error) { return tok.Count(string(text), false) })
	if err != nil {
		return nil, "", err
	}
	return counted, fmt.Sprintf("the tokens of %s were counted with %s in %s",
		format.Many(answers, "recorded answer"), name, format.Duration(float64(time.Since(began)), 2)), nil
}
