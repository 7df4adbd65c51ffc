package trace

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// errEnoughKeys stops the look at a row's keys.
var errEnoughKeys = errors.New("enough keys")

// maxKeysShown bounds the keys that a message about an unknown format lists.
const maxKeysShown = 12

// detect tells the format from the keys of the first rows. The formats share most keys, so the first format in the list
// of which some row has every required key wins; Bailian, which needs chat_id as well, comes before Mooncake.
func detect(name string, lines []pendingLine) (*format, error) {
	if bytes.TrimSpace(lines[0].text)[0] == '[' {
		return nil, undetected(name, lines[0])
	}
	known := formats()
	best := -1
	for _, l := range lines {
		keys := knownKeys(l.text)
		for i, f := range known {
			if f.required&^keys == 0 && (best < 0 || i < best) {
				best = i
			}
		}
	}
	if best >= 0 {
		return known[best], nil
	}
	// No row is whole: let the keys of its own that a format has decide, so that the linter can say what is missing.
	for _, l := range lines {
		switch keys := knownKeys(l.text); {
		case keys.has(chatField) || keys.has(parentField):
			return bailian(), nil
		case keys.has(timestampField) || keys.has(inputField):
			return mooncake(), nil
		}
	}
	return nil, undetected(name, lines[0])
}

// knownKeys is the set of keys with a meaning in a line's object, as far as the line is valid.
func knownKeys(line []byte) fieldSet {
	var keys fieldSet
	for _, k := range keysOf(line, 0) {
		keys |= setOf(fieldOf([]byte(k)))
	}
	return keys &^ setOf(unknownField)
}

// keysOf lists the keys of a line's object as far as the line is valid, at most most of them if that is not 0.
func keysOf(line []byte, most int) []string {
	var keys []string
	var scratch []byte
	s := scanner{b: line}
	_ = s.object(&scratch, func(key []byte) error { // the caller asks what is there, not what is wrong
		keys = append(keys, string(key))
		if len(keys) == most {
			return errEnoughKeys
		}
		return s.skip(1)
	})
	return keys
}

// undetected says what the first row looks like and what was expected.
func undetected(name string, first pendingLine) error {
	fix := "a trace is JSONL, one object with timestamp, input_length and output_length on each line; known formats: " + strings.Join(Formats(), ", ")
	fault := Fault{File: name, Line: first.line, Fix: fix}
	text := bytes.TrimSpace(first.text)
	keys := keysOf(text, maxKeysShown)
	switch {
	case len(keys) > 0:
		fault.What = "unknown format: a row with the keys " + strings.Join(keys, ", ")
		fault.Fix = "name the format with --format if you know it; " + fix
	case text[0] == '[':
		fault.What = "a JSON array, not JSONL"
		fault.Fix = "write one object a line, for example with: jq -c '.[]'"
	case text[0] == '{':
		s := scanner{b: text}
		err := s.skip(0)
		if err == nil {
			fault.What = "unknown format: a row without keys"
			break
		}
		fault.What = err.Error()
	case bytes.IndexByte(text, ',') > 0:
		fault.What = fmt.Sprintf("%q looks like CSV, not JSONL", clip(text))
	default:
		fault.What = fmt.Sprintf("%q is no JSON object", clip(text))
	}
	return &LintError{Faults: []Fault{fault}}
}
