package engine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/prompt"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/workload"
	"github.com/fastreplay/fastreplay/sched"
)

// TestForcedTokensAreCompared: each id of an answer is compared with the one that was told, in chunks of any size and
// in a whole body; the first that differs is kept, missing ones and those beyond the end count, and nothing is
// allocated.
func TestForcedTokensAreCompared(t *testing.T) {
	const tokens = 60
	tr := must.Have(trace.Read(strings.NewReader(fmt.Sprintf(`{"timestamp":0,"input_length":600,"output_length":%d,"hash_ids":[1,2]}`, tokens)), "t.jsonl", trace.Options{}))(t)
	plan := must.Have(sched.FromTrace(tr.ArrivalNS, 1, 0))(t)
	source, err := prompt.NewTokenIDs(1, prompt.BuiltInIDs())
	must.Do(t, err)
	w := &workload.Work{Trace: tr, Plan: plan}
	w.TellAnswers(source)
	answer, _ := w.AnswerOf(0)
	told := make([]int, tokens)
	for k := range told {
		told[k] = w.Answers.Token(&answer, k)
	}
	none := int64(record.None)
	for name, c := range map[string]struct {
		change               func([]int) []int
		wrong, at, got, want int64
	}{
		"as told":        {func(ids []int) []int { return ids }, none, none, none, none},
		"one wrong":      {func(ids []int) []int { ids[41]++; return ids }, 1, 41, int64(told[41]) + 1, int64(told[41])},
		"first and last": {func(ids []int) []int { ids[0], ids[tokens-1] = 5, 6; return ids }, 2, 0, 5, int64(told[0])},
		"three short":    {func(ids []int) []int { return ids[:tokens-3] }, 3, tokens - 3, none, int64(told[tokens-3])},
		"one more":       {func(ids []int) []int { return append(ids, 9) }, 1, tokens, 9, none},
	} {
		ids := c.change(append([]int(nil), told...))
		for _, size := range []int{1, 7, tokens + 1} {
			var body strings.Builder
			for from := 0; from < len(ids); from += size {
				list := strings.ReplaceAll(strings.Trim(fmt.Sprint(ids[from:min(from+size, len(ids))]), "[]"), " ", ",")
				fmt.Fprintf(&body, "data: {\"choices\":[{\"index\":0,\"finish_reason\":null,\"token_ids\":[%s]}]}\n\n", list)
			}
			raw := chunked(body.String() + "data: [DONE]\n\n")
			stream := size <= tokens
			if !stream {
				whole := strings.TrimSuffix(strings.TrimPrefix(body.String(), "data: "), "\n\n")
				raw = responseText(200, "", strings.Replace(whole, "null", `"length"`, 1))
			}
			p, rec := newResponse(t, stream)
			if p.backend, err = api.New("vllm-generate", api.Options{Stream: stream}); err != nil {
				t.Fatal(err)
			}
			p.forced.begin(w, 0)
			if !play(p, [][]byte{[]byte(raw)}, nil) || rec.Outcome != record.OK {
				t.Fatalf("%s, %d a chunk: %v %s", name, size, rec.Outcome, rec.Error)
			}
			expect.Equal(t, [4]int64{rec.WrongTokens, rec.WrongAt, rec.WrongGot, rec.WrongWant}, [4]int64{c.wrong, c.at, c.got, c.want}, "%s, %d a chunk", name, size)
		}
	}
	var check forcedTokens
	rec := new(record.Record)
	rec.Clear()
	event := []byte(strings.ReplaceAll(strings.Trim(fmt.Sprint(told), "[]"), " ", ","))
	if n := testing.AllocsPerRun(100, func() { check.begin(w, 0); check.take(event, rec); check.end(rec) }); n != 0 || rec.WrongTokens != record.None {
		t.Errorf("%v allocations an answer, %d wrong", n, rec.WrongTokens)
	}
}
