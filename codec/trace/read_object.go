package trace

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// object is an object in a line, taken apart. Its methods note what is wrong with a value and then return none: the
// first fault of a line counts, so a reader goes on and asks ok only where it must not.
type object struct {
	text    []byte // as it stands
	members []member
	fault   *error // the first of the line
}

// member is a key of an object with its value as it stands.
type member struct {
	key   string
	value []byte
}

// fewMembers are compared with a key one by one; a map of more is faster.
const fewMembers = 32

// membersOf takes an object apart. A key that occurs twice is an error.
func membersOf(text []byte) ([]member, error) {
	var all []member
	var known map[string]bool // keys so far; nil as long as they are few
	s := scan(text)
	err := s.object(func(key []byte) error {
		if len(all) == fewMembers {
			known = map[string]bool{}
			for _, m := range all {
				known[m.key] = true
			}
		}
		twice := known[string(key)]
		if known == nil {
			twice = slices.ContainsFunc(all, func(m member) bool { return m.key == string(key) })
		}
		if twice {
			return &rowError{string(key) + " occurs twice", "keep one of them"}
		}
		from := s.At
		if err := s.skip(); err != nil {
			return err
		}
		all = append(all, member{string(key), s.Data[from:s.At]})
		if known != nil {
			known[string(key)] = true
		}
		return nil
	})
	return all, err
}

// objectOf takes an object of a line apart. Fault is where the first fault of the line is noted.
func objectOf(text []byte, fault *error) object {
	all, err := membersOf(text)
	o := object{text, all, fault}
	o.note(err)
	return o
}

// ok reports whether nothing was wrong in the line so far.
func (o object) ok() bool { return *o.fault == nil }

// note keeps the first error of the line; nil is none.
func (o object) note(err error) {
	if o.ok() {
		*o.fault = err
	}
}

// fail notes what is wrong, and what to do about it.
func (o object) fail(what, fix string) { o.note(&rowError{what, fix}) }

// value is that of the first of some keys that is there and not null; nil where none is.
func (o object) value(keys ...string) []byte {
	for _, key := range keys {
		for _, m := range o.members {
			if m.key == key && !bytes.Equal(m.value, []byte("null")) {
				return m.value
			}
		}
	}
	return nil
}

// has reports whether a key has a value.
func (o object) has(key string) bool { return o.value(key) != nil }

// need is the value of a key that must be there; why is what it is needed for.
func (o object) need(key, why string) []byte {
	value := o.value(key)
	if value == nil {
		o.fail("missing "+key, why)
	}
	return value
}

// is reports whether a key's value is a text, which has no escapes.
func (o object) is(key string, texts ...string) bool {
	value := o.value(key)
	return len(value) > 1 && value[0] == '"' && slices.Contains(texts, string(unquoted(value)))
}

// textOr is the text of a key, or another where it has none.
func (o object) textOr(key, other string) string {
	if value := o.value(key); value != nil && value[0] == '"' {
		return string(textOf(value))
	}
	return other
}

// name is the text of a key that must have one; why is what it is needed for.
func (o object) name(key, why string) string {
	value := o.need(key, why)
	if value == nil || !o.isString(key, value) {
		return ""
	}
	if len(value) == len(`""`) {
		o.fail(key+" is empty", why)
	}
	return string(textOf(value))
}

// isString reports whether a value is a string, as it must be.
func (o object) isString(name string, value []byte) bool {
	if value[0] != '"' {
		o.fail(fmt.Sprintf("%s is %s, not a string", name, clip(value)), `write it as "…"`)
	}
	return value[0] == '"'
}

// oneOf is the place among some names of the one under a key.
func oneOf[T ~uint8](o object, key string, names []string) T {
	list := `"` + strings.Join(names, `" or "`) + `"`
	name := o.name(key, "it is "+list)
	at := slices.Index(names, name)
	if at < 0 {
		o.fail(key+" is "+quote(name), "it must be "+list)
	}
	return T(max(0, at))
}

// number is the number of a key in units of 10^-digits; false where it has none.
func (o object) number(key string, digits int) (text []byte, d decimal, found bool) {
	value := o.value(key)
	if value == nil {
		return nil, d, false
	}
	if c := value[0]; c != '-' && c-'0' > 9 {
		o.fail(key+" is "+clip(value)+", not a number", "write it as a JSON number")
		return nil, d, false
	}
	return value, parseDecimal(value, digits), true
}

// span is the ns of a duration or an instant under a key, in units of 10^digits ns; noValue where it is not there.
func (o object) span(key string, digits int) int64 {
	number, d, found := o.number(key, digits)
	switch {
	case !found:
		return noValue
	case d.negative:
		o.fail(key+" "+clip(number)+" is negative", "times and durations are at least 0")
	case !d.fits || d.abs > math.MaxInt64:
		o.fail(key+" "+clip(number)+" is out of range (292 years)", "check its unit")
	}
	return int64(d.abs)
}

// count is the whole number under a key, from 0 to most; noValue where it is not there.
func (o object) count(key string, most int64) int64 {
	number, d, found := o.number(key, 0)
	switch {
	case !found:
		return noValue
	case !d.exact:
		o.fail(key+" "+clip(number)+" is no whole number", "it counts whole things")
	case d.negative || !d.fits || d.abs > uint64(most):
		o.fail(key+" "+clip(number)+" is out of range", fmt.Sprintf("it must be from 0 to %d", most))
	}
	return int64(d.abs)
}

// blocks is the number of tokens that a block id stands for, under a key that must have one.
func (o object) blocks(key string) int {
	why := "it is the number of tokens that a block id stands for"
	o.need(key, why)
	size := o.count(key, maxTokens)
	if size == 0 {
		o.fail(key+" is 0", why)
	}
	return int(size)
}

// date is the instant under a key, a date in quotes; noTime where it is not there.
func (o object) date(key string) int64 {
	value := o.value(key)
	switch {
	case value == nil:
		return noTime
	case value[0] != '"':
		o.fail(key+" is "+clip(value)+", not a string", `write it as a date, for example "2022-02-14T17:25:06Z"`)
		return noTime
	}
	at, err := instantOf(key, textOf(value))
	o.note(err)
	return at
}

// in is the object under a key; an empty one where there is none.
func (o object) in(key string) object {
	if value := o.value(key); value != nil && value[0] == '{' {
		return objectOf(value, o.fault)
	}
	return object{fault: o.fault}
}

// needIn is the object under a key that must have one; why is what it is needed for.
func (o object) needIn(key, why string) object {
	if value := o.need(key, why); value != nil && value[0] != '{' {
		o.fail(key+" is "+clip(value)+", not an object", why)
	}
	return o.in(key)
}

// each calls take with the objects of the list under a key, which need not be there, until something is wrong.
func (o object) each(key string, take func(i int, o object)) {
	o.values(key, "[{…},…]", func(i int, value []byte) {
		if o.note(isObject(key, i, value)); o.ok() {
			take(i, objectOf(value, o.fault))
			*o.fault = inside(fmt.Sprintf("%s[%d]", key, i), *o.fault)
		}
	})
}

// values calls take with the values of the list under a key, which need not be there, until something is wrong. Form is
// what the list looks like.
func (o object) values(key, form string, take func(i int, value []byte)) {
	list := o.value(key)
	if list == nil || !o.ok() {
		return
	}
	if list[0] != '[' {
		o.fail(fmt.Sprintf("%s is %s, not a list", key, clip(list)), "write it as "+form)
		return
	}
	s := scan(list)
	_ = s.list(func(i int, value []byte) error { // it is known to be valid
		take(i, value)
		return *o.fault
	})
}

// with is an object with another value under a key.
func (o object) with(key string, value []byte) object {
	return object{o.text, []member{{key, value}}, o.fault}
}

// item is a value as an object: itself, or one with the value under a key.
func (o object) item(key string, value []byte) object {
	if value[0] == '{' {
		return objectOf(value, o.fault)
	}
	return o.with(key, value)
}

// names is the text under a key, or the texts of the list there, which need not be there; why is what each is needed for.
func (o object) names(key, why string) (names []string) {
	if value := o.value(key); value != nil && value[0] == '"' {
		return []string{o.name(key, why)}
	}
	o.values(key, `["…",…]`, func(i int, value []byte) {
		place := fmt.Sprintf("%s[%d]", key, i)
		names = append(names, o.with(place, value).name(place, why))
	})
	return names
}

// isObject refuses a value of a list that is no object.
func isObject(key string, i int, value []byte) error {
	if value[0] != '{' {
		return &rowError{fmt.Sprintf("%s[%d] is %s, not an object", key, i, clip(value)), "write each as {…}"}
	}
	return nil
}

// inside is an error with the place in the object where it was found; nil stays nil.
func inside(place string, err error) error {
	if err == nil {
		return nil
	}
	fix := "it must be one JSON object"
	if bad := (*rowError)(nil); errors.As(err, &bad) {
		fix = bad.fix
	}
	return &rowError{place + ": " + err.Error(), fix}
}

// unquoted is a JSON string without its quotes.
func unquoted(value []byte) []byte { return value[1 : len(value)-1 : len(value)-1] }

// textOf is the text of a valid JSON string.
func textOf(value []byte) []byte {
	var scratch []byte
	s := scan(value)
	text, err := s.text(&scratch)
	if err != nil {
		panic("BUG: no JSON string: " + err.Error())
	}
	return text
}
