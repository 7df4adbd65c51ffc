package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/valyala/fasthttp"

	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/prompt"
	"github.com/fastreplay/fastreplay/engine/workload"
)

// probeTokens are the lengths of the probes by which the overhead is checked to be constant. The first is sent again,
// to distinguish a template that changes from words that are not single tokens.
var probeTokens = [...]int{16, 16, 16, 257, 1024}

// Overhead measures how many tokens the servers add to each prompt, with prompts of several lengths on every target.
// Counts do not show where the tokens are; see Head. The error is what is wrong: a word that is not one token, a
// template that is not constant, or targets that differ.
func (b *Prober) Overhead(ctx context.Context, source prompt.Source) (tokens int, err error) {
	for i, at := range b.firsts() {
		added, err := b.overheadOf(ctx, at, source)
		if err != nil {
			return 0, err
		}
		if i > 0 && added != tokens {
			return 0, fmt.Errorf(
				"%w: %s adds %d tokens to a prompt, %s adds %d: they serve different models or chat templates; "+
					"replay them one by one",
				ErrProbe, b.Targets[0].URL, tokens, at.URL, added)
		}
		tokens = added
	}
	return tokens, nil
}

// overheadOf is the overhead of one target.
func (b *Prober) overheadOf(ctx context.Context, at server, source prompt.Source) (tokens int, err error) {
	for i, p := range b.probes(source) {
		usage, err := b.count(ctx, at, p.prompt, "")
		var refused *RefusedError
		if p.optional && errors.As(err, &refused) && refused.Status < 500 {
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
			return 0, b.countError(at.URL, source, p, usage.PromptTokens, tokens)
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
		list = append(list, probe{
			prompt:   b.newPrompt(source, n),
			tokens:   n,
			optional: n > probeTokens[0],
		})
	}
	if text, ok := source.(*prompt.Text); ok {
		list = append(list, probe{
			prompt:   text.AppendWords(nil),
			tokens:   text.Words() + 1,
			optional: true,
		})
	}
	return list
}

// countError is why the server's count cannot be relied on. If the server counts the same prompt twice with different
// results, the template is at fault, else the words.
func (b *Prober) countError(url string, source prompt.Source, p probe, counted, overhead int) error {
	first := probeTokens[0]
	if p.tokens == first && counted != p.tokens+overhead {
		return fmt.Errorf(
			"%w: the chat template of %s is not constant: it counts the same prompt of %d tokens as %d and as %d; "+
				"fix the template, or replay with --api completions",
			ErrProbe, url, first, first+overhead, counted)
	}
	if _, words := source.(*prompt.Text); !words {
		return fmt.Errorf(
			"%w: %s counts %d tokens in a prompt of %d token ids, so its count proves nothing; use --no-probe to "+
				"replay without proof",
			ErrProbe, url, counted, p.tokens)
	}
	why := "the built-in list as one token; give the model's own tokenizer with --tokenizer"
	if b.Tokenizer != "" {
		why = b.Tokenizer + " as one token, so that is not its tokenizer; give its own"
	}
	return fmt.Errorf(
		"%w: %s counts %d tokens in a prompt that was to have %d: its model does not take each word of %s, or "+
			"replay token ids (--api completions --prompt token-ids)",
		ErrProbe, url, counted, p.tokens+max(0, overhead), why)
}

// ErrTemplateChanges means that a chat template puts other tokens around the same prompt each time.
var ErrTemplateChanges = errors.New(
	"the chat template is not constant, so the server's cache cannot hit behind what changes")

// headTokens is the length of the prompts by which the head is found: longer than chance could make alike.
const headTokens = 64

// Head sends the servers two prompts to tokenize (vLLM's POST /tokenize), which differ from their first word to their
// last. The tokens with which both begin are the template's head, and those with which both end its tail. overhead is
// their sum, measured before. The error is why the head stays unknown. After ErrTemplateChanges no cache can hit as in
// the trace.
func (b *Prober) Head(ctx context.Context, source prompt.Source, overhead int) (workload.Overhead, error) {
	var found workload.Overhead
	one, other := b.unlike(source)
	for i, at := range b.firsts() {
		var lists [3][]int64
		for j, text := range [...][]byte{one, other, one} {
			var err error
			lists[j], err = b.tokenize(ctx, at, func(k api.Backend) []byte {
				return k.AppendSuffix(append(k.AppendPrefix(nil), text...), 1)
			})
			if err != nil {
				return workload.Overhead{}, err
			}
		}
		tokens := len(lists[0])
		o := workload.Overhead{
			Head: commonPrefix(lists[0], lists[1]),
			Tail: commonSuffix(lists[0], lists[1]),
		}
		var wrong error
		switch {
		case !slices.Equal(lists[0], lists[2]):
			wrong = fmt.Errorf("%w: %s/tokenize gives other tokens for the same prompt", ErrTemplateChanges, at.Base)
		case tokens != headTokens+overhead || o.Tokens() != overhead:
			wrong = fmt.Errorf("%s/tokenize counts %d tokens where completions count %d",
				at.Base, tokens, headTokens+overhead)
		case i > 0 && o != found:
			wrong = fmt.Errorf("%s and %s put different tokens in front of a prompt", b.Targets[0].URL, at.URL)
		}
		if wrong != nil {
			return workload.Overhead{}, wrong
		}
		found = o
	}
	return found, nil
}

// unlike makes two prompts of headTokens tokens whose first and last words differ.
func (b *Prober) unlike(source prompt.Source) (one, other []byte) {
	ends := func(text []byte) (first, last string) {
		const separators = " ,"
		end := bytes.IndexAny(text, separators)
		begin := bytes.LastIndexAny(text, separators)
		return string(text[:end]), string(text[begin:])
	}
	one = b.newPrompt(source, headTokens)
	first, last := ends(one)
	for {
		other = b.newPrompt(source, headTokens)
		otherFirst, otherLast := ends(other)
		if first != otherFirst && last != otherLast {
			return one, other
		}
	}
}

// TokenIDs returns the token ids of a verbatim prompt, template included, as one of the servers reports them.
func (b *Prober) TokenIDs(ctx context.Context, l api.Verbatim) ([]int64, error) {
	return b.tokenize(ctx, firstOf(&b.Targets[0]), func(k api.Backend) []byte {
		return k.AppendVerbatim(nil, l, 1)
	})
}

// tokenize returns the token ids of the prompt in a body, as the server's model gets it, template included.
func (b *Prober) tokenize(ctx context.Context, at server, body func(api.Backend) []byte) ([]int64, error) {
	backend, err := b.Tokenize()
	if err != nil {
		return nil, err
	}
	status, answer, err := b.ask(ctx, at, fasthttp.MethodPost, at.Base+"/tokenize", body(backend))
	if err != nil {
		return nil, fmt.Errorf("%s/tokenize: %w", at.Base, err)
	}
	var list struct {
		Tokens []int64 `json:"tokens"`
	}
	if status != 200 {
		return nil, fmt.Errorf("%s/tokenize answers HTTP %d", at.Base, status)
	}
	if err := json.Unmarshal(answer, &list); err != nil || len(list.Tokens) == 0 {
		return nil, fmt.Errorf("%s/tokenize answers without \"tokens\"", at.Base)
	}
	return list.Tokens, nil
}

func commonPrefix(a, b []int64) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

func commonSuffix(a, b []int64) (n int) {
	for n < min(len(a), len(b)) {
		last := n + 1
		if a[len(a)-last] != b[len(b)-last] {
			break
		}
		n = last
	}
	return n
}
