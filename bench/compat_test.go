package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
)

// asTyped runs a command line of another tool as it stands, but for the program's name, in a directory with its files.
// Limits that a busy machine cannot break follow.
func asTyped(t *testing.T, dir, line string) *replay {
	t.Helper()
	args := strings.Fields(strings.NewReplacer("\\\n", " ", "'", "").Replace(line))
	r := &replay{dir: filepath.Join(dir, "results-of-the-test")}
	if !strings.Contains(line, "--output-path") {
		args = append(args, "--output", r.dir)
	}
	r.process = startInDir(t, dir, nil, append(args, "--max-drift", "1h", "--max-receive-lag", "1h")...)
	return r
}

// TestForeignCommands: command lines of other tools' documentation, against a mock at another port. FILE is in the
// directory.
func TestForeignCommands(t *testing.T) {
	t.Parallel()
	bailian := strings.Join(strings.SplitAfter(string(readFile(t, "samples/bailian.jsonl")), "\n")[:40], "")
	const mooncake = `{"timestamp": 0, "input_length": 655, "output_length": 52, "hash_ids": [46, 47]}
{"timestamp": 40, "input_length": 655, "output_length": 12, "hash_ids": [46, 47]}
{"timestamp": 100, "input_length": 600, "output_length": 12, "hash_ids": [46, 48]}
`
	for _, c := range []struct {
		name, line, file string
		streamed         bool
		says             []string
	}{
		{
			"aiperf", "profile --model M --endpoint-type chat --streaming --url localhost:8000 --input-file FILE --custom-dataset-type bailian_trace --fixed-schedule",
			bailian, true, nil,
		},
		{
			"aiperf's defaults", "profile -m M --input-file FILE --custom-dataset-type mooncake_trace --fixed-schedule --url localhost:8000",
			mooncake, false, []string{"note: as aiperf profile does unless told otherwise: --endpoint-type chat; whole responses"},
		},
		{
			"aiperf's prompts", "profile --model M --endpoint-type chat --endpoint /v1/chat/completions --streaming --url localhost:8000 --input-file FILE --custom-dataset-type mooncake_trace --concurrency 2 --warmup-request-count 1",
			strings.Repeat(`{"text_input": "What is the capital of France?", "output_length": 20}`+"\n", 6), true, []string{"warm-up: 1 request"},
		},
		{
			"vllm", "--backend openai-chat --base-url http://localhost:8000 --endpoint /v1/chat/completions --model M --dataset-path FILE --num-prompts 40 --request-rate 200 --max-concurrency 30 --save-result --percentile-metrics ttft --metadata a=1 b=2 --temperature 0 --ignore-eos --seed 7",
			bailian, true, nil,
		},
		{
			"trace-replayer", `--tokenizer /path/to/tokenizer.json --tokenizer-config /path/to/tokenizer_config.json --endpoint http://localhost:8000/v1/chat/completions --api openai --dataset bailian
				--dataset-path FILE --scale-factor 1.5 --time-in-secs 1200 --num-producer 32 --channel-capacity 40960 --output-path client.jsonl --model-name M`,
			bailian, true, []string{"note: --tokenizer /path/to/tokenizer.json: ", "note: --tokenizer-config: ", "note: --num-producer: ", "note: --channel-capacity: ", "note: --output-path: ", "note: responses are streamed"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m, dir := startMock(t, "--model", "M"), t.TempDir()
			writeFile(t, filepath.Join(dir, "FILE"), c.file)
			r := asTyped(t, dir, strings.Replace(c.line, "localhost:8000", strings.Replace(m.url, "http://127.0.0.1", "localhost", 1), 1))
			if strings.Contains(c.line, "--output-path") {
				r.dir = filepath.Join(dir, "client")
			}
			res := r.finish(t)
			res.join(t, m.stop(t))
			res.only(t, "ok")
			if rows := strings.Count(c.file, "\n"); len(res.lines) != rows || res.code > 1 || len(res.reasons()) > 0 {
				t.Fatalf("%d lines, want %d; exit %d, %q\n%s", len(res.lines), rows, res.code, res.reasons(), res.stderr)
			}
			for _, l := range res.lines {
				expect.Equal(t, l.FirstToken != absent, c.streamed, "row %d: first token at %d, streamed", l.Row, l.FirstToken)
			}
			for _, text := range c.says {
				expect.Contains(t, res.stderr, text, "it did not say")
			}
		})
	}
}

// TestHeadersAndPaths: --aibrix-route is a header, --endpoint a path, --api-key a bearer token, and extra inputs are in
// the body. None of the secrets is in the results or on the terminal.
func TestHeadersAndPaths(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var heads []http.Header
	var paths []string
	var body map[string]any
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		heads, paths = append(heads, r.Header), append(paths, r.URL.RequestURI())
		_ = json.Unmarshal(text, &body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"a"},"finish_reason":"length"}],"usage":{"prompt_tokens":20,"completion_tokens":1}}`)
	})
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "t.jsonl"), `{"timestamp":0,"input_length":20,"output_length":1}`+"\n")
	writeFile(t, filepath.Join(dir, "run.yaml"), "api-key: k3y-s3cr3t\nheader: ['X-Team: h3ad-s3cr3t']\n")
	r := asTyped(t, dir, "profile --input-file t.jsonl -m m -u "+url+"/base --endpoint my/api?q=s3cr3t --aibrix-route prefix-cache --config run.yaml --no-probe --cold off --verbose --export aiperf --export vllm --temperature 0 --extra-body {\"a\":[1]}")
	res := r.finish(t)
	res.only(t, "ok")
	mu.Lock()
	defer mu.Unlock()
	if len(heads) != 1 || paths[0] != "/base/my/api?q=s3cr3t" || heads[0].Get("Routing-Strategy") != "prefix-cache" || heads[0].Get("Authorization") != "Bearer k3y-s3cr3t" {
		t.Fatalf("%d requests, paths %q, heads %v", len(heads), paths, heads)
	}
	if body["temperature"] != 0.0 || body["a"] == nil || body["stream"] == true {
		t.Errorf("body %v", body)
	}
	expect.Contains(t, res.stderr, "config: run.yaml sets --api-key", "it did not say what the file sets")
	expect.Lacks(t, r.told(t), "s3cr3t", "a secret")
}

// TestDurationGrace: what is in flight that long after the duration is cut, in an open and a closed loop, and the run
// is whole.
func TestDurationGrace(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"open":   nil,
		"cap":    {"--fixed-schedule", "--concurrency", "3"},
		"closed": {"--concurrency", "3"},
		"thread": {"--sender", "thread"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := startMock(t, "--fault", "stall:2@0.5")
			load := steady(t, 200, 100, 3)
			var res *results
			quickEnough(t, func() string {
				res = run(t, with(args, "--trace", load, "--url", m.url, "--no-probe", "--model", "mock", "--cold", "off", "--duration", "500ms", "--grace", "2s")...)
				res.only(t, "cancelled", "ok", "not_sent")
				by := res.outcomes()
				bounded := name == "cap" || name == "closed" // where three that stall are all that is sent
				if by["cancelled"] == 0 || by["ok"] == 0 && !bounded || by["not_sent"] > 0 && name != "cap" {
					return fmt.Sprintf("not all was sent in time, or nothing answered: %v", by)
				}
				return ""
			})
			for _, l := range res.lines {
				if l.Outcome == "cancelled" && l.Error != "the run's time was over" {
					t.Errorf("row %d: %s", l.Row, l.Error)
				}
			}
			if res.code == 130 || res.summary.Run.Partial || !res.summary.Run.Cut || strings.Contains(strings.Join(res.reasons(), " "), "failed") {
				t.Errorf("exit %d, partial %t, cut %t, %q", res.code, res.summary.Run.Partial, res.summary.Run.Cut, res.summary.Verdict.Reasons)
			}
			if res.summary.Run.DurationS < 2.5 {
				t.Errorf("over after %v s, before the grace", res.summary.Run.DurationS)
			}
		})
	}
}
