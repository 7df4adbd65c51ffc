package bench

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// aiperfUnits are the tags and units of AIPerf's documentation, docs/metrics-reference.md and docs/tutorials/working-with-profile-exports.md,
// that a streamed run has. Those of a request come first, then those of the run alone.
func aiperfUnits() (request, run map[string]string) {
	request = map[string]string{
		"request_latency": "ms", "time_to_first_token": "ms", "inter_token_latency": "ms", "decode_duration": "ms",
		"input_sequence_length": "tokens", "output_sequence_length": "tokens",
		"output_token_throughput_per_user": "tokens/sec/user", "e2e_output_token_throughput": "tokens/sec/user", "prefill_throughput_per_user": "tokens/sec/user",
		"usage_prompt_tokens": "tokens", "usage_completion_tokens": "tokens", "usage_total_tokens": "tokens", "usage_prompt_cache_read_tokens": "tokens",
	}
	run = map[string]string{
		"request_throughput": "requests/sec", "output_token_throughput": "tokens/sec", "total_token_throughput": "tokens/sec", "input_token_throughput": "tokens/sec",
		"request_count": "requests", "request_error_rate": "%", "benchmark_duration": "sec", "total_isl": "tokens", "total_osl": "tokens",
		"total_usage_prompt_tokens": "tokens", "total_usage_completion_tokens": "tokens", "total_usage_total_tokens": "tokens",
		"total_usage_prompt_cache_read_tokens": "tokens", "overall_usage_prompt_cache_read_pct": "%", "inter_chunk_latency": "ms",
		"replay_sched_lag_p50": "ms", "replay_sched_lag_p90": "ms", "replay_sched_lag_p99": "ms", "replay_sched_degraded": "count",
	}
	return request, run
}

// vllmKeys are those that vllm/benchmarks/serve.py writes with --save-result --save-detailed --percentile-metrics
// ttft,tpot,itl,e2el --metric-percentiles 50,90,95,99; but for itls, generated_texts and rtfx, which no record of ours holds.
func vllmKeys() []string {
	keys := []string{
		"date", "endpoint_type", "backend", "label", "model_id", "tokenizer_id", "num_prompts", "request_rate", "burstiness", "max_concurrency",
		"duration", "completed", "failed", "total_input_tokens", "total_output_tokens", "request_throughput", "request_goodput", "output_throughput",
		"total_token_throughput", "input_lens", "output_lens", "ttfts", "latencies", "start_times", "queue_times", "errors", "max_output_tokens_per_s", "max_concurrent_requests",
		"fastreplay_version",
	}
	for _, metric := range []string{"ttft", "tpot", "itl", "e2el"} {
		for _, statistic := range []string{"mean", "median", "std", "p50", "p90", "p95", "p99"} {
			keys = append(keys, statistic+"_"+metric+"_ms")
		}
	}
	return slices.Sorted(slices.Values(keys))
}

// exported is what a run left for other tools.
type exported struct {
	lines         []aiperfLine
	aiperf, vllm  map[string]any
	requests, run map[string]string // AIPerf's units by tag
}

type aiperfLine struct {
	Metadata map[string]any `json:"metadata"`
	Metrics  map[string]struct {
		Value float64 `json:"value"`
		Unit  string  `json:"unit"`
	} `json:"metrics"`
	Error map[string]any `json:"error"`
}

func readExports(t *testing.T, dir string) *exported {
	t.Helper()
	e := &exported{lines: readLines[aiperfLine](t, filepath.Join(dir, "profile_export.jsonl")), requests: map[string]string{}, run: map[string]string{}}
	for name, into := range map[string]*map[string]any{"profile_export_aiperf.json": &e.aiperf, "vllm.json": &e.vllm} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			err = json.Unmarshal(text, into)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	for _, l := range e.lines {
		for tag, v := range l.Metrics {
			e.requests[tag] = v.Unit
		}
	}
	for tag, v := range e.aiperf {
		if m, ok := v.(map[string]any); ok {
			e.run[tag] = m["unit"].(string)
		}
	}
	return e
}

// sameUnits compares tags with their units.
func sameUnits(t *testing.T, what string, got map[string]string, want ...map[string]string) {
	t.Helper()
	all := map[string]string{}
	for _, w := range want {
		maps.Copy(all, w)
	}
	if !maps.Equal(got, all) {
		t.Errorf("%s: tags and units\ngot  %v\nwant %v", what, got, all)
	}
}

// exportsAgain removes the exported files and has `report` make them anew: the bytes must be those that the run wrote.
func exportsAgain(t *testing.T, dir string) {
	t.Helper()
	names := []string{"profile_export.jsonl", "profile_export_aiperf.json", "vllm.json"}
	first := map[string]string{}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || os.Remove(filepath.Join(dir, name)) != nil {
			t.Fatal(err)
		}
		first[name] = string(text)
	}
	args := []string{"report", dir, "--json", "--export", "vllm", "--export", "aiperf", "--export", "vllm"}
	again := start(t, nil, args...)
	if code := again.wait(t); code != 0 || !json.Valid([]byte(again.stdout.String())) {
		t.Errorf("exit %d:\n%s\n%s", code, again.stdout.String(), again.stderr.String())
	}
	for _, name := range names {
		if text, _ := os.ReadFile(filepath.Join(dir, name)); string(text) != first[name] || len(text) == 0 {
			t.Errorf("%s has other bytes when `report` writes it", name)
		}
	}
	twice := start(t, nil, args...)
	if code := twice.wait(t); code != 2 || !strings.Contains(twice.stderr.String(), "already exported: "+filepath.Join(dir, "vllm.json")) {
		t.Errorf("over files that are there: exit %d:\n%s", code, twice.stderr.String())
	}
}

// TestExport: keys and units are those of the other tools' documentation, and `report` gives the same bytes as the run.
func TestExport(t *testing.T) {
	t.Parallel()
	m := startMock(t)
	res := run(t, "--trace", steady(t, 120, 200, 5), "--url", m.url, "--export", "aiperf", "--export", "vllm", "--compress")
	res.verdict(t)
	e := readExports(t, res.dir)
	request, whole := aiperfUnits()
	sameUnits(t, "profile_export.jsonl", e.requests, request)
	sameUnits(t, "profile_export_aiperf.json", e.run, request, whole)
	if keys := slices.Sorted(maps.Keys(e.vllm)); !slices.Equal(keys, vllmKeys()) {
		t.Errorf("vllm.json has the keys\n%q, want\n%q", keys, vllmKeys())
	}
	if len(e.lines) != 120 || e.vllm["completed"] != 120.0 || e.vllm["model_id"] != "mock" || e.vllm["backend"] != "openai" || e.vllm["total_output_tokens"] != 600.0 || e.aiperf["was_cancelled"] != false {
		t.Errorf("%d lines, completed %v, model %v, backend %v, output %v, was_cancelled %v",
			len(e.lines), e.vllm["completed"], e.vllm["model_id"], e.vllm["backend"], e.vllm["total_output_tokens"], e.aiperf["was_cancelled"])
	}
	exportsAgain(t, res.dir)
}

// TestExportInterrupted: what was sent is exported, and marked as partial.
func TestExportInterrupted(t *testing.T) {
	t.Parallel()
	m := startMock(t, "--fault", "stall:2")
	r := startReplay(t, "--trace", steady(t, lasting, 100, 10), "--url", m.url, "--no-probe", "--drain", "50ms", "--cold", "off", "--export", "vllm", "--export", "aiperf")
	m.untilRunning(t, 8)
	r.signal(t, os.Interrupt)
	res := r.finish(t)
	res.interrupted(t, lasting, "cancelled")
	e := readExports(t, res.dir)
	left := lasting - res.outcomes()["not_sent"]
	if e.aiperf["was_cancelled"] != true || len(e.lines) != left || e.vllm["partial"] != true || e.vllm["num_prompts"] != float64(lasting) || e.vllm["failed"] != float64(left) {
		t.Errorf("was_cancelled %v, %d lines, partial %v, num_prompts %v, failed %v; %d were sent",
			e.aiperf["was_cancelled"], len(e.lines), e.vllm["partial"], e.vllm["num_prompts"], e.vllm["failed"], left)
	}
	for _, l := range e.lines {
		if l.Metadata["was_cancelled"] != true || l.Error["code"] != 499.0 {
			t.Errorf("a line with metadata %v and error %v", l.Metadata, l.Error)
		}
	}
}
