package trace

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/fastreplay/fastreplay/codec/trace/agents"
	"github.com/fastreplay/fastreplay/codec/trace/chatml"
	"github.com/fastreplay/fastreplay/codec/trace/formats"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// detectRows is how many rows detection looks at: enough to see past a bad first row.
const detectRows = 10

func (o *Options) validate() error {
	if o.Format != "" {
		f, err := formats.ByName(o.Format)
		if err != nil {
			return err
		}
		if err := f.CheckUnit(o.TimeUnit); err != nil {
			return err
		}
	}
	if err := rows.CheckNames(o.Fields); err != nil {
		return err
	}
	_, foreign := ParseUnit(UnitName(o.TimeUnit))
	switch {
	case o.TimeUnit != 0 && foreign != nil:
		return fmt.Errorf("time unit %v; it must be ns, us, ms or s", o.TimeUnit)
	case o.BlockTokens < 0 || o.BlockTokens > rows.MaxTokens:
		return fmt.Errorf("%d tokens a block; it must be from 1 to %d", o.BlockTokens, rows.MaxTokens)
	case o.Basis != "" && o.Basis != AutoBasis && o.Basis != AbsoluteBasis && o.Basis != RelativeBasis:
		return fmt.Errorf("basis %q; it must be auto, absolute or relative", o.Basis)
	case o.Lenient && o.Strict:
		return errors.New("lenient and strict exclude each other")
	case o.Limit < 0:
		return fmt.Errorf("a limit of %d rows; it must be at least 1", o.Limit)
	case o.From < 0 || o.To < 0:
		return fmt.Errorf("selection from %v to %v; trace time starts at 0", o.From, o.To)
	case o.To != 0 && o.To <= o.From:
		return fmt.Errorf("selection from %v to %v is empty; the end must be after the start", o.From, o.To)
	}
	return nil
}

// loader reads the rows of one or several files, in the order read, before they are sorted and selected.
type loader struct {
	columns
	faultList
	o       Options
	known   []*formats.Format // all that there are
	format  *formats.Format   // of all files; nil = not known yet
	layout  *rows.Layout      // of all files
	files   []fileStart
	packed  *countedReader // the file being read
	before  int64          // what History had repeated before it
	name    string         // of that file, then of all
	input   input
	withIDs int // rows that have block ids
	nested  []*formats.Nested
	budget  agents.Budget
	order   []int32 // of rows, each after what it depends on; nil = no row depends on another
	said    int     // tokens that a block id stands for, as a file says it; 0 = none said so yet
	// endpointAt is where the first row is that names Endpoint.
	endpointAt string
}

// input is the file that is read.
type input struct {
	file    *formats.File
	format  *formats.Format // nil = not known yet
	reader  *rows.Reader
	pending []heldLine // seen before the format is known
	told    bool       // it has an object that is no row, and says something of others
}

// heldLine is a line that is taken later.
type heldLine struct {
	text []byte
	line int
}

func newLoader(o Options) *loader {
	o.History = cmp.Or(o.History, &chatml.History{})
	return &loader{o: o, known: formats.All(), packed: &countedReader{}}
}

// begin makes ready for a file, the first or a further one. Within is its place in a directory that was named.
func (l *loader) begin(name, within string) {
	l.name = name
	l.files = append(l.files, fileStart{name, l.FileRows})
	l.input = input{file: &formats.File{
		Name:     name,
		Within:   within,
		Detected: l.o.Format == "",
	}}
	for _, f := range l.known {
		if f.Name == l.o.Format {
			if err := l.setFormat(f.Renamed(l.o.Fields)); err != nil {
				panic("BUG: files read as one format have several: " + err.Error())
			}
		}
	}
}

func (l *loader) setFormat(f *formats.Format) error {
	l.TimeUnit = cmp.Or(l.o.TimeUnit, f.Unit)
	l.BlockTokens = cmp.Or(l.o.BlockTokens, l.said, f.BlockTokens)
	l.input.format = f
	l.input.reader = rows.NewReader(&f.Layout, l.TimeUnit)
	if f.CSV {
		return nil // its head shows more
	}
	return l.agree()
}

// agree refuses a further file that is not like the first. Where formats differ, so do clocks and what an id means.
func (l *loader) agree() error {
	f := l.input.format
	layout := l.input.reader.Layout()
	if l.format == nil {
		l.format = f
		l.layout = layout
	}
	switch {
	case l.format.Name != f.Name:
		return refuse(l.name, fmt.Sprintf("this is %s, but %s is %s", f.Name, l.files[0].name, l.format.Name),
			"files that are replayed together have one format: bring them to one with `fastreplay convert`")
	case l.layout.Names != layout.Names:
		return refuse(l.name, "not the columns that "+l.files[0].name+" has",
			"files that are replayed together have the same ones, in any order")
	}
	return nil
}

// readAll reads to the end of the file. Bad rows become faults; an error means that the file itself cannot be read.
func (l *loader) readAll(lines *lineReader) error {
	for {
		text, err := lines.next()
		switch {
		case err == io.EOF:
			if err := l.settle(); err != nil {
				return err
			}
			return l.endFile()
		case errors.Is(err, errLineTooLong):
			l.FileRows++
			l.fault(Fault{
				File: l.name,
				Line: lines.line,
				What: fmt.Sprintf("the line is longer than %d MiB",
					maxLine>>20),
				Fix: "a row is one JSON object on one line",
			})
			continue
		case err != nil:
			return unreadable(fmt.Sprintf("%s:%d", l.name, lines.line+1), err)
		case len(bytes.TrimSpace(text)) == 0:
			continue
		case lines.line >= math.MaxInt32 || l.FileRows >= math.MaxInt32:
			return fmt.Errorf("%s: more than %d lines; split the trace", l.name, math.MaxInt32)
		}
		if l.input.format != nil {
			err = l.takeLine(text, lines.line)
		} else {
			l.input.pending = append(l.input.pending, heldLine{bytes.Clone(text), lines.line})
			if len(l.input.pending) == detectRows {
				err = l.settle()
			}
		}
		if err = cmp.Or(err, l.bounded()); err != nil {
			return err
		}
	}
}

// settle detects the format and takes the lines held.
func (l *loader) settle() error {
	held := l.input.pending
	l.input.pending = nil
	if len(held) == 0 {
		return nil // endFile refuses the empty file
	}
	f, err := detect(l.known, l.name, held, l.o.Fields)
	if err != nil {
		return err
	}
	if err := f.CheckUnit(l.o.TimeUnit); err != nil {
		return fmt.Errorf("%s: %w", l.name, err)
	}
	if err := l.setFormat(f); err != nil {
		return err
	}
	l.Lint.noteUnsent(f, held)
	for _, h := range held {
		if err := l.takeLine(h.text, h.line); err != nil {
			return err
		}
	}
	return nil
}

// endFile takes the rows that were only known at the end of the file, and refuses an empty one.
func (l *loader) endFile() error {
	f := l.input.format
	if f != nil && f.Import != nil && f.Import.End != nil {
		f.Import.End(l.newBatch())
	}
	if l.FileRows == l.files[len(l.files)-1].row && !l.input.told {
		return refuse(l.name, "the trace is empty", "it must have at least one row")
	}
	return nil
}

// takeLine takes the head of a CSV file or a row; only the head can be so wrong that the file cannot be read.
func (l *loader) takeLine(text []byte, line int) error {
	if !l.input.reader.NeedsHead() {
		l.take(text, line)
		return nil
	}
	if err := l.input.reader.TakeHead(text); err != nil {
		return &LintError{Faults: []Fault{faultOf(l.name, line, err)}}
	}
	return l.agree()
}

// take decodes a line or an object and appends its rows to the columns.
func (l *loader) take(text []byte, line int) {
	if l.input.format.Import != nil {
		b := l.newBatch()
		b.Line = line
		l.input.format.Import.Take(b, text)
		l.takeBatch(b)
		return
	}
	number := l.FileRows
	l.FileRows++
	r, err := l.input.reader.Parse(text)
	if err == rows.ErrFailed && !l.o.Strict {
		l.Lint.Failed++
		return
	}
	if err == nil {
		err = l.refuseRepairs(r)
	}
	if err == nil {
		err = l.keepType(r)
	}
	if err != nil {
		l.fault(faultOf(l.name, line, err))
		return
	}
	l.repair(r)
	l.keep(r, number, line)
}

func (l *loader) newBatch() *formats.Batch {
	b := formats.NewBatch(l.input.file, l.input.reader, l.takeBatch)
	b.First = l.FileRows
	b.History = l.o.History
	return b
}

// takeBatch appends the rows of an object to the columns.
func (l *loader) takeBatch(b *formats.Batch) {
	defer func() { b.First = l.FileRows }()
	err := b.Fault
	if b.Head != nil {
		l.Heads = append(l.Heads, *b.Head)
	}
	if err == nil || b.NoRow() {
		err = cmp.Or(l.setBlockTokens(b.BlockTokens), err)
	}
	switch {
	case err != nil && b.NoRow() && err == b.Fault:
		l.input.told = true
		return
	case err == rows.ErrUnanswered && !l.o.Strict:
		l.FileRows++
		l.Lint.Unanswered++
		return
	case err != nil:
	case b.Failed > 0 && l.o.Strict:
		err = rows.ErrFailed
	case len(b.Rows) == 0 && b.Failed == 0:
		err = rows.Bad("nothing in it to send", "leave it out")
	}
	for i := range b.Rows {
		r := &b.Rows[i]
		if err == nil {
			err = cmp.Or(l.refuseRepairs(r), l.refuseEndpoint(r, b.Line), l.keepType(r))
		}
	}
	if err != nil {
		l.Type = l.Type[:min(len(l.Type), len(l.ArrivalNS))]
		l.FileRows++
		l.fault(faultOf(l.name, b.Line, err))
		return
	}
	l.FileRows += len(b.Rows) + b.Failed
	l.Lint.Failed += b.Failed
	l.Lint.ModelKey = cmp.Or(l.Lint.ModelKey, b.ModelKey)
	if b.Nested != nil {
		b.Nested.Move(int32(len(l.ArrivalNS)))
		l.nested = append(l.nested, b.Nested)
	}
	for i := range b.Rows {
		r := &b.Rows[i]
		l.repair(r)
		l.keep(r, b.First+i, cmp.Or(r.Line, b.Line))
	}
}

// setBlockTokens notes how many tokens a block id stands for, as the file says it.
func (l *loader) setBlockTokens(tokens int) error {
	said := fmt.Sprintf("a block id stands for %d tokens", tokens)
	switch {
	case tokens == 0 || tokens == l.BlockTokens:
		return nil
	case tokens < 0 || tokens > rows.MaxTokens:
		return rows.Bad(said, fmt.Sprintf("it must be from 1 to %d", rows.MaxTokens))
	case l.o.BlockTokens != 0 && tokens != l.o.BlockTokens:
		return rows.Bad(fmt.Sprintf("%s, but --block-tokens says %d", said, l.o.BlockTokens),
			"leave --block-tokens out")
	case l.withIDs > 0 && tokens != l.BlockTokens:
		return rows.Bad(fmt.Sprintf("%s, but for %d in the rows before", said, l.BlockTokens),
			"a run has one block size: replay the rows one size at a time")
	}
	l.BlockTokens = tokens
	l.said = tokens
	return nil
}

// keepType appends to the types of requests, if the format has them; there may be too many.
func (l *loader) keepType(r *rows.Row) error {
	if !l.layout.Has(rows.TypeField) {
		return nil
	}
	kind, known := l.types.numbers[string(r.Type)]
	if !known {
		if len(l.types.names) > math.MaxUint16 {
			return rows.Bad(fmt.Sprintf("type %q is one too many", rows.Clip(r.Type)),
				fmt.Sprintf("%d different types are possible", math.MaxUint16+1))
		}
		kind = l.types.number(string(r.Type))
	}
	l.Type = append(l.Type, uint16(kind))
	return nil
}

// refuseRepairs is the error for a row that repair would have to mend, with Options.Strict.
func (l *loader) refuseRepairs(r *rows.Row) error {
	if !l.o.Strict {
		return nil
	}
	if !l.format.IDsFit(len(r.IDs), r.InputTokens, l.BlockTokens) {
		return rows.Bad(fmt.Sprintf("%d hash ids, but input_length %d is %d blocks of %d tokens", len(r.IDs),
			r.InputTokens,
			l.format.MostIDs(r.InputTokens, l.BlockTokens), l.BlockTokens),
			"fix the row, check --block-tokens, or replay without --bad-rows strict")
	}
	if noOutput(r) {
		return rows.Bad("output_length 0: a server generates at least 1 token",
			"fix the row, or replay without --bad-rows strict")
	}
	return nil
}

// noOutput reports whether the row has an output length of 0.
func noOutput(r *rows.Row) bool {
	return r.OutputTokens == 0 && r.Seen.Has(rows.OutputField)
}

// repair mends what real traces get wrong in a few rows, and counts it.
func (l *loader) repair(r *rows.Row) {
	mismatch := !l.format.IDsFit(len(r.IDs), r.InputTokens, l.BlockTokens)
	if len(r.IDs) > 0 {
		l.withIDs++
	}
	if mismatch && len(r.IDs) > l.format.MostIDs(r.InputTokens, l.BlockTokens) {
		l.Lint.SurplusIDs++
	} else if mismatch {
		l.Lint.MissingIDs++
	}
	if mismatch || noOutput(r) {
		l.Lint.Repaired++
	}
	if noOutput(r) {
		l.Lint.NoOutput++
		r.OutputTokens = 1
	}
}

// refuseEndpoint is the error for a row that names another path than those before, since a run has one.
func (l *loader) refuseEndpoint(r *rows.Row, line int) error {
	switch {
	case r.Endpoint == "" || r.Endpoint == l.Endpoint:
		return nil
	case l.Endpoint == "":
		l.Endpoint = r.Endpoint
		l.endpointAt = fmt.Sprintf("%s:%d", l.name, line)
		return nil
	}
	return rows.Bad(fmt.Sprintf("url is %s, but %s is for %s", rows.Quote(r.Endpoint), l.endpointAt, l.Endpoint),
		"a run has one endpoint: split the file by it")
}

// settleTimes finds the instants of rows that have none: the next turn of a conversation comes its delay after the one
// before. If no row has an instant, all are at 0. What has no time among others that have one becomes a fault.
func (l *loader) settleTimes() {
	if l.timed == len(l.ArrivalNS) {
		return
	}
	if l.timed == 0 {
		clear(l.ArrivalNS)
		return
	}
	latest := map[int64]int64{} // of conversations
	for i, at := range l.ArrivalNS {
		session := l.conversation(int32(i))
		if at == agents.NoTime && l.DelayNS != nil && l.DelayNS[i] != agents.NoDelay {
			before, known := latest[session]
			if known && before <= math.MaxInt64-l.DelayNS[i] {
				at = before + l.DelayNS[i]
				l.ArrivalNS[i] = at
				l.Lint.Delayed++
			}
		}
		if at == agents.NoTime {
			l.faultIn(int32(i), "missing "+cmp.Or(l.layout.Names[rows.TimestampField], "instant"),
				"other rows have one: give it one too, or a delay after an earlier turn of its session")
			continue
		}
		latest[session] = at
	}
}
