package bench

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// backend is an API as a run meets it.
type backend struct {
	api      string
	counts   bool   // answers tell how many tokens the prompt has
	cached   bool   // … and how many the cache had
	marks    bool   // answers say when they are finished
	template bool   // the chat template's tokens are added
	whole    bool   // it cannot stream
	textless bool   // answers are token ids
	finish   string // reason of an answer that is as long as asked
}

func backends() []backend {
	return []backend{
		{api: "completions", counts: true, cached: true, marks: true, finish: "length"},
		{api: "chat", counts: true, cached: true, marks: true, template: true, finish: "length"},
		{api: "responses", counts: true, cached: true, marks: true, template: true, finish: "max_output_tokens"},
		{api: "embeddings", counts: true, marks: true, whole: true},
		{api: "messages", counts: true, cached: true, marks: true, template: true, finish: "max_tokens"},
		{api: "tgi", counts: true, marks: true, finish: "length"},
		{api: "sglang", counts: true, cached: true, marks: true, finish: "length"},
		{api: "vllm-generate", counts: true, cached: true, marks: true, finish: "length", textless: true},
		{api: "triton-vllm", counts: true, finish: "length"},
		{api: "triton-trtllm"},
		{api: "raw", counts: true, cached: true, finish: "length"},
	}
}

// ways are the two ways to ask.
func (b backend) ways() [][]string {
	if b.whole {
		return [][]string{nil}
	}
	return [][]string{nil, {"--no-stream"}}
}

// args make a run speak the API. What raw posts is a file of completions bodies.
func (b backend) args(t *testing.T, load, url string, way []string) []string {
	t.Helper()
	args := append([]string{"--url", url, "--api", b.api, "--model", "m"}, way...)
	if b.api != "raw" {
		return append(args, "--trace", load)
	}
	var bodies []byte
	for i := range 160 {
		body := must.Have(json.Marshal(map[string]any{"model": "m", "prompt": strings.Repeat(fmt.Sprintf(" word%d", i), 30), "max_tokens": 6, "ignore_eos": true,
			"stream": way == nil, "stream_options": map[string]bool{"include_usage": true}}))(t)
		bodies = append(append(bodies, body...), '\n')
	}
	return append(args, "--trace", newFile(t, "bodies.jsonl", bodies), "--format", "raw_payload", "--rate", "400", "--endpoint", "/v1/completions")
}

// TestBackends: for each API, streamed or not, prompts and answers are as long as recorded. The cache hits are those
// of the trace, and the counts agree with the server's log.
func TestBackends(t *testing.T) {
	t.Parallel()
	load := generate(t, "--rows", "40", "--rate", "100", "--arrival", "constant", "--input-tokens", "200:700", "--output-tokens", "6",
		"--reuse", "0.5", "--format", "bailian")
	for i, b := range backends() {
		if testing.Short() && !slices.Contains([]string{"chat", "embeddings", "messages", "raw"}, b.api) {
			continue // the goroutines are the same
		}
		way := b.ways()[i%len(b.ways())] // the sweep asks each both ways
		t.Run(strings.Join(append([]string{b.api}, way...), " "), func(t *testing.T) {
			t.Parallel()
			m := startMock(t, "--template-tokens", "7,3", "--bos-tokens", "1")
			args, oneByOne := b.args(t, load, m.url, way), b.cached && b.api != "raw"
			if oneByOne { // so that the hits are exact
				args = append(args, "--concurrency", "1")
			}
			r := run(t, args...)
			r.sound(t)
			log := m.stop(t)
			if c := r.summary.PrefixCache; oneByOne && (*c.ExpectedTokens == 0 || *c.ReportedTokens != *c.ExpectedTokens) {
				t.Errorf("prefix cache %+v: want all that was expected", c)
			}
			for i := range r.lines {
				b.proveAnswer(t, &r.lines[i], log, way != nil || b.whole)
			}
		})
	}
}

// proveAnswer compares one line with what the server says.
func (b backend) proveAnswer(t *testing.T, l *line, log map[string][]served, whole bool) {
	t.Helper()
	if len(log[l.ID]) != 1 {
		t.Errorf("row %d came %d times", l.Row, len(log[l.ID]))
		return
	}
	s := log[l.ID][0]
	if b.counts {
		expect.Equal(t, l.Prompt, s.Prompt, "row %d: prompt tokens", l.Row)
	} else if l.Prompt != absent {
		t.Errorf("row %d: %d prompt tokens, which nobody has told", l.Row, l.Prompt)
	}
	if b.api != "raw" && b.api != "triton-trtllm" && s.Prompt != l.Input {
		t.Errorf("row %d: the server got %d tokens, the trace has %d", l.Row, s.Prompt, l.Input)
	}
	if b.cached && l.Cached != s.Cached {
		t.Errorf("row %d: %d cached tokens, the server found %d", l.Row, l.Cached, s.Cached)
	}
	switch {
	case b.api == "embeddings":
		if l.Completion != absent || l.Chunks != 0 || math.IsNaN(l.E2E) {
			t.Errorf("row %d: %+v", l.Row, l)
		}
		return
	case b.api == "triton-trtllm" && whole:
		return // nothing is said of the answer's length
	}
	if l.Completion != 6 || s.Completion != 6 || !whole && (l.Chunks != 6 || l.FirstToken == absent || (l.FirstText == absent) != b.textless) || l.Finish != b.finish {
		t.Errorf("row %d: %d tokens in %d chunks, finish reason %q; the server sent %d", l.Row, l.Completion, l.Chunks, l.Finish, s.Completion)
	}
}

// TestReasoningAndTools: what a model thinks and what it calls a tool with are output tokens in every API that has
// them. The time to first output token is that of the first token after the reasoning, by what the mock logs of its last
// one; without reasoning it is TTFT, and without an answer there is none.
func TestReasoningAndTools(t *testing.T) {
	t.Parallel()
	const tokens = 9
	load := steady(t, 30, 100, tokens)
	for _, c := range []struct {
		api              string
		reasoning, tools int
	}{
		{"chat", 0, 4}, {"chat", 3, 4}, {"responses", 3, 4}, {"messages", 3, 4}, {"chat", tokens - 1, 0}, {"messages", tokens, 0},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			t.Parallel()
			m := startMock(t, "--reasoning-tokens", fmt.Sprint(c.reasoning), "--tool-tokens", fmt.Sprint(c.tools))
			r := run(t, "--trace", load, "--url", m.url, "--api", c.api, "--require", "ttfo.max<1000s")
			r.sound(t)
			log := m.stop(t)
			r.join(t, log)
			for _, l := range r.lines {
				lastSent := log[l.ID][0].Last - r.summary.Run.MonotonicStartNS
				ok := map[int]bool{
					0:          l.FirstOutput == l.FirstToken,
					3:          l.FirstOutput >= l.FirstToken && l.FirstOutput <= l.LastToken,
					tokens - 1: l.FirstOutput == l.LastToken && l.FirstOutput >= lastSent,
					tokens:     l.FirstOutput == absent,
				}[c.reasoning]
				if !ok {
					t.Errorf("first output at %d: first token at %d, last at %d, sent at %d", l.FirstOutput, l.FirstToken, l.LastToken, lastSent)
				}
				// The name of a tool may come in a chunk of its own.
				if l.Completion != tokens || l.Chunks < tokens || l.Chunks > tokens+1 || l.FirstText == absent {
					t.Errorf("row %d: %d tokens in %d chunks", l.Row, l.Completion, l.Chunks)
				}
			}
			some := c.reasoning < tokens
			if q := r.summary.TTFOMS; (q != nil) != some || some && q.Count != int64(len(r.lines)) || r.summary.Verdict.Objectives[0].Met != some {
				t.Errorf("TTFO %+v, %+v", q, r.summary.Verdict.Objectives)
			}
		})
	}
}

// TestInstanceField: a field of the answers names who answered, where it is known to be and where the user says.
func TestInstanceField(t *testing.T) {
	t.Parallel()
	load := steady(t, 30, 200, 3)
	for _, c := range []struct {
		field string
		args  []string
		want  string
	}{
		{"nvext.worker_id.decode_worker_id=7", nil, "7"},
		{"who.is=pod-a", []string{"--instance-field", "who.is", "--no-stream"}, "pod-a"},
		{"who.is=pod-a", []string{"--instance-field", "who.is", "--instance-header", "x-instance"}, "header"},
		{"who.is=pod-a", []string{"--instance-field", "who.was"}, ""},
		{"who.is=pod-a", nil, "named"},
	} {
		t.Run(strings.Join(append([]string{c.field}, c.args...), " "), func(t *testing.T) {
			t.Parallel()
			m := startMock(t, "--body-field", c.field, "--header", "x-instance: header")
			if c.want == "named" {
				m = startMock(t, "--body-field", c.field, "--header", "target-pod: named")
			}
			r := run(t, append([]string{"--trace", load, "--url", m.url}, c.args...)...)
			r.only(t, "ok")
			for _, l := range r.lines {
				must.Equal(t, l.Instance, c.want, "row %d was answered by", l.Row)
			}
		})
	}
}

// TestDynamosWorkers: Dynamo names who prefilled beside who decoded.
func TestDynamosWorkers(t *testing.T) {
	t.Parallel()
	m := startMock(t, "--body-field", `nvext={"worker_id":{"prefill_worker_id":5,"prefill_dp_rank":0,"decode_worker_id":7,"decode_dp_rank":0}}`)
	r := run(t, "--trace", steady(t, 30, 200, 3), "--url", m.url)
	for _, rec := range recordsOf(t, r.dir) {
		expect.Equal(t, [2]string{rec.PrefillInstance, rec.Instance}, [2]string{"5", "7"}, "row", rec.Row)
	}
}

// TestAnthropicKey: a key goes where its owner wants it.
func TestAnthropicKey(t *testing.T) {
	t.Parallel()
	key := newFile(t, "key", "secret-of-mine\n")
	load := steady(t, 10, 100, 3)
	for _, c := range []struct {
		api, header string
		args        []string
	}{
		{"messages", "x-api-key", nil}, {"messages", "Authorization", []string{"--api-key-file", key}}, {"chat", "Authorization", []string{"--api-key-file", key}},
	} {
		m := startMock(t, "--api-key-file", key)
		in := []string{"env", "ANTHROPIC_API_KEY=secret-of-mine"}
		r := startReplayIn(t, in, append([]string{"--trace", load, "--url", m.url, "--api", c.api, "--model", "m"}, c.args...)...).finish(t)
		r.only(t, "ok")
		if !strings.Contains(r.stderr, "sending the header "+c.header) || strings.Contains(r.stderr, "secret-of-mine") {
			t.Errorf("%s:\n%s", c.api, r.stderr)
		}
	}
}
