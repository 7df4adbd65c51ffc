package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/fastreplay/fastreplay/codec/prompt"
)

// probeDomain marks the unique tokens of probes: no row has this bit.
const probeDomain = 1 << 63

// probeTokens are the lengths of the probes by which the overhead is checked to be constant.
var probeTokens = [...]int{16, 257, 1024}

// Overhead is how many tokens the servers add to each prompt (a chat template, a BOS), measured with prompts of several
// lengths on every target. nonce keeps the probes of this run out of the cache of the next. An error says what is not
// as it must be: a word that is not one token, an overhead that is not constant, targets that differ.
func (b *Prober) Overhead(ctx context.Context, source prompt.Source, nonce uint64) (tokens int, err error) {
	first := true
	for i := range b.Targets {
		t := &b.Targets[i]
		probes := b.probes(source, nonce)
		if text, ok := source.(*prompt.Text); ok {
			probes = append(probes, probe{prompt: text.AppendWords(nil), tokens: text.Words() + 1, optional: true})
		}
		for _, p := range probes {
			usage, err := b.Count(ctx, t, t.Peers[0], p.prompt, "")
			if refused := (*RefusedError)(nil); p.optional && errors.As(err, &refused) && refused.Status < 500 {
				continue // longer than the model's context
			}
			if err != nil {
				return 0, err
			}
			added := usage.PromptTokens - p.tokens
			if first {
				tokens, first = added, false
			}
			if added != tokens || added < 0 {
				return 0, countError(t, p.tokens, usage.PromptTokens, tokens)
			}
		}
	}
	return tokens, nil
}

type probe struct {
	prompt   []byte
	tokens   int
	optional bool
}

func (b *Prober) probes(source prompt.Source, nonce uint64) []probe {
	var list []probe
	for i, n := range probeTokens {
		spec := prompt.Spec{Tokens: n, Unique: probeDomain | (nonce + uint64(i))}
		list = append(list, probe{prompt: source.Append(nil, spec), tokens: n})
	}
	return list
}

func countError(t *Target, sent, counted, overhead int) error {
	return fmt.Errorf("%w: %s counts %d tokens in a probe of %d, and %+d in the first: the built-in words are not single tokens of this model, or its template is not constant; replay with --prompt token-ids on --api completions",
		ErrProbe, t.URL, counted, sent, overhead)
}
