package main

import (
	"bytes"
	"path/filepath"
	"slices"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/setup"
)

// TestAmplifiedFile: what convert writes is what a replay with the same flag sends.
func TestAmplifiedFile(t *testing.T) {
	const sample = "../../bench/samples/bailian.jsonl"
	file := filepath.Join(t.TempDir(), "out.jsonl")
	var stderr bytes.Buffer
	c := newConvertCommand()
	c.SetArgs([]string{sample, "--amplify", "2.5", "--seed", "4", "--format", "bailian", "--output", file})
	c.SetErr(&stderr)
	must.Do(t, c.Execute())
	read := func(path string) *trace.Trace {
		tr := must.Have(trace.Open(path, trace.Options{}))(t)
		return tr
	}
	want, did, err := setup.Amplify(2.5).Apply(read(sample), 4)
	must.Do(t, err)
	got := read(file)
	if got.Len() != want.Len() || !slices.Equal(got.ArrivalNS, want.ArrivalNS) || !slices.Equal(got.Chat, want.Chat) ||
		!slices.Equal(got.Parent, want.Parent) || !slices.Equal(got.Session, want.Session) || !slices.Equal(got.Turn, want.Turn) {
		t.Error("the file has another load")
	}
	for i := range got.Len() {
		if !slices.Equal(got.Blocks(i), want.Blocks(i)) {
			t.Fatalf("request %d: blocks %v, want %v", i, got.Blocks(i), want.Blocks(i))
		}
	}
	for _, said := range []string{"amplified", "2.5 times 137 conversations", "20 leading blocks shared", "interarrival CV", "converted: 300 of 300 rows"} {
		expect.Contains(t, stderr.String(), said, "it does not say")
	}
	if did.Seed != 4 || did.Factor != 2.5 || did.Inferred {
		t.Errorf("%+v", did)
	}
}
