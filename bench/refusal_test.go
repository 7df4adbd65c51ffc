package bench

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// TestTooLongForTheServer: rows beyond the server's context are left out or clipped before anything is sent; those that
// are left out have their lines, too.
func TestTooLongForTheServer(t *testing.T) {
	t.Parallel()
	const rows, context = 240, 9000
	long := map[int64]bool{} // rows of the sample whose lengths make more than the context, counted here again
	text := readFile(t, "samples/mooncake-small.jsonl")
	for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		var row struct {
			Input  int `json:"input_length"`
			Output int `json:"output_length"`
		}
		must.Do(t, json.Unmarshal([]byte(line), &row))
		if row.Input+row.Output > context {
			long[int64(i)] = true
		}
	}
	args := []string{"samples/mooncake-small.jsonl", "--scale", "50"}
	for mode, overhead := range map[string]string{"drop": "0,0", "clip": "7,3"} {
		t.Run(mode, func(t *testing.T) {
			m := startMock(t, "--model", "m", "--max-model-len", fmt.Sprint(context), "--template-tokens", overhead)
			args := with(args, "--url", m.url)
			if mode == "clip" {
				args = with(args, "--api", "chat")
			}
			r := run(t, with(args, "--too-long", mode)...)
			if len(r.lines) != rows || len(r.reasons()) > 0 {
				t.Errorf("%d lines, want %d; %v", len(r.lines), rows, r.reasons())
			}
			seen := map[int64]bool{}
			for _, l := range r.lines {
				seen[l.Row] = true
				switch out := mode == "drop" && long[l.Row]; {
				case out && (l.Outcome != "not_sent" || !strings.Contains(l.Error, "--too-long drop")):
					t.Errorf("row %d, which is too long, is %s (%s)", l.Row, l.Outcome, l.Error)
				case !out && (l.Outcome != "ok" || l.Prompt+l.Completion > context || l.Prompt != l.Input || l.Completion != l.Output):
					t.Errorf("row %d is %s (%s) with %d + %d tokens, want %d + %d", l.Row, l.Outcome, l.Error, l.Prompt, l.Completion, l.Input, l.Output)
				case !out && long[l.Row] && l.Prompt+l.Completion != context:
					t.Errorf("row %d is clipped to %d tokens, want all of the context", l.Row, l.Prompt+l.Completion)
				}
			}
			expect.Equal(t, len(seen), rows, "rows have a line")
		})
	}
}

// TestModelsThatAreNotServed are named before the start, with the flag that replaces them.
func TestModelsThatAreNotServed(t *testing.T) {
	t.Parallel()
	m := startMock(t, "--model", "m")
	const file = `{"timestamp":0,"payload":{"model":"gpt-4","messages":[{"role":"user","content":"a"}],"max_tokens":1}}
{"timestamp":1,"payload":{"model":"m","messages":[{"role":"user","content":"a"}],"max_tokens":1}}
{"timestamp":2,"payload":{"messages":[{"role":"user","content":"a"}],"model":"gpt\u002d4","max_tokens":1}}
`
	path := newFile(t, "trace.jsonl", file)
	const want = `2 requests (the first is row 0, from 0) for the model "gpt-4", which `
	r := run(t, path, "--url", m.url, "--max-error-rate", "1")
	expect.Contains(t, r.stderr, want+m.url+"/v1/models does not list; --extra-inputs model:m replaces it", "not named")
	r = run(t, path, "--url", m.url, "--extra-inputs", "model:m")
	expect.Lacks(t, r.stderr, "does not list", "named though it is replaced")
	r.only(t, "ok")
}
