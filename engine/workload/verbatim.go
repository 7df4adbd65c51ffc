package workload

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/codec/trace/lists"
)

// VerbatimOf is the verbatim content of request i; ok is false where its prompt is made of tokens, beside which it may
// have extra members.
func (w *Work) VerbatimOf(i int) (l api.Verbatim, ok bool) {
	t := w.Trace.Verbatim(i)
	forms := [...]api.Form{
		trace.NoVerbatim:       api.Made,
		trace.VerbatimText:     api.Text,
		trace.VerbatimMessages: api.Messages,
		trace.VerbatimPayload:  api.Payload,
	}
	l = api.Verbatim{
		Form:    forms[t.Kind],
		Content: t.Content,
		Tools:   t.Tools,
		Extra:   t.Extra,
	}
	return l, l.Form != api.Made
}

// Made reports whether request i's prompt is made of tokens, and so known to the token.
func (w *Work) Made(i int) bool {
	return w.Trace.Made(i)
}

// VerbatimError is a row that an API cannot send.
type VerbatimError struct {
	Row int // in the trace file, from 0
	Why error
}

// Error names the row.
func (e *VerbatimError) Error() string {
	return fmt.Sprintf("row %d: %v", e.Row, e.Why)
}

// Unwrap is the reason.
func (e *VerbatimError) Unwrap() error { return e.Why }

// Verbatim is what is known of the tokens of verbatim prompts: their number, and a hash of each whole block (8 bytes a
// block). It does not keep the tokens.
type Verbatim struct {
	BlockTokens int // divides the block sizes of all caches
	prompts     []*verbatimPrompt
}

// of is what is known of some requests; nil of nil.
func (v *Verbatim) of(requests []int32) *Verbatim {
	if v == nil {
		return nil
	}
	return &Verbatim{
		BlockTokens: v.BlockTokens,
		prompts:     lists.Pick(requests, v.prompts),
	}
}

type verbatimPrompt struct {
	once   sync.Once
	tokens int
	blocks []uint64
}

// CountVerbatim counts the tokens of all verbatim prompts, on as many workers as there are processors, and each of
// those that are equal once. The caches' sizes must be known. done counts requests. The first error of ids, or ctx's,
// ends it, and nothing is known then.
func (w *Work) CountVerbatim(
	ctx context.Context, ids func(context.Context, api.Verbatim) ([]int64, error), done *atomic.Int64,
) error {
	v := &Verbatim{prompts: make([]*verbatimPrompt, w.Requests())}
	for _, t := range w.Targets {
		for _, addr := range t.Endpoints {
			v.BlockTokens = commonDivisor(v.BlockTokens, w.Cache(addr).BlockTokens)
		}
	}
	counting, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var known sync.Map // of prompts, by what is in them
	seed := maphash.MakeSeed()
	err := parallel(counting, w.Requests(), func(from, to int) {
		for i := from; i < to && counting.Err() == nil; i++ {
			l, ok := w.VerbatimOf(i)
			if !ok {
				continue
			}
			first, _ := known.LoadOrStore(keyOf(l), &verbatimPrompt{})
			p := first.(*verbatimPrompt)
			v.prompts[i] = p
			p.once.Do(func() {
				tokens, err := ids(counting, l)
				if err != nil {
					stop(err)
				}
				p.hash(tokens, v.BlockTokens, seed)
			})
			if counting.Err() == nil {
				done.Add(1)
			}
		}
	})
	if err != nil {
		return context.Cause(counting)
	}
	w.Verbatim = v
	return nil
}

func commonDivisor(a, b int) int {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}

// keyOf is equal for prompts that are equal.
func keyOf(l api.Verbatim) (key digest) {
	h := sha256.New()
	form := []byte{byte(l.Form)}
	for _, part := range [][]byte{form, l.Content, l.Tools, l.Extra} {
		size := binary.LittleEndian.AppendUint64(nil, uint64(len(part)))
		h.Write(size)
		h.Write(part)
	}
	h.Sum(key[:0])
	return key
}

// hash keeps what caches know of the tokens.
func (p *verbatimPrompt) hash(tokens []int64, blockTokens int, seed maphash.Seed) {
	p.tokens = len(tokens)
	var block []byte
	for ; len(tokens) >= blockTokens; tokens = tokens[blockTokens:] {
		block, _ = binary.Append(block[:0], binary.LittleEndian, tokens[:blockTokens])
		p.blocks = append(p.blocks, maphash.Bytes(seed, block))
	}
}

// cachePrompt is a request's prompt as models of prefix caches take it.
type cachePrompt struct {
	Blocks              []uint64
	BlockTokens         int // that one of the blocks stands for
	Tokens, Head, Total int
}

// CachePrompt is request i's prompt; ok is false where its tokens are not known. A verbatim prompt has the
// template in its own blocks.
func (w *Work) CachePrompt(i int) (p cachePrompt, ok bool) {
	if w.Made(i) {
		p = cachePrompt{
			Blocks:      w.cacheBlocks(w.specOf(i)),
			BlockTokens: w.Trace.BlockTokens,
			Tokens:      w.PromptTokens(i),
			Head:        w.Overhead.Head,
			Total:       w.BuiltTokens(i),
		}
		return p, true
	}
	if w.Verbatim == nil {
		return p, false
	}
	v := w.Verbatim.prompts[i]
	p = cachePrompt{
		Blocks:      v.blocks,
		BlockTokens: w.Verbatim.BlockTokens,
		Tokens:      v.tokens,
		Total:       v.tokens,
	}
	return p, v.tokens > 0
}

// ServerTokens is how many tokens the server should count in request i's prompt; 0 where that is not known.
func (w *Work) ServerTokens(i int) int {
	switch {
	case w.Made(i):
		return w.BuiltTokens(i)
	case w.Verbatim == nil:
		return 0
	}
	return w.Verbatim.prompts[i].tokens
}
