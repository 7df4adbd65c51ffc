package mockllm

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
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
	b, start, escaped := s.b, s.i, false
	for i := start + 1; i < len(b); i++ {
		switch c := b[i]; {
		case c > '"' && c != '\\':
		case c == '\\':
			escaped = true
			i++
		case c == '"':
			s.i = i + 1
			if !escaped {
				return b[start+1 : i], nil
			}
			var text string
			if json.Unmarshal(b[start:s.i], &text) != nil {
				s.i = start
				return nil, s.fail("unknown escape in the string")
			}
			return []byte(text), nil
		case c < ' ':
			s.i = i
			return nil, s.fail("control character in a string")
		}
	}
	s.i = len(b)
	return nil, s.fail("string without an end")
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

// integer reads a whole number.
func (s *scanner) integer() (int64, error) {
	number, err := s.number()
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseInt(string(number), 10, 64)
	if err != nil {
		s.i -= len(number)
		return 0, s.fail("expected a whole number")
	}
	return v, nil
}

func isDigit(c byte) bool { return c-'0' <= 9 }

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
		_, err := s.number()
		return err
	case s.literal("true"), s.literal("false"), s.literal("null"):
		return nil
	}
	return s.fail("expected a value")
}

// number checks and passes over a number.
func (s *scanner) number() ([]byte, error) {
	s.peek()
	start := s.i
	for s.i < len(s.b) && (isDigit(s.b[s.i]) || strings.IndexByte("+-.eE", s.b[s.i]) >= 0) {
		s.i++
	}
	if number := s.b[start:s.i]; json.Valid(number) {
		return number, nil
	}
	s.i = start
	return nil, s.fail("expected a number")
}
