package trace

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
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

// likely names the keys that look like the wanted fields, as --fields takes them: timestamp=ts,input_length=prompt_tokens. A field that
// no key looks like is left out, or has the key missing.
func likely(keys []string, missing string, wanted ...field) string {
	var named []string
	for _, f := range wanted {
		key := missing
		if i := slices.IndexFunc(keys, f.looksLike); i >= 0 {
			key = clip(keys[i])
		}
		if key != "" {
			named = append(named, usualNames()[f]+"="+key)
		}
	}
	return strings.Join(named, ",")
}

// looksLike reports whether a key may be what somebody calls the field.
func (f field) looksLike(key string) bool {
	key = strings.ToLower(key)
	has := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(key, part) })
	}
	sized := has("tok", "len")
	switch f {
	case textField:
		return key == "prompt" || key == "text"
	case timestampField:
		return key == "t" || key == "ts" || has("time", "date", "arriv")
	case inputField:
		return sized && has("input", "prompt", "context", "request")
	case outputField:
		return sized && has("output", "response", "generated", "completion", "answer") || key == "max_tokens"
	}
	return false
}

// undetected is the error that describes the first row and what was expected.
func undetected(name string, first heldLine) error {
	fix := "a trace is JSONL, for example one object with timestamp, input_length and output_length on each line, or CSV with a known head; known formats: " +
		strings.Join(Formats(), ", ")
	fault := Fault{File: name, Line: first.line, Fix: fix}
	text := bytes.TrimSpace(first.text)
	keys := keysOf(text)
	switch {
	case !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0:
		fault.What = "not text, but binary data"
		fault.Fix = "a trace is JSONL or CSV in UTF-8, perhaps packed with gzip or zstd"
	case len(keys) > 0:
		fault.What = "unknown format: a row with the keys " + shown(keys)
		fault.Fix = "name its keys with --fields, as in --fields " + cmp.Or(likely(keys, "", textField, timestampField, inputField, outputField), "timestamp=KEY") +
			" (rows without a time need --rate or --concurrency); " + fix
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
		fault.Fix = fmt.Sprintf("name its columns, as in --format burstgpt --fields %q, or --format azure if times are dates",
			likely(headOf(text), "COLUMN", timestampField, inputField, outputField))
	default:
		fault.What = fmt.Sprintf("%q is no JSON object", clip(text))
	}
	return &LintError{Faults: []Fault{fault}}
}

// shown lists the first names.
func shown(names []string) string {
	var list []string
	for _, n := range names[:min(len(names), maxKeysShown)] {
		list = append(list, clip(n))
	}
	if len(names) > maxKeysShown {
		list = append(list, "…")
	}
	return strings.Join(list, ", ")
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
