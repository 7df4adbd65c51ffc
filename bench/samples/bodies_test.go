package samples_test

import (
	"testing"

	"github.com/fastreplay/fastreplay/bench/samples"
	"github.com/fastreplay/fastreplay/codec/trace"
)

// TestBodySamples: the samples that hold whole bodies are what their recipes say.
func TestBodySamples(t *testing.T) {
	for _, s := range []struct {
		path, format, endpoint string
		text                   []byte
		rows                   int
		notes                  int
	}{
		{"raw_payload.jsonl", "raw_payload", "", samples.RawPayload(), 80, 0},
		{"inputs.json", "inputs_json", "", samples.InputsJSON(), 56, 0},
		{"batch.jsonl", "batch", "/v1/chat/completions", samples.Batch(), 60, 0},
		{"sagemaker.jsonl", "sagemaker", "", samples.SageMaker(), 120, 1},
	} {
		checkFile(t, s.path, s.text)
		tr, err := trace.Open(s.path, trace.Options{Strict: true})
		if err != nil {
			t.Fatal(err)
		}
		if tr.Format != s.format || tr.Endpoint != s.endpoint || tr.Len() != s.rows || tr.Verbatims() != s.rows || len(tr.Lint.Notes()) != s.notes {
			t.Errorf("%s: %d rows of %s for %q, %d bodies, notes %q; want %d of %s for %q", s.path, tr.Len(), tr.Format, tr.Endpoint, tr.Verbatims(), tr.Lint.Notes(), s.rows, s.format, s.endpoint)
		}
		if (tr.Session != nil) != (s.format == "inputs_json") || tr.Untimed != (s.format != "sagemaker") {
			t.Errorf("%s: sessions %v, untimed %v", s.path, tr.Session != nil, tr.Untimed)
		}
		if s.format == "sagemaker" && (tr.SpanNS() < 4e9 || tr.SpanNS() > 8e9) {
			t.Errorf("%s spans %d ns, want 4 to 8 s", s.path, tr.SpanNS())
		}
	}
}
