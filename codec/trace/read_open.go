package trace

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxZstdWindow is the largest window that zstd --long=31 makes, 2 GiB.
const maxZstdWindow = 1 << 31

// Open reads the trace in a file, "-" being standard input. Plain, gzip and zstd files are distinguished by their first
// bytes, whatever their names.
//
// A trace that must not be replayed is a [*LintError], unless Options.Collect notes the reasons instead; other errors
// are about the file or the options.
func Open(path string, o Options) (*Trace, error) {
	return OpenAll([]string{path}, o)
}

// OpenAll reads one or several files of the same format as one trace. Rows are numbered as if the files were one, in
// the order given, and sorted by their timestamps. Equal ids are the same blocks and the same conversations in every
// file. A directory means the traces in it and below, in order of their paths.
func OpenAll(paths []string, o Options) (*Trace, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	files, err := filesOf(paths)
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, errors.New("no trace is given")
	}
	l := newLoader(o)
	for _, file := range files {
		err := withFile(file.path, func(r io.Reader, name string) error {
			if file.within != "" {
				l.Lint.Found = append(l.Lint.Found, file.within)
			}
			l.begin(name, file.within)
			return l.read(r)
		})
		if err != nil {
			return nil, err
		}
	}
	return l.finish()
}

// withFile calls do with an open file.
func withFile(path string, do func(r io.Reader, name string) error) error {
	if path == "-" {
		return do(os.Stdin, "stdin")
	}
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("cannot read the trace: %w", err)
	}
	defer f.Close() // nothing was written, so its error does not matter
	return do(f, path)
}

// Read is [Open] for any reader; name stands for the file in messages and in [Trace.Name].
func Read(r io.Reader, name string, o Options) (*Trace, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	l := newLoader(o)
	l.begin(name, "")
	if err := l.read(r); err != nil {
		return nil, err
	}
	return l.finish()
}

// read reads the file that was begun, packed or not.
func (l *loader) read(r io.Reader) error {
	l.packed = &countedReader{Reader: r}
	l.before = l.o.History.Repeated
	plain, closePlain, err := decompress(l.packed, l.name)
	if err != nil {
		return err
	}
	defer closePlain()
	in := bufio.NewReaderSize(&boundedText{Reader: plain, packed: l.packed}, lineBuffer)
	head, err := in.Peek(headBytes)
	if err != nil && err != io.EOF {
		head = nil // reading on returns the error too, with the line
	}
	f := l.documentFormat(head)
	if f != nil {
		return l.readDocument(in, f)
	}
	return l.readAll(newLineReader(in))
}

// What a file may become beyond mostRows and mostText, so that no small file of a stranger fills the memory.
// Weka's trace has 230 bytes of text for each of its own, and traces of lengths have about 0.2 rows.
const (
	mostRows    = 1 << 20
	rowsOfAByte = 4
	mostText    = 1 << 30
	textOfAByte = 4096
)

// errBomb is a packed file of more text than that.
var errBomb = fmt.Errorf("the text is over 1 GiB and over %d times the packed file, as no trace is; if you trust it, "+
	"unpack it first", textOfAByte)

// bounded returns an error if the file has become too many rows, or too much text of what was said before.
func (l *loader) bounded() error {
	rows := int64(l.FileRows - l.files[len(l.files)-1].row)
	of := l.packed.n.Load()
	said := l.o.History.Repeated - l.before
	switch {
	case rows > mostRows && rows > rowsOfAByte*of:
		return fmt.Errorf("%s: more than %d rows, and over %d in a byte of the packed file, as no trace has; if "+
			"you trust it, unpack it first", l.name, mostRows, rowsOfAByte)
	case said > mostText && said > textOfAByte*of:
		return fmt.Errorf("%s: with what was said before them, requests are over 1 GiB and over %d times the file, as "+
			"no trace is; split it", l.name, textOfAByte)
	}
	return nil
}

// countedReader counts what is read. Decompressors read ahead in goroutines of their own.
type countedReader struct {
	io.Reader
	n atomic.Int64
}

func (c *countedReader) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// boundedText ends the text of a packed file with errBomb.
type boundedText struct {
	io.Reader
	packed *countedReader
	n      int64
}

func (b *boundedText) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if b.n += int64(n); b.n > mostText && b.n > textOfAByte*b.packed.n.Load() {
		return 0, errBomb
	}
	return n, err
}

// unreadable says why reading ended.
func unreadable(place string, err error) error {
	if errors.Is(err, errBomb) {
		return fmt.Errorf("%s: %w", place, err)
	}
	return fmt.Errorf("%s: reading: %w; the file is damaged or cut short", place, err)
}

// decompress unpacks r if its first bytes are those of a compressed file.
func decompress(r io.Reader, name string) (io.Reader, func(), error) {
	head := make([]byte, 16)
	n, err := io.ReadFull(r, head)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF { // a file may be shorter
		return nil, nil, fmt.Errorf("%s: reading: %w", name, err)
	}
	head = head[:n]
	in := io.MultiReader(bytes.NewReader(head), r)
	switch {
	case bytes.HasPrefix(head, []byte("\x1f\x8b")): // RFC 1952, section 2.3.1
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: gzip: %w; the file is damaged", name, err)
		}
		return z, func() { z.Close() }, nil
	case isZstd(head):
		z, err := zstd.NewReader(in, zstd.WithDecoderMaxWindow(maxZstdWindow))
		if err != nil {
			return nil, nil, fmt.Errorf("%s: zstd: %w; the file is damaged", name, err)
		}
		return z, z.Close, nil
	}
	kind := foreignKind(head)
	if kind != "" {
		return nil, nil, fmt.Errorf("%s is %s", name, kind)
	}
	return in, func() {}, nil
}

// isZstd recognizes a frame and a skippable frame, with which pzstd begins (RFC 8878, section 3.1).
func isZstd(head []byte) bool {
	frame := bytes.HasPrefix(head, []byte("\x28\xb5\x2f\xfd"))
	skippable := len(head) > 0 && head[0]>>4 == 5 && bytes.HasPrefix(head[1:], []byte("\x2a\x4d\x18"))
	return frame || skippable
}

// foreignKind recognizes files that people pass by mistake, and returns what to do.
func foreignKind(head []byte) string {
	for _, k := range []struct{ magic, kind string }{
		{"PK\x03\x04", "a zip archive; unpack it first"},
		{"BZh", "packed with bzip2; unpack it first, or pack it with gzip or zstd"},
		{"\xfd7zXZ\x00", "packed with xz; unpack it first, or pack it with gzip or zstd"},
		{"PAR1", "a Parquet file; make it JSONL first, as `fastreplay help traces` shows"},
		{"version https://", "a Git LFS pointer, not the trace itself; run: git lfs pull"},
		{"<!DOCTYPE", "a web page, not a trace; download the raw file"},
		{"<html", "a web page, not a trace; download the raw file"},
	} {
		if bytes.HasPrefix(head, []byte(k.magic)) {
			return k.kind
		}
	}
	return ""
}

// fileStart is a file among several and the number of its first row.
type fileStart struct {
	name string
	row  int
}

// traceFile is a file to read, and its place in the directory where it was found; "" for one that was named itself.
type traceFile struct{ path, within string }

// filesOf is the paths, in place of a directory the files in it and below that may be traces.
func filesOf(paths []string) ([]traceFile, error) {
	var all []traceFile
	for _, path := range paths {
		if info, err := os.Stat(path); path == "-" || err != nil || !info.IsDir() {
			all = append(all, traceFile{path: path}) // reading it returns what is wrong
			continue
		}
		before := len(all)
		err := fs.WalkDir(os.DirFS(path), ".", func(within string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Type().IsRegular() && isTraceName(within) {
				all = append(all, traceFile{filepath.Join(path, within), within})
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("cannot read the trace: %s: %w", path, err)
		}
		if len(all) == before {
			return nil, fmt.Errorf("%s is a directory without traces; their names end in %s, and perhaps .gz or .zst",
				path,
				strings.Join(traceEndings(), ", "))
		}
	}
	return all, nil
}

// traceEndings is how the names of traces end.
func traceEndings() []string { return []string{".jsonl", ".json", ".csv"} }

// isTraceName reports whether a file in a directory may be a trace.
func isTraceName(path string) bool {
	name := filepath.Base(path)
	name = strings.TrimSuffix(name, ".gz")
	name = strings.TrimSuffix(name, ".zst")
	known := slices.Contains(traceEndings(), filepath.Ext(name))
	return known && !strings.HasPrefix(name, ".")
}

// fileOf is the place among the files of the one that has a row.
func (l *loader) fileOf(row int32) int {
	at := len(l.files) - 1
	for at > 0 && int(row) < l.files[at].row {
		at--
	}
	return at
}

// fileNamed is the place among the files of the first with a name.
func (l *loader) fileNamed(name string) int {
	return slices.IndexFunc(l.files, func(f fileStart) bool {
		return f.name == name
	})
}

// place is where a row stands, in words: its line, and its file where there are several.
func (l *loader) place(i int) string {
	if len(l.files) == 1 {
		return fmt.Sprintf("line %d", l.line[i])
	}
	return fmt.Sprintf("line %d of %s", l.line[i], l.files[l.fileOf(l.Row[i])].name)
}
