package trace

import (
	"bytes"
	"cmp"
)

// items collects the rows that a format's own reader finds in a JSON object. All or none of them are taken.
type items struct {
	p      *rowParser
	within string // the file's place in the directory where it was found; "" = it was named itself
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

// add makes room for a row.
func (m *items) add() *row {
	m.rows = append(m.rows, row{parent: noParent, turn: 1})
	return &m.rows[len(m.rows)-1]
}

// takeItems decodes an object and appends its rows to the columns.
func (l *loader) takeItems(object []byte, line int) {
	out := items{p: &l.parser, within: l.within}
	err := l.parser.format.items(&out, object)
	if err == nil && len(out.rows) == 0 {
		err = &rowError{"nothing in it to send", "leave it out"}
	}
	for i := range out.rows {
		err = cmp.Or(err, l.refuseRepairs(&out.rows[i]))
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

// member is a key of an object with its value as it stands.
type member struct {
	key   string
	value []byte
}

// membersOf takes an object apart. A key that occurs twice is an error.
func membersOf(object []byte) ([]member, error) {
	var all []member
	var scratch []byte
	s := scanner{b: object}
	err := s.object(&scratch, func(key []byte) error {
		for _, m := range all {
			if m.key == string(key) {
				return &rowError{m.key + " occurs twice", "keep one of them"}
			}
		}
		from := s.i
		err := s.skip(1)
		all = append(all, member{string(key), s.b[from:s.i]})
		return err
	})
	return all, err
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
