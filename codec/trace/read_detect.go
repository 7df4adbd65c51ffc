package trace

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// maxKeysShown bounds the keys that a message about an unknown format lists.
const maxKeysShown = 12

// detect finds the format by the keys of the first rows, or by the head of a CSV file. The formats share most keys, so
// the first format in the list of which some row has every required key wins; Bailian, which needs chat_id as well,
// comes before Mooncake.
func detect(name string, lines []heldLine, renamed map[string]string) (*format, error) {
	first := bytes.TrimSpace(lines[0].text)
	if first[0] == '[' {
		return nil, undetected(name, lines[0])
	}
	var known []*format
	for _, f := range formats() {
		if f.listKey == "" {
			known = append(known, f.renamed(renamed))
		}
	}
	head := headOf(first)
	best := -1
	for _, l := range lines {
		keys := keysOf(l.text)
		for i, f := range known {
			names := keys
			if f.csv {
				names = head
			}
			if f.fits(names) && (f.looks == nil || f.looks(l.text)) && (best < 0 || i < best) {
				best = i
			}
		}
	}
	if best >= 0 {
		return known[best], nil
	}
	if f := ownKey(known, lines); f != nil {
		return f, nil
	}
	return nil, undetected(name, lines[0])
}

// ownKey finds a format if no row is whole. A key that only one format has decides, so that the linter can report what
// is missing.
func ownKey(known []*format, lines []heldLine) *format {
	for _, l := range lines {
		keys := keysOf(l.text)
		for _, f := range known {
			own := setOf(timestampField, inputField, idsField)
			if f.has(chatField) {
				own = setOf(chatField, parentField)
			}
			if !f.csv && f.items == nil && f.fieldsOf(keys)&own != 0 {
				return f
			}
		}
	}
	return nil
}

// keysOf lists the keys of a line's object as far as the line is valid.
func keysOf(line []byte) []string {
	var keys []string
	s := scan(line)
	_ = s.object(func(key []byte) error { // the caller asks what is there, not what is wrong
		keys = append(keys, string(key))
		return s.skip()
	})
	return keys
}

// likeTime returns the key that may be a row's time; KEY if there is none.
func likeTime(keys []string) string {
	for _, key := range keys {
		name := strings.ToLower(key)
		if name == "t" || name == "ts" || strings.Contains(name, "time") || strings.Contains(name, "date") || strings.Contains(name, "arriv") {
			return key
		}
	}
	return "KEY"
}

// undetected is the error that describes the first row and what was expected.
func undetected(name string, first heldLine) error {
	fix := "a trace is JSONL, for example one object with timestamp, input_length and output_length on each line, or CSV with a known head; known formats: " +
		strings.Join(Formats(), ", ")
	fault := Fault{File: name, Line: first.line, Fix: fix}
	text := bytes.TrimSpace(first.text)
	keys := keysOf(text)
	switch {
	case len(keys) > 0:
		fault.What = "unknown format: a row with the keys " + strings.Join(keys[:min(len(keys), maxKeysShown)], ", ")
		fault.Fix = "name its keys with --fields, as in --fields timestamp=" + likeTime(keys) + "; " + fix
	case text[0] == '[':
		fault.What = "a JSON array, not JSONL"
		fault.Fix = "write one object a line, for example with: jq -c '.[]'"
	case text[0] == '{':
		s := scan(text)
		err := s.skip()
		if err == nil {
			fault.What = "unknown format: a row without keys"
			break
		}
		fault.What = err.Error()
	case len(headOf(text)) > 1:
		fault.What = "unknown format: CSV with the columns " + shown(headOf(text))
		fault.Fix = "known heads have " + strings.Join(knownHeads(), "; or ") +
			"; other names can be given with --format and --fields"
	default:
		fault.What = fmt.Sprintf("%q is no JSON object", clip(text))
	}
	return &LintError{Faults: []Fault{fault}}
}

// shown lists the first names.
func shown(names []string) string {
	var list []string
	for _, n := range names[:min(len(names), maxKeysShown)] {
		list = append(list, clip([]byte(n)))
	}
	if len(names) > maxKeysShown {
		list = append(list, "…")
	}
	return strings.Join(list, ", ")
}

// knownHeads lists the columns that each CSV format must have.
func knownHeads() []string {
	var heads []string
	for _, f := range formats() {
		if f.csv {
			heads = append(heads, f.list(f.required)+" ("+f.name+")")
		}
	}
	return heads
}

// bodyKeys are keys of bodies besides the prompt.
var bodyKeys = []string{"model", "max_tokens", "max_completion_tokens", "min_tokens", "temperature", "top_p", "top_k",
	"n", "seed", "stop", "stream", "stream_options", "ignore_eos", "response_format", "tool_choice", "reasoning_effort"}

// noteUnsent notes keys of bodies in rows with a prompt, if a detected format skips them.
func (l *Lint) noteUnsent(f *format, lines []heldLine) {
	if f.items != nil || !f.has(textField) {
		return
	}
	for _, line := range lines {
		keys := keysOf(line.text)
		if f.fieldsOf(keys)&setOf(textField, messagesField) == 0 {
			continue
		}
		for _, k := range keys {
			if f.field([]byte(k)) == unknownField && slices.Contains(bodyKeys, k) && !slices.Contains(l.Unsent, k) {
				l.Unsent = append(l.Unsent, k)
			}
		}
	}
}
