package workload_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/prompt"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/internal/workloadtest"
	"github.com/fastreplay/fastreplay/engine/route"
	"github.com/fastreplay/fastreplay/engine/workload"
	"github.com/fastreplay/fastreplay/sched"
)

// conversations are rows of sessions that grow by answers and new tokens, in blocks of 16. Now and then a turn is asked
// twice, begins anew, keeps only a part, or has less than the answer. ceil: the last block has an id of its own, too.
func conversations(r *rand.Rand, sessions int, ceil bool) string {
	const block = 16
	var out strings.Builder
	chat, fresh := 0, 0
	id := func() int { fresh++; return fresh }
	head := []int{id(), id(), id()} // of every session
	type turn struct {
		parent, tokens, output int
		ids                    []int
	}
	last := make([]*turn, sessions)
	for n := range sessions * 6 {
		s := r.IntN(sessions)
		t := &turn{parent: -1, tokens: 20 + r.IntN(90), output: 1 + r.IntN(60)}
		var keep []int
		if before := last[s]; before == nil || r.IntN(9) == 0 {
			keep = head[:r.IntN(4)]
		} else {
			t.parent = before.parent
			t.tokens = before.tokens + before.output + r.IntN(40) - 15
			keep = before.ids[:min(len(before.ids), before.tokens/block)]
			if r.IntN(7) == 0 {
				keep = keep[:r.IntN(len(keep)+1)]
			}
		}
		t.tokens = max(t.tokens, 1)
		t.ids = slices.Clone(keep[:min(len(keep), t.tokens/block)])
		for len(t.ids) < t.tokens/block {
			t.ids = append(t.ids, id())
		}
		listed := t.ids
		if ceil && t.tokens%block > 0 {
			listed = append(slices.Clone(t.ids), id())
		}
		list, _ := json.Marshal(listed)
		if len(listed) == 0 {
			list = []byte("[]")
		}
		fmt.Fprintf(&out, `{"chat_id":%d,"parent_chat_id":%d,"timestamp":%d,"input_length":%d,"output_length":%d,"type":"x","turn":1,"hash_ids":%s}`+"\n",
			chat, t.parent, n, t.tokens, t.output, list)
		if r.IntN(6) > 0 { // else the next one follows the same turn
			t.parent = chat
			last[s] = t
		}
		chat++
	}
	return out.String()
}

// told is a body as a server reads it.
type told struct {
	Prompt []int `json:"token_ids"`
	Params struct {
		Most   int   `json:"max_tokens"`
		Answer []int `json:"trace_decode_token_ids"`
	} `json:"sampling_params"`
}

// TestAnswersAreTheNextTurns: what a cache has that holds whole blocks of all prompts and answers before, found token
// by token in the bodies that are sent, is what is expected. Turns go on from what they follow, as far as recorded
// lengths and ids let them.
func TestAnswersAreTheNextTurns(t *testing.T) {
	const block = 16
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 1))
		tr := must.Have(trace.Read(strings.NewReader(conversations(r, 6, seed%2 == 0)), "t.jsonl", trace.Options{Format: "bailian", Collect: true}))(t)
		plan := must.Have(sched.FromTrace(tr.ArrivalNS, 1, 0))(t)
		addr := netip.MustParseAddrPort("127.0.0.1:1")
		w := &workload.Work{Trace: tr, Plan: plan, Targets: []workload.Target{{URL: "http://a:1", Host: "a:1", Path: "/x", Endpoints: []netip.AddrPort{addr}}},
			Places: route.RoundRobin(plan.Requests, route.Even([]int{1})), Caches: map[netip.AddrPort]workload.PrefixCache{addr: {BlockTokens: block}}}
		source := must.Have(prompt.NewTokenIDs(seed, prompt.BuiltInIDs()))(t)
		backend := must.Have(api.New("vllm-generate", api.Options{Model: "m", Stream: true, ForceOutput: true, TokenIDs: true, Answers: true, CacheSalt: "s"}))(t)
		free := sum(w.IdealHits().Expected)
		carried, turns := w.Carried()
		w.TellAnswers(source)
		if again, _ := w.Carried(); again != carried || turns == 0 {
			t.Fatalf("%d tokens carried in %d turns, %d when told", carried, turns, again)
		}
		w.Prebuilt = workloadtest.Build(t, &workload.Builder{Backend: backend, Source: source, RunID: "00000000"}, w)
		expected := w.IdealHits().Expected
		if sum(expected) <= free {
			t.Errorf("%d tokens expected, %d without answers", sum(expected), free)
		}
		cached := map[string]bool{}
		var all []told
		for i := range w.Requests() {
			_, body, _ := strings.Cut(string(w.Prebuilt.At(i)), "\r\n\r\n")
			var b told
			must.Do(t, json.Unmarshal([]byte(body), &b))
			a, _ := w.AnswerOf(i)
			for k, id := range b.Params.Answer {
				must.Equal(t, w.Answers.Token(&a, k), id, "request %d: token %d of the answer", i, k)
			}
			if len(b.Prompt) != int(tr.InputTokens[i]) || len(b.Params.Answer) != int(tr.OutputTokens[i]) || b.Params.Most != len(b.Params.Answer) {
				t.Fatalf("request %d: %d and %d tokens, most %d", i, len(b.Prompt), len(b.Params.Answer), b.Params.Most)
			}
			held := 0
			for to := block; to < len(b.Prompt) && cached[fmt.Sprint(b.Prompt[:to])]; to += block {
				held = to
			}
			must.Equal(t, int64(held), expected[i], "seed %d, request %d: %d tokens cached", seed, i, held)
			text := append(slices.Clone(b.Prompt), b.Params.Answer...)
			for to := block; to < len(text); to += block {
				cached[fmt.Sprint(text[:to])] = true
			}
			all = append(all, b)
		}
		provesTurns(t, w, all)
	}
}

// provesTurns looks for the tokens that turns share with those that they follow.
func provesTurns(t *testing.T, w *workload.Work, all []told) {
	t.Helper()
	carried, turns, graph := int64(0), int64(0), w.Trace.Graph(w.Requests())
	most := make([]int, w.Requests())
	for j := range all {
		for _, wait := range graph.Of(j) {
			i := int(wait.On)
			text := append(slices.Clone(all[i].Prompt), all[i].Params.Answer...)
			n := 0
			for n < min(len(text), len(all[j].Prompt)) && text[n] == all[j].Prompt[n] {
				n++
			}
			most[i] = max(most[i], n-len(all[i].Prompt))
		}
	}
	for _, n := range most {
		if n > 0 {
			carried, turns = carried+int64(n), turns+1
		}
	}
	if want, wantTurns := w.Carried(); carried != want || turns != wantTurns {
		t.Errorf("%d tokens of answers in %d turns, want %d in %d", carried, turns, want, wantTurns)
	}
}

func sum(hits []int64) (n int64) {
	for _, h := range hits {
		n += h
	}
	return n
}

// TestAnswersOfTheRecord: where the trace has ids of an answer's blocks, the next turn's prompt has the answer up to the
// first that differs, and not as much as lengths allow.
func TestAnswersOfTheRecord(t *testing.T) {
	for _, world := range []struct {
		ids  string
		want int64
	}{{`10,11`, 30}, {`10,12`, 12}, {`13,11`, 0}, {``, 30}} {
		file := `{"schema":"fastreplay/trace/v1","mode":"as_in","block_size":16}
{"timestamp":0,"session_id":"a","input_length":20,"output_length":30,"hash_ids":[1,2],"output_hash_ids":[` + world.ids + `]}
{"timestamp":1,"session_id":"a","input_length":60,"output_length":1,"hash_ids":[1,10,11,4]}` + "\n"
		tr := must.Have(trace.Read(strings.NewReader(file), "t.jsonl", trace.Options{}))(t)
		w := &workload.Work{Trace: tr, Plan: must.Have(sched.FromTrace(tr.ArrivalNS, 1, 0))(t)}
		carried, _ := w.Carried()
		must.Equal(t, carried, world.want, "tokens of the answer with the ids %s", world.ids)
	}
}
