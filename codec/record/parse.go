package record

import (
	"errors"
	"fmt"

	"github.com/bytedance/sonic"
)

// missing is an outcome that no line can name.
const missing = Outcome(Outcomes)

// Parse reads one line as AppendJSON writes it, with or without its newline.
// Unknown keys are ignored and missing ones are absent, so that files of
// other versions can be read; only "row" and "outcome" must be there. Derived
// keys (drift_ns, ttft_ms, …) are not read: they follow from the instants.
// What no line has, LeastCachedTokens and MostCachedTokens, becomes
// ExpectedCachedTokens, and BuiltTokens InputTokens. r keeps nothing of line.
// On error r is unspecified.
func Parse(line []byte, r *Record) error {
	r.Clear()
	r.Chunks, r.Resent, r.BytesSent, r.BytesReceived = None, None, None, None
	r.Outcome = missing
	if err := sonic.ConfigStd.Unmarshal(line, r); err != nil {
		return fmt.Errorf("not a record: %w", err)
	}
	if r.Row == None || r.Outcome == missing {
		return errors.New(`not a record: "row" or "outcome" is missing`)
	}
	if r.Choices <= 1 {
		r.Choices, r.DecodeNS = 0, None // a line has them of several choices only
	}
	r.BuiltTokens = r.InputTokens
	r.LeastCachedTokens, r.MostCachedTokens = r.ExpectedCachedTokens, r.ExpectedCachedTokens
	return nil
}
