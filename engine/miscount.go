package engine

import "github.com/fastreplay/fastreplay/codec/record"

// Miscounted is how many prompts that are there word for word a server counted otherwise than before the start, and the first of
// them by its row, with both counts. Call it after Do.
func (r *Run) Miscounted() (n int, row, want, got int64) {
	for i := range r.records {
		rec, tokens := &r.records[i], int64(0)
		if !r.work.Made(i) {
			tokens = int64(r.work.ServerTokens(i))
		}
		if tokens == 0 || rec.PromptTokens == record.None || rec.PromptTokens == tokens {
			continue
		}
		if n++; n == 1 {
			row, want, got = rec.Row, tokens, rec.PromptTokens
		}
	}
	return n, row, want, got
}
