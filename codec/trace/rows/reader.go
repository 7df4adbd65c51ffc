// Package rows reads rows: one request of a trace file, as JSON or as CSV, by a [Layout] that says what its fields are
// called. It also takes apart JSON objects of other forms, see [Object].
//
// It owns the syntax, and what a value of each field may be. It does not know formats, nor what rows have to do with
// each other. A [Reader] belongs to one goroutine; it allocates nothing for a good row.
package rows

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/fastreplay/fastreplay/codec/trace/agents"
)

const (
	// MaxTokens bounds input_length and output_length. The longest context of a public model is 10M tokens (Llama 4
	// Scout).
	MaxTokens = 1 << 24
	// maxTypeBytes bounds the name of a request's type; the published ones are text, search, image and file.
	maxTypeBytes = 128
	// NoParent is Bailian's parent_chat_id of a conversation's first request.
	NoParent = -1
)

// Row is one request of a file. What [Reader.Parse] makes is valid until the next row is parsed.
type Row struct {
	Seen         FieldSet // fields that have a value: null means absent
	TimeNS       int64
	InputTokens  int32
	OutputTokens int32
	Turn         int32
	Chat         int64
	Parent       int64
	Type         []byte
	IDs          []uint64
	Session      int64  // number of the conversation
	SessionName  []byte // its name where that is no number
	DelayNS      int64
	Verbatim     Verbatim
	Longer       bool     // its verbatim content begins with that of the row before, in the same object
	Endpoint     string   // path that it is for; "" = not said
	Answer       []byte   // the recorded one, the inside of a JSON string; nil = none
	AnswerIDs    []uint64 // of the blocks of prompt and answer that end in the answer; nil = not known
	Guessed      bool     // Session is not recorded, but found by what prompts have in common
	Line         int      // of the file, where its object has several; 0 = the object's
	Agent
	Owner Owner

	met FieldSet // keys that occurred
}

// Agent is what a row says of agents. Times, depths and numbers of tokens are agents.None where it does not say them.
type Agent struct {
	Job           string // "" = none
	Request       string // name that named dependencies use, unique in all files; "" = none
	ParentSession string // conversation that began the row's; "" = none, or not known
	Depth         int32
	NotBeforeNS   int64
	TookNS        int64
	TTFTNS        int64
	CachedTokens  int32
	Growth        agents.Growth
	Dependencies  []agents.Dependency // On is the number of a row among those of all files
	Named         []NamedDependency
}

// NamedDependency is a dependency on a request that has a name, which may stand on any line.
type NamedDependency struct {
	Request string
	agents.Dependency
}

// NewRow returns a row that says nothing.
func NewRow() Row {
	none := Agent{
		NotBeforeNS:  agents.None,
		TookNS:       agents.None,
		TTFTNS:       agents.None,
		CachedTokens: agents.None,
	}
	return Row{Parent: NoParent, Turn: 1, Agent: none}
}

// SetSpan notes when a request was sent, and when its answer ended; agents.NoTime where it is not known.
func (r *Row) SetSpan(beganNS, endedNS int64) {
	if beganNS == agents.NoTime {
		return
	}
	r.TimeNS = beganNS
	r.Seen |= SetOf(TimestampField)
	if endedNS != agents.NoTime {
		r.TookNS = max(0, endedNS-beganNS)
	}
}

// After has the row depend on the ends of others, by their numbers among those of all files.
func (r *Row) After(why agents.Relation, delayNS int64, on ...int) {
	for _, row := range on {
		r.Dependencies = append(r.Dependencies, agents.Dependency{
			On:       int32(row),
			DelayNS:  delayNS,
			Relation: why,
		})
	}
}

// Error is a line that is well-formed but no row.
type Error struct{ what, fix string }

func (e *Error) Error() string { return e.what }

// Fix is what to do about it.
func (e *Error) Fix() string { return e.fix }

// Bad is an [*Error] with what is wrong, and what to do about it.
func Bad(what, fix string) error { return &Error{what, fix} }

const leaveOut = "leave the row out, or replay without --bad-rows strict"

// ErrFailed is a row of a request that failed when it was recorded, which cannot be replayed as recorded.
var ErrFailed = Bad("the request failed when it was recorded", leaveOut)

// ErrUnanswered is a conversation in which nothing that was asked has an answer, so there was no request to replay.
var ErrUnanswered = Bad("no question in the conversation has an answer", leaveOut)

// FixOf is what to do about the error of a row; "" where that is not known.
func FixOf(err error) string {
	var fixed interface{ Fix() string }
	if errors.As(err, &fixed) {
		return fixed.Fix()
	}
	return ""
}

// Reader decodes the rows of one file.
type Reader struct {
	layout *Layout
	unitNS int64 // the time unit in ns
	digits int   // log10 of it
	row    Row
	shape  shape  // of the row before
	key    []byte // scratch
	typ    []byte // scratch
	name   []byte // scratch

	columns []Field  // of a CSV file, once its head is known
	cells   [][]byte // scratch
	quoted  []byte   // scratch
}

// NewReader returns a reader of rows whose timestamps have a unit: Nanosecond, Microsecond, Millisecond or Second.
func NewReader(l *Layout, unit time.Duration) *Reader {
	digits := 0
	for u := unit; u > 1; u /= 10 {
		digits++
	}
	return &Reader{layout: l, unitNS: int64(unit), digits: digits}
}

// Layout is what the fields are called, of a CSV file those that it has once its head was read.
func (p *Reader) Layout() *Layout { return p.layout }

// Parse decodes a line. The row is valid until the next call. It allocates nothing for a good line.
func (p *Reader) Parse(line []byte) (*Row, error) {
	p.empty()
	if err := p.decode(line); err != nil {
		return nil, err
	}
	if missing := p.layout.Required &^ p.row.Seen; missing != 0 {
		return nil, Bad("missing "+p.layout.List(missing), "every row must have what the format requires")
	}
	if p.layout.Check != nil {
		if err := p.layout.Check(p.layout, &p.row); err != nil {
			return nil, err
		}
	}
	return &p.row, nil
}

// Set decodes the JSON value of a field of a row, as it stands in a row of its own. What it makes stays valid.
func (p *Reader) Set(r *Row, f Field, value []byte) error {
	p.row = *r
	if f == HashIDsField {
		p.row.IDs = make([]uint64, 0, len(value)/4)
	}
	s := Scan(value)
	err := p.value(f, &s)
	p.row.SessionName = bytes.Clone(p.row.SessionName) // its place is taken again for the next row
	*r = p.row
	return err
}

func (p *Reader) decode(line []byte) error {
	if p.layout.CSV {
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

func (p *Reader) empty() {
	ids := p.row.IDs[:0]
	p.row = NewRow()
	p.row.IDs = ids
}

// anyShape decodes a row into an empty p.row and notes its shape.
func (p *Reader) anyShape(line []byte) error {
	p.shape.forget()
	s := Scan(line)
	s.Scratch = p.key
	end := 0 // of the value before
	err := s.Object(func(key []byte) error {
		f := p.layout.Field(key)
		p.shape.text = append(p.shape.text, line[end:s.At]...)
		p.shape.leads = append(p.shape.leads, lead{s.At - end, f})
		err := p.member(f, &s)
		end = s.At
		return err
	})
	p.key = s.Scratch
	if err == nil {
		p.shape.text = append(p.shape.text, line[end:]...)
		p.shape.whole = true
	}
	return err
}

// member decodes the value of a key.
func (p *Reader) member(f Field, s *Scanner) error {
	if f == UnknownField {
		return s.Skip()
	}
	return p.value(f, s)
}

// value decodes the value of a known key.
func (p *Reader) value(f Field, s *Scanner) error {
	if p.row.met.Has(f) {
		return &Error{p.layout.Names[f] + " occurs twice", "keep one of them"}
	}
	p.row.met |= 1 << f
	if s.Peek() == 'n' {
		return s.Skip()
	}
	p.row.Seen |= 1 << f
	switch {
	case f == HashIDsField:
		return p.ids(s)
	case f == TypeField:
		return p.typeName(s)
	case f == SessionField:
		name, err := p.textOrNumber(f, s)
		if err == nil {
			p.row.SetSession(name)
		}
		return err
	case f == HeadersField:
		object, err := s.Value()
		if err != nil {
			return err
		}
		return p.headers(object)
	case f.ofOwner():
		value, err := p.textOrNumber(f, s)
		if err != nil {
			return err
		}
		return p.setOwner(f, string(value))
	case f >= TextField:
		return p.verbatim(f, s)
	}
	if c := s.Peek(); c != '-' && c-'0' > 9 {
		return s.wrongKind(p.layout.Names[f], "not a number", "write it as a JSON number")
	}
	from := s.At
	if v, ok := s.Short(); ok && v <= math.MaxInt64 {
		if f != TimestampField && f != DelayField {
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
	if f == TimestampField || f == DelayField {
		return p.time(f, number)
	}
	return p.whole(f, number)
}

// wrongKind is the error for a next value of the wrong kind, or for one that is no JSON.
func (s *Scanner) wrongKind(name, not, fix string) error {
	value, err := s.Value()
	if err != nil {
		return err
	}
	return &Error{fmt.Sprintf("%s is %s, %s", name, Clip(value), not), fix}
}

// time decodes a timestamp or a delay.
func (p *Reader) time(f Field, number []byte) error {
	d := ParseDecimal(number, p.digits)
	if d.negative {
		return &Error{p.layout.Names[f] + " " + Clip(number) + " is negative",
			"times count from the start of the trace, and delays from the turn before"}
	}
	if !d.fits || d.abs > math.MaxInt64 {
		return &Error{p.layout.Names[f] + " " + Clip(number) + " is out of range (292 years)",
			"give its unit with --time-unit"}
	}
	p.setTime(f, int64(d.abs))
	return nil
}

func (p *Reader) setTime(f Field, ns int64) {
	if f == DelayField {
		p.row.DelayNS = ns
	} else {
		p.row.TimeNS = ns
	}
}

// whole decodes a field that counts something. 521.0 and 5e2 are whole too: data frames write counts like that.
func (p *Reader) whole(f Field, number []byte) error {
	d := ParseDecimal(number, 0)
	if !d.exact {
		return &Error{fmt.Sprintf("%s %s is no whole number", p.layout.Names[f], Clip(number)),
			"it counts whole things"}
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
func (p *Reader) set(f Field, v int64, number []byte) error {
	if low, high := rangeOf(f); v < low || v > high {
		return p.outOfRange(f, number)
	}
	switch f {
	case InputField:
		p.row.InputTokens = int32(v)
	case OutputField:
		p.row.OutputTokens = int32(v)
	case TurnField:
		p.row.Turn = int32(v)
	case ChatField:
		p.row.Chat = v
	case ParentField:
		p.row.Parent = v
	default:
		panic("BUG: no place for " + p.layout.Names[f])
	}
	return nil
}

func (p *Reader) outOfRange(f Field, number []byte) error {
	low, high := rangeOf(f)
	return &Error{fmt.Sprintf("%s %s is out of range", p.layout.Names[f], Clip(number)),
		fmt.Sprintf("it must be from %d to %d", low, high)}
}

// rangeOf is the smallest and largest value of a whole field.
func rangeOf(f Field) (low, high int64) {
	switch f {
	case InputField:
		return 1, MaxTokens
	case OutputField:
		return 0, MaxTokens
	case TurnField:
		return 0, math.MaxInt32
	case ParentField:
		return NoParent, math.MaxInt64
	}
	return 0, math.MaxInt64
}

func (p *Reader) typeName(s *Scanner) error {
	if s.Peek() != '"' {
		return s.wrongKind("type", "not a string", `write it as a string, for example "text"`)
	}
	name, err := s.Text(&p.typ)
	if err != nil {
		return err
	}
	return p.setType(name)
}

// textOrNumber takes a text or a number. It is valid until the next.
func (p *Reader) textOrNumber(f Field, s *Scanner) ([]byte, error) {
	if s.Peek() == '"' {
		return s.Text(&p.name)
	}
	if c := s.Peek(); c != '-' && c-'0' > 9 {
		return nil, s.wrongKind(p.layout.Names[f], "neither text nor a number", `write it as a string, for example "a"`)
	}
	return s.Value()
}

// SetSession notes whose turn the row is; without a name it is nobody's.
func (r *Row) SetSession(name []byte) {
	if len(name) == 0 {
		r.Seen &^= SetOf(SessionField)
		return
	}
	var number bool
	if r.Session, number = SessionNumber(name); !number {
		r.SessionName = name
	}
	r.Seen |= SetOf(SessionField)
}

func (p *Reader) setType(name []byte) error {
	if len(name) > maxTypeBytes {
		return &Error{fmt.Sprintf("%s has %d bytes", p.layout.Names[TypeField], len(name)),
			fmt.Sprintf("%d at most", maxTypeBytes)}
	}
	p.row.Type = name
	return nil
}

// ids decodes hash_ids.
func (p *Reader) ids(s *Scanner) error {
	if s.Peek() != '[' {
		return s.wrongKind("hash_ids", "not a list", "write [id,id,…] or leave it out")
	}
	s.At++
	if s.Peek() == ']' {
		s.At++
		return nil
	}
	for {
		p.row.IDs = s.plainIDs(p.row.IDs)
		id, err := anyID(s, len(p.row.IDs))
		if err != nil {
			return err
		}
		p.row.IDs = append(p.row.IDs, id)
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
func (s *Scanner) plainIDs(ids []uint64) []uint64 {
	b := s.Data
	i := s.At
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
func anyID(s *Scanner, index int) (uint64, error) {
	c := s.Peek()
	if v, ok := s.Short(); ok {
		return v, nil
	}
	if c != '-' && c-'0' > 9 {
		value, err := s.Value()
		if err != nil {
			return 0, err
		}
		return 0, badID(index, value)
	}
	number, err := s.number()
	if err != nil {
		return 0, err
	}
	d := ParseDecimal(number, 0)
	if d.negative || !d.exact || !d.fits {
		return 0, badID(index, number)
	}
	return d.abs, nil
}

func badID(index int, got []byte) error {
	return &Error{fmt.Sprintf("hash_ids[%d] is %s", index, Clip(got)),
		"an id is a whole number from 0 to 18446744073709551615"}
}

// Clip shortens a value for a message.
func Clip[T string | []byte](text T) string {
	const most = 40
	if len(text) > most {
		return string(text[:most]) + "…"
	}
	return string(text)
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
	field Field
}

func (h *shape) forget() {
	h.text = h.text[:0]
	h.leads = h.leads[:0]
	h.whole = false
}

// sameShape decodes a row of the shape of the one before, into an empty p.row. It reports false for every other row,
// and for one with a fault.
func (p *Reader) sameShape(line []byte) bool {
	text := p.shape.text
	s := Scan(line)
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
