package bench

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// TestHarnessOfLLMD: each profile runs against the mock, over samples in place of the traces, and leaves its reports.
func TestHarnessOfLLMD(t *testing.T) {
	t.Parallel()
	const harness = "../scripts/harness/llm-d/"
	profiles := must.Have(filepath.Glob(harness + "profiles/*.yaml.in"))(t)
	must.Equal(t, len(profiles), 4, "profiles")
	samples := map[string]string{"mooncake-conversation.jsonl.zst": "mooncake.jsonl", "bailian.jsonl": "bailian.jsonl", "weka.jsonl": "weka.jsonl"}
	traces := t.TempDir()
	for name, sample := range samples {
		must.Do(t, os.Symlink(must.Have(filepath.Abs("samples/"+sample))(t), filepath.Join(traces, name)))
	}
	for _, profile := range profiles {
		name := strings.TrimSuffix(filepath.Base(profile), ".in")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := startMock(t)
			space, results := t.TempDir(), t.TempDir()
			rendered := strings.NewReplacer("REPLACE_ENV_LLMDBENCH_HARNESS_STACK_ENDPOINT_URL", m.url,
				"REPLACE_ENV_LLMDBENCH_DEPLOY_CURRENT_MODEL", "mock", "REPLACE_ENV_FASTREPLAY_TRACES", traces).Replace(string(readFile(t, profile)))
			if i := strings.Index(rendered, "--rate"); i >= 0 {
				rendered = rendered[:i] + "--rate=200 --rate=400\n" + rendered[i+strings.IndexByte(rendered[i:], '\n')+1:]
			}
			rendered += "max-drift: 1h\nmax-receive-lag: 1h\n"
			must.Do(t, os.MkdirAll(filepath.Join(space, "profiles/fastreplay"), 0o755))
			writeFile(t, filepath.Join(space, "profiles/fastreplay", name), rendered)
			run := shell(t, "", harness+"fastreplay-llm-d-benchmark.sh")
			run.Env = append(run.Env, "LLMDBENCH_RUN_EXPERIMENT_RESULTS_DIR="+results,
				"LLMDBENCH_RUN_WORKSPACE_DIR="+space, "LLMDBENCH_RUN_EXPERIMENT_HARNESS_WORKLOAD_NAME="+name)
			said, err := run.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, said)
			}
			reports := must.Have(filepath.Glob(filepath.Join(results, "benchmark_report_v0.2,_*.yaml")))(t)
			want := 1
			if name == "sweep.yaml" {
				want = 2
			}
			expect.Equal(t, len(reports), want, "reports")
			for _, path := range reports {
				var report struct{ Version string }
				must.Do(t, json.Unmarshal(readFile(t, path), &report))
				expect.Equal(t, report.Version, "0.2.1", path)
			}
			expect.Contains(t, string(readFile(t, filepath.Join(results, "stderr.log"))), "VALID", "the log")
		})
	}
}
