package api

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
)

// MaxDepth bounds the nesting of a document. Chunks nest six deep; json.Valid allows 10,000.
const MaxDepth = 256

// ErrBadJSON is wrapped by every error about an event or body.
var ErrBadJSON = errors.New("malformed JSON")

// scanner walks one JSON document (RFC 8259) in memory from left to right, validates all of it and allocates nothing. After
// an error every method reports the end, so that callers check err once, in finish.
type scanner struct {
	b     []byte
	i     int    // the next byte
	depth int    // objects and arrays entered and not left
	first bool   // no member or element of the innermost one was read yet
	bad   string // what is wrong at i; "" = nothing yet
	rest  []byte // what follows the error
}

// fail notes the first error, and leaves no input after it.
func (s *scanner) fail(what string) {
	if s.bad == "" {
		s.bad, s.rest = what, s.b[s.i:]
		s.b = s.b[:s.i]
	}
}

// finish checks that nothing follows the document, and returns the error if there was one.
func (s *scanner) finish() error {
	if s.peek(); s.i < len(s.b) {
		s.fail("bytes after the document")
	}
	if s.bad == "" {
		return nil
	}
	const quoted = 40
	return fmt.Errorf("%w at byte %d: %s before %q", ErrBadJSON, s.i, s.bad, s.rest[:min(quoted, len(s.rest))])
}

// peek skips white space and returns the next byte, or 0 at the end of the input or after an error.
func (s *scanner) peek() byte {
	if s.i < len(s.b) && s.b[s.i] > ' ' {
		return s.b[s.i]
	}
	return s.peekSpace()
}

func (s *scanner) peekSpace() byte {
	for s.i < len(s.b) {
		switch c := s.b[s.i]; c {
		case ' ', '\n', '\t', '\r':
			s.i++
		default:
			return c
		}
	}
	return 0
}

// object enters the next value if it is an object and else skips it.
func (s *scanner) object() bool { return s.enter('{') }

// array enters the next value if it is an array and else skips it.
func (s *scanner) array() bool { return s.enter('[') }

func (s *scanner) enter(open byte) bool {
	if s.peek() != open {
		s.skip()
		return false
	}
	if s.depth++; s.depth > MaxDepth {
		s.fail("nested too deep")
		return false
	}
	s.i++
	s.first = true
	return true
}

// more steps to the next member or element, or out of the object or array that ends in close.
func (s *scanner) more(close byte) bool {
	first := s.first
	s.first = false
	switch c := s.peek(); {
	case c == close:
		s.i++
		s.depth--
		return false
	case first && c != 0:
		return true
	case c == ',':
		s.i++
		return true
	}
	s.fail("no comma or end of an object or array")
	return false
}

// element steps to the next element of the array entered.
func (s *scanner) element() bool { return s.more(']') && s.bad == "" }

// firstKey is key for the next value if it is an object. Any other is skipped, and has none.
func (s *scanner) firstKey() (key []byte, ok bool) {
	if !s.object() {
		return nil, false
	}
	return s.key()
}

// key steps to the next member of the object entered and returns its key, valid until the next call. What servers send, a
// plain key and no space around it, takes the short way.
func (s *scanner) key() (key []byte, ok bool) {
	b, i := s.b, s.i
	if !s.first && i < len(b) && b[i] == ',' {
		i++
	}
	if (s.first || i > s.i) && i < len(b) && b[i] == '"' {
		end := plain(b, i+1)
		if end+1 < len(b) && b[end] == '"' && b[end+1] == ':' {
			s.i, s.first = end+2, false
			return b[i+1 : end], true
		}
	}
	return s.anyKey()
}

func (s *scanner) anyKey() (key []byte, ok bool) {
	if !s.more('}') {
		return nil, false
	}
	if s.peek() != '"' {
		s.fail("no key of an object")
		return nil, false
	}
	key, escaped := s.quoted()
	if escaped {
		key = AppendUnescaped(nil, key) // allocates, for what no server sends but JSON allows
	}
	if s.peek() != ':' {
		s.fail("no colon after a key")
		return nil, false
	}
	s.i++
	return key, true
}

// text reads the next value if it is a string and returns what is between its quotes, escapes and all; else it skips it.
func (s *scanner) text() (raw []byte, escaped, ok bool) {
	if s.peek() != '"' {
		s.skip()
		return nil, false, false
	}
	raw, escaped = s.quoted()
	return raw, escaped, s.bad == ""
}

// skip passes over the next value of any kind.
func (s *scanner) skip() {
	switch s.peek() {
	case '"':
		s.quoted()
	case '{':
		for _, ok := s.firstKey(); ok; _, ok = s.key() {
			s.skip()
		}
	case '[':
		for more := s.array() && s.element(); more; more = s.element() {
			s.skip()
		}
	case 'n':
		s.literal("null")
	case 't':
		s.literal("true")
	case 'f':
		s.literal("false")
	default:
		s.number()
	}
}

func (s *scanner) literal(word string) {
	if end := s.i + len(word); end > len(s.b) || string(s.b[s.i:end]) != word {
		s.fail("no value")
		return
	}
	s.i += len(word)
}

// quoted reads a string that begins at i and returns what is between its quotes.
func (s *scanner) quoted() (raw []byte, escaped bool) {
	start := s.i + 1
	i := plain(s.b, start)
	if i < len(s.b) && s.b[i] == '"' {
		s.i = i + 1
		return s.b[start:i], false
	}
	for ; ; i = plain(s.b, i) {
		if i == len(s.b) {
			s.i = i
			s.fail("end of input in a string")
			return nil, false
		}
		switch c := s.b[i]; {
		case c == '"':
			s.i = i + 1
			return s.b[start:i], escaped
		case c == '\\':
			n := escapeLen(s.b[i:])
			if n == 0 {
				s.i = i
				s.fail("bad escape")
				return nil, false
			}
			escaped = true
			i += n
		default:
			s.i = i
			s.fail("control character in a string")
			return nil, false
		}
	}
}

// plain returns the index of the first quote, backslash or control character at or after i, or len(b). It looks at eight
// bytes at a time; the lowest bit that the tests below set is exact, whatever they say of higher bytes.
func plain(b []byte, i int) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		quote, slash := w^(ones*'"'), w^(ones*'\\')
		hit := ((quote-ones)&^quote | (slash-ones)&^slash | (w-ones*' ')&^w) & tops
		if hit != 0 {
			return i + bits.TrailingZeros64(hit)/8
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c == '"' || c == '\\' || c < ' ' {
			return i
		}
	}
	return i
}

// escapeLen returns the length of the escape that b begins with, or 0.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if _, ok := hex4(b[2:]); ok {
			return 6
		}
	}
	return 0
}

func hex4(b []byte) (r rune, ok bool) {
	if len(b) < 4 {
		return 0, false
	}
	for _, c := range b[:4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
