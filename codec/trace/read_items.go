package trace

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// items collects the rows that a format's own reader finds in a JSON object. All or none of them are taken.
type items struct {
	p      *rowParser
	first  int    // number of the object's first row
	within string // the file's place in the directory where it was found; "" = it was named itself
	told   bool   // the format was given, not detected
	rows   []row
	failed int       // requests that are left out, since they failed when they were recorded
	scopes *idScopes // of block ids, of all files
	agents *agentColumns
	blocks int // tokens that a block id stands for, where the object says it; 0 = as before
}

// set notes a field of a row, as it stands in a plain one. The format's names are for messages.
func (m *items) set(r *row, f field, value []byte) error {
	m.p.row = *r
	s := scan(value)
	err := m.p.value(f, &s)
	m.p.row.sessionName = bytes.Clone(m.p.row.sessionName) // its place is taken again for the next row
	*r = m.p.row
	return err
}

// setBody notes the whole body of a request: one JSON object, with space around it at most.
func (m *items) setBody(r *row, text []byte) error {
	if _, err := m.bodyMembers(text); err != nil {
		return err
	}
	return m.setWhole(r, text)
}

// bodyMembers takes a body apart.
func (m *items) bodyMembers(text []byte) ([]member, error) {
	if trimmed := bytes.TrimSpace(text); len(trimmed) > 0 && trimmed[0] != '{' {
		return nil, &rowError{m.p.format.names[payloadField] + " is " + clip(trimmed) + ", not an object",
			"only JSON objects can be sent"}
	}
	return membersOf(text)
}

// setWhole notes a body that could be taken apart.
func (m *items) setWhole(r *row, text []byte) error {
	r.seen |= setOf(payloadField)
	return r.setVerbatim(payloadField, m.p.format.names[payloadField],
		text[bytes.IndexByte(text, '{'):bytes.LastIndexByte(text, '}')+1])
}

// setDate notes when a row came, from a date in quotes.
func (m *items) setDate(r *row, value []byte) error {
	name := m.p.format.names[timestampField]
	switch {
	case value == nil:
		return &rowError{"missing " + name, "it is the time of the request"}
	case value[0] != '"':
		return &rowError{name + " is " + clip(value) + ", not a string", `write it as a date, for example "2022-02-14T17:25:06Z"`}
	}
	m.p.row = *r
	err := m.p.date(textOf(value))
	*r = m.p.row
	r.seen |= setOf(timestampField)
	return err
}

// add makes room for a row.
func (m *items) add() *row {
	m.rows = append(m.rows, row{parent: noParent, turn: 1, agent: noAgent()})
	return &m.rows[len(m.rows)-1]
}

// heldLine is an object that is read when all of its file are known.
type heldLine struct {
	text []byte
	line int
}

// takeHeld takes the rows of a file whose objects are read together.
func (l *loader) takeHeld() {
	if held := l.held; held != nil {
		l.held = nil
		l.parser.format.together(l, held)
	}
}

// takeItems decodes an object and appends its rows to the columns.
func (l *loader) takeItems(object []byte, line int) {
	if l.parser.format.together != nil {
		l.held = append(l.held, heldLine{bytes.Clone(object), line})
		return
	}
	out := items{p: &l.parser, first: l.fileRows, within: l.within, told: l.o.Format != "", scopes: &l.scopes, agents: &l.agents}
	err := l.parser.format.items(&out, object)
	if err == nil || err == errHead {
		err = cmp.Or(l.setBlocks(out.blocks), err)
	}
	if err == errHead {
		return
	}
	if err == errUnanswered && !l.o.Strict {
		l.fileRows++
		l.lint.Unanswered++
		return
	}
	if err == nil && out.failed > 0 && l.o.Strict {
		err = errFailed
	}
	if err == nil && len(out.rows) == 0 && out.failed == 0 {
		err = &rowError{"nothing in it to send", "leave it out"}
	}
	for i := range out.rows {
		if err == nil {
			err = cmp.Or(l.refuseRepairs(&out.rows[i]), l.refuseEndpoint(&out.rows[i], line))
		}
	}
	if err != nil {
		l.fileRows++
		l.fault(faultOf(l.name, line, err))
		return
	}
	first := l.fileRows
	l.fileRows += len(out.rows) + out.failed
	l.lint.Failed += out.failed
	for i := range out.rows {
		l.keep(&out.rows[i], first+i, line)
	}
}

// errHead is an object that is no row, but says something of those that follow.
var errHead = errors.New("the head of a file")

// setBlocks notes how many tokens a block id stands for, as the file says it.
func (l *loader) setBlocks(tokens int) error {
	said := fmt.Sprintf("a block id stands for %d tokens", tokens)
	switch {
	case tokens == 0 || tokens == l.blockTokens:
		return nil
	case tokens < 0 || tokens > maxTokens:
		return &rowError{said, fmt.Sprintf("it must be from 1 to %d", maxTokens)}
	case l.o.BlockTokens != 0 && tokens != l.o.BlockTokens:
		return &rowError{fmt.Sprintf("%s, but --block-tokens says %d", said, l.o.BlockTokens), "leave --block-tokens out"}
	case l.withIDs > 0 && tokens != l.blockTokens:
		return &rowError{fmt.Sprintf("%s, but for %d in the rows before", said, l.blockTokens), "a run has one block size: replay the rows one size at a time"}
	}
	l.blockTokens, l.said = tokens, tokens
	return nil
}

// inside is an error with the place in the object where it was found; nil stays nil.
func inside(place string, err error) error {
	if err == nil {
		return nil
	}
	fix := "it must be one JSON object"
	var bad *rowError
	if errors.As(err, &bad) {
		fix = bad.fix
	}
	return &rowError{place + ": " + err.Error(), fix}
}

// member is a key of an object with its value as it stands.
type member struct {
	key   string
	value []byte
}

// membersOf takes an object apart. A key that occurs twice is an error.
func membersOf(object []byte) ([]member, error) {
	var all []member
	s := scan(object)
	err := s.object(func(key []byte) error {
		for _, m := range all {
			if m.key == string(key) {
				return &rowError{m.key + " occurs twice", "keep one of them"}
			}
		}
		from := s.At
		err := s.skip()
		all = append(all, member{string(key), s.Data[from:s.At]})
		return err
	})
	return all, err
}

// ofMembers makes a format's reader of objects out of one of their members.
func ofMembers(read func(out *items, all []member) error) func(out *items, object []byte) error {
	return func(out *items, object []byte) error {
		all, err := membersOf(object)
		if err != nil {
			return err
		}
		return read(out, all)
	}
}

// valueOf is the value of a key; nil where it is not there or null.
func valueOf(all []member, key string) []byte {
	for _, m := range all {
		if m.key == key && !bytes.Equal(m.value, []byte("null")) {
			return m.value
		}
	}
	return nil
}

// firstOf is the value of the first of some keys that is there; nil where none is.
func firstOf(all []member, keys ...string) []byte {
	for _, key := range keys {
		if value := valueOf(all, key); value != nil {
			return value
		}
	}
	return nil
}

// hasKeys makes a format's test of an object: it has these keys.
func hasKeys(wanted ...string) func(keys []string) bool {
	return func(keys []string) bool {
		return !slices.ContainsFunc(wanted, func(name string) bool { return !slices.Contains(keys, name) })
	}
}

// objectIn takes apart the object under a key; why is what it is needed for.
func objectIn(all []member, key, why string) ([]member, error) {
	value := valueOf(all, key)
	switch {
	case value == nil:
		return nil, &rowError{"missing " + key, why}
	case value[0] != '{':
		return nil, &rowError{key + " is " + clip(value) + ", not an object", why}
	}
	return membersOf(value)
}

// listIn calls each with the objects of the list under a key, which need not be there.
func listIn(all []member, key string, each func(i int, object []byte) error) error {
	list := valueOf(all, key)
	if list == nil {
		return nil
	}
	if list[0] != '[' {
		return &rowError{fmt.Sprintf("%s is %s, not a list", key, clip(list)), "write it as [{…},…]"}
	}
	return objectsOf(key, list, func(i int, object []byte) error {
		err := each(i, object)
		if bad := (*rowError)(nil); errors.As(err, &bad) {
			err = &rowError{fmt.Sprintf("%s[%d]: %s", key, i, bad.what), bad.fix}
		}
		return err
	})
}

// objectsOf calls each with what stands in a list, which must be objects.
func objectsOf(name string, list []byte, each func(i int, object []byte) error) error {
	s := scan(list)
	return s.list(func(i int, value []byte) error {
		if value[0] != '{' {
			return &rowError{fmt.Sprintf("%s[%d] is %s, not an object", name, i, clip(value)), "write each as {…}"}
		}
		return each(i, value)
	})
}

// isString refuses a value that is no string.
func isString(name string, value []byte) error {
	if value[0] != '"' {
		return &rowError{fmt.Sprintf("%s is %s, not a string", name, clip(value)), `write it as "…"`}
	}
	return nil
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
