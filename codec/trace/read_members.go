package trace

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// spanOf is the ns of a duration or an instant under a key, in units of 10^digits ns; noValue where it is not there.
func spanOf(all []member, key string, digits int) (int64, error) {
	value := valueOf(all, key)
	if value == nil {
		return noValue, nil
	}
	number, err := numberOf(key, value)
	if err != nil {
		return 0, err
	}
	d := parseDecimal(number, digits)
	switch {
	case d.negative:
		return 0, &rowError{key + " " + clip(number) + " is negative", "times and durations are at least 0"}
	case !d.fits || d.abs > math.MaxInt64:
		return 0, &rowError{key + " " + clip(number) + " is out of range (292 years)", "check its unit"}
	}
	return int64(d.abs), nil
}

// countOf is the whole number under a key, from 0 to most; noValue where it is not there.
func countOf(all []member, key string, most int64) (int64, error) {
	value := valueOf(all, key)
	if value == nil {
		return noValue, nil
	}
	number, err := numberOf(key, value)
	if err != nil {
		return 0, err
	}
	d := parseDecimal(number, 0)
	switch {
	case !d.exact:
		return 0, &rowError{key + " " + clip(number) + " is no whole number", "it counts whole things"}
	case d.negative || !d.fits || d.abs > uint64(most):
		return 0, &rowError{key + " " + clip(number) + " is out of range", fmt.Sprintf("it must be from 0 to %d", most)}
	}
	return int64(d.abs), nil
}

// dateOf is the instant under a key, a date in quotes; noTime where it is not there.
func dateOf(all []member, key string) (int64, error) {
	value := valueOf(all, key)
	if value == nil {
		return noTime, nil
	}
	if err := isString(key, value); err != nil {
		return 0, err
	}
	return instantOf(key, textOf(value))
}

// setSpan notes when a request was sent, and when its answer ended; noTime where it is not known.
func (r *row) setSpan(began, ended int64) {
	if began == noTime {
		return
	}
	r.timeNS = began
	r.seen |= setOf(timestampField)
	if ended != noTime {
		r.agent.tookNS = max(0, ended-began)
	}
}

// setCounts notes the numbers of tokens of a request of which no more is known: of its prompt and its answer, and, under
// a key that need not be there, of what the server had cached of the prompt. Head is that of [growth].
func (m *items) setCounts(r *row, all []member, cachedKey, head string) error {
	if err := m.setAll(r, all, inputField, outputField); err != nil {
		return err
	}
	if missing := setOf(inputField, outputField) &^ r.seen; missing != 0 {
		return &rowError{"missing " + m.p.format.list(missing), "a request without its numbers of tokens cannot be replayed"}
	}
	cached, err := countOf(all, cachedKey, maxTokens)
	r.agent.cached = int32(min(cached, int64(r.input)))
	r.growth = byLength(head)
	return err
}

// numberOf is the text of a value that must be a number.
func numberOf(key string, value []byte) ([]byte, error) {
	if c := value[0]; c != '-' && c-'0' > 9 {
		return nil, &rowError{key + " is " + clip(value) + ", not a number", "write it as a JSON number"}
	}
	return value, nil
}

// nameOf is the text under a key that every row must have.
func nameOf(all []member, key, why string) (string, error) {
	value := valueOf(all, key)
	if value == nil {
		return "", &rowError{"missing " + key, why}
	}
	if err := isString(key, value); err != nil {
		return "", err
	}
	if len(value) == len(`""`) {
		return "", &rowError{key + " is empty", why}
	}
	return string(textOf(value)), nil
}

// oneOf is the place among some names of the one under a key.
func oneOf[T ~uint8](all []member, key string, names []string) (T, error) {
	list := `"` + strings.Join(names, `" or "`) + `"`
	name, err := nameOf(all, key, "it is "+list)
	if err != nil {
		return 0, err
	}
	at := slices.Index(names, name)
	if at < 0 {
		return 0, &rowError{key + " is " + quote([]byte(name)), "it must be " + list}
	}
	return T(at), nil
}

// idScopes makes block ids that are local to a scope, such as a job, differ from those of all others: they are numbered
// anew in order of first appearance.
type idScopes struct {
	numbers map[string]map[uint64]uint64 // of scopes
	next    uint64
	scope   string   // of the list before
	before  []uint64 // that list, as it stood in the file
	made    []uint64 // and numbered anew
	global  bool     // there are ids that stay as they are
}

// renumber numbers a list of the scope in place. What it begins with as the list before it did is not looked up.
func (s *idScopes) renumber(scope string, ids []uint64) {
	if s.numbers == nil {
		s.numbers = map[string]map[uint64]uint64{}
	}
	known := s.numbers[scope]
	if known == nil {
		known = map[uint64]uint64{}
		s.numbers[scope] = known
	}
	same := 0
	if s.scope == scope {
		for same < min(len(ids), len(s.before)) && ids[same] == s.before[same] {
			same++
		}
	}
	s.scope, s.before, s.made = scope, append(s.before[:same], ids[same:]...), s.made[:same]
	for _, id := range ids[same:] {
		n, old := known[id]
		if !old {
			n = s.next
			known[id] = n
			s.next++
		}
		s.made = append(s.made, n)
	}
	copy(ids, s.made)
}

// forget ends a scope that comes no more.
func (s *idScopes) forget(scope string) { delete(s.numbers, scope) }

// textUnder is the text under a key; "" where there is none.
func textUnder(all []member, key string) string {
	if value := valueOf(all, key); value != nil && value[0] == '"' {
		return string(textOf(value))
	}
	return ""
}

// inObject is the members of the object under a key; nil where there is none.
func inObject(all []member, key string) []member {
	value := valueOf(all, key)
	if value == nil || value[0] != '{' {
		return nil
	}
	members, _ := membersOf(value) // a key that occurs twice makes the object none
	return members
}
