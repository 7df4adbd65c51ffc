package bench

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// agents writes conversations in blocks of 16 tokens that grow by their answers and new tokens. A last block that is
// not full has an id of its own.
func agents(t *testing.T, sessions, turns int) string {
	t.Helper()
	r := rand.New(rand.NewPCG(3, 4))
	tokens, blocks := make([]int, sessions), make([][]int, sessions)
	var rows strings.Builder
	for chat := range sessions * turns {
		s, parent := chat%sessions, max(-1, chat-sessions)
		tokens[s] += 1 + r.IntN(90)
		for len(blocks[s]) < tokens[s]/16 {
			blocks[s] = append(blocks[s], chat*100+len(blocks[s]))
		}
		list := blocks[s][:len(blocks[s]):len(blocks[s])]
		if tokens[s]%16 > 0 {
			list = append(list, 1_000_000+chat)
		}
		output := 1 + r.IntN(70)
		text, _ := json.Marshal(list)
		fmt.Fprintf(&rows, `{"chat_id":%d,"parent_chat_id":%d,"timestamp":%g,"input_length":%d,"output_length":%d,"type":"x","turn":%d,"hash_ids":%s}`+"\n",
			chat, parent, float64(chat)/100, tokens[s], output, 1+chat/sessions, text)
		tokens[s] += output
	}
	return newFile(t, "agents.jsonl", rows.String())
}

// TestExactAnswers: a server that caches what it makes finds in each prompt exactly what is expected, blocks of answers
// included; two runs send the same; free answers are hit by nobody; a server that cannot be told refuses in its own
// words, before the run.
func TestExactAnswers(t *testing.T) {
	t.Parallel()
	load := agents(t, 8, 10)
	m := startMock(t, "--ttft", "1ms", "--itl", "20us")
	exact := []string{"--trace", load, "--url", m.url, "--api", "vllm-generate", "--concurrency", "1", "--force-answers"}
	prints, hits := map[string]bool{}, map[string]int64{}
	for i, args := range [][]string{exact, append(exact, "--no-stream"), append(exact, "--force-answers=false")} {
		r := run(t, args...)
		r.sound(t)
		for _, l := range r.lines {
			must.Equal(t, l.Cached, l.Expected, "run %d, row %d: tokens cached", i, l.Row)
		}
		a := r.summary.Answers
		if a == nil || a.Turns != 72 || a.Carried < 1000 || a.WrongRequests != 0 || (a.Forced > 0) != (i < 2) {
			t.Errorf("run %d: %+v", i, a)
		}
		if i == 0 {
			again := run(t, args...)
			prints[r.summary.Workload.Fingerprint], prints[again.summary.Workload.Fingerprint] = true, true
		}
		hits[a.Mode] = *r.summary.PrefixCache.ReportedTokens
		expect.Contains(t, strings.Join(r.summary.Notes, "\n"), "tokens of earlier answers, ", "run %d: no note on what answers do to hits: %q", i, r.summary.Notes)
	}
	if len(prints) != 1 || hits["forced"] <= hits["free"] {
		t.Errorf("fingerprints %v, hits %v", prints, hits)
	}
}
