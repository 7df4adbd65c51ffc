package trace

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

const (
	// maxLine bounds a line in bytes: 64 MiB hold a prompt of 3M block ids.
	maxLine = 64 << 20
	// lineBuffer is the read size in bytes; it fits the second-level cache.
	lineBuffer = 256 << 10
	// maxEmptyReads is how many reads without a byte or an error are borne, as in bufio.
	maxEmptyReads = 100
)

// errLineTooLong is a line beyond maxLine. The reader has skipped it.
var errLineTooLong = errors.New("the line is too long")

// lineReader hands out the lines of a reader. It tolerates CRLF ends, a byte order mark and a last line without an end.
type lineReader struct {
	r       io.Reader
	buf     []byte
	from    int // buf[from:to] has not been handed out
	to      int
	line    int // number of the line that next returned, from 1
	longest int // bytes a line may have
	err     error
}

func newLineReader(r io.Reader) *lineReader {
	return &lineReader{r: r, buf: make([]byte, lineBuffer), longest: maxLine}
}

// next returns a line without its end, valid until the next call; io.EOF after the last.
func (l *lineReader) next() ([]byte, error) {
	searched := 0
	for {
		if n := bytes.IndexByte(l.buf[l.from+searched:l.to], '\n'); n >= 0 {
			line := l.buf[l.from : l.from+searched+n]
			l.from += searched + n + 1
			return l.deliver(line)
		}
		searched = l.to - l.from
		if l.err == io.EOF && searched > 0 {
			line := l.buf[l.from:l.to]
			l.from = l.to
			return l.deliver(line)
		}
		if l.err != nil {
			return nil, l.err
		}
		if searched > l.longest {
			return nil, l.skipLine()
		}
		l.fill()
	}
}

func (l *lineReader) deliver(line []byte) ([]byte, error) {
	l.line++
	if l.line == 1 {
		line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
	}
	if len(line) > l.longest {
		return nil, errLineTooLong
	}
	return bytes.TrimSuffix(line, []byte("\r")), nil
}

// skipLine drops the rest of a line that is too long.
func (l *lineReader) skipLine() error {
	for {
		if n := bytes.IndexByte(l.buf[l.from:l.to], '\n'); n >= 0 {
			l.from += n + 1
			l.line++
			return errLineTooLong
		}
		l.from = l.to
		if l.err == io.EOF {
			l.line++
			return errLineTooLong
		}
		if l.err != nil {
			return l.err
		}
		l.fill()
	}
}

// fill reads more bytes behind those held, making room first.
func (l *lineReader) fill() {
	if l.from > 0 {
		l.to = copy(l.buf, l.buf[l.from:l.to])
		l.from = 0
	}
	if l.to == len(l.buf) {
		l.buf = append(l.buf, make([]byte, len(l.buf))...)
	}
	for range maxEmptyReads {
		n, err := l.r.Read(l.buf[l.to:])
		if n < 0 || n > len(l.buf)-l.to {
			l.err = fmt.Errorf("a reader returned %d bytes of %d", n, len(l.buf)-l.to)
			return
		}
		l.to += n
		l.err = err
		if n > 0 || err != nil {
			return
		}
	}
	l.err = io.ErrNoProgress
}
