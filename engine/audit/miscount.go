package audit

import (
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/workload"
)

// Miscounted is how many prompts that are there word for word a server counted otherwise than before the start, and the first of
// them by its row, with both counts.
func Miscounted(w *workload.Work, records []record.Record) (n int, row, want, got int64) {
	for i := range records {
		rec, tokens := &records[i], int64(0)
		if !w.Made(i) {
			tokens = int64(w.ServerTokens(i))
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
