package trace

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
)

// detectRows is how many rows detection looks at: enough to see past a bad first row.
const detectRows = 10

func (o *Options) validate() error {
	if o.Format != "" {
		f, err := formatByName(o.Format)
		if err != nil {
			return err
		}
		if err := f.checkUnit(o.TimeUnit); err != nil {
			return err
		}
	}
	if err := checkNames(o.Fields); err != nil {
		return err
	}
	switch {
	case o.TimeUnit != 0 && unitDigits(o.TimeUnit) < 0:
		return fmt.Errorf("time unit %v; it must be ns, us, ms or s", o.TimeUnit)
	case o.BlockTokens < 0 || o.BlockTokens > maxTokens:
		return fmt.Errorf("%d tokens a block; it must be from 1 to %d", o.BlockTokens, maxTokens)
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

// loader collects the rows of one or several files, in the order read, before they are sorted and selected. Its Trace is
// of all good rows so far, with the files' own instants; a column that a file need not have begins with the first row that
// has a value in it.
type loader struct {
	Trace
	name    string // of the file being read
	within  string // its place in the directory where it was found; "" = it was named itself
	files   []fileStart
	o       Options
	format  *format // of all files
	parser  rowParser
	pending []heldLine // seen before the format is known

	line       []int32
	latest     map[int64]int32 // row with ids of a conversation
	types      numbering[string]
	endpointAt string // where the first row is that names Endpoint
	agents     agentNames
	scopes     idScopes
	waits      int            // what requests wait for that the file does not say itself, see refuseWaits
	said       int            // tokens that a block id stands for, as a file says it; 0 = none said so yet
	held       []heldLine     // of the file being read
	growths    []growth       // nil as long as no prompt is known by its length alone
	timed      int            // rows with a timestamp
	unusable   map[int32]bool // rows whose parents lead back to themselves, and those without a time among others that have one

	faults    []Fault
	faultRows int
	withIDs   int // rows that have hash ids
}

func newLoader(name string, o Options) *loader {
	l := &loader{o: o}
	l.begin(name)
	return l
}

// begin makes ready for a file, the first or a further one.
func (l *loader) begin(name string) {
	l.name = name
	l.files = append(l.files, fileStart{name, l.FileRows})
	l.parser = rowParser{}
	if l.o.Format != "" {
		f, err := formatByName(l.o.Format)
		if err != nil {
			panic("BUG: options were not validated: " + err.Error())
		}
		if err := l.setFormat(f.renamed(l.o.Fields)); err != nil {
			panic("BUG: files read as one format have several: " + err.Error())
		}
	}
}

func (l *loader) setFormat(f *format) error {
	l.TimeUnit, l.BlockTokens = cmp.Or(l.o.TimeUnit, f.unit), cmp.Or(l.o.BlockTokens, l.said, f.blockTokens)
	l.parser = newRowParser(f, l.TimeUnit)
	if f.csv {
		return nil // its head shows more
	}
	return l.agree()
}

// readAll reads to the end of the file. Bad rows become faults; an error means that the file itself cannot be read.
func (l *loader) readAll(lines *lineReader) error {
	for {
		text, err := lines.next()
		if err == io.EOF {
			break
		}
		if errors.Is(err, errLineTooLong) {
			l.FileRows++
			l.fault(Fault{File: l.name, Line: lines.line, What: fmt.Sprintf("the line is longer than %d MiB", maxLine>>20),
				Fix: "a row is one JSON object on one line"})
			continue
		}
		if err != nil {
			return fmt.Errorf("%s:%d: reading: %w; the file is damaged or cut short", l.name, lines.line+1, err)
		}
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		if lines.line >= math.MaxInt32 || l.FileRows >= math.MaxInt32 {
			return fmt.Errorf("%s: more than %d lines; split the trace", l.name, math.MaxInt32)
		}
		if l.parser.format == nil {
			l.pending = append(l.pending, heldLine{bytes.Clone(text), lines.line})
			if len(l.pending) == detectRows {
				if err := l.settle(); err != nil {
					return err
				}
			}
			continue
		}
		if err := l.takeLine(text, lines.line); err != nil {
			return err
		}
	}
	if l.parser.format == nil {
		if err := l.settle(); err != nil {
			return err
		}
	}
	l.takeHeld()
	if l.FileRows == l.files[len(l.files)-1].row {
		return refuse(l.name, "the trace is empty", "it must have at least one row")
	}
	return nil
}

// settle detects the format and takes the lines held.
func (l *loader) settle() error {
	if len(l.pending) == 0 {
		return nil // readAll refuses the empty file
	}
	f, err := detect(l.name, l.pending, l.o.Fields)
	if err != nil {
		return err
	}
	if err := f.checkUnit(l.o.TimeUnit); err != nil {
		return fmt.Errorf("%s: %w", l.name, err)
	}
	if err := l.setFormat(f); err != nil {
		return err
	}
	l.Lint.noteUnsent(f, l.pending)
	for _, p := range l.pending {
		if err := l.takeLine(p.text, p.line); err != nil {
			return err
		}
	}
	l.pending = nil
	return nil
}

// takeLine takes the head of a CSV file or a row; only the head can be so wrong that the file cannot be read.
func (l *loader) takeLine(text []byte, line int) error {
	if !l.parser.format.csv || l.parser.columns != nil {
		l.take(text, line)
		return nil
	}
	if err := l.parser.head(text); err != nil {
		return &LintError{Faults: []Fault{faultOf(l.name, line, err)}}
	}
	return l.agree()
}

func (l *loader) fault(f Fault) {
	l.faultRows++
	if len(l.faults) < maxFaults {
		l.faults = append(l.faults, f)
	}
}

// take decodes a line and appends it to the columns.
func (l *loader) take(text []byte, line int) {
	if l.parser.format.items != nil {
		l.takeItems(text, line)
		return
	}
	number := l.FileRows
	l.FileRows++
	if err := l.parser.parse(text); err == errFailed && !l.o.Strict {
		l.Lint.Failed++
		return
	} else if err != nil {
		l.fault(faultOf(l.name, line, err))
		return
	}
	r := &l.parser.row
	err := l.refuseRepairs(r)
	if err == nil {
		err = l.keepType(r)
	}
	if err != nil {
		l.fault(faultOf(l.name, line, err))
		return
	}
	l.keep(r, number, line)
}

// keepType appends to the types of requests, if the format has them; there may be too many.
func (l *loader) keepType(r *row) error {
	if !l.format.has(typeField) {
		return nil
	}
	kind, known := l.types.numbers[string(r.typ)]
	if !known {
		if len(l.types.names) > math.MaxUint16 {
			return &rowError{fmt.Sprintf("type %q is one too many", clip(r.typ)), fmt.Sprintf("%d different types are possible", math.MaxUint16+1)}
		}
		kind = l.types.number(string(r.typ))
	}
	l.Type = append(l.Type, uint16(kind))
	return nil
}

// keep appends a row to the columns but for its type.
func (l *loader) keep(r *row, number, line int) {
	l.repair(r)
	l.keepSession(r, number)
	l.keepVerbatim(r)
	keepList(&l.answers, r.answer, len(l.ArrivalNS))
	l.keepAgent(&r.agent)
	addTo(&l.growths, r.growth, len(l.ArrivalNS), growth{})
	if l.format.has(chatField) {
		l.Chat = append(l.Chat, r.chat)
		l.Parent = append(l.Parent, r.parent)
		l.Turn = append(l.Turn, r.turn)
	}
	if r.seen.has(timestampField) {
		l.timed++
	} else {
		r.timeNS = noTime
	}
	l.ArrivalNS = append(l.ArrivalNS, r.timeNS)
	l.InputTokens = append(l.InputTokens, r.input)
	l.OutputTokens = append(l.OutputTokens, r.output)
	l.Row = append(l.Row, int32(number))
	l.line = append(l.line, int32(line))
	l.keepIDs(r)
}

// keepIDs appends block ids, which mostly begin with those of the row before in their conversation.
func (l *loader) keepIDs(r *row) {
	before := len(l.ids.rows) - 1
	if r.seen.has(sessionField) && len(r.ids) > 0 {
		if latest, known := l.latest[r.session]; known {
			before = int(latest)
		}
		if l.latest == nil {
			l.latest = map[int64]int32{}
		}
		l.latest[r.session] = int32(len(l.ids.rows))
	}
	l.ids.addShared(r.ids, before)
}

// refuseRepairs is the error for a row that repair would have to mend, with Options.Strict.
func (l *loader) refuseRepairs(r *row) error {
	if !l.o.Strict {
		return nil
	}
	if !l.format.idsFit(len(r.ids), r.input, l.BlockTokens) {
		return &rowError{fmt.Sprintf("%d hash ids, but input_length %d is %d blocks of %d tokens", len(r.ids), r.input,
			l.format.mostIDs(r.input, l.BlockTokens), l.BlockTokens),
			"fix the row, check --block-tokens, or replay without --bad-rows strict"}
	}
	if r.noOutput() {
		return &rowError{"output_length 0: a server generates at least 1 token", "fix the row, or replay without --bad-rows strict"}
	}
	return nil
}

// noOutput reports whether the row has an output length of 0.
func (r *row) noOutput() bool { return r.output == 0 && r.seen.has(outputField) }

// repair mends what real traces get wrong in a few rows, and counts it.
func (l *loader) repair(r *row) {
	mismatch := !l.format.idsFit(len(r.ids), r.input, l.BlockTokens)
	if len(r.ids) > 0 {
		l.withIDs++
	}
	if mismatch && len(r.ids) > l.format.mostIDs(r.input, l.BlockTokens) {
		l.Lint.SurplusIDs++
	} else if mismatch {
		l.Lint.MissingIDs++
	}
	if mismatch || r.noOutput() {
		l.Lint.Repaired++
	}
	if r.noOutput() {
		l.Lint.NoOutput++
		r.output = 1
	}
}

// blocksOf is how many blocks a prompt has, the last one perhaps partial.
func blocksOf(tokens int32, blockTokens int) int {
	return (int(tokens) + blockTokens - 1) / blockTokens
}

// refuseEndpoint is the error for a row that names another path than those before, since a run has one.
func (l *loader) refuseEndpoint(r *row, line int) error {
	switch {
	case r.endpoint == "" || r.endpoint == l.Endpoint:
		return nil
	case l.Endpoint == "":
		l.Endpoint, l.endpointAt = r.endpoint, fmt.Sprintf("%s:%d", l.name, line)
		return nil
	}
	return &rowError{fmt.Sprintf("url is %s, but %s is for %s", quote(r.endpoint), l.endpointAt, l.Endpoint),
		"a run has one endpoint: split the file by it"}
}

const (
	noTime  = math.MinInt64 // the instant of a row that has none
	noDelay = -1
)

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
		session := noSession(i)
		if l.Session != nil {
			session = l.Session[i]
		}
		if at == noTime && l.DelayNS != nil && l.DelayNS[i] != noDelay {
			if before, known := latest[session]; known && before <= math.MaxInt64-l.DelayNS[i] {
				at = before + l.DelayNS[i]
				l.ArrivalNS[i] = at
				l.Lint.Delayed++
			}
		}
		if at == noTime {
			l.faultIn(int32(i), "missing "+cmp.Or(l.format.names[timestampField], "instant"),
				"other rows have one: give it one too, or a delay after an earlier turn of its session")
			continue
		}
		latest[session] = at
	}
}
