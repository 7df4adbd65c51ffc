package trace

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fastreplay/fastreplay/codec/trace/formats"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// maxKeysShown bounds the keys that a message about an unknown format lists.
const maxKeysShown = 12

// detect finds the format by the keys of the first rows, or by the head of a CSV file. The formats share most keys, so
// the first format in the list wins of which some row has every required key. Bailian, which needs chat_id as well,
// comes before Mooncake.
func detect(
	known []*formats.Format, name string, lines []heldLine, renamed map[string]string,
) (*formats.Format, error) {
	first := bytes.TrimSpace(lines[0].text)
	if first[0] == '[' {
		return nil, undetected(name, lines[0])
	}
	var all []*formats.Format
	for _, f := range known {
		if f.Import == nil || f.Import.ListKey == "" {
			all = append(all, f.Renamed(renamed))
		}
	}
	head := rows.HeadOf(first)
	best := -1
	for _, l := range lines {
		keys := rows.Keys(l.text)
		for i, f := range all {
			names := keys
			if f.CSV {
				names = head
			}
			if f.Fits(names, l.text) && (best < 0 || i < best) {
				best = i
			}
		}
	}
	if best >= 0 {
		return all[best], nil
	}
	if f := ownKey(all, lines); f != nil {
		return f, nil
	}
	return nil, undetected(name, lines[0])
}

// ownKey finds a format if no row is whole. A key that only one format has decides, so that the linter can report what
// is missing.
func ownKey(known []*formats.Format, lines []heldLine) *formats.Format {
	for _, l := range lines {
		keys := rows.Keys(l.text)
		for _, f := range known {
			own := rows.SetOf(rows.TimestampField, rows.InputField, rows.HashIDsField)
			if f.Has(rows.ChatField) {
				own = rows.SetOf(rows.ChatField, rows.ParentField)
			}
			if !f.CSV && f.Import == nil && f.FieldsOf(keys)&own != 0 {
				return f
			}
		}
	}
	return nil
}

// likely names the keys that look like the wanted fields, as --fields takes them:
// timestamp=ts,input_length=prompt_tokens. A field that no key looks like is left out, or has the key missing.
func likely(keys []string, missing string, wanted ...rows.Field) string {
	var named []string
	for _, f := range wanted {
		key := missing
		i := slices.IndexFunc(keys, func(key string) bool {
			return looksLike(f, key)
		})
		if i >= 0 {
			key = rows.Clip(keys[i])
		}
		if key != "" {
			named = append(named, rows.UsualNames()[f]+"="+key)
		}
	}
	return strings.Join(named, ",")
}

// looksLike reports whether a key may be what somebody calls the field.
func looksLike(f rows.Field, key string) bool {
	key = strings.ToLower(key)
	has := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(part string) bool {
			return strings.Contains(key, part)
		})
	}
	sized := has("tok", "len")
	switch f {
	case rows.TextField:
		return key == "prompt" || key == "text"
	case rows.TimestampField:
		return key == "t" || key == "ts" || has("time", "date", "arriv")
	case rows.InputField:
		return sized && has("input", "prompt", "context", "request")
	case rows.OutputField:
		return sized && has("output", "response", "generated", "completion", "answer") || key == "max_tokens"
	}
	return false
}

// undetected is the error that describes the first row and what was expected.
func undetected(name string, first heldLine) error {
	fix := "a trace is JSONL, for example one object with timestamp, input_length and output_length on each " +
		"line, or CSV with a known head; known formats: " +
		strings.Join(Formats(), ", ")
	fault := Fault{File: name, Line: first.line, Fix: fix}
	text := bytes.TrimSpace(first.text)
	keys := rows.Keys(text)
	switch {
	case !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0:
		fault.What = "not text, but binary data"
		fault.Fix = "a trace is JSONL or CSV in UTF-8, perhaps packed with gzip or zstd"
	case len(keys) > 0:
		fault.What = "unknown format: a row with the keys " + shown(keys)
		fault.Fix = "name its keys with --fields, as in --fields " +
			cmp.Or(likely(keys, "", rows.TextField, rows.TimestampField, rows.InputField, rows.OutputField),
				"timestamp=KEY") +
			" (rows without a time need --rate or --concurrency); " + fix
	case text[0] == '[':
		fault.What = "a JSON array, not JSONL"
		fault.Fix = "write one object a line, for example with: jq -c '.[]'"
	case text[0] == '{':
		s := rows.Scan(text)
		err := s.Skip()
		if err == nil {
			fault.What = "unknown format: a row without keys"
			break
		}
		fault.What = err.Error()
	case len(rows.HeadOf(text)) > 1:
		fault.What = "unknown format: CSV with the columns " + shown(rows.HeadOf(text))
		fault.Fix = fmt.Sprintf("name its columns, as in --format burstgpt --fields %q, or --format azure if "+
			"times are dates",
			likely(rows.HeadOf(text), "COLUMN", rows.TimestampField, rows.InputField, rows.OutputField))
	case bytes.Count(text, []byte(";")) > 1:
		fault.What = "columns that semicolons separate"
		fault.Fix = "export it with commas; if no value has one, tr ';' , <FILE does it"
	default:
		fault.What = fmt.Sprintf("%q is no JSON object", rows.Clip(text))
	}
	return &LintError{Faults: []Fault{fault}}
}

// shown lists the first names.
func shown(names []string) string {
	var list []string
	for _, n := range names[:min(len(names), maxKeysShown)] {
		list = append(list, rows.Clip(n))
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
func (l *Lint) noteUnsent(f *formats.Format, lines []heldLine) {
	if f.Import != nil || !f.Has(rows.TextField) {
		return
	}
	for _, line := range lines {
		keys := rows.Keys(line.text)
		if f.FieldsOf(keys)&rows.SetOf(rows.TextField, rows.MessagesField) == 0 {
			continue
		}
		for _, k := range keys {
			if f.Field([]byte(k)) == rows.UnknownField && slices.Contains(bodyKeys, k) &&
				!slices.Contains(l.Unsent, k) {
				l.Unsent = append(l.Unsent, k)
			}
		}
	}
}
