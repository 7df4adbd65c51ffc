package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/must"
)

// frozenRuns are flags whose bytes and instants differ from each other.
var frozenRuns = []string{
	"--api completions --rate 50", "--api chat --rate 50", "--api messages --rate 50", "--api responses --rate 50", "--api tgi --rate 50",
	"--api sglang --rate 50", "--api vllm-generate --rate 50", "--api triton-vllm --rate 50 --model m", "--api triton-trtllm --rate 50 --model m",
	"--api raw --rate 50 --endpoint /x", "--api embeddings --rate 50", "--api chat", "--api chat --scale 3 --seed 7 --prompt text --limit 20",
	"--api chat --rate 50 --arrival poisson --amplify 2", "--api completions --concurrency 4 --limit 10",
}

// TestFrozenFingerprints compares the bytes that each bundled sample sends, for every API, with those in
// frozen.txt. If a change of those bytes is meant, run: go test ./cmd/fastreplay -run TestFrozenFingerprints -update
func TestFrozenFingerprints(t *testing.T) {
	t.Parallel()
	const golden = "../../bench/samples/frozen.txt"
	paths := must.Have(filepath.Glob("../../bench/samples/*.*"))(t)
	paths = slices.DeleteFunc(paths, func(path string) bool { return strings.HasSuffix(path, ".go") || path == golden })
	got := make([]string, len(paths)*len(frozenRuns)+1) // the last line is empty
	t.Run("runs", func(t *testing.T) {
		for i, path := range paths {
			t.Run(filepath.Base(path), func(t *testing.T) {
				t.Parallel()
				for j, flags := range frozenRuns {
					got[i*len(frozenRuns)+j] = fmt.Sprintf("%s %s: %s", filepath.Base(path), flags, frozen(t, append(strings.Fields(flags), path)...))
				}
			})
		}
	})
	if *update {
		must.Do(t, os.WriteFile(golden, []byte(strings.Join(got, "\n")), 0o644))
	}
	want := must.Have(os.ReadFile(golden))(t)
	for i, line := range got {
		if all := strings.Split(string(want), "\n"); i >= len(all) || all[i] != line {
			t.Errorf("line %d: got  %s\nwant %s", i+1, line, append(all, make([]string, i+1)...)[i])
		}
	}
}

// frozen is the fingerprint that a dry run prints, or "refused".
func frozen(t *testing.T, args ...string) string {
	t.Helper()
	code, _, said := ran(t, append(args, "--dry-run")...)
	_, after, ok := strings.Cut(said, "fingerprint ")
	if !ok && code != exitUsage {
		t.Errorf("%v: exit code %d, neither a fingerprint nor a refusal:\n%s", args, code, said)
	}
	if !ok {
		return "refused"
	}
	return strings.Fields(after)[0]
}
