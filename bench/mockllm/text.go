package mockllm

import (
	"cmp"
	"strings"

	"github.com/fastreplay/fastreplay/bench/mockllm/fault"
)

// vocabulary has the words of all answers: 64 that need no escaping in JSON.
const vocabulary = "" +
	"the and for that with this from have more will time people which their about other when there them " +
	"some then into only over such work year state world still between life after while last might great " +
	"since against right place through before never under house water number small always order large " +
	"night point given light think every found along later early north river green"

// words returns the vocabulary as tokens: each word with its leading space.
func words() []string {
	list := strings.Fields(vocabulary)
	for i, w := range list {
		list[i] = " " + w
	}
	return list
}

// word returns the k-th token's text of an answer.
func (r *reply) word(k int) string { return r.srv.words[r.wordIndex(k)] }

func (r *reply) wordIndex(k int) uint64 {
	return finalize(r.voice+uint64(k)*hashMultiplier) % uint64(len(r.srv.words))
}

// firstTokenID is the id of the vocabulary's first word: ordinary text in every popular vocabulary.
const firstTokenID = 1024

// tokenNumber returns the k-th token's id of an answer.
func (r *reply) tokenNumber(k int) int { return firstTokenID + int(r.wordIndex(k)) }

// tokenID is the k-th token's id of an answer in ids: the one that the request forces, if it does.
func (r *reply) tokenID(k int) int {
	id := r.tokenNumber(k)
	if r.p.forced != nil {
		id = int(r.p.forced[k])
	}
	if r.fault.Kind == fault.WrongID && k == r.fault.N {
		id ^= 1
	}
	return id
}

// nameAnswer names the blocks that end in the answer. Of a prompt in ids its tokens are ids. Else they are words as a
// prompt has them, so that a conversation finds them if the template adds nothing between its messages.
func (r *reply) nameAnswer() {
	if r.cfg.CacheTokens == 0 || r.cfg.EmptyChunks > 0 {
		return
	}
	h := promptHasher{
		keys:  r.lease.answer[:0],
		chain: r.chain,
		block: r.cfg.BlockTokens,
		left:  r.left,
	}
	for k := range r.total - 1 {
		if r.p.promptIDs {
			h.add(uint64(r.tokenID(k)))
		} else {
			h.add(foldWord(wordBasis, r.word(k)[1:]) &^ specialBit)
		}
	}
	apart := r.apart()
	for i := range h.keys {
		h.keys[i] ^= apart
	}
	r.lease.answer = h.keys
}

// model is as the request names it, or that which is served.
func (r *reply) model() string { return cmp.Or(r.p.model, r.srv.model) }

// apart keeps blocks of other salts apart, and of other models, as a server does with those of LoRA adapters.
func (r *reply) apart() uint64 {
	return r.p.saltHash + 31*hashBytes(r.model())
}

// silent reports whether the chunk that begins with token k has an empty text.
func (r *reply) silent(k int) bool {
	share := r.cfg.EmptyChunks
	return share > 0 && float64(finalize(r.voice^uint64(k+1)*wordMultiplier)>>11)/(1<<53) < share
}

// appendText appends the text of all tokens from the beginning of a part, or of a chunk, to another token: that of its
// chunks together.
func (r *reply) appendText(dst []byte, from, to int) []byte {
	for ; from < to; from += r.cfg.TokensPerChunk {
		if r.silent(from) {
			continue
		}
		for k := from; k < min(from+r.cfg.TokensPerChunk, to); k++ {
			dst = append(dst, r.word(k)...)
		}
	}
	return dst
}

// toolName is the tool that the mock calls, with one argument.
const toolName = "answer"

// appendPart appends the text of some tokens of a part, inside a JSON string.
func (r *reply) appendPart(dst []byte, of part, from, to int) []byte {
	if of == partTool && from == r.tool {
		dst = append(dst, `{\"text\":\"`...)
	}
	dst = r.appendText(dst, from, to)
	if of == partTool && to == r.total {
		dst = append(dst, `\"}`...)
	}
	return dst
}

// appendEscaped appends s as the inside of a JSON string.
func appendEscaped[S string | []byte](dst []byte, s S) []byte {
	const hex = "0123456789abcdef"
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ' || c == 0x7f:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return dst
}
