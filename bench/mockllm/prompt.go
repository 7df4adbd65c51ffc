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

// ids reads an array of token ids into h. Every prompt of a token-id replay passes through its loop, up to a megabyte each:
// its state lives in registers.
func (s *scanner) ids(h *promptHasher) error {
	if !s.accept('[') {
		return s.fail("expected an array of token ids")
	}
	if s.accept(']') {
		return nil
	}
	chain, tokens, left := h.chain, h.tokens, h.left
	defer func() { h.chain, h.tokens, h.left = chain, tokens, left }()
	for b, i := s.b, s.i; ; {
		if i == len(b) || !isDigit(b[i]) { // white space before an id
			s.i = i
			s.peek()
			i = s.i
		}
		start, v := i, uint64(0)
		for ; i < len(b) && isDigit(b[i]) && v <= maxTokenID; i++ {
			v = v*10 + uint64(b[i]-'0')
		}
		switch {
		case i == start:
			return s.fail("expected a token id, a whole number of at least 0")
		case v > maxTokenID:
			return s.fail("token id out of range")
		case b[start] == '0' && i > start+1:
			return s.fail("a number must not begin with 0")
		}
		chain = mix(chain, v)
		tokens++
		if left--; left == 0 {
			left = h.block
			h.keys = append(h.keys, finalize(chain))
		}
		if i < len(b) && b[i] == ',' {
			i++
			continue
		}
		if s.i = i; s.accept(']') {
			return nil
		}
		if !s.accept(',') {
			return s.fail("expected ',' or ']' after a token id")
		}
		i = s.i
	}
}

// words reads a string into h: a token for each run of bytes between white space.
func (s *scanner) words(h *promptHasher) error {
	text, err := s.text()
	if err != nil {
		return err
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
