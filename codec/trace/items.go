package trace

import (
	"bytes"
	"cmp"
	"errors"
)

// items collects the rows that a format's own reader finds in a JSON object. All or none of them are taken.
type items struct {
	p      *rowParser
	first  int    // number of the object's first row
	within string // the file's place in the directory where it was found; "" = it was named itself
	told   bool   // the format was given, not detected
	rows   []row
}

// set notes a field of a row, as it stands in a plain one. The format's names are for messages.
func (m *items) set(r *row, f field, value []byte) error {
	m.p.row = *r
	s := scanner{b: value}
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
		return nil, &rowError{m.p.format.names[payloadField] + " is " + clip(trimmed) + ", not an object", "only JSON objects can be sent"}
	}
	return membersOf(text)
}

// setWhole notes a body that could be taken apart.
func (m *items) setWhole(r *row, text []byte) error {
	r.seen |= setOf(payloadField)
	return r.setLiteral(payloadField, m.p.format.names[payloadField], text[bytes.IndexByte(text, '{'):bytes.LastIndexByte(text, '}')+1])
}

// setDate notes when a row came, from a date in quotes.
func (m *items) setDate(r *row, value []byte) error {
	name := m.p.format.names[timestampField]
	switch {
	case value == nil:
		return &rowError{"missing " + name, "it says when the request arrived"}
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
	m.rows = append(m.rows, row{parent: noParent, turn: 1})
	return &m.rows[len(m.rows)-1]
}

// takeItems decodes an object and appends its rows to the columns.
func (l *loader) takeItems(object []byte, line int) {
	out := items{p: &l.parser, first: l.fileRows, within: l.within, told: l.o.Format != ""}
	err := l.parser.format.items(&out, object)
	if err == errUnanswered && !l.o.Strict {
		l.fileRows++
		l.lint.Unanswered++
		return
	}
	if err == nil && len(out.rows) == 0 {
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
	l.fileRows += len(out.rows)
	for i := range out.rows {
		l.keep(&out.rows[i], first+i, line)
	}
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
