package samples_test

import (
	"testing"

	"github.com/fastreplay/fastreplay/bench/samples"
	"github.com/fastreplay/fastreplay/codec/trace"
)

// TestCountedSamples: the samples of agents that only have numbers of tokens are what their recipes say.
func TestCountedSamples(t *testing.T) {
	for _, s := range []struct {
		path, format                  string
		text                          []byte
		rows, jobs, messages, leftOut int
	}{
		{"tracelab.jsonl", "tracelab", samples.TraceLab(), 102, 20, 0, 1},
		{"copilot.jsonl", "copilot", samples.Copilot(), 88, 15, 0, 5},
		{"otel.jsonl", "otel", samples.OTel(), 57, 12, 20, 0},
		{"dag.jsonl", "dag_jsonl", samples.DAG(), 102, 12, 102, 0},
	} {
		checkFile(t, s.path, s.text)
		tr, err := trace.Open(s.path, trace.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if tr.Format != s.format || tr.Len() != s.rows || len(tr.Jobs) != s.jobs || tr.Verbatims() != s.messages || tr.Lint.Failed != s.leftOut || !tr.Untimed && tr.SpanNS() < 3e9 || tr.SpanNS() > 8e9 {
			t.Errorf("%s: %d rows of %s, %d jobs, %d with messages, %d left out, %d ns", s.path, tr.Len(), tr.Format, len(tr.Jobs), tr.Verbatims(), tr.Lint.Failed, tr.SpanNS())
		}
		old, refs := 0, 0
		seen := map[uint64]bool{}
		for i := range tr.Len() {
			for _, id := range tr.Blocks(i) {
				refs++
				if seen[id] {
					old++
				}
				seen[id] = true
			}
		}
		if share := float64(old) / float64(refs); refs > 0 && (share < 0.6 || share > 0.95) {
			t.Errorf("%s: %.3f of its blocks were seen before", s.path, share)
		}
	}
}
