// Package samples holds small traces. Those named bailian and mooncake look like a chat service:
// conversations of growing turns behind one system prompt, with a few bursts at one instant. azure.csv and burstgpt.csv have
// token counts only. Then single_turn.jsonl, multi_turn.jsonl and sharegpt.json, whose text is words at random, and
// raw_payload.jsonl, inputs.json, batch.jsonl and sagemaker.jsonl, which hold whole bodies. Then agentic_mooncake.jsonl, jobs of
// agents with sub-agents, and weka.jsonl, dynamo.jsonl and satf.json, which have such jobs too. Each with timestamps replays in under 8 s.
//
// It owns the recipes that made them; it does not read them. The traces are synthetic: no recorded request is in them, and
// they come under this repository's licence. Make them again with:
//
//	go test ./bench/samples -update
package samples

import (
	"math/rand/v2"

	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/sched"
)

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

// Bailian describes bailian.jsonl: 300 requests at 45 a second, prompts of 400 to 2,600 tokens.
func Bailian() trace.Gen {
	return trace.Gen{
		Format: "bailian", ArrivalNS: poisson(300, 45, 1), Burst: 12, BurstEvery: 75,
		InputTokens: trace.Range{Min: 400, Max: 2600}, OutputTokens: trace.Range{Min: 20, Max: 120}, Reuse: 1,
		Turns: trace.Range{Min: 1, Max: 6}, TurnTokens: trace.Range{Min: 20, Max: 200}, Active: 60, SystemTokens: 320,
		Types: []string{"text", "search", "image", "file"}, Seed: 1,
	}
}

// Mooncake describes mooncake.jsonl: 1,200 requests at 200 a second, prompts of 1,100 to 8,000 tokens. With so many, a single
// stall of a busy machine stays within the last percent.
func Mooncake() trace.Gen {
	return trace.Gen{
		Format: "mooncake", ArrivalNS: poisson(1200, 195, 2), Burst: 4, BurstEvery: 60,
		InputTokens: trace.Range{Min: 1100, Max: 8000}, OutputTokens: trace.Range{Min: 20, Max: 100}, Reuse: 1,
		Turns: trace.Range{Min: 1, Max: 5}, TurnTokens: trace.Range{Min: 200, Max: 1500}, Active: 250, SystemTokens: 1024,
		Seed: 2,
	}
}

// MooncakeSmall describes mooncake-small.jsonl: 240 requests at 35 a second, prompts of 1,100 to 12,000 tokens, larger bursts.
func MooncakeSmall() trace.Gen {
	return trace.Gen{
		Format: "mooncake", ArrivalNS: poisson(240, 35, 2), Burst: 16, BurstEvery: 60,
		InputTokens: trace.Range{Min: 1100, Max: 12000}, OutputTokens: trace.Range{Min: 20, Max: 150}, Reuse: 1,
		Turns: trace.Range{Min: 1, Max: 5}, TurnTokens: trace.Range{Min: 200, Max: 1500}, Active: 50, SystemTokens: 1024,
		Seed: 2,
	}
}

// Azure describes azure.csv: 250 unrelated requests at 40 a second, prompts of 10 to 4,000 tokens.
func Azure() trace.Gen {
	return trace.Gen{
		Format: "azure", ArrivalNS: poisson(250, 40, 3), Burst: 3, BurstEvery: 50,
		InputTokens: trace.Range{Min: 10, Max: 4000}, OutputTokens: trace.Range{Min: 5, Max: 60}, Seed: 3,
	}
}

// BurstGPT describes burstgpt.csv: 250 requests of conversations at 40 a second, prompts of 20 to 3,000 tokens.
func BurstGPT() trace.Gen {
	return trace.Gen{
		Format: "burstgpt", ArrivalNS: poisson(250, 40, 4), Burst: 8, BurstEvery: 50,
		InputTokens: trace.Range{Min: 20, Max: 3000}, OutputTokens: trace.Range{Min: 10, Max: 100},
		Turns: trace.Range{Min: 1, Max: 4}, Active: 40, Types: []string{"Conversation log", "API log"}, Seed: 4,
	}
}
