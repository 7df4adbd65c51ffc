// Package json scans JSON (RFC 8259) that is in memory: events and bodies of servers for codec/api, rows for
// codec/trace.
//
// It owns the grammar: it accepts what encoding/json accepts, but the caller limits the depth. It does not own what
// values mean. A Scanner belongs to one goroutine. It allocates for an error, and for a key with escapes that does not
// fit into Scratch.
//
// The package is not an API: any release may change it.
package json

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"math/bits"
)

// Scanner walks one document from left to right and validates all that it passes. After an error every method reports
// the end, so that callers check Err once.
type Scanner struct {
	Data     []byte // the document; it ends before the error after one
	At       int    // the next byte
	MaxDepth int    // how deep objects and arrays may nest
	Scratch  []byte // holds a key with escapes
	Skipped  []Span // gets the strings and numbers that Skip has passed over, as far as there is room

	depth int    // objects and arrays entered and not left
	first bool   // no member or element of the innermost one was read yet
	bad   string // what is wrong at At; "" = nothing yet
	end   int    // of the document, after an error
}

// Span is where a value lies in a document: at Data[From:To].
type Span struct{ From, To uint32 }

// SyntaxError reports what JSON was wanted and not found.
type SyntaxError struct {
	At   int    // bytes before the place
	What string // what is wrong there
	Rest []byte // what stands there; it aliases the document
}

// Error names the place, what is wrong and at most 40 bytes of what stands there.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("at byte %d: %s before %q", e.At, e.What, e.Rest[:min(40, len(e.Rest))])
}

// Fail notes the first error, and leaves no input after it.
func (s *Scanner) Fail(what string) {
	if s.bad == "" {
		s.bad = what
		s.end = len(s.Data)
		s.Data = s.Data[:s.At]
	}
}

// Err returns the error, a *SyntaxError, if there was one.
func (s *Scanner) Err() error {
	if s.bad == "" {
		return nil
	}
	return &SyntaxError{At: s.At, What: s.bad, Rest: s.Data[s.At:s.end]}
}

// Failed reports whether there was an error.
func (s *Scanner) Failed() bool { return s.bad != "" }

// End checks that only white space follows; what names an error if something does.
func (s *Scanner) End(what string) {
	if s.Peek(); s.At < len(s.Data) {
		s.Fail(what)
	}
}

// Peek skips white space and returns the next byte, or 0 at the end of the input or after an error.
func (s *Scanner) Peek() byte {
	if s.At < len(s.Data) && s.Data[s.At] > ' ' {
		return s.Data[s.At]
	}
	return s.peekSpace()
}

func (s *Scanner) peekSpace() byte {
	for s.At < len(s.Data) {
		switch c := s.Data[s.At]; c {
		case ' ', '\n', '\t', '\r':
			s.At++
		default:
			return c
		}
	}
	return 0
}

// Object enters the next value if it is an object and else skips it.
func (s *Scanner) Object() bool { return s.enter('{') }

// Array enters the next value if it is an array and else skips it.
func (s *Scanner) Array() bool { return s.enter('[') }

func (s *Scanner) enter(open byte) bool {
	if s.Peek() != open {
		s.Skip()
		return false
	}
	if s.depth++; s.depth > s.MaxDepth {
		s.Fail("nested too deep")
		return false
	}
	s.At++
	s.first = true
	return true
}

// more steps to the next member or element, or out of the object or array that ends in close.
func (s *Scanner) more(close byte) bool {
	first := s.first
	s.first = false
	switch c := s.Peek(); {
	case c == close:
		s.At++
		s.depth--
		return false
	case first && c != 0:
		return true
	case c == ',':
		s.At++
		return true
	}
	s.noMore(close)
	return false
}

func (s *Scanner) noMore(close byte) { s.Fail("want , or " + string(close) + " after a value") }

// Element steps to the next element of the array entered.
func (s *Scanner) Element() bool { return s.more(']') && s.bad == "" }

// FirstKey is Key for the next value if it is an object. Any other is skipped, and has none.
func (s *Scanner) FirstKey() (key []byte, ok bool) {
	if !s.Object() {
		return nil, false
	}
	return s.Key()
}

// Keys are those of the next value if it is an object, as Members has them.
func (s *Scanner) Keys() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if s.Object() {
			s.Members(yield)
		}
	}
}

// Members are the keys of the object entered, each valid until the next. The scanner then stands before the key's
// value. A value that the caller leaves there is skipped.
func (s *Scanner) Members(yield func(key []byte) bool) {
	for key, ok := s.Key(); ok; key, ok = s.Key() {
		s.Peek()
		at := s.At
		if !yield(key) {
			return
		}
		if s.At == at {
			s.Skip()
		}
	}
}

// Only steps to the members of that name in the next value if it is an object, and skips all others. It allocates
// nothing, as a loop over Keys within it would.
func (s *Scanner) Only(name string) func(yield func() bool) {
	return func(yield func() bool) {
		for key, ok := s.FirstKey(); ok; key, ok = s.Key() {
			if string(key) != name {
				s.Skip()
			} else if !yield() {
				return
			}
		}
	}
}

// Elements steps to the elements of the next value if it is an array. The caller takes or skips each.
func (s *Scanner) Elements() func(yield func() bool) {
	return func(yield func() bool) {
		if !s.Array() {
			return
		}
		for s.Element() && yield() {
		}
	}
}

// Key steps to the next member of the object entered and returns its key, valid until the next call. A plain key with
// no space around it, as servers send it, takes the short way.
func (s *Scanner) Key() (key []byte, ok bool) {
	b := s.Data
	i := s.At
	if !s.first && i < len(b) && b[i] == ',' {
		i++
	}
	if (s.first || i > s.At) && i < len(b) && b[i] == '"' {
		end := Plain(b, i+1)
		if end+1 < len(b) && b[end] == '"' && b[end+1] == ':' {
			s.At = end + 2
			s.first = false
			return b[i+1 : end], true
		}
	}
	return s.anyKey()
}

func (s *Scanner) anyKey() (key []byte, ok bool) {
	if !s.more('}') {
		return nil, false
	}
	if s.Peek() != '"' {
		s.Fail("want a string")
		return nil, false
	}
	key, escaped := s.Quoted()
	if escaped {
		s.Scratch = AppendUnescaped(s.Scratch[:0], key)
		key = s.Scratch
	}
	if s.Peek() != ':' {
		s.Fail("want : after a key")
		return nil, false
	}
	s.At++
	return key, true
}

// Text reads the next value if it is a string and returns what is between its quotes, escapes and all; else it skips
// it.
func (s *Scanner) Text() (raw []byte, escaped, ok bool) {
	if s.Peek() != '"' {
		s.Skip()
		return nil, false, false
	}
	raw, escaped = s.Quoted()
	return raw, escaped, s.bad == ""
}

// Skip passes over the next value of any kind.
func (s *Scanner) Skip() {
	switch s.Peek() {
	case '"':
		from := s.At
		s.Quoted()
		s.noteSkipped(from)
	case '{':
		for _, ok := s.FirstKey(); ok; _, ok = s.Key() {
			s.Skip()
		}
	case '[':
		if !s.Array() {
			return
		}
		for s.plainNumbers(); s.Element(); {
			s.Skip()
		}
	case 'n':
		if end := s.At + len("null"); end <= len(s.Data) && string(s.Data[s.At:end]) == "null" {
			s.At = end
			return
		}
		s.badLiteral("null")
	case 't':
		s.literal("true")
	case 'f':
		s.literal("false")
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		from := s.At
		s.Number()
		s.noteSkipped(from)
	default:
		s.Fail("want a value")
	}
}

func (s *Scanner) noteSkipped(from int) {
	if len(s.Skipped) < cap(s.Skipped) {
		s.Skipped = append(s.Skipped, Span{uint32(from), uint32(s.At)})
	}
}

// plainNumbers passes over the first elements of an array that have up to 7 plain digits, with a comma behind them and
// perhaps a space. Most bytes of a trace of agents are such lists. It stops at the last of these commas.
func (s *Scanner) plainNumbers() {
	const every = 0x0101010101010101
	b := s.Data
	i := s.At
	for i+8 <= len(b) {
		word := binary.LittleEndian.Uint64(b[i:])
		x := word ^ '0'*every                                         // digits become 0 to 9
		n := bits.TrailingZeros64((x+0x76*every|x)&(0x80*every)) >> 3 // digits at the begin
		if n == 0 || n == 8 || b[i+n] != ',' || byte(word) == '0' && n > 1 {
			return
		}
		i += n
		s.At = i
		s.first = false
		if i++; i < len(b) && b[i] == ' ' {
			i++
		}
	}
}

func (s *Scanner) literal(word string) {
	if end := s.At + len(word); end > len(s.Data) || string(s.Data[s.At:end]) != word {
		s.badLiteral(word)
		return
	}
	s.At += len(word)
}

// badLiteral finds where the text is no longer that of the word.
func (s *Scanner) badLiteral(word string) {
	for i := 0; i < len(word) && s.At < len(s.Data) && s.Data[s.At] == word[i]; i++ {
		s.At++
	}
	s.Fail("want " + word)
}

// Quoted reads a string that begins at the next byte and returns what is between its quotes.
func (s *Scanner) Quoted() (raw []byte, escaped bool) {
	start := s.At + 1
	i := Plain(s.Data, start)
	if i < len(s.Data) && s.Data[i] == '"' {
		s.At = i + 1
		return s.Data[start:i], false
	}
	for ; i < len(s.Data); i = Plain(s.Data, i) {
		switch c := s.Data[i]; {
		case c == '"':
			s.At = i + 1
			return s.Data[start:i], escaped
		case c != '\\':
			s.At = i
			s.Fail("a control character in a string")
			return nil, false
		}
		n := EscapeLen(s.Data[i:])
		if n == 0 {
			s.badEscape(i + 1)
			return nil, false
		}
		escaped = true
		i += n
	}
	s.At = i
	s.Fail("the end of the input in a string")
	return nil, false
}

// badEscape finds what is wrong behind the backslash of an escape.
func (s *Scanner) badEscape(at int) {
	s.At = at
	if at == len(s.Data) || s.Data[at] != 'u' {
		s.Fail("an escape that JSON does not have")
		return
	}
	for s.At++; s.At < len(s.Data) && isHex(s.Data[s.At]); s.At++ {
	}
	s.Fail(`want four hex digits after \u`)
}

// Number passes over a number and returns its bytes; nil if it is none.
func (s *Scanner) Number() []byte {
	b := s.Data
	start := s.At
	i := start
	if i < len(b) && b[i] == '-' {
		i++
	}
	first := i
	if i = digits(b, i); i == first {
		return s.badNumber(i, "want a digit")
	}
	if b[first] == '0' && i > first+1 {
		return s.badNumber(first, "a number with a leading zero")
	}
	if i < len(b) && b[i] == '.' {
		from := i + 1
		if i = digits(b, from); i == from {
			return s.badNumber(i, "want a digit after the decimal point")
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		from := i
		if i = digits(b, from); i == from {
			return s.badNumber(i, "want a digit in the exponent")
		}
	}
	s.At = i
	return b[start:i]
}

func (s *Scanner) badNumber(at int, what string) []byte {
	s.At = at
	s.Fail(what)
	return nil
}

// digits returns where the digits at i end.
func digits(b []byte, i int) int {
	for i < len(b) && b[i]-'0' <= 9 {
		i++
	}
	return i
}

// Count reads the next value if it is a whole number from 0 to 2³¹−1, else it skips it and returns -1.
func (s *Scanner) Count() int {
	if c := s.Peek(); c < '0' || c > '9' {
		s.Skip()
		return -1
	}
	n := 0
	for _, c := range s.Number() {
		if c < '0' || c > '9' {
			return -1
		}
		if n = n*10 + int(c-'0'); n > math.MaxInt32 {
			return -1
		}
	}
	return n
}

// Field reads the next value and returns the scalar at a path of keys in it, as Scalar does. If a key occurs twice, the
// last one with a value counts.
func (s *Scanner) Field(path []string) (value []byte) {
	if len(path) == 0 {
		return s.Scalar()
	}
	for key, ok := s.FirstKey(); ok; key, ok = s.Key() {
		if string(key) != path[0] {
			s.Skip()
		} else if v := s.Field(path[1:]); v != nil {
			value = v
		}
	}
	return value
}

// Scalar reads a string, which it returns without its quotes, or a number. It skips any other value and returns nil.
func (s *Scanner) Scalar() []byte {
	switch c := s.Peek(); {
	case c == '"':
		raw, _ := s.Quoted()
		return raw
	case c == '-' || '0' <= c && c <= '9':
		return s.Number()
	}
	s.Skip()
	return nil
}
