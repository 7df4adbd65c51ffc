package mockllm

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth bounds the nesting of a request body; encoding/json stops at 10,000.
const maxDepth = 1000

// scanner reads strict JSON (RFC 8259) front to back without a copy. It exists because prompts are large: a body of a
// megabyte is read once, and its ids or words go straight into the prompt's hash.
type scanner struct {
	b []byte
	i int
}

// syntaxError is where a body stops being what it should be.
type syntaxError struct {
	at   int
	what string
}

func (e *syntaxError) Error() string { return fmt.Sprintf("body: byte %d: %s", e.at, e.what) }

func (s *scanner) fail(what string) error { return &syntaxError{s.i, what} }

// peek skips white space and returns the next byte, 0 at the end.
func (s *scanner) peek() byte {
	for s.i < len(s.b) {
		switch c := s.b[s.i]; c {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return c
		}
	}
	return 0
}

// accept skips white space and then c, if it is there.
func (s *scanner) accept(c byte) bool {
	if s.peek() == c && s.i < len(s.b) {
		s.i++
		return true
	}
	return false
}

// object walks an object; visit must consume the key's value.
func (s *scanner) object(visit func(key []byte) error) error {
	if !s.accept('{') {
		return s.fail("expected an object")
	}
	if s.accept('}') {
		return nil
	}
	for {
		if s.peek() != '"' {
			return s.fail("expected a key in double quotes")
		}
		key, err := s.text()
		if err != nil {
			return err
		}
		if !s.accept(':') {
			return s.fail("expected ':' after the key")
		}
		if err := visit(key); err != nil {
			return err
		}
		if s.accept('}') {
			return nil
		}
		if !s.accept(',') {
			return s.fail("expected ',' or '}'")
		}
	}
}

// array walks an array; visit must consume one element.
func (s *scanner) array(visit func() error) error {
	if !s.accept('[') {
		return s.fail("expected an array")
	}
	if s.accept(']') {
		return nil
	}
	for {
		if err := visit(); err != nil {
			return err
		}
		if s.accept(']') {
			return nil
		}
		if !s.accept(',') {
			return s.fail("expected ',' or ']'")
		}
	}
}

// end fails unless only white space is left.
func (s *scanner) end() error {
	if s.peek(); s.i < len(s.b) {
		return s.fail("unexpected bytes after the object")
	}
	return nil
}

// text reads a string. The result aliases the body unless the string has escapes.
func (s *scanner) text() ([]byte, error) {
	if s.peek() != '"' {
		return nil, s.fail("expected a string")
	}
	s.i++
	var unescaped []byte // everything before start, if there was an escape
	start := s.i
	for s.i < len(s.b) {
		switch c := s.b[s.i]; {
		case c == '"':
			s.i++
			if unescaped == nil {
				return s.b[start : s.i-1], nil
			}
			return append(unescaped, s.b[start:s.i-1]...), nil
		case c == '\\':
			unescaped = append(unescaped, s.b[start:s.i]...)
			r, err := s.escape()
			if err != nil {
				return nil, err
			}
			unescaped = utf8.AppendRune(unescaped, r)
			start = s.i
		case c < ' ':
			return nil, s.fail("control character in a string")
		default:
			s.i++
		}
	}
	return nil, s.fail("string without an end")
}

// escape reads one escape sequence, a surrogate pair included; half a pair becomes U+FFFD as in encoding/json.
func (s *scanner) escape() (rune, error) {
	if s.i+1 >= len(s.b) {
		return 0, s.fail("escape without an end")
	}
	c := s.b[s.i+1]
	s.i += 2
	if c == 'u' {
		return s.unicode()
	}
	if k := strings.IndexByte(`"\/bfnrt`, c); k >= 0 {
		return rune("\"\\/\b\f\n\r\t"[k]), nil
	}
	s.i--
	return 0, s.fail("unknown escape")
}

func (s *scanner) unicode() (rune, error) {
	r, ok := hex4(s.b[s.i:])
	if !ok {
		return 0, s.fail("expected four hexadecimal digits")
	}
	s.i += 4
	if !utf16.IsSurrogate(r) {
		return r, nil
	}
	if bytes.HasPrefix(s.b[s.i:], []byte(`\u`)) {
		low, _ := hex4(s.b[s.i+2:])
		if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
			s.i += 6
			return pair, nil
		}
	}
	return utf8.RuneError, nil
}

func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	r, err := strconv.ParseUint(string(b[:4]), 16, 16)
	return rune(r), err == nil
}

// literal accepts one of true, false and null.
func (s *scanner) literal(word string) bool {
	if s.peek(); len(s.b)-s.i >= len(word) && string(s.b[s.i:s.i+len(word)]) == word {
		s.i += len(word)
		return true
	}
	return false
}

// boolean reads true or false; null counts as false.
func (s *scanner) boolean() (bool, error) {
	switch {
	case s.literal("true"):
		return true, nil
	case s.literal("false"), s.literal("null"):
		return false, nil
	}
	return false, s.fail("expected true or false")
}

// maxInteger bounds every number that the mock reads: far above any length, far below overflow.
const maxInteger = 1 << 52

// integer reads a whole number of at most maxInteger in magnitude.
func (s *scanner) integer() (int64, error) {
	s.peek()
	start := s.i
	negative := s.i < len(s.b) && s.b[s.i] == '-'
	if negative {
		s.i++
	}
	var v int64
	digits := s.i
	for ; s.i < len(s.b) && isDigit(s.b[s.i]); s.i++ {
		if v = v*10 + int64(s.b[s.i]-'0'); v > maxInteger {
			return 0, s.fail("number out of range")
		}
	}
	if s.i == digits || s.b[digits] == '0' && s.i > digits+1 || s.i < len(s.b) && isFloatByte(s.b[s.i]) {
		s.i = start
		return 0, s.fail("expected a whole number")
	}
	if negative {
		v = -v
	}
	return v, nil
}

func isDigit(c byte) bool     { return c-'0' <= 9 }
func isFloatByte(c byte) bool { return c == '.' || c|0x20 == 'e' }

// skip checks and passes over any value.
func (s *scanner) skip(depth int) error {
	if depth > maxDepth {
		return s.fail("nested too deeply")
	}
	switch c := s.peek(); {
	case c == '{':
		return s.object(func([]byte) error { return s.skip(depth + 1) })
	case c == '[':
		return s.array(func() error { return s.skip(depth + 1) })
	case c == '"':
		_, err := s.text()
		return err
	case c == '-' || isDigit(c):
		return s.number()
	case s.literal("true"), s.literal("false"), s.literal("null"):
		return nil
	}
	return s.fail("expected a value")
}

// number checks and passes over a number.
func (s *scanner) number() error {
	digits := func() bool {
		start := s.i
		for s.i < len(s.b) && isDigit(s.b[s.i]) {
			s.i++
		}
		return s.i > start
	}
	at := func(c byte) bool { return s.i < len(s.b) && s.b[s.i] == c }
	if at('-') {
		s.i++
	}
	if at('0') {
		s.i++
	} else if !digits() {
		return s.fail("expected a digit")
	}
	if at('.') {
		if s.i++; !digits() {
			return s.fail("expected a digit after the point")
		}
	}
	if s.i < len(s.b) && s.b[s.i]|0x20 == 'e' {
		if s.i++; at('+') || at('-') {
			s.i++
		}
		if !digits() {
			return s.fail("expected a digit in the exponent")
		}
	}
	return nil
}
