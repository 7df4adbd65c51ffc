package trace

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxZstdWindow is the largest window that zstd --long=31 makes, 2 GiB.
const maxZstdWindow = 1 << 31

// Open reads the trace in a file, "-" being standard input. Plain, gzip and zstd files are told apart by their first
// bytes, whatever their names.
//
// A trace that must not be replayed is a [*LintError], unless Options.Collect notes the reasons instead; other errors are
// about the file or the options.
func Open(path string, o Options) (*Trace, error) {
	if path == "-" {
		return Read(os.Stdin, "stdin", o)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the trace: %w", err)
	}
	defer f.Close() // nothing was written, so its error says nothing
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s is a directory; name the trace file in it", path)
	}
	return Read(f, path, o)
}

// Read is [Open] for any reader; name stands for the file in messages and in [Trace.Name].
func Read(r io.Reader, name string, o Options) (*Trace, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	plain, closePlain, err := decompress(r, name)
	if err != nil {
		return nil, err
	}
	defer closePlain()
	l := newLoader(name, o)
	if err := l.readAll(newLineReader(plain)); err != nil {
		return nil, err
	}
	return l.finish()
}

// decompress unpacks r if its first bytes say that it is packed.
func decompress(r io.Reader, name string) (io.Reader, func(), error) {
	head := make([]byte, 16)
	n, err := io.ReadFull(r, head)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF { // a file may be shorter
		return nil, nil, fmt.Errorf("%s: reading: %w", name, err)
	}
	head = head[:n]
	in := io.MultiReader(bytes.NewReader(head), r)
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}): // RFC 1952, section 2.3.1
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
	if kind := foreignKind(head); kind != "" {
		return nil, nil, fmt.Errorf("%s is %s", name, kind)
	}
	return in, func() {}, nil
}

// isZstd knows a frame and a skippable frame, with which pzstd begins (RFC 8878, section 3.1).
func isZstd(head []byte) bool {
	return bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}) ||
		len(head) >= 4 && head[0]>>4 == 5 && bytes.Equal(head[1:4], []byte{0x2a, 0x4d, 0x18})
}

// foreignKind names files that people pass by mistake, and says what to do.
func foreignKind(head []byte) string {
	for _, k := range []struct{ magic, kind string }{
		{"PK\x03\x04", "a zip archive; unpack it first"},
		{"BZh", "packed with bzip2; unpack it first, or pack it with gzip or zstd"},
		{"\xfd7zXZ\x00", "packed with xz; unpack it first, or pack it with gzip or zstd"},
		{"PAR1", "a Parquet file; convert it to JSONL first"},
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
