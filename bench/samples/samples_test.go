package samples_test

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"github.com/fastreplay/fastreplay/bench/samples"
	"github.com/fastreplay/fastreplay/codec/trace"
)

var update = flag.Bool("update", false, "write the sample traces anew")

func TestSamples(t *testing.T) {
	for path, g := range map[string]trace.Gen{
		"bailian.jsonl": samples.Bailian(), "mooncake.jsonl": samples.Mooncake(), "mooncake-small.jsonl": samples.MooncakeSmall(),
		"azure.csv": samples.Azure(), "burstgpt.csv": samples.BurstGPT(),
	} {
		made, err := trace.Generate(g)
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		if err := trace.Write(&text, made, g.Format); err != nil {
			t.Fatal(err)
		}
		checkFile(t, path, text.Bytes())
		checkChat(t, path, g)
	}
}

// checkFile asserts that a sample is what its recipe makes, and small; with -update it is made anew.
func checkFile(t *testing.T, path string, made []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, made, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(file, made) {
		t.Errorf("%s differs from its recipe; run: go test ./bench/samples -update", path)
	}
	if len(file) > 300_000 {
		t.Errorf("%s has %d bytes, want at most 300,000", path, len(file))
	}
}

// checkChat asserts what the samples are for.
func checkChat(t *testing.T, path string, g trace.Gen) {
	tr, err := trace.Open(path, trace.Options{Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	if tr.Format != g.Format || tr.Len() != len(g.ArrivalNS) || len(tr.Lint.Notes()) != 0 {
		t.Errorf("%s: %d rows of %s, notes %q; want %d of %s and none", path, tr.Len(), tr.Format, tr.Lint.Notes(), len(g.ArrivalNS), g.Format)
	}
	if s := float64(tr.SpanNS()) / 1e9; s < 5 || s > 8 {
		t.Errorf("%s spans %.2f s, want 5 to 8", path, s)
	}
	seen := map[uint64]bool{}
	refs, old, instant, burst := 0, 0, 1, 1
	for i := range tr.Len() {
		for _, id := range tr.Blocks(i) {
			refs++
			if seen[id] {
				old++
			}
			seen[id] = true
		}
		if instant++; i == 0 || tr.ArrivalNS[i] != tr.ArrivalNS[i-1] {
			instant = 1
		}
		burst = max(burst, instant)
	}
	if burst != g.Burst {
		t.Errorf("%s: bursts of %d, want %d", path, burst, g.Burst)
	}
	if g.Reuse == 0 {
		return
	}
	share := float64(old) / float64(refs)
	t.Logf("%s: %d block references, %.1f %% seen before, up to %d requests at one instant, %.2f s", path, refs, 100*share, burst, float64(tr.SpanNS())/1e9)
	if share < 0.3 || share > 0.9 {
		t.Errorf("%s: a share of %.3f seen before; want 0.3 to 0.9", path, share)
	}
}
