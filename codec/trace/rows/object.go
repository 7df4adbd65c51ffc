package rows

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/codec/trace/agents"
)

// Object is an object in a line, taken apart. Its methods note what is wrong with a value and then return none. The
// first fault of a line counts, so a reader goes on and asks OK only where it must not.
type Object struct {
	Text    []byte // as it stands
	Members []Member
	Fault   *error // the first of the line
}

// Member is a key of an object with its value as it stands.
type Member struct {
	Key   string
	Value []byte
}

// fewMembers are compared with a key one by one; a map of more is faster.
const fewMembers = 32

// MembersOf takes an object apart. A key that occurs twice is an error.
func MembersOf(text []byte) ([]Member, error) {
	var all []Member
	var known map[string]bool // keys so far; nil as long as they are few
	s := Scan(text)
	err := s.Object(func(key []byte) error {
		if len(all) == fewMembers {
			known = map[string]bool{}
			for _, m := range all {
				known[m.Key] = true
			}
		}
		twice := known[string(key)]
		if known == nil {
			twice = slices.ContainsFunc(all, func(m Member) bool {
				return m.Key == string(key)
			})
		}
		if twice {
			return &Error{string(key) + " occurs twice", "keep one of them"}
		}
		value, err := s.Value()
		if err != nil {
			return err
		}
		all = append(all, Member{string(key), value})
		if known != nil {
			known[string(key)] = true
		}
		return nil
	})
	return all, err
}

// ObjectOf takes an object of a line apart. Fault is where the first fault of the line is noted.
func ObjectOf(text []byte, fault *error) Object {
	all, err := MembersOf(text)
	o := Object{text, all, fault}
	o.Note(err)
	return o
}

// OK reports whether nothing was wrong in the line so far.
func (o Object) OK() bool { return *o.Fault == nil }

// Note keeps the first error of the line; nil is none.
func (o Object) Note(err error) {
	if o.OK() {
		*o.Fault = err
	}
}

// Fail notes what is wrong, and what to do about it.
func (o Object) Fail(what, fix string) { o.Note(&Error{what, fix}) }

// Value is that of the first of some keys that is there and not null; nil where none is.
func (o Object) Value(keys ...string) []byte {
	for _, key := range keys {
		for _, m := range o.Members {
			if m.Key == key && !bytes.Equal(m.Value, []byte("null")) {
				return m.Value
			}
		}
	}
	return nil
}

// Has reports whether a key has a value.
func (o Object) Has(key string) bool { return o.Value(key) != nil }

// Need is the value of a key that must be there; why is what it is needed for.
func (o Object) Need(key, why string) []byte {
	value := o.Value(key)
	if value == nil {
		o.Fail("missing "+key, why)
	}
	return value
}

// Is reports whether a key's value is a text, which has no escapes.
func (o Object) Is(key string, texts ...string) bool {
	value := o.Value(key)
	return len(value) > 1 && value[0] == '"' && slices.Contains(texts, string(Unquoted(value)))
}

// TextOr is the text of a key, or another where it has none.
func (o Object) TextOr(key, other string) string {
	value := o.Value(key)
	if value != nil && value[0] == '"' {
		return string(TextOf(value))
	}
	return other
}

// Name is the text of a key that must have one; why is what it is needed for.
func (o Object) Name(key, why string) string {
	value := o.Need(key, why)
	if value == nil || !o.IsString(key, value) {
		return ""
	}
	if len(value) == len(`""`) {
		o.Fail(key+" is empty", why)
	}
	return string(TextOf(value))
}

// IsString reports whether a value is a string, as it must be.
func (o Object) IsString(name string, value []byte) bool {
	if value[0] != '"' {
		o.Fail(fmt.Sprintf("%s is %s, not a string", name, Clip(value)), `write it as "…"`)
	}
	return value[0] == '"'
}

// OneOf is the place among some names of the one under a key.
func OneOf[T ~uint8](o Object, key string, names []string) T {
	list := `"` + strings.Join(names, `" or "`) + `"`
	name := o.Name(key, "it is "+list)
	at := slices.Index(names, name)
	if at < 0 {
		o.Fail(key+" is "+Quote(name), "it must be "+list)
	}
	return T(max(0, at))
}

// number is the number of a key in units of 10^-digits; false where it has none.
func (o Object) number(key string, digits int) (text []byte, d Decimal, found bool) {
	value := o.Value(key)
	if value == nil {
		return nil, d, false
	}
	if c := value[0]; c != '-' && c-'0' > 9 {
		o.Fail(key+" is "+Clip(value)+", not a number", "write it as a JSON number")
		return nil, d, false
	}
	return value, ParseDecimal(value, digits), true
}

// Span is the ns of a duration or an instant under a key, in units of 10^digits ns; agents.None where it is not there.
func (o Object) Span(key string, digits int) int64 {
	number, d, found := o.number(key, digits)
	switch {
	case !found:
		return agents.None
	case d.negative:
		o.Fail(key+" "+Clip(number)+" is negative", "times and durations are at least 0")
	case !d.fits || d.abs > math.MaxInt64:
		o.Fail(key+" "+Clip(number)+" is out of range (292 years)", "check its unit")
	}
	return int64(d.abs)
}

// Count is the whole number under a key, from 0 to most; agents.None where it is not there.
func (o Object) Count(key string, most int64) int64 {
	number, d, found := o.number(key, 0)
	switch {
	case !found:
		return agents.None
	case !d.exact:
		o.Fail(key+" "+Clip(number)+" is no whole number", "it counts whole things")
	case d.negative || !d.fits || d.abs > uint64(most):
		o.Fail(key+" "+Clip(number)+" is out of range", fmt.Sprintf("it must be from 0 to %d", most))
	}
	return int64(d.abs)
}

// Blocks is the number of tokens that a block id stands for, under a key that must have one.
func (o Object) Blocks(key string) int {
	why := "it is the number of tokens that a block id stands for"
	o.Need(key, why)
	size := o.Count(key, MaxTokens)
	if size == 0 {
		o.Fail(key+" is 0", why)
	}
	return int(size)
}

// Date is the instant under a key, a date in quotes; agents.NoTime where it is not there.
func (o Object) Date(key string) int64 {
	value := o.Value(key)
	switch {
	case value == nil:
		return agents.NoTime
	case value[0] != '"':
		o.Fail(key+" is "+Clip(value)+", not a string", `write it as a date, for example "2022-02-14T17:25:06Z"`)
		return agents.NoTime
	}
	at, err := InstantOf(key, TextOf(value))
	o.Note(err)
	return at
}

// In is the object under a key; an empty one where there is none.
func (o Object) In(key string) Object {
	value := o.Value(key)
	if value != nil && value[0] == '{' {
		return ObjectOf(value, o.Fault)
	}
	return Object{Fault: o.Fault}
}

// NeedIn is the object under a key that must have one; why is what it is needed for.
func (o Object) NeedIn(key, why string) Object {
	value := o.Need(key, why)
	if value != nil && value[0] != '{' {
		o.Fail(key+" is "+Clip(value)+", not an object", why)
	}
	return o.In(key)
}

// Each calls take with the objects of the list under a key, which need not be there, until something is wrong.
func (o Object) Each(key string, take func(i int, o Object)) {
	o.Values(key, "[{…},…]", func(i int, value []byte) {
		o.Note(IsObject(key, i, value))
		if o.OK() {
			take(i, ObjectOf(value, o.Fault))
			*o.Fault = Inside(fmt.Sprintf("%s[%d]", key, i), *o.Fault)
		}
	})
}

// Values calls take with the values of the list under a key, which need not be there, until something is wrong. Form is
// what the list looks like.
func (o Object) Values(key, form string, take func(i int, value []byte)) {
	list := o.Value(key)
	if list == nil || !o.OK() {
		return
	}
	if list[0] != '[' {
		o.Fail(fmt.Sprintf("%s is %s, not a list", key, Clip(list)), "write it as "+form)
		return
	}
	s := Scan(list)
	_ = s.List(func(i int, value []byte) error { // it is known to be valid
		take(i, value)
		return *o.Fault
	})
}

// With is an object with another value under a key.
func (o Object) With(key string, value []byte) Object {
	return Object{o.Text, []Member{{key, value}}, o.Fault}
}

// Item is a value as an object: itself, or one with the value under a key.
func (o Object) Item(key string, value []byte) Object {
	if value[0] == '{' {
		return ObjectOf(value, o.Fault)
	}
	return o.With(key, value)
}

// Names is the text under a key, or the texts of the list there. The key need not be there; why is what each text is
// needed for.
func (o Object) Names(key, why string) (names []string) {
	if value := o.Value(key); value != nil && value[0] == '"' {
		return []string{o.Name(key, why)}
	}
	o.Values(key, `["…",…]`, func(i int, value []byte) {
		place := fmt.Sprintf("%s[%d]", key, i)
		names = append(names, o.With(place, value).Name(place, why))
	})
	return names
}

// IsObject refuses a value of a list that is no object.
func IsObject(key string, i int, value []byte) error {
	if value[0] != '{' {
		return &Error{fmt.Sprintf("%s[%d] is %s, not an object", key, i, Clip(value)), "write each as {…}"}
	}
	return nil
}

// Inside is an error with the place in the object where it was found; nil stays nil.
func Inside(place string, err error) error {
	if err == nil {
		return nil
	}
	fix := FixOf(err)
	syntax := (*syntaxError)(nil)
	if errors.As(err, &syntax) {
		fix = "it must be one JSON object"
	}
	return &Error{place + ": " + err.Error(), fix}
}

// Unquoted is a JSON string without its quotes.
func Unquoted(value []byte) []byte {
	return value[1 : len(value)-1 : len(value)-1]
}

// TextOf is the text of a valid JSON string.
func TextOf(value []byte) []byte {
	var scratch []byte
	s := Scan(value)
	text, err := s.Text(&scratch)
	if err != nil {
		panic("BUG: no JSON string: " + err.Error())
	}
	return text
}

// Keys lists the keys of an object as far as the text is valid.
func Keys(text []byte) []string {
	var keys []string
	s := Scan(text)
	_ = s.Object(func(key []byte) error { // the caller asks what is there, not what is wrong
		keys = append(keys, string(key))
		return nil
	})
	return keys
}
