package scrape

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrFormat is returned for a page that is not of Prometheus' text format.
var ErrFormat = errors.New("not Prometheus text")

// maxQuoted bounds what an error repeats of a line, in bytes.
const maxQuoted = 80

// Labels is what stands between the braces of a line: a="1",b="2". It is valid as long as the page is.
type Labels []byte

// Lines calls f for each sample of a page in Prometheus' text format, version 0.0.4
// (https://prometheus.io/docs/instrumenting/exposition_formats/). name is valid as long as the page is. A line that is
// not of that format ends it with an error: half a page is worth less than none. It allocates nothing but errors.
func Lines(page []byte, f func(name []byte, labels Labels, value float64)) error {
	number := 0
	for line := range bytes.Lines(page) {
		number++
		line = bytes.Trim(line, " \t\r\n")
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		name, labels, value, ok := parseLine(line)
		if !ok {
			return fmt.Errorf("%w: line %d is %q", ErrFormat, number, line[:min(len(line), maxQuoted)])
		}
		f(name, labels, value)
	}
	return nil
}

// parseLine takes `name{labels} value timestamp` apart, without blanks around it; labels and timestamp may be missing.
func parseLine(line []byte) (name []byte, labels Labels, value float64, ok bool) {
	name, rest := splitName(line, ':')
	if len(name) == 0 {
		return nil, nil, 0, false
	}
	after := bytes.TrimLeft(rest, blanks)
	if len(after) > 0 && after[0] == '{' {
		end := labelsEnd(after)
		if end < 0 {
			return nil, nil, 0, false
		}
		labels = Labels(after[1:end])
		after = bytes.TrimLeft(after[end+1:], blanks)
	} else if len(after) == len(rest) {
		return nil, nil, 0, false // nothing between the name and what follows it
	}
	number := after
	var stamp []byte
	if at := bytes.IndexAny(after, blanks); at >= 0 {
		number = after[:at]
		stamp = bytes.TrimLeft(after[at:], blanks)
	}
	value, err := strconv.ParseFloat(string(number), 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return nil, nil, 0, false
	}
	if len(stamp) > 0 {
		_, err = strconv.ParseInt(string(stamp), 10, 64)
	}
	return name, labels, value, err == nil || errors.Is(err, strconv.ErrRange)
}

const blanks = " \t"

// splitName takes a name off the front; extra is a letter that it may have besides those of a label's name, or 0.
func splitName(text []byte, extra byte) (name, rest []byte) {
	n := 0
	for ; n < len(text); n++ {
		c := text[n]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || extra != 0 && c == extra
		if !letter && (n == 0 || c < '0' || c > '9') {
			break
		}
	}
	return text[:n], text[n:]
}

// labelsEnd is where the brace is that closes the labels which text begins with; below 0 where they are none.
func labelsEnd(text []byte) int {
	for rest := text[1:]; ; {
		rest = bytes.TrimLeft(rest, blanks)
		if len(rest) > 0 && rest[0] == '}' {
			return len(text) - len(rest)
		}
		_, _, after, ok := splitLabel(rest)
		after, comma := bytes.CutPrefix(bytes.TrimLeft(after, blanks), []byte(","))
		if !ok || !comma && (len(after) == 0 || after[0] != '}') {
			return -1
		}
		rest = after
	}
}

// splitLabel takes `name="value"` off the front; the value still has its escapes.
func splitLabel(text []byte) (name, value, rest []byte, ok bool) {
	name, rest = splitName(text, 0)
	rest, equals := bytes.CutPrefix(bytes.TrimLeft(rest, blanks), []byte("="))
	rest, quoted := bytes.CutPrefix(bytes.TrimLeft(rest, blanks), []byte(`"`))
	for n := 0; n < len(rest) && len(name) > 0 && equals && quoted; n++ {
		switch rest[n] {
		case '\\':
			n++
		case '"':
			return name, rest[:n], rest[n+1:], true
		}
	}
	return nil, nil, nil, false
}

// each yields the labels. Their values still have their escapes.
func (l Labels) each(yield func(name, value []byte) bool) {
	rest := []byte(l)
	for {
		rest = bytes.TrimLeft(rest, blanks+",")
		name, value, after, ok := splitLabel(rest)
		if !ok || !yield(name, value) {
			return
		}
		rest = after
	}
}

// Get returns the value of a label; "" if there is none.
func (l Labels) Get(name string) string {
	found := ""
	for n, value := range l.each {
		if string(n) == name {
			found = string(value)
			break
		}
	}
	if strings.Contains(found, `\`) {
		found = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n").Replace(found)
	}
	return found
}
