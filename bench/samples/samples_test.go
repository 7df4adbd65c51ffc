// Package samples holds small traces. Those named bailian and mooncake look like a chat service: conversations of
// growing turns behind one system prompt, with a few bursts at one instant. azure.csv and burstgpt.csv have token
// counts only. Then single_turn.jsonl, multi_turn.jsonl and sharegpt.json, whose text is words at random, and
// raw_payload.jsonl, inputs.json, batch.jsonl and sagemaker.jsonl, which hold whole bodies. Then
// agentic_mooncake.jsonl, jobs of agents with sub-agents, and weka.jsonl, dynamo.jsonl and satf.json, which have such
// jobs too. Each with timestamps replays in under 8 s.
//
// It owns the recipes that made them; it does not read them. The traces are synthetic: no recorded request is in them,
// and they come under this repository's licence. Make them again with:
//
//	go test ./bench/samples -update
package samples

import (
	"bytes"
	"flag"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/sched"
)

var update = flag.Bool("update", false, "write the sample traces anew")

func TestSamples(t *testing.T) {
	for path, g := range map[string]trace.Gen{
		"bailian.jsonl": bailian(), "mooncake.jsonl": mooncake(), "mooncake-small.jsonl": mooncakeSmall(),
		"azure.csv": azure(), "burstgpt.csv": burstGPT(),
	} {
		made := must.Have(trace.Generate(g))(t)
		var text bytes.Buffer
		must.Do(t, trace.Write(&text, made, g.Format))
		checkFile(t, path, text.Bytes())
		checkChat(t, path, g)
	}
}

// checkFile asserts that a sample is what its recipe makes, and small; with -update it is made anew.
func checkFile(t *testing.T, path string, made []byte) {
	t.Helper()
	if *update {
		must.Do(t, os.WriteFile(path, made, 0o644))
	}
	file := must.Have(os.ReadFile(path))(t)
	if !bytes.Equal(file, made) {
		t.Errorf("%s differs from its recipe; run: go test ./bench/samples -update", path)
	}
	if len(file) > 300_000 {
		t.Errorf("%s has %d bytes, want at most 300,000", path, len(file))
	}
}

// checkChat asserts what the samples are for.
func checkChat(t *testing.T, path string, g trace.Gen) {
	tr := must.Have(trace.Open(path, trace.Options{Strict: true}))(t)
	notes := tr.Lint.Notes()
	if tr.Lint.UnitDoubt != "" { // two samples are as dense as a trace of seconds that is read as one of milliseconds
		notes = notes[1:]
	}
	if tr.Format != g.Format || tr.Len() != len(g.ArrivalNS) || len(notes) != 0 {
		t.Errorf("%s: %d rows of %s, notes %q; want %d of %s and none", path, tr.Len(), tr.Format, notes, len(g.ArrivalNS), g.Format)
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
	expect.Equal(t, burst, g.Burst, "%s: bursts", path)
	if g.Reuse == 0 {
		return
	}
	share := float64(old) / float64(refs)
	t.Logf("%s: %d block references, %.1f %% seen before, up to %d requests at one instant, %.2f s", path, refs, 100*share, burst, float64(tr.SpanNS())/1e9)
	if share < 0.3 || share > 0.9 {
		t.Errorf("%s: a share of %.3f seen before; want 0.3 to 0.9", path, share)
	}
}

// dice decide what samples are like.
type dice struct{ *rand.Rand }

func newDice(seed, stream uint64) dice { return dice{rand.New(rand.NewPCG(seed, stream))} }

// between is a whole number, from least to most.
func (d dice) between(least, most int) int { return least + d.IntN(most-least+1) }

// poisson are instants of requests that know nothing of each other.
func poisson(rows int, rate float64, seed uint64) []int64 {
	at, err := sched.Arrivals{Rate: sched.Steady(rate), Process: sched.Poisson, Seed: seed}.Instants(rows)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return at
}

// bailian describes bailian.jsonl: 300 requests at 45 a second, prompts of 400 to 2,600 tokens.
func bailian() trace.Gen {
	return trace.Gen{
		Format: "bailian", ArrivalNS: poisson(300, 45, 1), Burst: 12, BurstEvery: 75,
		InputTokens: trace.Range{Min: 400, Max: 2600}, OutputTokens: trace.Range{Min: 20, Max: 120}, Reuse: 1,
		Turns: trace.Range{Min: 1, Max: 6}, TurnTokens: trace.Range{Min: 20, Max: 200}, Active: 60, SystemTokens: 320,
		Types: []string{"text", "search", "image", "file"}, Seed: 1,
	}
}

// mooncake describes mooncake.jsonl: 1,200 requests at 200 a second, prompts of 1,100 to 8,000 tokens. With so many, a
// single stall of a busy machine stays within the last percent.
func mooncake() trace.Gen {
	return trace.Gen{
		Format: "mooncake", ArrivalNS: poisson(1200, 195, 2), Burst: 4, BurstEvery: 60,
		InputTokens: trace.Range{Min: 1100, Max: 8000}, OutputTokens: trace.Range{Min: 20, Max: 100}, Reuse: 1,
		Turns: trace.Range{Min: 1, Max: 5}, TurnTokens: trace.Range{Min: 200, Max: 1500}, Active: 250, SystemTokens: 1024,
		Seed: 2,
	}
}

// mooncakeSmall describes mooncake-small.jsonl: 240 requests at 35 a second, prompts of 1,100 to 12,000 tokens, larger
// bursts.
func mooncakeSmall() trace.Gen {
	return trace.Gen{
		Format: "mooncake", ArrivalNS: poisson(240, 35, 2), Burst: 16, BurstEvery: 60,
		InputTokens: trace.Range{Min: 1100, Max: 12000}, OutputTokens: trace.Range{Min: 20, Max: 150}, Reuse: 1,
		Turns: trace.Range{Min: 1, Max: 5}, TurnTokens: trace.Range{Min: 200, Max: 1500}, Active: 50, SystemTokens: 1024,
		Seed: 2,
	}
}

// azure describes azure.csv: 250 unrelated requests at 40 a second, prompts of 10 to 4,000 tokens.
func azure() trace.Gen {
	return trace.Gen{
		Format: "azure", ArrivalNS: poisson(250, 40, 3), Burst: 3, BurstEvery: 50,
		InputTokens: trace.Range{Min: 10, Max: 4000}, OutputTokens: trace.Range{Min: 5, Max: 60}, Seed: 3,
	}
}

// burstGPT describes burstgpt.csv: 250 requests of conversations at 40 a second, prompts of 20 to 3,000 tokens.
func burstGPT() trace.Gen {
	return trace.Gen{
		Format: "burstgpt", ArrivalNS: poisson(250, 40, 4), Burst: 8, BurstEvery: 50,
		InputTokens: trace.Range{Min: 20, Max: 3000}, OutputTokens: trace.Range{Min: 10, Max: 100},
		Turns: trace.Range{Min: 1, Max: 4}, Active: 40, Types: []string{"Conversation log", "API log"}, Seed: 4,
	}
}
