package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/trace"
)

// gen makes a trace by the command line.
func gen(t *testing.T, line string) (out, said string, err error) {
	t.Helper()
	cmd := newGenCommand()
	var stdout, stderr bytes.Buffer
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	cmd.SetArgs(strings.Fields(line))
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err = cmd.Execute()
	return stdout.String(), stderr.String(), err
}

// TestGenWords: what the format cannot say is noted, bodies name the model, and the seed chooses the words.
func TestGenWords(t *testing.T) {
	out, said, err := gen(t, "--format raw_payload --rows 2 --model mine --input-tokens 3 --output-tokens 7")
	if err != nil || strings.Count(out, `{"model":"mine","messages":[{"role":"user","content":"`) != 2 || strings.Count(out, `"}],"max_tokens":7}`+"\n") != 2 {
		t.Errorf("%s, %v", out, err)
	}
	for _, note := range []string{"note: raw_payload has no place for timestamps: they are left out", "note: raw_payload has verbatim prompts: those known only by their length (2) are made of words"} {
		expect.Contains(t, said, note)
	}
	other, _, _ := gen(t, "--format raw_payload --rows 2 --model mine --input-tokens 3 --output-tokens 7 --seed 1")
	if other == out {
		t.Error("another seed has the same words")
	}
	shared, _, err := gen(t, "--format single_turn --rows 20 --input-tokens 600 --output-tokens 1 --block-tokens 100 --system-tokens 500 --reuse 0.8")
	lines := strings.Split(strings.TrimSpace(shared), "\n")
	text := func(line string) string { _, text, _ := strings.Cut(line, `"text":"`); return text }
	if err != nil || len(lines) != 20 || text(lines[18])[:2500] != text(lines[19])[:2500] || text(lines[18]) == text(lines[19]) {
		t.Errorf("the system prompt is not shared: %v", err)
	}
}

// TestGenMeetsTheWantedReuse counts in the file, in each format that has block ids.
func TestGenMeetsTheWantedReuse(t *testing.T) {
	for _, format := range []string{"mooncake", "bailian"} {
		for _, wanted := range []float64{0.2, 0.5, 0.8} {
			path := t.TempDir() + "/made.jsonl"
			_, said, err := gen(t, fmt.Sprintf("--format %s --reuse %v --rows 1000 --turns 2:8 --input-tokens lognormal:2000:1000:20000 --block-tokens 16 --seed 3 --output %s", format, wanted, path))
			must.Do(t, err)
			tr := must.Have(trace.Open(path, trace.Options{BlockTokens: 16}))(t)
			seen, blocks, old := map[uint64]bool{}, 0.0, 0.0
			for i := range tr.Len() {
				for _, id := range tr.Blocks(i) {
					blocks++
					if seen[id] {
						old++
					}
					seen[id] = true
				}
			}
			if got := old / blocks; got < wanted-0.02 || got > wanted+0.02 {
				t.Errorf("%s: %.3f of the blocks are reused, want %v", format, got, wanted)
			}
			if want := fmt.Sprintf("(wanted %.0f %%)", 100*wanted); !strings.Contains(said, want) || strings.Contains(said, "note: less") {
				t.Errorf("it says %q, want %q and no note that it is less", said, want)
			}
		}
	}
	if _, said, _ := gen(t, "--reuse 0.9 --system-tokens 600 --rows 500"); !strings.Contains(said, "note: less is reused than wanted") {
		t.Errorf("a reuse that cannot be had is passed over: %q", said)
	}
}

// TestGenArrival: the gaps are those of the process that is given.
func TestGenArrival(t *testing.T) {
	even, _, _ := gen(t, "--rows 50 --arrival constant")
	gamma, _, _ := gen(t, "--rows 50 --arrival gamma:0.2")
	if gamma == even || strings.Count(gamma, "\n") != 50 {
		t.Error("gamma gaps are even")
	}
}
