package main

import (
	"bytes"
	"os"
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

// TestConvertWithoutText: a file with text becomes one without, packed by its name, which inspect and convert read. A
// key that is there already, or is no secret, ends with exit code 2, and nothing is written.
func TestConvertWithoutText(t *testing.T) {
	dir := t.TempDir()
	key, day := filepath.Join(dir, "key"), filepath.Join(dir, "day.jsonl.zst")
	call := func(want int, args ...string) string {
		t.Helper()
		code, out, errs := ran(t, args...)
		expect.Equal(t, code, want, "exit code of %q: %s", args, errs)
		return out + errs
	}
	const log = "../../bench/samples/sharegpt.json"
	said := call(0, "convert", log, "--key-file", "new:"+key, "--tokenizer", "cl100k_base", "--output", day)
	expect.Contains(t, said, "sharegpt to fastreplay")
	was := must.Have(trace.Open(log, trace.Options{}))(t)
	is := must.Have(trace.Open(day, trace.Options{}))(t)
	expect.Equal(t, is.Len(), was.Len(), "rows")
	expect.Equal(t, is.Verbatims(), 0, "rows with text")
	expect.Contains(t, call(0, "inspect", day), "ids are keyed hashes")
	expect.Lacks(t, call(0, "convert", day, "--format", "mooncake"), "hash_id_scope")
	again := filepath.Join(dir, "again.jsonl")
	expect.Contains(t, call(exitUsage, "convert", log, "--key-file", "new:"+key, "--output", again), "is there already")
	must.Do(t, os.Chmod(key, 0o644))
	expect.Contains(t, call(exitUsage, "convert", log, "--key-file", key, "--output", again), "chmod 600")
	expect.Contains(t, call(exitUsage, "convert", "../../bench/samples/mooncake.jsonl", "--key-file", "new:"+key+"2"), "no row of")
	if _, err := os.Stat(again); err == nil {
		t.Error("a refused conversion has written a file")
	}
}
