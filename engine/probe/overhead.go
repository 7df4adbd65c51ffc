package probe

import (
	"context"
	"errors"
	"fmt"

	"github.com/fastreplay/fastreplay/codec/prompt"
	"github.com/fastreplay/fastreplay/engine/workload"
)

// probeTokens are the lengths of the probes by which the overhead is checked to be constant. The first is asked again, to
// tell a template that changes from words that are not single tokens.
var probeTokens = [...]int{16, 16, 16, 257, 1024}

// Overhead measures how many tokens the servers add to each prompt, with prompts of several lengths on every target. Where
// they stand is not known from counts; see Head. An error says what is not as it must be: a word that is not one token, a
// template that is not constant, targets that differ.
func (b *Prober) Overhead(ctx context.Context, source prompt.Source) (tokens int, err error) {
	for i := range b.Targets {
		t := &b.Targets[i]
		added, err := b.overheadOf(ctx, t, source)
		if err != nil {
			return 0, err
		}
		if i > 0 && added != tokens {
			return 0, fmt.Errorf("%w: %s adds %d tokens to a prompt, %s adds %d: they serve different models or chat templates; replay them one by one",
				ErrProbe, b.Targets[0].URL, tokens, t.URL, added)
		}
		tokens = added
	}
	return tokens, nil
}

// overheadOf is the overhead of one target.
func (b *Prober) overheadOf(ctx context.Context, t *workload.Target, source prompt.Source) (tokens int, err error) {
	for i, p := range b.probes(source) {
		usage, err := b.Count(ctx, t, t.Peers[0], p.prompt, "")
		if refused := (*RefusedError)(nil); p.optional && errors.As(err, &refused) && refused.Status < 500 {
			continue // longer than the model's context, as rows of the trace need not be
		}
		if err != nil {
			return 0, err
		}
		added := usage.PromptTokens - p.tokens
		if i == 0 {
			tokens = added
		}
		if added != tokens || added < 0 {
			return 0, b.countError(t, p, usage.PromptTokens, tokens)
		}
	}
	return tokens, nil
}

type probe struct {
	prompt   []byte
	tokens   int
	optional bool
}

func (b *Prober) probes(source prompt.Source) []probe {
	var list []probe
	for i, n := range probeTokens {
		if i > 0 && n == probeTokens[i-1] {
			list = append(list, list[i-1]) // the very same prompt
			continue
		}
		list = append(list, probe{prompt: b.newPrompt(source, n), tokens: n, optional: n > probeTokens[0]})
	}
	if text, ok := source.(*prompt.Text); ok {
		list = append(list, probe{prompt: text.AppendWords(nil), tokens: text.Words() + 1, optional: true})
	}
	return list
}

// countError says why the server's count cannot be relied on: the same prompt counted twice tells the template's fault from
// the words'.
func (b *Prober) countError(t *workload.Target, p probe, counted, overhead int) error {
	if first := probeTokens[0]; p.tokens == first && counted != p.tokens+overhead {
		return fmt.Errorf("%w: the chat template of %s is not constant: it counts the same prompt of %d tokens as %d and as %d; fix the template, or replay with --api completions",
			ErrProbe, t.URL, first, first+overhead, counted)
	}
	why := "the built-in list as one token; give the model's own tokenizer with --tokenizer"
	if b.Tokenizer != "" {
		why = b.Tokenizer + " as one token, so that is not its tokenizer; give its own"
	}
	return fmt.Errorf("%w: %s counts %d tokens in a prompt that was to have %d: its model does not take each word of %s, or replay token ids (--api completions --prompt token-ids)",
		ErrProbe, t.URL, counted, p.tokens+max(0, overhead), why)
}
