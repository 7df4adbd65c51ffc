package mockllm

import "unicode/utf8"

// What a template's or a BOS's tokens are made of, so that they never equal each other.
const (
	specialBOS = iota + 1
	specialHead
	specialTail
	specialJitter
)

// maxTokenID bounds a token id; the largest vocabularies have about 2^18 entries.
const maxTokenID = 1<<31 - 1

// ids reads an array of token ids into h.
func (s *scanner) ids(h *promptHasher) error {
	if !s.accept('[') {
		return s.fail("expected an array of token ids")
	}
	if s.accept(']') {
		return nil
	}
	for {
		more, err := s.plainIDs(h)
		if err != nil || !more {
			return err
		}
		s.peek() // white space before an id
		if s.i == len(s.b) || !isDigit(s.b[s.i]) {
			return s.fail("expected a token id, a whole number of at least 0")
		}
	}
}

// plainIDs reads ids for as long as nothing but commas separates them, and reports whether another must follow. Every
// prompt of a token-id replay passes through this loop, up to a megabyte each: its state lives in registers.
func (s *scanner) plainIDs(h *promptHasher) (more bool, err error) {
	b, i := s.b, s.i
	chain, tokens, left := h.chain, h.tokens, h.left
	defer func() { h.chain, h.tokens, h.left = chain, tokens, left }()
	for i < len(b) && isDigit(b[i]) {
		start := i
		v := uint64(b[i] - '0')
		for i++; i < len(b) && isDigit(b[i]); i++ {
			if v = v*10 + uint64(b[i]-'0'); v > maxTokenID {
				s.i = i
				return false, s.fail("token id out of range")
			}
		}
		if b[start] == '0' && i > start+1 {
			s.i = start
			return false, s.fail("a number must not begin with 0")
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
		s.i = i
		if s.accept(']') {
			return false, nil
		}
		if !s.accept(',') {
			return false, s.fail("expected ',' or ']' after a token id")
		}
		return true, nil
	}
	s.i = i
	return true, nil
}

// words reads a string into h: a token for each run of bytes between white space.
func (s *scanner) words(h *promptHasher) error {
	if s.peek() != '"' {
		return s.fail("expected a string")
	}
	s.i++
	word, letters := uint64(wordBasis), 0
	b := s.b
	for i := s.i; i < len(b); {
		c := b[i]
		switch {
		case c > ' ' && c != '"' && c != '\\':
			word = (word ^ uint64(c)) * wordMultiplier
			if c < 0x80 || c >= 0xc0 || letters == 0 { // the first byte of a character
				letters++
			}
			i++
			continue
		case c == '\\':
			s.i = i
			r, err := s.escape()
			if err != nil {
				return err
			}
			i = s.i
			if !isSpace(r) {
				var buf [utf8.UTFMax]byte
				word = foldWord(word, utf8.AppendRune(buf[:0], r)) // an escaped word equals the plain one
				letters++
				continue
			}
		case c == '"':
			s.i = i + 1
			if letters > 0 {
				h.word(word, letters)
			}
			return nil
		case c < ' ':
			s.i = i
			return s.fail("control character in a string")
		default:
			i++
		}
		if letters > 0 {
			h.word(word, letters)
			word, letters = wordBasis, 0
		}
	}
	s.i = len(b)
	return s.fail("string without an end")
}

func isSpace(r rune) bool { return r == ' ' || r >= '\t' && r <= '\r' }
