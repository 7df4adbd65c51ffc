package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/bytedance/sonic"
	"github.com/valyala/fasthttp"

	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/prompt"
	"github.com/fastreplay/fastreplay/engine/workload"
)

// ErrTemplateChanges means that a chat template puts other tokens around the same prompt each time.
var ErrTemplateChanges = errors.New("the chat template is not constant, so the server's cache cannot hit behind what changes")

// headTokens is the length of the prompts by which the head is found: longer than chance could make alike.
const headTokens = 64

// Head asks the servers to tokenize two prompts that differ from their first word to their last (POST /tokenize, as vLLM
// has it). What both begin with is the template's head; what both end with, its tail. overhead is their sum, measured
// before. An error says why the head stays unknown. ErrTemplateChanges says that no cache can hit as the trace did.
func (b *Prober) Head(ctx context.Context, source prompt.Source, overhead int) (workload.Overhead, error) {
	var found workload.Overhead
	one, other := b.unlike(source)
	for i := range b.Targets {
		t := &b.Targets[i]
		var lists [3][]int64
		for j, text := range [...][]byte{one, other, one} {
			var err error
			if lists[j], err = b.tokenize(ctx, t, text); err != nil {
				return workload.Overhead{}, err
			}
		}
		o := workload.Overhead{Head: commonPrefix(lists[0], lists[1]), Tail: commonSuffix(lists[0], lists[1])}
		switch {
		case !slices.Equal(lists[0], lists[2]):
			return workload.Overhead{}, fmt.Errorf("%w: %s/tokenize gives other tokens for the same prompt", ErrTemplateChanges, t.Base)
		case len(lists[0]) != headTokens+overhead || o.Tokens() != overhead:
			return workload.Overhead{}, fmt.Errorf("%s/tokenize counts %d tokens where completions count %d", t.Base, len(lists[0]), headTokens+overhead)
		case i > 0 && o != found:
			return workload.Overhead{}, fmt.Errorf("%s and %s put different tokens in front of a prompt", b.Targets[0].URL, t.URL)
		}
		found = o
	}
	return found, nil
}

// unlike makes two prompts of headTokens tokens whose first and last words differ.
func (b *Prober) unlike(source prompt.Source) (one, other []byte) {
	one = b.newPrompt(source, headTokens)
	for {
		other = b.newPrompt(source, headTokens)
		const separators = " ,"
		if !bytes.Equal(one[:bytes.IndexAny(one, separators)], other[:bytes.IndexAny(other, separators)]) &&
			!bytes.Equal(one[bytes.LastIndexAny(one, separators):], other[bytes.LastIndexAny(other, separators):]) {
			return one, other
		}
	}
}

// tokenize returns the token ids of a prompt as the server's model gets it, template included.
func (b *Prober) tokenize(ctx context.Context, t *workload.Target, text []byte) ([]int64, error) {
	backend, err := b.Tokenize()
	if err != nil {
		return nil, err
	}
	return b.tokenizeBody(ctx, t, backend.AppendSuffix(append(backend.AppendPrefix(nil), text...), 1))
}

// TokenIDs asks one of the servers for the ids of a prompt that is there word for word, template included.
func (b *Prober) TokenIDs(ctx context.Context, l api.Literal) ([]int64, error) {
	backend, err := b.Tokenize()
	if err != nil {
		return nil, err
	}
	return b.tokenizeBody(ctx, &b.Targets[0], backend.AppendLiteral(nil, l, 1))
}

func (b *Prober) tokenizeBody(ctx context.Context, t *workload.Target, body []byte) ([]int64, error) {
	status, answer, err := b.ask(ctx, t, t.Peers[0], fasthttp.MethodPost, t.Base+"/tokenize", body)
	if err != nil {
		return nil, fmt.Errorf("%s/tokenize: %w", t.Base, err)
	}
	var list struct {
		Tokens []int64 `json:"tokens"`
	}
	if status != 200 {
		return nil, fmt.Errorf("%s/tokenize answers HTTP %d", t.Base, status)
	}
	if err := sonic.Unmarshal(answer, &list); err != nil || len(list.Tokens) == 0 {
		return nil, fmt.Errorf("%s/tokenize answers without \"tokens\"", t.Base)
	}
	return list.Tokens, nil
}

func commonPrefix(a, b []int64) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

func commonSuffix(a, b []int64) int {
	n := 0
	for n < len(a) && n < len(b) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return n
}
