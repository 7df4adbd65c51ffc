package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// backend is an API as a run meets it.
type backend struct {
	api      string
	counts   bool   // answers tell how many tokens the prompt has; tgi's, streams only
	cached   bool   // … and how many the cache had
	marks    bool   // answers say when they are finished
	template bool   // the chat template's tokens are added
	whole    bool   // it cannot stream
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
	path := filepath.Join(t.TempDir(), "bodies.jsonl")
	var bodies []byte
	for i := range 40 {
		body, err := json.Marshal(map[string]any{"model": "m", "prompt": strings.Repeat(fmt.Sprintf(" word%d", i), 30), "max_tokens": 6, "ignore_eos": true,
			"stream": way == nil, "stream_options": map[string]bool{"include_usage": true}})
		if err != nil {
			t.Fatal(err)
		}
		bodies = append(append(bodies, body...), '\n')
	}
	if err := os.WriteFile(path, bodies, 0o600); err != nil {
		t.Fatal(err)
	}
	return append(args, "--trace", path, "--format", "raw_payload", "--rate", "100", "--endpoint", "/v1/completions")
}

// TestBackends: each API, streamed and not, gets prompts of the recorded lengths, answers as long as recorded, the cache hits that
// the trace has, and counts that agree with the server's log.
func TestBackends(t *testing.T) {
	load := generate(t, "--rows", "40", "--rate", "100", "--arrival", "constant", "--input-tokens", "200:700", "--output-tokens", "6",
		"--hit-ratio", "0.5", "--block-tokens", "16")
	for _, b := range backends() {
		for _, way := range b.ways() {
			t.Run(strings.Join(append([]string{b.api}, way...), " "), func(t *testing.T) {
				t.Parallel()
				m := startMock(t, "--template-tokens", "7,3", "--bos-tokens", "1")
				r := run(t, b.args(t, load, m.url, way)...)
				r.prove(t)
				r.only(t, "ok")
				r.verdict(t)
				log := m.stop(t)
				for i := range r.lines {
					b.proveAnswer(t, &r.lines[i], log, way != nil || b.whole)
				}
			})
		}
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
	if b.counts && !(b.api == "tgi" && whole) {
		if l.Prompt != s.Prompt {
			t.Errorf("row %d: %d prompt tokens, the server counted %d", l.Row, l.Prompt, s.Prompt)
		}
	} else if l.Prompt != absent {
		t.Errorf("row %d: %d prompt tokens, which nobody has told", l.Row, l.Prompt)
	}
	if b.api != "raw" && b.api != "triton-trtllm" && s.Prompt != l.Input {
		t.Errorf("row %d: the server got %d tokens, the trace has %d", l.Row, s.Prompt, l.Input)
	}
	if b.cached && (l.Cached != s.Cached || l.Expected != absent && l.Cached != l.Expected && b.api != "raw") {
		t.Errorf("row %d: %d cached tokens, %d expected; the server found %d", l.Row, l.Cached, l.Expected, s.Cached)
	}
	switch {
	case b.api == "embeddings":
		if l.Completion != absent || l.Chunks != 0 || l.E2E != l.E2E {
			t.Errorf("row %d: %+v", l.Row, l)
		}
		return
	case b.api == "triton-trtllm" && whole:
		return // nothing is said of the answer's length
	}
	if l.Completion != 6 || s.Completion != 6 || !whole && (l.Chunks != 6 || l.FirstToken == absent || l.FirstText == absent) || l.Finish != b.finish {
		t.Errorf("row %d: %d tokens in %d chunks, finish reason %q; the server sent %d", l.Row, l.Completion, l.Chunks, l.Finish, s.Completion)
	}
}

// TestBackendsFail: an error status, an error in a stream and an answer cut off are told in the server's words, and fail nobody else.
func TestBackendsFail(t *testing.T) {
	load := steady(t, 40, 200, 6)
	for _, b := range backends() {
		for _, way := range b.ways() {
			faults := []struct{ fault, outcome, error string }{
				{"status:503", "http_error", "injected fault: status"}, {"truncate:3", "truncated", ""}, {"reset-after:2", "reset", ""},
			}
			if way == nil && !b.whole {
				faults = append(faults, struct{ fault, outcome, error string }{"error-event:2", "stream_error", "injected fault: error-event"})
				if b.marks {
					faults = append(faults, struct{ fault, outcome, error string }{"no-finish", "truncated", "without a finish reason"})
				}
			}
			for _, f := range faults {
				t.Run(strings.Join(append([]string{b.api, f.fault}, way...), " "), func(t *testing.T) {
					t.Parallel()
					m := startMock(t)
					args := append(b.args(t, load, m.url, way), "--no-probe", "-H", "X-Mock-Fault: "+f.fault+"@0.5")
					r := run(t, args...)
					r.prove(t)
					log := m.stop(t)
					r.only(t, "ok", f.outcome)
					failed := 0
					for _, l := range r.lines {
						if len(log[l.ID]) != 1 {
							t.Errorf("row %d came %d times", l.Row, len(log[l.ID]))
							continue
						}
						committed := log[l.ID][0].Fault != ""
						if !l.ok() {
							failed++
						}
						if l.ok() == committed || !l.ok() && !strings.Contains(l.Error, f.error) {
							t.Errorf("row %d is %s (%s); the server committed %q", l.Row, l.Outcome, l.Error, log[l.ID][0].Fault)
						}
					}
					if failed == 0 || failed == len(r.lines) {
						t.Errorf("%d of %d failed", failed, len(r.lines))
					}
				})
			}
		}
	}
}
