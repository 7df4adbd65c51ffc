package trace

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
)

// Write writes the trace in a format of [WritableFormats], in order of arrival, with timestamps exact to the ns. What the format
// has no place for is left out: see [WriteNotes]. A trace that says less than the format must is an error, and nothing is written.
//
// Block ids are written as they are: where t.BlockTokens is not the format's own, whoever reads the file must be told.
func Write(w io.Writer, t *Trace, format string) error {
	f, err := writableByName(format)
	if err == nil {
		err = t.checkWritable(f)
	}
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(w, 64<<10)
	line := []byte(f.head)
	if _, err := out.Write(line); err != nil {
		return fmt.Errorf("writing the head of the trace: %w", err)
	}
	for i := range t.Len() {
		line = f.appendRow(line[:0], t, i)
		if t.literals != nil && !f.csv {
			oneLine(line)
		}
		line = append(line, '\n')
		if _, err := out.Write(line); err != nil {
			return fmt.Errorf("writing row %d of the trace: %w", i, err)
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("writing the trace: %w", err)
	}
	return nil
}

// oneLine puts a space for what ends lines between the values of JSON that comes from a document of many lines. Inside of values
// there are none.
func oneLine(text []byte) {
	for i, c := range text {
		if c == '\n' || c == '\r' {
			text[i] = ' '
		}
	}
}

// checkWritable refuses a trace that does not say what every row of the format must.
func (t *Trace) checkWritable(f *format) error {
	if f.has(textField) {
		return nil // it takes prompts word for word, and needs no timestamps
	}
	if t.Untimed {
		return fmt.Errorf("no row of %s says when it arrived, which %s must: write it as %s", t.Name, f.name, mooncake().name)
	}
	for i := range t.Len() {
		if t.InputTokens[i] == 0 || t.OutputTokens[i] == 0 {
			return fmt.Errorf("row %d of %s does not say how many tokens it has, which %s must: write it as %s", t.Row[i], t.Name, f.name, mooncake().name)
		}
	}
	return nil
}

// WriteNotes has a line for people on each thing that a file which [Write] makes in a format will not say.
func WriteNotes(t *Trace, format string) ([]string, error) {
	f, err := writableByName(format)
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
	lose(ids && !f.has(idsField), "block ids")
	lose(t.Session != nil && !f.sessions(), "conversations")
	lose(t.Type != nil && !f.has(typeField), "types")
	lose(t.literals != nil && !f.has(textField), "prompts word for word")
	lose(t.DelayNS != nil && !f.has(delayField), "delays")
	if ids && f.has(idsField) && t.BlockTokens != f.blockTokens {
		notes = append(notes, fmt.Sprintf("the block ids stand for %d tokens, where %s has %d: read the file with --block-tokens %d", t.BlockTokens, f.name, f.blockTokens, t.BlockTokens))
	}
	return notes, nil
}

func appendLengths(dst []byte, t *Trace, i int) []byte {
	dst = append(dst, `,"input_length":`...)
	dst = strconv.AppendInt(dst, int64(t.InputTokens[i]), 10)
	dst = append(dst, `,"output_length":`...)
	return strconv.AppendInt(dst, int64(t.OutputTokens[i]), 10)
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
