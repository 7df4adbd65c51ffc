package trace

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/fastreplay/fastreplay/codec/trace/formats"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

const (
	// maxLine bounds a line in bytes: 64 MiB hold a prompt of 3M block ids.
	maxLine = 64 << 20
	// lineBuffer is the read size in bytes; it fits the second-level cache.
	lineBuffer = 256 << 10
	// byteOrderMark may stand before the first line.
	byteOrderMark = "\xef\xbb\xbf"
)

// errLineTooLong is a line beyond maxLine. The reader has skipped it.
var errLineTooLong = errors.New("the line is too long")

// lineReader returns the lines of a reader. It tolerates CRLF ends, a byte order mark and a last line without an end.
type lineReader struct {
	r       *bufio.Reader
	long    []byte // the latest line that did not fit into r's buffer
	line    int    // number of the line that next has returned, from 1
	longest int    // bytes a line may have
}

func newLineReader(r *bufio.Reader) *lineReader {
	return &lineReader{r: r, longest: maxLine}
}

// next returns a line without its end, valid until the next call; io.EOF after the last.
func (l *lineReader) next() ([]byte, error) {
	line, err := l.r.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		l.long = append(l.long[:0], line...)
		for err == bufio.ErrBufferFull {
			line, err = l.r.ReadSlice('\n')
			if len(l.long) <= l.longest+len(byteOrderMark) {
				l.long = append(l.long, line...)
			}
		}
		line = l.long
	}
	if err != nil && (err != io.EOF || len(line) == 0) {
		return nil, err
	}
	line = bytes.TrimSuffix(line, []byte("\n"))
	l.line++
	if l.line == 1 {
		line = bytes.TrimPrefix(line, []byte(byteOrderMark))
	}
	if len(line) > l.longest {
		return nil, errLineTooLong
	}
	return bytes.TrimSuffix(line, []byte("\r")), nil
}

const (
	// headBytes is how much of a file is looked at to distinguish a JSON document from lines.
	headBytes = 64 << 10
	// maxDocument bounds a JSON document in bytes; the ShareGPT dataset has 670 MB.
	maxDocument = 16 << 30
)

// documentFormat is the format of a file that is one JSON document, by its beginning; nil for a file of lines.
func (l *loader) documentFormat(head []byte) *formats.Format {
	head = bytes.TrimSpace(bytes.TrimPrefix(head, []byte(byteOrderMark)))
	if len(head) == 0 || head[0] != '[' && head[0] != '{' {
		return nil
	}
	list := head[0] == '['
	keys := rows.Keys(bytes.TrimSpace(bytes.TrimPrefix(head, []byte("["))))
	for _, f := range l.known {
		told := f.Name == l.o.Format
		switch in := f.Import; {
		case l.o.Format != "" && !told, in == nil, list != (in.ListKey == "") && !in.Documents:
		case in.Documents && !list && !goesOn(head):
		case told,
			in.ListKey != "" && len(keys) > 0 && keys[0] == in.ListKey,
			in.ListKey == "" && in.Looks == nil && in.Match(keys):
			return f
		}
	}
	return nil
}

// goesOn reports whether the first line ends within an object.
func goesOn(head []byte) bool {
	line, _, more := bytes.Cut(head, []byte("\n"))
	s := rows.Scan(line)
	return more && s.Skip() != nil && s.At == len(line)
}

// readDocument takes the objects of a file that is a JSON list, or has one.
func (l *loader) readDocument(r io.Reader, f *formats.Format) error {
	text, err := io.ReadAll(io.LimitReader(r, maxDocument+1))
	switch {
	case err != nil:
		return unreadable(l.name, err)
	case len(text) > maxDocument:
		return refuse(l.name, fmt.Sprintf("the document is larger than %d GiB", maxDocument>>30),
			"split it, or write it as JSONL")
	}
	if err := l.setFormat(f); err != nil {
		return err
	}
	text = bytes.TrimPrefix(text, []byte(byteOrderMark))
	d := document{text: text, line: 1}
	s := rows.Scan(text)
	s.Peek()
	var tooMuch error
	err = d.objects(&s, f, func(object []byte, line int) error {
		l.take(object, line)
		tooMuch = l.bounded()
		return tooMuch
	})
	if tooMuch != nil {
		return tooMuch
	}
	if err != nil {
		return &LintError{Faults: []Fault{{
			File: l.name,
			Line: d.lineAt(s.At),
			What: err.Error(),
			Fix:  "the file must be one JSON document, whole and valid",
		}}}
	}
	return l.endFile()
}

// document counts the lines of a text.
type document struct {
	text []byte
	at   int // line is that of text[at]
	line int
}

// lineAt is the line of text[i], from 1; i never falls.
func (d *document) lineAt(i int) int {
	i = min(i, len(d.text))
	d.line += bytes.Count(d.text[d.at:i], []byte("\n"))
	d.at = i
	return d.line
}

// objects calls take with each value of the list under the format's key. Without a key it takes the values of the
// document, if that is a list, or else of each value in it.
func (d *document) objects(s *rows.Scanner, f *formats.Format, take func(object []byte, line int) error) error {
	each := func(_ int, value []byte) error {
		return take(value, d.lineAt(s.At-len(value)))
	}
	for f.Import.Documents && s.Peek() == '{' {
		value, err := s.Value()
		if err != nil {
			return err
		}
		if err := each(0, value); err != nil {
			return err
		}
		s.Peek()
		if s.At == len(s.Data) {
			return nil
		}
	}
	key := f.Import.ListKey
	if key == "" {
		if err := s.List(each); err != nil {
			return err
		}
		return s.End()
	}
	found := false
	err := s.Object(func(name []byte) error {
		if string(name) != key {
			return nil
		}
		found = true
		return s.List(each)
	})
	if err == nil && !found {
		return fmt.Errorf("no %q, the list of what was sent", key)
	}
	return err
}
