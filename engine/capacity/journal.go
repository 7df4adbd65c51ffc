package capacity

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// AppendOutcome appends a line of probes.jsonl, the journal of a search, to dst.
func AppendOutcome(dst []byte, o Outcome) ([]byte, error) {
	line, err := json.Marshal(o)
	if err != nil {
		return dst, err
	}
	return append(append(dst, line...), '\n'), nil
}

// ReadOutcomes reads a journal. Whoever wrote it may have been killed: whole says how many bytes the whole lines take, and what comes
// after the last of them is to be cut off before more is appended.
func ReadOutcomes(journal []byte) (all []Outcome, whole int, err error) {
	for whole < len(journal) {
		line, rest, ended := bytes.Cut(journal[whole:], []byte("\n"))
		if !ended {
			break
		}
		var o Outcome
		if err := json.Unmarshal(line, &o); err != nil && len(rest) == 0 {
			break
		} else if err != nil {
			return nil, 0, fmt.Errorf("line %d: %w", len(all)+1, err)
		}
		if o.Number != len(all)+1 {
			return nil, 0, fmt.Errorf("line %d has the outcome of probe %d; want a line for each probe, in their order", len(all)+1, o.Number)
		}
		all = append(all, o)
		whole += len(line) + 1
	}
	return all, whole, nil
}
