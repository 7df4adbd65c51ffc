package http1

import (
	"bytes"
	"strings"
)

// maxChunkLineBytes bounds a chunk-size line with its extensions; net/http takes as much.
const maxChunkLineBytes = 4096

// scanLine consumes one line of p, or all of p if the line does not end in it, and returns the bytes consumed.
func (r *Response) scanLine(p []byte) int {
	r.started = true
	end := bytes.IndexByte(p, '\n')
	n := end + 1
	if end < 0 {
		n = len(p)
	}
	if !r.account(n) {
		return n
	}
	if end < 0 {
		r.line = append(r.line, p...)
		return n
	}
	line := p[:end]
	if len(r.line) > 0 {
		r.line = append(r.line, line...)
		line = r.line
		r.line = r.line[:0]
	}
	r.onLine(bytes.CutSuffix(line, []byte("\r")))
	return n
}

// account enforces the limit on what the current line belongs to, before n more bytes of it are kept.
func (r *Response) account(n int) bool {
	r.overhead += n
	switch r.state {
	case atChunkSize:
		if r.overhead > maxChunkLineBytes {
			r.fail(ErrBadChunk, "chunk-size line too long, begins", r.line)
		}
	case atChunkEnd:
		if r.overhead > len("\r\n") {
			r.fail(ErrBadChunk, "chunk longer than its size", nil)
		}
	default:
		if r.overhead > MaxHeadBytes {
			r.fail(ErrHeadTooLarge, "over 64 KiB, last line begins", r.line)
		}
	}
	return r.err == nil
}

// onLine handles one whole line, without its end; crlf reports whether that was CRLF. RFC 9112 §2.2 allows a lone LF in
// a head; chunk framing must have CRLF, as in net/http.
func (r *Response) onLine(line []byte, crlf bool) {
	switch r.state {
	case atStatus:
		r.statusLine(line)
	case atHeader:
		if len(line) > 0 {
			r.headerLine(line)
		} else {
			r.endHead()
		}
	case atChunkSize:
		r.chunkSize(line, crlf)
	case atChunkEnd:
		if !crlf || len(line) > 0 {
			r.fail(ErrBadChunk, "no CRLF after a chunk, but", line)
			return
		}
		r.state = atChunkSize
		r.overhead = 0
	case atTrailer:
		_, _, ok := splitHeader(line)
		switch {
		case !crlf || !ok && len(line) > 0:
			r.fail(ErrBadChunk, "malformed trailer", line)
		case len(line) == 0:
			r.state = done
		}
	default:
		panic("BUG: http1: a line in the middle of a body")
	}
}

// chunkSize reads "SIZE[;extensions]" (RFC 9112 §7.1).
func (r *Response) chunkSize(line []byte, crlf bool) {
	size := int64(0)
	digits := 0
	for digits < len(line) && digits < 16 {
		d := hexDigit(line[digits])
		if d < 0 {
			break
		}
		if size >= 1<<59 {
			r.fail(ErrBadChunk, "chunk size out of range", line)
			return
		}
		size = size<<4 | int64(d)
		digits++
	}
	rest := bytes.TrimLeft(line[digits:], " \t")
	if digits == 0 || !crlf || (len(rest) > 0 && rest[0] != ';') || bytes.IndexByte(rest, '\r') >= 0 {
		r.fail(ErrBadChunk, "bad chunk size", line)
		return
	}
	r.overhead = 0
	r.left = size
	if size == 0 {
		r.state = atTrailer
	} else {
		r.state = inChunk
	}
}

// chunkEdge consumes what servers put between two chunks: CRLF, a size of few digits, CRLF. It returns 0, and changes
// nothing, where p has anything else or not all of it.
func (r *Response) chunkEdge(p []byte) int {
	const most = 7 // digits
	if r.overhead > 0 || len(p) < len("\r\n0\r\n") || p[0] != '\r' || p[1] != '\n' {
		return 0
	}
	size := 0
	n := len("\r\n")
	for ; n < len(p)-2 && n < len("\r\n")+most; n++ {
		d := hexDigit(p[n])
		if d < 0 {
			break
		}
		size = size<<4 | d
	}
	if size == 0 || p[n] != '\r' || p[n+1] != '\n' {
		return 0
	}
	r.left = int64(size)
	r.state = inChunk
	return n + 2
}

// hexDigit returns the value of a hexadecimal digit, or -1.
func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// splitHeader cuts "name: value" in two and trims the value; ok reports whether both are valid (RFC 9110 §5).
func splitHeader(line []byte) (name, value []byte, ok bool) {
	name, value, ok = bytes.Cut(line, []byte(":"))
	value = trim(value)
	return name, value, ok && isToken(name) && isFieldValue(value)
}

// hasElement reports whether a comma-separated list has the element, in any case.
func hasElement(list []byte, ascii string) bool {
	for element := range bytes.SplitSeq(list, []byte(",")) {
		if equalFold(trim(element), ascii) {
			return true
		}
	}
	return false
}

// trim removes optional white space (RFC 9110 §5.6.3).
func trim(b []byte) []byte { return bytes.Trim(b, " \t") }

// equalFold compares with an ASCII string. Letters beyond ASCII that fold to one within have more bytes.
func equalFold(b []byte, ascii string) bool {
	return len(b) == len(ascii) && bytes.EqualFold(b, []byte(ascii))
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// isToken reports a non-empty RFC 9110 §5.6.2 token.
func isToken(b []byte) bool {
	for _, c := range b {
		if !isDigit(c) && (c|0x20 < 'a' || c|0x20 > 'z') && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return len(b) > 0
}

// isFieldValue reports bytes without control characters other than a tab.
func isFieldValue(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
