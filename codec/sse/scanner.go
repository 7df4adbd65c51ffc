// Package sse scans server-sent events (text/event-stream, WHATWG HTML §9.2.6).
//
// It owns lines, fields and the end of an event, and returns the data of each. It does not own the meaning of the data.
// It ignores ids, retry times and all types of events but "error": LLM servers give the others no meaning.
//
// A [Scanner] belongs to one goroutine at a time. It copies an event only if a read cut it in two or if it has several
// data lines, into buffers that it keeps. An event that lies whole in the input is returned in place.
package sse

import (
	"bytes"
	"errors"
	"fmt"
)

// MaxEventBytes bounds one event and any line. The largest events are whole bodies sent as one (tool calls, logprobs):
// hundreds of kilobytes.
const MaxEventBytes = 8 << 20

// keepBytes is how large a buffer may be to survive Reset, so that one huge event does not stay for every later
// request.
const keepBytes = 64 << 10

// Memory lends buffers of more than 64 KiB.
type Memory interface {
	// Grow returns what is in b in a buffer with room for n more bytes. It takes b back if it has lent it.
	Grow(b []byte, n int) []byte
	// Free takes back what Grow has returned.
	Free(b []byte)
}

// Append is append with buffers of m; nil: of Go's heap.
func Append(m Memory, b, part []byte) []byte {
	if n := len(b) + len(part); m != nil && n > cap(b) && n > keepBytes {
		b = m.Grow(b, len(part))
	}
	return append(b, part...)
}

// Reuse empties a buffer of Append. A large one goes back to m.
func Reuse(m Memory, b []byte) []byte {
	if cap(b) <= keepBytes {
		return b[:0]
	}
	if m != nil {
		m.Free(b)
	}
	return nil
}

// ErrTooLong is wrapped by the error for an event above the limit.
var ErrTooLong = errors.New("server-sent event too long")

// Scanner scans one stream, in pieces of any size. The zero value is ready.
type Scanner struct {
	Memory Memory // for events that are large; nil: Go's heap. It must be set before the first call

	one    []byte // the only data line so far, where it lies
	joined []byte // data lines so far where there are several or one had to be kept
	line   []byte // a line whose end has not come yet
	lines  int    // data lines of the event so far
	begun  bool   // the first line is over, and with it any byte order mark
	skipLF bool   // the last line ended in CR: an LF now belongs to it
	failed bool   // the event is of the type "error"
	sent   bool   // the event was returned: forget it at the next call
	err    error
	less   int // what the limit is below MaxEventBytes, in tests
}

// Reset makes the scanner ready for another stream.
func (s *Scanner) Reset() {
	*s = Scanner{
		Memory: s.Memory,
		less:   s.less,
		joined: Reuse(s.Memory, s.joined),
		line:   Reuse(s.Memory, s.line),
	}
}

// Failed reports whether the event that Next or Finish has just returned is of the type "error".
func (s *Scanner) Failed() bool { return s.failed }

// Next consumes bytes of p up to the end of the first event that has data or is an error. It returns that data, perhaps
// empty, and the number of bytes consumed. The data is valid until the next call and while p is unchanged. Where ok is
// false, p is used up: call again with what follows it. An error is final.
func (s *Scanner) Next(p []byte) (data []byte, n int, ok bool, err error) {
	if s.sent {
		s.failed = false
		if !s.skipLF { // with CR line ends, usual would search all of p for an LF at each event
			if data, n = s.usual(p); n > 0 {
				return data, n, true, nil
			}
		}
		s.forget()
	}
	for n < len(p) && s.err == nil {
		if s.skipLF {
			s.skipLF = false
			if p[n] == '\n' {
				n++
				continue
			}
		}
		end := 0
		if p[n] != '\n' {
			end = lineEnd(p[n:])
		}
		if end < 0 {
			s.hold(p[n:])
			return nil, len(p), false, s.err
		}
		line := s.whole(p[n : n+end])
		s.skipLF = p[n+end] == '\r'
		n += end + 1
		if s.onLine(line) {
			// An LF here is the second half of the line end: taking it now spares the next call.
			if s.skipLF && n < len(p) && p[n] == '\n' {
				s.skipLF = false
				n++
			}
			return s.dispatch(), n, true, nil
		}
	}
	s.spill()
	return nil, n, false, s.err
}

// usual reads what servers send between two reads: one line "data: …" and a blank one, both ended by LF and whole in p.
// It returns n = 0 for all else, and changes nothing.
func (s *Scanner) usual(p []byte) (data []byte, n int) {
	const field = "data: "
	end := bytes.IndexByte(p, '\n')
	if end < len(field) || end > s.limit() || end+1 == len(p) || p[end+1] != '\n' || string(p[:len(field)]) != field {
		return nil, 0
	}
	data = p[len(field):end]
	if bytes.IndexByte(data, '\r') >= 0 {
		return nil, 0
	}
	return data, end + 2
}

// Finish returns, at the end of the stream, the data of a last event that no blank line ended: some servers forget it.
// The standard would discard that event, and it may be cut short anywhere.
func (s *Scanner) Finish() (data []byte, ok bool) {
	if s.sent {
		s.forget()
	}
	if len(s.line) > 0 && s.err == nil {
		s.onLine(s.whole(nil))
	}
	if s.lines == 0 && !s.failed || s.err != nil {
		return nil, false
	}
	return s.dispatch(), true
}

// whole puts the held first part of a line, if any, before the rest of it.
func (s *Scanner) whole(rest []byte) []byte {
	line := rest
	if len(s.line) > 0 {
		s.line = Append(s.Memory, s.line, rest)
		line = s.line
		s.line = s.line[:0]
	}
	if !s.begun {
		s.begun = true
		line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
	}
	return line
}

// onLine takes one line without its end and reports whether it ended an event that has data.
func (s *Scanner) onLine(line []byte) bool {
	if len(line) == 0 {
		return s.lines > 0 || s.failed
	}
	s.allow(len(line))
	if value, ok := fieldValue(line, "data"); ok {
		s.add(value)
	} else if value, ok := fieldValue(line, "event"); ok {
		s.failed = string(value) == "error"
	}
	return false
}

// fieldValue returns the value of a field.
func fieldValue(line []byte, name string) (value []byte, ok bool) {
	value, ok = bytes.CutPrefix(line, []byte(name))
	if !ok || len(value) == 0 {
		return value, ok
	}
	value, ok = bytes.CutPrefix(value, []byte(":"))
	return bytes.TrimPrefix(value, []byte(" ")), ok
}

// add appends a data line to the event.
func (s *Scanner) add(value []byte) {
	if s.lines == 0 {
		s.one = value
	} else {
		s.spill()
		s.allow(len(s.joined) + 1 + len(value))
		if s.err != nil {
			return
		}
		s.joined = Append(s.Memory, Append(s.Memory, s.joined, []byte("\n")), value)
	}
	s.lines++
}

// spill moves the only data line, which lies in memory that is about to change, into the scanner's own.
func (s *Scanner) spill() {
	if s.one != nil {
		s.joined = Append(s.Memory, s.joined[:0], s.one)
		s.one = nil
	}
}

// hold keeps the first part of a line.
func (s *Scanner) hold(part []byte) {
	s.spill()
	if s.allow(len(s.line) + len(part)); s.err == nil {
		s.line = Append(s.Memory, s.line, part)
	}
}

func (s *Scanner) dispatch() []byte {
	s.sent = true
	if s.one != nil {
		return s.one
	}
	return s.joined
}

func (s *Scanner) forget() {
	s.sent = false
	s.failed = false
	s.one = nil
	s.joined = s.joined[:0]
	s.lines = 0
}

func (s *Scanner) limit() int { return MaxEventBytes - s.less }

// allow fails the stream if an event or a line has more bytes than may be.
func (s *Scanner) allow(size int) {
	if size > s.limit() && s.err == nil {
		s.err = fmt.Errorf("%w: over %d bytes", ErrTooLong, s.limit())
	}
}

// window is how far lineEnd looks for the one kind of line end before it looks for the other: about one event.
const window = 512

// lineEnd returns the index of the first LF or CR, or -1. It looks at stretches that double, so that its cost grows
// with the line and not with what follows it.
func lineEnd(p []byte) int {
	for from, size := 0, window; from < len(p); size *= 2 {
		part := p[from:min(from+size, len(p))]
		lf := bytes.IndexByte(part, '\n')
		if lf >= 0 {
			part = part[:lf]
		}
		if cr := bytes.IndexByte(part, '\r'); cr >= 0 {
			return from + cr
		}
		if lf >= 0 {
			return from + lf
		}
		from += len(part)
	}
	return -1
}
