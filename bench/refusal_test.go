package bench

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestMalformedTraces: one in eight is refused with a line that names file and place, before any server is asked. The messages
// of all are compared in codec/trace.
func TestMalformedTraces(t *testing.T) {
	t.Parallel()
	m := startMock(t)
	files, err := os.ReadDir("../codec/trace/testdata")
	if err != nil {
		t.Fatal(err)
	}
	refusals := 0
	for i, f := range files {
		if f.IsDir() || i%8 != 0 {
			continue
		}
		refusals++
		path := filepath.Join("../codec/trace/testdata", f.Name())
		said := refused(t, "--trace", path, "--url", m.url)
		if !regexp.MustCompile(`^fastreplay: ` + regexp.QuoteMeta(path) + `(:\d+: |: | is )\S`).MatchString(said) {
			t.Errorf("%s: the message does not begin with the place:\n%s", f.Name(), said)
		}
	}
	if refusals < 10 {
		t.Errorf("only %d malformed traces", refusals)
	}
	if log := m.stop(t); len(log) != 0 {
		t.Errorf("the server was asked %d times", len(log))
	}
}

// TestRefused: what options and trace decide is refused without a server: NOBODY does not listen. TEXTS is a file of prompts and
// messages, HEAVY and EMPTY are bad lists of targets.
func TestRefused(t *testing.T) {
	t.Parallel()
	texts := filepath.Join(t.TempDir(), "texts.jsonl")
	writeFile(t, texts, `{"timestamp":0,"text_input":"x"}`+"\n"+`{"timestamp":5,"messages":[{"role":"user","content":"x"}]}`+"\n")
	heavy, empty := targetsFile(t, "127.0.0.1:1\n127.0.0.1:2 heavy\n"), targetsFile(t, "# nobody\n")
	names := strings.NewReplacer("NOBODY", deadURL(t), "TEXTS", texts, "HEAVY", heavy, "EMPTY", empty)
	for line, want := range map[string]string{
		"samples/azure.csv --url NOBODY --route session":                                  "--route session: the trace has no conversations",
		"samples/azure.csv --url NOBODY --scrape-url :::":                                 `--scrape-url ":::": not an address`,
		"samples/azure.csv --url NOBODY --resend sometimes":                               `--resend "sometimes": want never, unread or safe`,
		"samples/azure.csv --url NOBODY --api responses --resend safe":                    "not safe to repeat; use unread",
		"samples/azure.csv --url NOBODY --sender process --route least-inflight":          "--sender process: where a request goes is decided by responses",
		"samples/azure.csv --url NOBODY --sender process --concurrency 2":                 "--sender process: a closed loop has no deadlines to keep",
		"samples/bailian.jsonl --url NOBODY --sender process --sessions gated":            "--sender process: turns that wait for answers",
		"samples/sharegpt.json --url NOBODY --rate 50 --sender process --history live":    "--sender process: live history is made of responses, which come in here",
		"samples/mooncake-small.jsonl --url NOBODY --sender process --rate max --limit 5": "does not accept connections", // not refused, but for the server

		"samples/bailian.jsonl --url NOBODY --api triton-vllm":                                                       "--model",
		"samples/bailian.jsonl --url NOBODY --api tgi --prompt token-ids":                                            "--api tgi takes text",
		"samples/bailian.jsonl --url NOBODY --api raw --endpoint /x":                                                 "whole bodies",
		"samples/bailian.jsonl --url NOBODY --api messages --cold salt":                                              "no cache_salt",
		"samples/bailian.jsonl --url NOBODY --api tgi --chat-overhead 1,1":                                           "no template",
		"samples/bailian.jsonl --url NOBODY --api grpc":                                                              `unknown API "grpc"`,
		"samples/bailian.jsonl --url NOBODY --api chat --endpoint-type x":                                            "there are",
		"samples/bailian.jsonl --api chat --url 127.0.0.1:1/generate":                                                "--api tgi",
		"samples/bailian.jsonl --api tgi --url 127.0.0.1:1/v1/responses/":                                            "--api responses",
		"TEXTS --api completions":                                                                                    "row 1: this API takes no messages: use --api chat",
		"TEXTS --no-stream --extra-inputs stream:true":                                                               `"stream" beside --no-stream`,
		"samples/sharegpt.json --rate 50 --history life":                                                             `--history "life": want recorded or live`,
		"samples/bailian.jsonl --history live":                                                                       "--history live: the trace has token counts and no messages, so no turn carries an answer; leave it out, or use a trace with conversations (sharegpt, multi_turn, mooncake with messages)",
		"samples/inputs.json --rate 50 --history live":                                                               "whole bodies are sent as they stand",
		"samples/sharegpt.json --rate 50 --history live --api completions":                                           "row 0: this API takes no messages: use --api chat",
		"samples/azure.csv --sessions gated":                                                                         "--sessions gated: no request of the selection depends on another",
		"samples/azure.csv --sessions think":                                                                         "--sessions think: no request of the selection depends on another",
		"samples/bailian.jsonl --sessions loose":                                                                     `--sessions "loose": want strict, gated, think or lanes=N`,
		"samples/bailian.jsonl --assume 1s,1ms":                                                                      "--assume is about --sessions think",
		"samples/bailian.jsonl --sessions gated --scale 2 --concurrency 4":                                           "a cap holds requests back in their order",
		"samples/bailian.jsonl --route best":                                                                         `--route "best": want round-robin, random, least-inflight, session or prefix`,
		"samples/bailian.jsonl --load-bound 2":                                                                       "--load-bound is about --route prefix",
		"samples/bailian.jsonl --route prefix --load-bound 0.5":                                                      "--load-bound 0.5: want at least 1, such as 1.25, or 0 for none",
		"samples/bailian.jsonl --targets HEAVY":                                                                      "--targets HEAVY:2: want a URL and perhaps a weight above 0 on each line",
		"samples/bailian.jsonl --targets EMPTY":                                                                      "--targets EMPTY: no server in it",
		"samples/bailian.jsonl --targets /no/such/file":                                                              "--targets: open /no/such/file: ",
		"samples/bailian.jsonl --route least-inflight --url 127.0.0.1:1 --url 127.0.0.1:2/v2/x --no-probe --model m": "requests that may go to either are built before, so want one path",
	} {
		if said := refused(t, strings.Fields(names.Replace(line))...); !strings.Contains(said, names.Replace(want)) {
			t.Errorf("%s: no %q in\n%s", line, want, said)
		}
	}
}

// TestBadUsage: exit 2 and one clear line, whatever is wrong before the start.
func TestBadUsage(t *testing.T) {
	t.Parallel()
	m := startMock(t, "--model", "llama")
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead := ln.Addr().String()
	_ = ln.Close()
	load := []string{"--trace", "samples/mooncake-small.jsonl", "--limit", "5"}
	for _, c := range []struct {
		name string
		args []string
		says string
	}{
		{"no trace", nil, "every command, and the manual"},
		{"no such trace", []string{"nothing.jsonl"}, "nothing.jsonl"},
		{"nobody listens", with(load, "--url", dead), dead + " does not accept connections"},
		{"no such name", with(load, "--url", "no-such-host.invalid:80"), "cannot resolve no-such-host.invalid"},
		{"no such model", with(load, "--url", m.url, "--model", "gpt"), "The model `gpt` does not exist"},
		{"no address", with(load, "--url", "http://"), "not an address"},
		{"unknown flag", with(load, "--urls", m.url), "unknown flag"},
		{"unknown API", with(load, "--url", m.url, "--api", "soap"), "soap"},
		{"ids in a chat", with(load, "--url", m.url, "--api", "chat", "--prompt", "token-ids"), "--api chat takes text"},
		{"two plans", with(load, "--url", m.url, "--rate", "1", "--ramp", "1:2:1s"), "exclude each other"},
		{"no plan", with(load, "--url", m.url, "--no-fixed-schedule"), "say when requests leave, with --rate R, --rate max, --ramp or --concurrency N"},
		{"nothing selected", with(load, "--url", m.url, "--from", "10h"), "no row lies"},
		{"too little memory", with(load, "--url", m.url, "--max-memory", "10kB"), "8 of the largest request must fit; give --max-memory "},
		{"memory without a size", with(load, "--url", dead, "--max-memory", "much"), "--max-memory \"much\": want bytes"},
		{"too many copies", with(load, "--url", dead, "--max-memory", "10kB", "--amplify", "500"), "more than the 10.0 kB allowed (--max-memory); use a smaller --amplify"},
		{"the prompt again", with(load, "--url", m.url, "--extra-inputs", "prompt:x"), "prompt"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if said := refused(t, c.args...); !strings.Contains(lastLine(said), c.says) {
				t.Errorf("the last line does not say %q:\n%s", c.says, said)
			}
		})
	}
	for id := range m.stop(t) {
		if !strings.HasPrefix(id, "mock-") { // a probe has no id of ours
			t.Errorf("request %s was sent", id)
		}
	}
}

// TestOutputIsNeverOverwritten: a directory with anything in it is refused.
func TestOutputIsNeverOverwritten(t *testing.T) {
	t.Parallel()
	m := startMock(t)
	dir := t.TempDir()
	mine := filepath.Join(dir, "requests.jsonl")
	writeFile(t, mine, "mine\n")
	r := startReplayIn(t, nil, dir, with(chat, "--url", m.url)...)
	if code := r.wait(t); code != 2 || !strings.Contains(r.stderr.String(), "not empty") {
		t.Errorf("exit %d:\n%s", code, r.stderr.String())
	}
	entries, _ := os.ReadDir(dir)
	if text, err := os.ReadFile(mine); err != nil || string(text) != "mine\n" || len(entries) != 1 {
		t.Errorf("the directory was touched: %q, %d files, %v", text, len(entries), err)
	}
	if log := m.stop(t); len(log) != 0 {
		t.Errorf("the server was asked %d times before the directory was looked at", len(log))
	}
}

// TestTooLongForTheServer: rows beyond the server's context are refused, left out or clipped before anything is sent; those that are left
// out have their lines, too.
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
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		if row.Input+row.Output > context {
			long[int64(i)] = true
		}
	}
	args := []string{"samples/mooncake-small.jsonl", "--scale", "50"}
	for mode, overhead := range map[string]string{"refuse": "0,0", "drop": "0,0", "clip": "0,0", "clip with a template": "7,3"} {
		t.Run(mode, func(t *testing.T) {
			m := startMock(t, "--model", "m", "--max-model-len", fmt.Sprint(context), "--template-tokens", overhead)
			args := with(args, "--url", m.url)
			if overhead != "0,0" {
				args = with(args, "--api", "chat")
			}
			flag, _, _ := strings.Cut(mode, " ")
			if flag == "refuse" {
				said := refused(t, args...)
				want := fmt.Sprintf("the trace has %d requests whose prompt and output exceed the servers' context of 9,000 tokens (/v1/models); the first is row 2 (from 0) of", len(long))
				if !strings.Contains(said, want) || !strings.Contains(said, "--too-long drop") {
					t.Errorf("no %q in\n%s", want, said)
				}
				for id := range m.stop(t) {
					if !strings.HasPrefix(id, "mock-") { // as the mock calls probes, which have no id
						t.Errorf("request %s was sent", id)
					}
				}
				return
			}
			r := run(t, with(args, "--too-long", flag)...)
			if len(r.lines) != rows || len(r.reasons()) > 0 {
				t.Errorf("%d lines, want %d; %v", len(r.lines), rows, r.reasons())
			}
			seen := map[int64]bool{}
			for _, l := range r.lines {
				seen[l.Row] = true
				switch out := flag == "drop" && long[l.Row]; {
				case out && (l.Outcome != "not_sent" || !strings.Contains(l.Error, "--too-long drop")):
					t.Errorf("row %d, which is too long, is %s (%s)", l.Row, l.Outcome, l.Error)
				case !out && (l.Outcome != "ok" || l.Prompt+l.Completion > context || l.Prompt != l.Input || l.Completion != l.Output):
					t.Errorf("row %d is %s (%s) with %d + %d tokens, want %d + %d", l.Row, l.Outcome, l.Error, l.Prompt, l.Completion, l.Input, l.Output)
				case !out && long[l.Row] && l.Prompt+l.Completion != context:
					t.Errorf("row %d is clipped to %d tokens, want all of the context", l.Row, l.Prompt+l.Completion)
				}
			}
			if len(seen) != rows {
				t.Errorf("%d rows have a line, want %d", len(seen), rows)
			}
			if s := r.summary; s.Requests.Planned != rows {
				t.Errorf("%d planned, want %d", s.Requests.Planned, rows)
			}
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
	path := filepath.Join(t.TempDir(), "trace.jsonl")
	writeFile(t, path, file)
	const want = `2 requests (the first is row 0, from 0) for the model "gpt-4", which `
	r := run(t, path, "--url", m.url, "--max-error-rate", "1")
	if !strings.Contains(r.stderr, want+m.url+"/v1/models does not list; --extra-inputs model:m replaces it") {
		t.Errorf("not named:\n%s", r.stderr)
	}
	r = run(t, path, "--url", m.url, "--extra-inputs", "model:m")
	if strings.Contains(r.stderr, "does not list") {
		t.Errorf("named though it is replaced:\n%s", r.stderr)
	}
	r.only(t, "ok")
}
