package trace

import (
	"bytes"
	"fmt"
	"io"
)

const (
	// headBytes is how much of a file is looked at to tell a JSON document from lines.
	headBytes = 64 << 10
	// maxDocument bounds a JSON document in bytes; the ShareGPT dataset has 670 MB.
	maxDocument = 16 << 30
)

// documentFormat is the format of a file that is one JSON document, by its beginning; nil for a file of lines.
func (l *loader) documentFormat(head []byte) *format {
	head = bytes.TrimSpace(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")))
	if len(head) == 0 || head[0] != '[' && head[0] != '{' {
		return nil
	}
	list := head[0] == '['
	keys := keysOf(bytes.TrimSpace(bytes.TrimPrefix(head, []byte("["))), 0)
	for _, f := range formats() {
		switch {
		case l.o.Format != "" && f.name != l.o.Format, f.items == nil, list != (f.listKey == ""):
		case l.o.Format != "", !list && len(keys) > 0 && keys[0] == f.listKey, list && f.known(keys):
			return f
		}
	}
	return nil
}

// readDocument takes the objects of a file that is a JSON list, or has one.
func (l *loader) readDocument(r io.Reader, f *format) error {
	text, err := io.ReadAll(io.LimitReader(r, maxDocument+1))
	switch {
	case err != nil:
		return fmt.Errorf("%s: reading: %w; the file is damaged or cut short", l.name, err)
	case len(text) > maxDocument:
		return refuse(l.name, fmt.Sprintf("the document is larger than %d GiB", maxDocument>>30), "split it, or write it as JSONL")
	}
	if err := l.setFormat(f); err != nil {
		return err
	}
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	d := document{text: text, line: 1}
	s := scanner{b: text}
	s.space()
	before := l.fileRows
	err = d.objects(&s, f.listKey, func(object []byte, line int) { l.take(object, line) })
	if err != nil {
		return &LintError{Faults: []Fault{{File: l.name, Line: d.lineAt(s.i), What: err.Error(), Fix: "the file must be one JSON document, whole and valid"}}}
	}
	if l.fileRows == before {
		return refuse(l.name, "the trace is empty", "it must have at least one row")
	}
	return nil
}

// document tells the lines of a text.
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

// objects calls take with each value of the list under a key, or of the document where that is the list itself.
func (d *document) objects(s *scanner, key string, take func(object []byte, line int)) error {
	each := func(_ int, value []byte) error {
		take(value, d.lineAt(s.i-len(value)))
		return nil
	}
	if key == "" {
		if err := s.list(each); err != nil {
			return err
		}
		return s.end()
	}
	var scratch []byte
	found := false
	err := s.object(&scratch, func(name []byte) error {
		if string(name) != key {
			return s.skip(1)
		}
		found = true
		return s.list(each)
	})
	if err == nil && !found {
		return fmt.Errorf("no %q, the list of what was sent", key)
	}
	return err
}
