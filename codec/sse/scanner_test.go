package sse

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/must"
)

// feed returns the data of every event in the parts, each part being one read, then what Finish returns.
func feed(s *Scanner, parts ...string) (events []string, last string, hasLast bool, err error) {
	s.Reset()
	for _, part := range parts {
		buf := []byte(part)
		for p := buf; ; {
			data, n, ok, err := s.Next(p)
			if err != nil {
				return events, "", false, err
			}
			p = p[n:]
			if !ok {
				if len(p) > 0 {
					panic(fmt.Sprintf("Next left %q and wants more", p))
				}
				break
			}
			events = append(events, called(s)+string(data))
		}
		for i := range buf { // the next read overwrites the buffer
			buf[i] = '#'
		}
	}
	data, ok := s.Finish()
	return events, called(s) + string(data), ok, nil
}

// called is what stands before the data of an event called an error.
func called(s *Scanner) string {
	if s.Failed() {
		return "error: "
	}
	return ""
}

// naive reads the standard (WHATWG HTML §9.2.6) line by line.
func naive(stream string) (events []string, last string, hasLast bool) {
	stream = strings.TrimPrefix(stream, "\ufeff")
	stream = strings.ReplaceAll(stream, "\r\n", "\n")
	stream = strings.ReplaceAll(stream, "\r", "\n")
	lines := strings.Split(stream, "\n") // what follows the last line end is a line that nothing ended
	var data []string
	kind := ""
	for i, line := range lines {
		if line == "" && i < len(lines)-1 {
			if len(data) > 0 || kind != "" {
				events = append(events, kind+strings.Join(data, "\n"))
			}
			data, kind = nil, ""
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case field == "data":
			data = append(data, value)
		case field == "event" && value == "error":
			kind = "error: "
		case field == "event":
			kind = ""
		}
	}
	return events, kind + strings.Join(data, "\n"), len(data) > 0 || kind != ""
}

var streams = []struct {
	name, in string
	events   []string
	last     string
	hasLast  bool
}{
	{"usual", "data: {\"a\":1}\n\ndata: [DONE]\n\n", []string{`{"a":1}`, "[DONE]"}, "", false},
	{"CRLF", "data: a\r\n\r\ndata: b\r\n\r\n", []string{"a", "b"}, "", false},
	{"CR", "data: a\r\rdata: b\r\r", []string{"a", "b"}, "", false},
	{"mixed ends", "data: a\r\n\ndata: b\n\rdata: c\r\r\n\ndata: d\n\r\n", []string{"a", "b", "c", "d"}, "", false},
	{"no space", "data:a\n\n", []string{"a"}, "", false},
	{"two spaces", "data:  a \n\n", []string{" a "}, "", false},
	{"colons in the value", "data: a: b\n\n", []string{"a: b"}, "", false},
	{"several lines", "data: a\ndata\ndata: \ndata: b\n\n", []string{"a\n\n\nb"}, "", false},
	{"empty", "data\n\n", []string{""}, "", false},
	{"empty with a colon", "data: \n\n", []string{""}, "", false},
	{"later events", "data: a\n\ndata: b\n\ndata:c\n\ndata: d\n\ndata\n\n\ndata: \n\ndata:  e\n\ndata: f\ndata: g\n\ndata", []string{"a", "b", "c", "d", "", "", " e", "f\ng"}, "", true},
	{"CR in later events", "data: a\n\ndata: b\rdata: c\n\ndata: d\n\rdata: e\r\n\ndata: f\n\n\rdata: g\n\n", []string{"a", "b\nc", "d", "e", "f", "g"}, "", false},
	{"comments and other fields", ": ping\n\nevent: x\nid: 1\ndata: a\nretry: 5\n: c\n\n", []string{"a"}, "", false},
	{"no data, no event", "event: ping\n\nid: 2\n\n\n\n", nil, "", false},
	{"not the field", "dataset: a\ndat: b\ndata : c\n data: d\nDATA: e\n\n", nil, "", false},
	{"byte order mark", "\ufeffdata: a\n\n", []string{"a"}, "", false},
	{"byte order mark later", "data: a\n\n\ufeffdata: b\n\n", []string{"a"}, "", false},
	{"no blank line at the end", "data: a\n\ndata: b\n", []string{"a"}, "b", true},
	{"no line end at the end", "data: a\n\ndata: b", []string{"a"}, "b", true},
	{"cut in a field name", "data: a\n\ndat", []string{"a"}, "", false},
	{"the specification's", "data\n\ndata\ndata\n\ndata:", []string{"", "\n"}, "", true},
	{"nothing", "", nil, "", false},
	{"errors", "event: error\ndata: a\n\ndata: b\n\nevent:error\n\ndata: c\nevent: error\n\ndata: d\n\n", []string{"error: a", "b", "error: ", "error: c", "d"}, "", false},
	{"named twice", "event: error\nevent: x\ndata: a\n\nevent: x\r\nevent: error\r\ndata: b\r\n\r\n", []string{"a", "error: b"}, "", false},
	{"an error at the end", "data: a\n\nevent: error\n: b", []string{"a"}, "error: ", true},
	{"NUL and other bytes", "data: \x00\xff\n\n", []string{"\x00\xff"}, "", false},
}

// TestStreams reads each whole, and in three parts cut anywhere.
func TestStreams(t *testing.T) {
	var s Scanner
	for _, c := range streams {
		if events, last, hasLast := naive(c.in); !slices.Equal(events, c.events) || last != c.last || hasLast != c.hasLast {
			t.Errorf("%s: the oracle says %q, last %q %v", c.name, events, last, hasLast)
		}
		for i := range len(c.in) + 1 {
			for j := i; j <= len(c.in); j++ {
				events, last, hasLast, err := feed(&s, c.in[:i], c.in[i:j], c.in[j:])
				if err != nil || !slices.Equal(events, c.events) || last != c.last || hasLast != c.hasLast {
					t.Fatalf("%s: split at %d and %d of %q\ngot  %q, last %q %v, error %v\nwant %q, last %q %v",
						c.name, i, j, c.in, events, last, hasLast, err, c.events, c.last, c.hasLast)
				}
			}
		}
	}
}

// FuzzScanner compares with the naive reader, whole, split once at every byte, and byte by byte.
func FuzzScanner(f *testing.F) {
	for _, c := range streams {
		f.Add([]byte(c.in))
	}
	var s Scanner
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) > 2000 {
			return
		}
		events, last, hasLast := naive(string(in))
		check := func(how string, parts ...string) {
			gotEvents, gotLast, gotHas, err := feed(&s, parts...)
			if err != nil || !slices.Equal(gotEvents, events) || gotLast != last || gotHas != hasLast {
				t.Fatalf("%q %s\ngot  %q, last %q %v, error %v\nwant %q, last %q %v", in, how, gotEvents, gotLast, gotHas, err, events, last, hasLast)
			}
		}
		check("whole", string(in))
		bytewise := make([]string, 0, len(in))
		for i := range in {
			check(fmt.Sprintf("split at %d", i), string(in[:i]), string(in[i:]))
			bytewise = append(bytewise, string(in[i:i+1]))
		}
		check("byte by byte", bytewise...)
	})
}

func TestWholeEventIsNotCopied(t *testing.T) {
	var s Scanner
	p := []byte("data: hello\n\ndata: again\n\n")
	data, n, ok, err := s.Next(p)
	if !ok || err != nil || n != 13 || &data[0] != &p[6] {
		t.Fatalf("data %q, n %d, ok %v, error %v, in place %v", data, n, ok, err, len(data) > 0 && &data[0] == &p[6])
	}
}

func TestLimit(t *testing.T) {
	const most = 1000
	x := strings.Repeat("x", most)
	for _, c := range []struct {
		name, in string
		ok       bool
	}{
		{"line as long as may be", "data: " + x[6:] + "\n\n", true},
		{"line one byte longer", "data: " + x[5:] + "\n\n", false},
		{"later line as long as may be", "data: y\n\ndata: " + x[6:] + "\n\n", true},
		{"later line one byte longer", "data: y\n\ndata: " + x[5:] + "\n\n", false},
		{"line without end", "data: " + x, false},
		{"comment too long", ":" + x + "\n", false},
		{"lines as long as may be together", "data:" + x[:499] + "\ndata:" + x[:500] + "\n\n", true},
		{"lines too long together", "data:" + x[:500] + "\ndata:" + x[:500] + "\n\n", false},
		{"many events", strings.Repeat("data: "+x[:900]+"\n\n", 5), true},
	} {
		for _, step := range []int{1, 7, 999, len(c.in)} {
			s := Scanner{less: MaxEventBytes - most}
			var parts []string
			for i := 0; i < len(c.in); i += step {
				parts = append(parts, c.in[i:min(i+step, len(c.in))])
			}
			_, _, _, err := feed(&s, parts...)
			if ok := err == nil; ok != c.ok || !ok && !errors.Is(err, ErrTooLong) {
				t.Errorf("%s, %d bytes a read: error %v, want none: %v", c.name, step, err, c.ok)
			}
			if err != nil {
				if _, _, ok, again := s.Next([]byte("data: y\n\n")); ok || again != err {
					t.Errorf("%s: after the error Next returned %v, %v", c.name, ok, again)
				}
				if _, ok := s.Finish(); ok {
					t.Errorf("%s: an event after the error", c.name)
				}
			}
		}
	}
}

func TestDefaultLimit(t *testing.T) {
	var s Scanner
	part := []byte(strings.Repeat("x", 1<<20))
	if _, _, _, err := s.Next([]byte("data:")); err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		_, _, _, err := s.Next(part)
		must.Equal(t, err != nil, i == 7, "after %d MiB: error %v", i+1, err)
	}
	s.Reset()
	if cap(s.line) > keepBytes || cap(s.joined) > keepBytes {
		t.Fatalf("Reset keeps %d and %d bytes", cap(s.line), cap(s.joined))
	}
}

func TestLinearInCarriageReturns(t *testing.T) {
	in := strings.Repeat("data: x\r\r", 30_000)
	events, _, _, err := feed(new(Scanner), in)
	if err != nil || len(events) != 30_000 {
		t.Fatalf("%d events, error %v", len(events), err)
	}
}
