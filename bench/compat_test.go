package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// asTyped runs a command line of another tool as it stands, but for the program's name, in a directory with its files. Limits that
// a busy machine cannot break follow.
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

// fileIn writes a file of the user's.
func fileIn(t *testing.T, dir, name, text string) {
	t.Helper()
	writeFile(t, filepath.Join(dir, name), text)
}

// bailianShort is the beginning of the bundled sample, rows of it.
func bailianShort(t *testing.T, rows int) string {
	t.Helper()
	text := readFile(t, "samples/bailian.jsonl")
	return strings.Join(strings.SplitAfter(string(text), "\n")[:rows], "")
}

// TestAIPerfCommands: command lines of AIPerf's documentation, against a mock at another port.
func TestAIPerfCommands(t *testing.T) {
	t.Parallel()
	bailian := bailianShort(t, 40)
	const mooncake = `{"timestamp": 0, "input_length": 655, "output_length": 52, "hash_ids": [46, 47]}
{"timestamp": 40, "input_length": 655, "output_length": 12, "hash_ids": [46, 47]}
{"timestamp": 100, "input_length": 600, "output_length": 12, "hash_ids": [46, 48]}
`
	for _, c := range []struct {
		name, model, file, text, line string
		rows                          int
		streamed                      bool
		says                          []string
	}{
		{
			"bailian", "Qwen/Qwen3-0.6B", "bailian_short.jsonl", bailian,
			`profile --model Qwen/Qwen3-0.6B --endpoint-type chat --streaming --url localhost:8000 --input-file bailian_short.jsonl --custom-dataset-type bailian_trace --fixed-schedule`,
			40, true, nil,
		},
		{
			"mooncake, AIPerf's defaults", "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B", "example_trace.jsonl", mooncake,
			`profile -m deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B --input-file example_trace.jsonl --custom-dataset-type mooncake_trace --fixed-schedule`,
			3, false, []string{"note: as aiperf profile does unless told otherwise: --url localhost:8000; --endpoint-type chat; whole responses"},
		},
		{
			"verbatim prompts", "Qwen/Qwen3-0.6B", "production_queries.jsonl", strings.Repeat(`{"text_input": "What is the capital of France?", "output_length": 20}`+"\n", 6),
			`profile --model Qwen/Qwen3-0.6B --endpoint-type chat --endpoint /v1/chat/completions --streaming --url localhost:8000 --input-file production_queries.jsonl --custom-dataset-type mooncake_trace --concurrency 2 --warmup-request-count 1`,
			6, true, nil,
		},
		{
			"the same flags on lengths", "Qwen/Qwen3-0.6B", "production_queries.jsonl", mooncake,
			`profile --model Qwen/Qwen3-0.6B --endpoint-type chat --endpoint /v1/chat/completions --streaming --url localhost:8000 --input-file production_queries.jsonl --custom-dataset-type mooncake_trace --concurrency 2 --warmup-request-count 1`,
			3, true, []string{"warm-up: 1 request", "--concurrency 2 is a cap"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := startMock(t, "--model", c.model)
			dir := t.TempDir()
			fileIn(t, dir, c.file, c.text)
			if !strings.Contains(c.line, "localhost:8000") { // where AIPerf's default is the mock's fixed port
				c.line += " --url localhost:8000"
				c.says[0] = strings.Replace(c.says[0], "--url localhost:8000; ", "", 1)
			}
			r := asTyped(t, dir, strings.Replace(c.line, "localhost:8000", strings.Replace(m.url, "http://127.0.0.1", "localhost", 1), 1))
			res := r.finish(t)
			res.only(t, "ok")
			if len(res.lines) != c.rows || res.code > 1 || len(res.reasons()) > 0 {
				t.Fatalf("%d lines, exit %d, %q\n%s", len(res.lines), res.code, res.reasons(), res.stderr)
			}
			for _, l := range res.lines {
				if (l.FirstToken != absent) != c.streamed {
					t.Errorf("row %d: first token at %d, streamed: %t", l.Row, l.FirstToken, c.streamed)
				}
			}
			for _, text := range c.says {
				if !strings.Contains(res.stderr, text) {
					t.Errorf("it did not say %q:\n%s", text, res.stderr)
				}
			}
			log := m.stop(t)
			if c.name != "verbatim prompts" { // whose tokens nobody has recorded
				res.join(t, log)
			}
			for _, l := range res.lines {
				if len(log[l.ID]) != 1 || log[l.ID][0].Prompt != l.Prompt {
					t.Errorf("row %d: %d prompt tokens, seen by the server: %+v", l.Row, l.Prompt, log[l.ID])
				}
			}
		})
	}
}

// TestTraceReplayerCommand: the command of its README, without its tokenizer's files.
func TestTraceReplayerCommand(t *testing.T) {
	t.Parallel()
	m := startMock(t, "--model", "Qwen2.5-7B-Instruct")
	dir := t.TempDir()
	fileIn(t, dir, "qwen_traceA_blksz_16.jsonl", bailianShort(t, 40))
	r := asTyped(t, dir, `
  --tokenizer /path/to/Qwen2.5-7B-Instruct/tokenizer.json \
  --tokenizer-config /path/to/Qwen2.5-7B-Instruct/tokenizer_config.json \
  --endpoint `+m.url+`/v1/chat/completions \
  --api openai \
  --dataset bailian \
  --dataset-path qwen_traceA_blksz_16.jsonl \
  --scale-factor 1.5 \
  --time-in-secs 1200 \
  --num-producer 32 \
  --channel-capacity 40960 \
  --output-path client.jsonl \
  --model-name Qwen2.5-7B-Instruct`)
	r.dir = filepath.Join(dir, "client")
	res := r.finish(t)
	res.only(t, "ok")
	if len(res.lines) != 40 || res.code > 1 || len(res.reasons()) > 0 || res.summary.Run.Scale != 1.5 {
		t.Errorf("%d lines, exit %d, %q, scale %v", len(res.lines), res.code, res.reasons(), res.summary.Run.Scale)
	}
	for _, text := range []string{"note: --tokenizer /path/to/Qwen2.5-7B-Instruct/tokenizer.json: ", "note: --tokenizer-config: ", "note: --num-producer: ", "note: --channel-capacity: ",
		"note: --output-path: ", "note: responses are streamed"} {
		if !strings.Contains(res.stderr, text) {
			t.Errorf("it did not say %q:\n%s", text, res.stderr)
		}
	}
	res.join(t, m.stop(t))
}

// TestVLLMCommand: a rate, a cap and a number of prompts, as of `vllm bench serve`.
func TestVLLMCommand(t *testing.T) {
	t.Parallel()
	m := startMock(t, "--model", "m")
	dir := t.TempDir()
	fileIn(t, dir, "t.jsonl", bailianShort(t, 40))
	r := asTyped(t, dir, "--backend openai-chat --base-url "+m.url+" --endpoint /v1/chat/completions --model m --dataset-path t.jsonl --num-prompts 20 --request-rate 200 --max-concurrency 30 --save-result --percentile-metrics ttft --metadata a=1 b=2 --temperature 0 --ignore-eos --seed 7")
	res := r.finish(t)
	res.only(t, "ok")
	a := res.summary.Run.Arrival
	if len(res.lines) != 20 || a == nil || a.Process != "poisson" || a.PerS != 200 || a.Seed == nil || *a.Seed != 7 {
		t.Errorf("%d lines, %+v", len(res.lines), a)
	}
	res.join(t, m.stop(t))
}

// TestVLLMDatasets: command lines of `vllm bench serve` with its own data sets, under either name of the command. They have as many
// requests, tokens, blocks and instants as with vLLM.
func TestVLLMDatasets(t *testing.T) {
	t.Parallel()
	const timed = `{"ts": 0, "in": 655, "out": 3, "ids": [46, 47]}
{"ts": 40, "in": 655, "out": 4, "ids": [46, 47]}
{"ts": 100, "in": 600, "out": 5, "ids": [46, 48]}
{"ts": 200, "in": 600, "out": 5, "ids": [46, 48]}
`
	const custom = `{"prompt": "What is the capital of India?", "output_tokens": 10}
{"prompt": "What is the capital of Iran?", "output_tokens": 15}
`
	const labels = "--timed-trace-chunk-hash-size 512 --timed-trace-sec-multiplier 0.001 --timed-trace-label-timestamp ts --timed-trace-label-input-length in --timed-trace-label-output-length out --timed-trace-label-hash-ids ids"
	for _, c := range []struct {
		name, text, line string
		planned, output  []int64 // by row
	}{
		{"timed_trace", timed, "--dataset-name timed_trace --num-prompts 3 --ignore-eos " + labels, []int64{0, 40e6, 100e6}, []int64{3, 4, 5}},
		{"timed_trace as profile", timed, "profile --dataset-name timed_trace --num-prompts 3 --request-rate inf " + labels, []int64{0, 40e6, 100e6}, []int64{3, 4, 5}},
		{"custom", custom, "--dataset-name custom --custom-output-len -1 --ignore-eos", []int64{0, 0}, []int64{10, 15}},
		{"custom of one length", custom, "--dataset-name custom --custom-output-len 7 --ignore-eos", []int64{0, 0}, []int64{7, 7}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := startMock(t, "--model", "served", "--block-tokens", "16")
			dir := t.TempDir()
			fileIn(t, dir, "t.jsonl", c.text)
			r := asTyped(t, dir, c.line+" --backend vllm --model /models/m --served-model-name served --base-url "+m.url+" --dataset-path t.jsonl --save-result --seed 0")
			res := r.finish(t)
			res.only(t, "ok")
			if len(res.lines) != len(c.planned) || res.code > 1 || len(res.reasons()) > 0 {
				t.Fatalf("%d lines, exit %d, %q\n%s", len(res.lines), res.code, res.reasons(), res.stderr)
			}
			log := m.stop(t)
			for _, l := range res.lines {
				if l.Planned != c.planned[l.Row] || l.Completion != c.output[l.Row] || len(log[l.ID]) != 1 || log[l.ID][0].Prompt != l.Prompt {
					t.Errorf("row %d: planned %d, %d tokens; want %d, %d; seen by the server: %+v", l.Row, l.Planned, l.Completion, c.planned[l.Row], c.output[l.Row], log[l.ID])
				}
				if strings.HasPrefix(c.name, "timed") && (l.Prompt != []int64{655, 655, 600}[l.Row] || l.Expected != []int64{0, 640, 512}[l.Row]) {
					t.Errorf("row %d: %d prompt tokens, %d expected from the cache", l.Row, l.Prompt, l.Expected)
				}
			}
		})
	}
}

// TestHeadersAndPaths: --aibrix-route is a header, --endpoint a path, --api-key a bearer token, and extra inputs are in the body.
// None of the secrets is in the results or on the terminal.
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
	fileIn(t, dir, "t.jsonl", `{"timestamp":0,"input_length":20,"output_length":1}`+"\n")
	fileIn(t, dir, "run.yaml", "api-key: k3y-s3cr3t\nheader: ['X-Team: h3ad-s3cr3t']\n")
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
	if !strings.Contains(res.stderr, "config: run.yaml sets --api-key") {
		t.Errorf("it did not say what the file sets:\n%s", res.stderr)
	}
	files, err := filepath.Glob(filepath.Join(r.dir, "*"))
	if err != nil || len(files) < 6 {
		t.Fatalf("%q, %v", files, err)
	}
	for _, f := range files {
		if text, _ := os.ReadFile(f); strings.Contains(string(text), "s3cr3t") {
			t.Errorf("%s has a secret", f)
		}
	}
	if strings.Contains(res.stderr+res.stdout, "s3cr3t") {
		t.Errorf("a secret on the terminal:\n%s", res.stderr)
	}
}

// TestDurationGrace: what is in flight that long after the duration is cut, in an open and a closed loop, and the run is whole.
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
				res = run(t, with(args, "--trace", load, "--url", m.url, "--no-probe", "--model", "mock", "--cold", "off", "--duration", "500ms", "--drain", "2s")...)
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

// TestFileTimeOffsets: AIPerf's offsets are the file's own times, and both ends are in.
func TestFileTimeOffsets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var b strings.Builder
	for _, at := range []string{"5000", "5010", "5020", "5030"} {
		b.WriteString(`{"timestamp":` + at + `,"input_length":20,"output_length":1}` + "\n")
	}
	fileIn(t, dir, "t.jsonl", b.String())
	m := startMock(t)
	r := asTyped(t, dir, "--input-file t.jsonl --url "+m.url+" --fixed-schedule --fixed-schedule-start-offset 5010 --fixed-schedule-end-offset 5020")
	res := r.finish(t)
	if len(res.lines) != 2 || res.lines[0].Row != 1 || res.lines[1].Row != 2 || res.lines[1].Planned != 10_000_000 {
		t.Errorf("%+v", res.lines)
	}
}
