package rows

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// maxColumns bounds the columns of a CSV file.
const maxColumns = 1000

// splitCSV appends the values of a line to cells, as RFC 4180 writes them but for quoted line ends: a row is one line.
// White space around a value does not count. Quoted holds values with quotes inside; the cells alias it and the line.
func splitCSV(cells [][]byte, quoted *[]byte, line []byte) ([][]byte, error) {
	if need := len(line); cap(*quoted) < need {
		*quoted = make([]byte, 0, need) // once and for all: cells alias it
	}
	*quoted = (*quoted)[:0]
	for {
		if len(cells) == maxColumns {
			return cells, &Error{fmt.Sprintf("more than %d columns", maxColumns), "check that this is the right file"}
		}
		line = bytes.TrimLeft(line, " \t")
		if len(line) > 0 && line[0] == '"' {
			from := len(*quoted)
			rest, err := unquote(quoted, line[1:])
			if err != nil {
				return cells, err
			}
			cells = append(cells, (*quoted)[from:])
			line = bytes.TrimLeft(rest, " \t")
			if len(line) > 0 && line[0] != ',' {
				return cells, &Error{"text after a closing quote: " + Clip(line), `write a quote inside a value as ""`}
			}
		} else {
			end := bytes.IndexByte(line, ',')
			if end < 0 {
				end = len(line)
			}
			cells = append(cells, bytes.TrimRight(line[:end], " \t"))
			line = line[end:]
		}
		if len(line) == 0 {
			return cells, nil
		}
		line = line[1:]
	}
}

// unquote appends a value up to its closing quote and returns what follows that.
func unquote(dst *[]byte, line []byte) (rest []byte, err error) {
	for {
		end := bytes.IndexByte(line, '"')
		if end < 0 {
			return nil, &Error{"a quoted value does not end", `close it with ", on the same line`}
		}
		*dst = append(*dst, line[:end]...)
		line = line[end+1:]
		if len(line) == 0 || line[0] != '"' {
			return line, nil
		}
		*dst = append(*dst, '"')
		line = line[1:]
	}
}

// HeadOf is the names in a line that may be the head of a CSV file.
func HeadOf(line []byte) []string {
	if len(line) == 0 || line[0] == '{' {
		return nil
	}
	var quoted []byte
	cells, err := splitCSV(nil, &quoted, line)
	if err != nil {
		return nil
	}
	var names []string
	for _, c := range cells {
		names = append(names, string(c))
	}
	return names
}

// NeedsHead reports whether the next line must name the columns.
func (p *Reader) NeedsHead() bool {
	return p.layout.CSV && p.columns == nil
}

// TakeHead takes the line that names the columns of a CSV file. Fields without a column are unknown from then on.
func (p *Reader) TakeHead(line []byte) error {
	names := HeadOf(bytes.TrimSpace(line))
	f := *p.layout
	var seen FieldSet
	for _, n := range names {
		d := f.Field([]byte(n))
		if d != UnknownField && seen.Has(d) {
			return &Error{"two columns are named " + Clip(n), "keep one of them"}
		}
		seen |= SetOf(d)
		p.columns = append(p.columns, d)
	}
	if missing := f.Required &^ seen; missing != 0 {
		return &Error{"no column " + f.List(missing),
			"the first line names the columns; rename them with --fields, or check --format"}
	}
	for d := range f.Names {
		if !seen.Has(Field(d)) {
			f.Names[d] = ""
		}
	}
	p.layout = &f
	return nil
}

// csvRow decodes a row into an empty p.row.
func (p *Reader) csvRow(line []byte) (err error) {
	p.cells, err = splitCSV(p.cells[:0], &p.quoted, line)
	if err != nil {
		return err
	}
	if len(p.cells) != len(p.columns) {
		return &Error{fmt.Sprintf("%d values under %d columns", len(p.cells), len(p.columns)),
			"a row has a value for each column, with commas between"}
	}
	if p.failed() {
		return ErrFailed
	}
	for i, cell := range p.cells {
		f := p.columns[i]
		if f == UnknownField || len(cell) == 0 {
			continue
		}
		p.row.Seen |= SetOf(f)
		if err := p.cell(f, cell); err != nil {
			return err
		}
	}
	return nil
}

// failed reports whether the row is of a request that failed when it was recorded; the rest of it may be anything.
func (p *Reader) failed() bool {
	if !p.layout.Failures {
		return false
	}
	for i, cell := range p.cells {
		if p.columns[i] == OutputField {
			if len(cell) > 0 && cell[0]-'1' < 9 {
				return false // the usual number
			}
			n, err := strconv.ParseFloat(string(cell), 64)
			return err == nil && n == 0
		}
	}
	return false
}

// cell decodes a value that is there.
func (p *Reader) cell(f Field, cell []byte) error {
	switch {
	case f == TypeField:
		return p.setType(cell)
	case f == SessionField:
		p.row.SetSession(cell)
		return nil
	case f == HeadersField:
		return p.headers(cell)
	case f.ofOwner():
		return p.setOwner(f, string(cell))
	case f == TimestampField && p.layout.Dates:
		return p.date(cell)
	}
	s := Scan(cell)
	number, err := s.number()
	if err != nil || s.At != len(cell) {
		return &Error{fmt.Sprintf("%s is %s, not a number", p.layout.Names[f], Quote(cell)), "write it in digits"}
	}
	if f == TimestampField {
		return p.time(f, number)
	}
	return p.whole(f, number)
}

// Quote shows a value of a cell, which may be anything.
func Quote[T string | []byte](text T) string {
	return strconv.Quote(Clip(text))
}

// SessionNumber is the number of a conversation: its name if that is one, else a hash of it (FNV-1a, 63 bits).
func SessionNumber(name []byte) (number int64, isOne bool) {
	if n, err := strconv.ParseInt(string(name), 10, 64); err == nil && n >= 0 {
		return n, true
	}
	h := uint64(14695981039346656037)
	for _, c := range name {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return int64(h >> 1), false
}

// AppendCell appends a value, quoted where it must be.
func AppendCell(dst []byte, value string) []byte {
	if !strings.ContainsAny(value, "\",\n\r") && value == strings.TrimSpace(value) {
		return append(dst, value...)
	}
	return fmt.Appendf(dst, `"%s"`, strings.ReplaceAll(value, `"`, `""`))
}
