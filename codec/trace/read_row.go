package trace

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"
)

const (
	// maxTokens bounds input_length and output_length. The longest context of a public model is 10M tokens (Llama 4
	// Scout).
	maxTokens = 1 << 24
	// maxTypeBytes bounds the name of a request's type; the published ones are text, search, image and file.
	maxTypeBytes = 128
	// noParent is Bailian's parent_chat_id of a conversation's first request.
	noParent = -1
)

// row is one decoded line. Its slices are valid until the next line.
type row struct {
	met    fieldSet // keys that occurred
	seen   fieldSet // keys that have a value: null means absent
	timeNS int64
	input  int32
	output int32
	turn   int32
	chat   int64
	parent int64
	typ    []byte
	ids    []uint64

	session     int64  // of a named conversation
	sessionName []byte // where it is no number
	delayNS     int64
	verbatim    Verbatim
	endpoint    string // path that it is for; "" = not said
	longer      bool   // its verbatim content begins with that of the row before, in the same object
	answer      []byte // the recorded one, the inside of a JSON string
	agent       agentRow
	growth      growth
	line        int // of it, where its object has several
}

func newRow() row { return row{parent: noParent, turn: 1, agent: noAgent()} }

// rowParser decodes the lines of one file.
type rowParser struct {
	format *format
	digits int   // log10 of the time unit in ns
	unitNS int64 // the time unit in ns
	row    row
	shape  shape  // of the row before
	key    []byte // scratch
	typ    []byte // scratch
	name   []byte // scratch
	said   []byte // scratch

	headed bool // the head of a file of agentic_mooncake was there
	shared bool // whose block ids are those of all jobs

	columns []field  // of a CSV file, once its head is known
	cells   [][]byte // scratch
	quoted  []byte   // scratch
}

func newRowParser(f *format, unit time.Duration) rowParser {
	return rowParser{format: f, digits: unitDigits(unit), unitNS: int64(unit)}
}

// rowError is a line that is well-formed but no row.
type rowError struct{ what, fix string }

func (e *rowError) Error() string { return e.what }

// errFailed is a row of a request that failed when it was recorded, which cannot be replayed as recorded.
var errFailed = errors.New("the request failed when it was recorded")

// parse decodes a line into p.row. It allocates nothing for a good line.
func (p *rowParser) parse(line []byte) error {
	p.empty()
	if err := p.decode(line); err != nil {
		return err
	}
	if missing := p.format.required &^ p.row.seen; missing != 0 {
		return &rowError{"missing " + p.format.list(missing), "every row must have what the format requires"}
	}
	if p.format.check != nil {
		return p.format.check(p.format, &p.row)
	}
	return nil
}

func (p *rowParser) decode(line []byte) error {
	if p.format.csv {
		return p.csvRow(line)
	}
	if p.sameShape(line) {
		return nil
	}
	p.empty()
	err := p.anyShape(line)
	if err != nil {
		p.shape.forget()
	}
	return err
}

func (p *rowParser) empty() {
	ids := p.row.ids[:0]
	p.row = newRow()
	p.row.ids = ids
}

// anyShape decodes a row into an empty p.row and notes its shape.
func (p *rowParser) anyShape(line []byte) error {
	p.shape.forget()
	s := scan(line)
	s.Scratch = p.key
	end := 0 // of the value before
	err := s.object(func(key []byte) error {
		f := p.format.field(key)
		p.shape.text = append(p.shape.text, line[end:s.At]...)
		p.shape.leads = append(p.shape.leads, lead{s.At - end, f})
		err := p.member(f, &s)
		end = s.At
		return err
	})
	p.key = s.Scratch
	if err == nil {
		p.shape.text, p.shape.whole = append(p.shape.text, line[end:]...), true
	}
	return err
}

// member decodes the value of a key.
func (p *rowParser) member(f field, s *scanner) error {
	if f == unknownField {
		return s.skip()
	}
	return p.value(f, s)
}

// value decodes the value of a known key.
func (p *rowParser) value(f field, s *scanner) error {
	if p.row.met.has(f) {
		return &rowError{p.format.names[f] + " occurs twice", "keep one of them"}
	}
	p.row.met |= 1 << f
	if s.Peek() == 'n' {
		return s.skip()
	}
	p.row.seen |= 1 << f
	switch {
	case f == idsField:
		return p.ids(s)
	case f == typeField:
		return p.typeName(s)
	case f == sessionField:
		return p.sessionName(s)
	case f >= textField:
		return p.verbatim(f, s)
	}
	if c := s.Peek(); c != '-' && c-'0' > 9 {
		return s.wrongKind(p.format.names[f], "not a number", "write it as a JSON number")
	}
	from := s.At
	if v, ok := s.short(); ok && v <= math.MaxInt64 {
		if f != timestampField && f != delayField {
			return p.set(f, int64(v), s.Data[from:s.At])
		}
		if int64(v) <= math.MaxInt64/p.unitNS {
			p.setTime(f, int64(v)*p.unitNS)
			return nil
		}
	}
	s.At = from
	number, err := s.number()
	if err != nil {
		return err
	}
	if f == timestampField || f == delayField {
		return p.time(f, number)
	}
	return p.whole(f, number)
}

// wrongKind is the error for a next value of the wrong kind, or for one that is no JSON.
func (s *scanner) wrongKind(name, not, fix string) error {
	from := s.At
	if err := s.skip(); err != nil {
		return err
	}
	return &rowError{fmt.Sprintf("%s is %s, %s", name, clip(s.Data[from:s.At]), not), fix}
}

// time decodes a timestamp or a delay.
func (p *rowParser) time(f field, number []byte) error {
	d := parseDecimal(number, p.digits)
	if d.negative {
		return &rowError{p.format.names[f] + " " + clip(number) + " is negative",
			"times count from the start of the trace, and delays from the turn before"}
	}
	if !d.fits || d.abs > math.MaxInt64 {
		return &rowError{p.format.names[f] + " " + clip(number) + " is out of range (292 years)", "give its unit with --time-unit"}
	}
	p.setTime(f, int64(d.abs))
	return nil
}

func (p *rowParser) setTime(f field, ns int64) {
	if f == delayField {
		p.row.delayNS = ns
	} else {
		p.row.timeNS = ns
	}
}

// whole decodes a field that counts something. 521.0 and 5e2 are whole too: data frames write counts like that.
func (p *rowParser) whole(f field, number []byte) error {
	d := parseDecimal(number, 0)
	if !d.exact {
		return &rowError{fmt.Sprintf("%s %s is no whole number", p.format.names[f], clip(number)), "it counts whole things"}
	}
	if !d.fits || d.abs > math.MaxInt64 {
		return p.outOfRange(f, number)
	}
	if d.negative {
		return p.set(f, -int64(d.abs), number)
	}
	return p.set(f, int64(d.abs), number)
}

// set stores the value of a field that counts something; number is how it was written.
func (p *rowParser) set(f field, v int64, number []byte) error {
	if low, high := rangeOf(f); v < low || v > high {
		return p.outOfRange(f, number)
	}
	switch f {
	case inputField:
		p.row.input = int32(v)
	case outputField:
		p.row.output = int32(v)
	case turnField:
		p.row.turn = int32(v)
	case chatField:
		p.row.chat = v
	case parentField:
		p.row.parent = v
	default:
		panic("BUG: no place for " + p.format.names[f])
	}
	return nil
}

func (p *rowParser) outOfRange(f field, number []byte) error {
	low, high := rangeOf(f)
	return &rowError{fmt.Sprintf("%s %s is out of range", p.format.names[f], clip(number)),
		fmt.Sprintf("it must be from %d to %d", low, high)}
}

// rangeOf is the smallest and largest value of a whole field.
func rangeOf(f field) (low, high int64) {
	switch f {
	case inputField:
		return 1, maxTokens
	case outputField:
		return 0, maxTokens
	case turnField:
		return 0, math.MaxInt32
	case parentField:
		return noParent, math.MaxInt64
	}
	return 0, math.MaxInt64
}

func (p *rowParser) typeName(s *scanner) error {
	if s.Peek() != '"' {
		return s.wrongKind("type", "not a string", `write it as a string, for example "text"`)
	}
	name, err := s.text(&p.typ)
	if err != nil {
		return err
	}
	return p.setType(name)
}

// sessionName takes a name in quotes or a number.
func (p *rowParser) sessionName(s *scanner) error {
	from := s.At
	name := s.Data[from:from]
	var err error
	if s.Peek() == '"' {
		name, err = s.text(&p.name)
	} else if err = s.skip(); err == nil {
		if name = s.Data[from:s.At]; name[0] != '-' && name[0]-'0' > 9 {
			err = &rowError{fmt.Sprintf("%s is %s, neither text nor a number", p.format.names[sessionField], clip(name)),
				`write it as a string, for example "a"`}
		}
	}
	if err == nil {
		p.row.setSession(name)
	}
	return err
}

// setSession notes whose turn the row is; without a name it is nobody's.
func (r *row) setSession(name []byte) {
	if len(name) == 0 {
		r.seen &^= setOf(sessionField)
		return
	}
	var number bool
	if r.session, number = sessionNumber(name); !number {
		r.sessionName = name
	}
	r.seen |= setOf(sessionField)
}

func (p *rowParser) setType(name []byte) error {
	if len(name) > maxTypeBytes {
		return &rowError{fmt.Sprintf("%s has %d bytes", p.format.names[typeField], len(name)),
			fmt.Sprintf("%d at most", maxTypeBytes)}
	}
	p.row.typ = name
	return nil
}

// ids decodes hash_ids.
func (p *rowParser) ids(s *scanner) error {
	if s.Peek() != '[' {
		return s.wrongKind("hash_ids", "not a list", "write [id,id,…] or leave it out")
	}
	s.At++
	if s.Peek() == ']' {
		s.At++
		return nil
	}
	for {
		p.row.ids = s.plainIDs(p.row.ids)
		id, err := anyID(s, len(p.row.ids))
		if err != nil {
			return err
		}
		p.row.ids = append(p.row.ids, id)
		switch s.Peek() {
		case ',':
			s.At++
		case ']':
			s.At++
			return nil
		default:
			return s.fail("want , or ] after a hash id")
		}
	}
}

// plainIDs consumes ids of up to 7 plain digits that a comma and at most one space follow, and appends them. It stops
// before the first of another kind. This loop is the reader's hot path: nine bytes of ten in a trace are ids.
func (s *scanner) plainIDs(ids []uint64) []uint64 {
	b, i := s.Data, s.At
	width := -1 // of the last id: while it stays, the processor need not wait for it to know where the next id begins
	for i+8 <= len(b) {
		word := binary.LittleEndian.Uint64(b[i:])
		v, n := leadingDigits(word)
		if n != width {
			if n == 0 || n == 8 {
				break
			}
			width = n
		}
		after := word >> uint(width*8)
		if byte(after) != ',' || byte(word) == '0' && width > 1 {
			break
		}
		ids = append(ids, v)
		i += width + 1
		if byte(after>>8) == ' ' { // 0 after the seventh digit, where the word ends: the next round sees the space
			i++
		}
	}
	s.At = i
	return ids
}

// anyID consumes an id however it is written. Index is its place in the list.
func anyID(s *scanner, index int) (uint64, error) {
	s.Peek()
	if v, ok := s.short(); ok {
		return v, nil
	}
	from := s.At
	if c := s.Peek(); c != '-' && c-'0' > 9 {
		if err := s.skip(); err != nil {
			return 0, err
		}
		return 0, badID(index, s.Data[from:s.At])
	}
	number, err := s.number()
	if err != nil {
		return 0, err
	}
	d := parseDecimal(number, 0)
	if d.negative || !d.exact || !d.fits {
		return 0, badID(index, number)
	}
	return d.abs, nil
}

func badID(index int, got []byte) error {
	return &rowError{fmt.Sprintf("hash_ids[%d] is %s", index, clip(got)),
		"an id is a whole number from 0 to 18446744073709551615"}
}

// clip shortens a value for a message.
func clip[T string | []byte](text T) string {
	const most = 40
	if len(text) > most {
		return string(text[:most]) + "…"
	}
	return string(text)
}

// faultOf turns a line's error into a fault.
func faultOf(file string, line int, err error) Fault {
	f := Fault{File: file, Line: line, What: err.Error()}
	var bad *rowError
	if errors.As(err, &bad) {
		f.Fix = bad.fix
	}
	if errors.Is(err, errFailed) || errors.Is(err, errUnanswered) {
		f.Fix = "leave the row out, or replay without --bad-rows strict"
	}
	var syntax *syntaxError
	if errors.As(err, &syntax) {
		f.Fix = "a row is one JSON object on one line"
	}
	return f
}

// shape is a row without its values. The rows of a file are usually written alike. If the bytes between the values are
// those of the row before, the keys and the syntax are known.
type shape struct {
	text  []byte // all between the values
	leads []lead
	whole bool // what follows the last value is in text
}

// lead is what stands before a value, such as `, "input_length": `.
type lead struct {
	bytes int // of the shape's text
	field field
}

func (h *shape) forget() { h.text, h.leads, h.whole = h.text[:0], h.leads[:0], false }

// sameShape decodes a row of the shape of the one before, into an empty p.row. It reports false for every other row,
// and for one with a fault.
func (p *rowParser) sameShape(line []byte) bool {
	text := p.shape.text
	s := scan(line)
	for _, l := range p.shape.leads {
		if !bytes.HasPrefix(line[s.At:], text[:l.bytes]) {
			return false
		}
		text = text[l.bytes:]
		s.At += l.bytes
		if p.member(l.field, &s) != nil {
			return false
		}
	}
	return p.shape.whole && string(line[s.At:]) == string(text)
}
