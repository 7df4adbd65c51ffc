package mockllm

// What a template's or a BOS's tokens are made of, so that they never equal each other.
const (
	specialBOS = iota + 1
	specialHead
	specialTail
	specialJitter
)

// maxTokenID bounds a token id; the largest vocabularies have about 2^18 entries.
const maxTokenID = 1<<31 - 1

// ids adds the tokens of an array of ids. Every prompt of a token-id replay passes through its loop, up to a megabyte
// each: its state lives in registers.
func (h *promptHasher) ids(array rawJSON) error {
	if array[0] != '[' {
		return badRequest("prompt: expected an array of token ids")
	}
	i := skipSpace(array, 1)
	if array[i] == ']' {
		return nil
	}
	chain := h.chain
	tokens := h.tokens
	left := h.left
	for {
		begin := i
		v := uint64(0)
		for ; array[i]-'0' <= 9 && v <= maxTokenID; i++ {
			v = v*10 + uint64(array[i]-'0')
		}
		if i == begin || v > maxTokenID || array[begin] == '0' && i > begin+1 {
			return badRequest("prompt: expected token ids, whole numbers from 0 to %d", maxTokenID)
		}
		chain = mix(chain, v)
		tokens++
		if left--; left == 0 {
			left = h.block
			h.keys = append(h.keys, finalize(chain))
		}
		if i = skipSpace(array, i); array[i] == ']' {
			break
		}
		if array[i] != ',' {
			return badRequest("prompt: expected token ids with commas between them")
		}
		i = skipSpace(array, i+1)
	}
	h.chain = chain
	h.tokens = tokens
	h.left = left
	return nil
}

// text adds the tokens of a JSON string: one for each run of bytes between white space.
func (h *promptHasher) text(quoted rawJSON) error {
	var text string
	if err := readJSON(quoted, &text); err != nil {
		return err
	}
	word := uint64(wordBasis)
	letters := 0
	for i := range len(text) {
		c := text[i]
		if c > ' ' || c != ' ' && (c < '\t' || c > '\r') {
			word = (word ^ uint64(c)) * wordMultiplier
			if c < 0x80 || c >= 0xc0 || letters == 0 { // the first byte of a character
				letters++
			}
		} else if letters > 0 {
			h.word(word, letters)
			word = wordBasis
			letters = 0
		}
	}
	if letters > 0 {
		h.word(word, letters)
	}
	return nil
}
