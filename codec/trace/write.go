package trace

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"
)

// Write writes the trace in a format of [Written], in order of arrival, with timestamps exact to the ns. What the
// format has no place for is left out: see [WriteNotes]. A trace that lacks what the format requires, or has what the
// format cannot express, is an error, and nothing is written. Formats of text need words for rows that only have
// numbers of tokens: see [Trace.With].
//
// Block ids are written unchanged. A block without one after others gets one of its own where the format wants it. If t.BlockTokens is not the format's own, the file must be read with
// Options.BlockTokens.
func Write(w io.Writer, t *Trace, format string) error {
	f, err := formatToWrite(format)
	if err == nil {
		err = t.checkWritable(f)
	}
	if err != nil {
		return err
	}
	if f.has(idsField) && !f.floor && !f.either && t.lacksIDs() {
		named := *t
		if named.ids, err = t.named(false); err != nil {
			return err
		}
		t = &named
	}
	out := bufio.NewWriterSize(w, 64<<10)
	line := []byte(f.head)
	if f.prepare != nil {
		t, line = f.prepare(t)
	}
	if _, err := out.Write(line); err != nil {
		return fmt.Errorf("writing the head of the trace: %w", err)
	}
	for i := range t.Len() {
		line = f.appendRow(line[:0], t, i)
		if t.verbatims != nil && !f.csv {
			oneLine(line)
		}
		if i < t.Len()-1 {
			line = append(line, f.between...)
		}
		line = append(line, '\n')
		if _, err := out.Write(line); err != nil {
			return fmt.Errorf("writing row %d of the trace: %w", i, err)
		}
	}
	_, _ = out.WriteString(f.tail) // an error stays until the flush
	if err := out.Flush(); err != nil {
		return fmt.Errorf("writing the trace: %w", err)
	}
	return nil
}

// lacksIDs reports whether some row has ids, but not of all its blocks.
func (t *Trace) lacksIDs() bool {
	for i := range t.Len() {
		if n := len(t.Blocks(i)); n > 0 && n < blocksOf(t.InputTokens[i], t.BlockTokens) {
			return true
		}
	}
	return false
}

// oneLine puts a space for what ends lines between the values of JSON that comes from a document of many lines. Inside
// of values there are none.
func oneLine(text []byte) {
	for i, c := range text {
		if c == '\n' || c == '\r' {
			text[i] = ' '
		}
	}
}

// checkWritable refuses a trace that lacks what every row of the format needs.
func (t *Trace) checkWritable(f *format) error {
	if t.Untimed && f.required.has(timestampField) {
		return fmt.Errorf("no row of %s has a timestamp, which %s needs: write it as %s", t.Name, f.name, mooncake().name)
	}
	if f.words && t.words.Prompt == nil && t.made() > 0 {
		return fmt.Errorf("%s has numbers of tokens, and no words were given for %s", t.Name, f.name)
	}
	for i := range t.Len() {
		if f.required.has(outputField) && (t.InputTokens[i] == 0 || t.OutputTokens[i] == 0) {
			return fmt.Errorf("row %d of %s has no numbers of tokens, which %s needs: write it as %s", t.Row[i], t.Name,
				f.name, mooncake().name)
		}
		if f.cannot == nil {
			continue
		}
		if what := f.cannot(t, i); what != "" {
			return fmt.Errorf("row %d of %s %s, which %s has no place for: write it as %s", t.Row[i], t.Name, what, f.name,
				mooncake().name)
		}
	}
	return nil
}

// WriteNotes returns a line for people on each thing that a file in a format will lack.
func WriteNotes(t *Trace, format string) ([]string, error) {
	f, err := formatToWrite(format)
	if err != nil {
		return nil, err
	}
	var notes []string
	lose := func(has bool, what string) {
		if has {
			notes = append(notes, fmt.Sprintf("%s has no place for %s: they are left out", f.name, what))
		}
	}
	ids := t.BlockRefs() > 0
	lose(ids && !f.blocks(), "block ids")
	lose(!t.Untimed && !f.has(timestampField), "timestamps")
	lose(f.seconds && t.fractions(), "fractions of seconds")
	lose(t.Session != nil && !f.sessions(), "conversations")
	lose(t.Type != nil && !f.has(typeField), "types")
	lose(t.verbatims != nil && !f.words && !f.has(textField), "verbatim prompts")
	lose(f.words && !f.bodies() && !f.has(extraField) && t.any(func(l Verbatim, _ int32) bool { return l.Extra != nil }),
		"extra members of bodies")
	lose(f.bodies() && !f.has(outputField) &&
		t.any(func(l Verbatim, output int32) bool { return l.Kind == VerbatimPayload && output > 0 }), "lengths of answers beside bodies")
	lose(t.DelayNS != nil && !f.has(delayField), "delays")
	graph := f.name == agenticMooncake().name
	lose(t.HasDependencies() && !graph, "dependencies between requests")
	lose(t.Job != nil && !graph, "jobs")
	lose((t.TookNS != nil || t.TTFTNS != nil || t.Cached != nil) && !graph, "recorded durations and cache hits")
	if graph && ids {
		if job, n := t.JobNumbers(); t.sharedBetween(job, n) {
			notes = append(notes, "jobs have blocks in common: hash_id_scope is global, which fastreplay reads and Dynamo refuses")
		}
	}
	if n := t.made(); f.words && n > 0 {
		notes = append(notes, fmt.Sprintf("%s has verbatim prompts: those known only by their length (%d) are made of words, which most tokenizers count as one token each",
			f.name, n))
	}
	if ids && f.has(idsField) && t.BlockTokens != f.blockTokens && !graph {
		notes = append(notes, fmt.Sprintf("the block ids stand for %d tokens, where %s has %d: read the file with --block-tokens %d", t.BlockTokens, f.name, f.blockTokens, t.BlockTokens))
	}
	return notes, nil
}

// any reports whether some row is such by its verbatim content and its output tokens.
func (t *Trace) any(such func(l Verbatim, output int32) bool) bool {
	for i, output := range t.OutputTokens {
		if such(t.Verbatim(i), output) {
			return true
		}
	}
	return false
}

// fractions reports whether some row comes between two whole seconds.
func (t *Trace) fractions() bool {
	return slices.ContainsFunc(t.ArrivalNS, func(at int64) bool { return at%int64(time.Second) != 0 })
}

// appendTimestamp appends when a row comes, in ms, and a comma; nothing if no row has an instant. So do the next ones.
func appendTimestamp(dst []byte, t *Trace, i int) []byte {
	if t.Untimed {
		return dst
	}
	return append(appendDecimal(append(dst, `"timestamp":`...), t.ArrivalNS[i], 6), ',')
}

func appendSession(dst []byte, t *Trace, i int, key string) []byte {
	name, ok := t.sessionName(i)
	if !ok {
		return dst
	}
	dst = append(appendString(dst, key), ':')
	return append(appendString(dst, name), ',')
}

func appendDelay(dst []byte, t *Trace, i int) []byte {
	if t.DelayNS == nil || t.DelayNS[i] < 0 {
		return dst
	}
	return append(appendDecimal(append(dst, `"delay":`...), t.DelayNS[i], 6), ',')
}

// appendAsked appends what a row asks beside its prompt, each behind a comma.
func appendAsked(dst []byte, t *Trace, i int) []byte {
	if n := t.OutputTokens[i]; n > 0 {
		dst = appendInt(dst, `,"output_length":`, n)
	}
	if extra := t.Verbatim(i).Extra; extra != nil {
		dst = append(append(dst, `,"extra":`...), extra...)
	}
	return dst
}

// appendIDs writes no key at all for a prompt that shares nothing.
func appendIDs(dst []byte, ids []uint64) []byte {
	if len(ids) == 0 {
		return dst
	}
	dst = append(dst, `,"hash_ids":[`...)
	for i, id := range ids {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendUint(dst, id, 10)
	}
	return append(dst, ']')
}

func appendString(dst []byte, s string) []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic("BUG: a string has no JSON form: " + err.Error())
	}
	return append(dst, b...)
}

// appendInt appends a text and a number behind it.
func appendInt[N int | int32 | int64](dst []byte, before string, n N) []byte {
	return strconv.AppendInt(append(dst, before...), int64(n), 10)
}
