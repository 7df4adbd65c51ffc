package mockllm

import (
	"bytes"
	"encoding/json"
)

// What a template's or a BOS's tokens are made of, so that they never equal each other.
const (
	specialBOS = iota + 1
	specialHead
	specialTail
	specialJitter
)

// maxTokenID bounds a token id; the largest vocabularies have about 2^18 entries.
const maxTokenID = 1<<31 - 1

// ids adds the tokens of an array of ids, which is known to be JSON. Every prompt of a token-id replay passes through its
// loop, up to a megabyte each: its state lives in registers.
func (h *promptHasher) ids(array rawJSON) error {
	chain, tokens, left := h.chain, h.tokens, h.left
	for i := 1; i < len(array); {
		if separates(array[i]) {
			i++
			continue
		}
		begin, v := i, uint64(0)
		for ; array[i]-'0' <= 9 && v <= maxTokenID; i++ { // ends at the array's bracket
			v = v*10 + uint64(array[i]-'0')
		}
		if i == begin || v > maxTokenID || !separates(array[i]) {
			return badRequest("prompt: expected token ids, whole numbers from 0 to %d", maxTokenID)
		}
		chain = mix(chain, v)
		tokens++
		if left--; left == 0 {
			left = h.block
			h.keys = append(h.keys, finalize(chain))
		}
	}
	h.chain, h.tokens, h.left = chain, tokens, left
	return nil
}

// separates reports whether c stands between the numbers of an array or at its end.
func separates(c byte) bool { return c == ',' || c <= ' ' || c == ']' }

// text adds the tokens of a JSON string: one for each run of bytes between white space.
func (h *promptHasher) text(quoted rawJSON) error {
	if quoted[0] != '"' {
		return badRequest("prompt: expected a string")
	}
	text := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(text, '\\') >= 0 {
		var decoded string
		if err := json.Unmarshal(quoted, &decoded); err != nil {
			return badRequest("prompt: %v", err)
		}
		text = rawJSON(decoded)
	}
	word, letters := uint64(wordBasis), 0
	for _, c := range text {
		if c > ' ' || c != ' ' && (c < '\t' || c > '\r') {
			word = (word ^ uint64(c)) * wordMultiplier
			if c < 0x80 || c >= 0xc0 || letters == 0 { // the first byte of a character
				letters++
			}
		} else if letters > 0 {
			h.word(word, letters)
			word, letters = wordBasis, 0
		}
	}
	if letters > 0 {
		h.word(word, letters)
	}
	return nil
}
