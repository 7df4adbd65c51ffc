package bench

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// TestExport: what a run writes for other tools is not written over by `report`, and is written anew with the same bytes.
func TestExport(t *testing.T) {
	t.Parallel()
	m := startMock(t)
	res := run(t, "--trace", steady(t, 120, 200, 5), "--url", m.url, "--export", "aiperf", "--export", "vllm", "--compress")
	res.verdict(t)
	path := filepath.Join(res.dir, "vllm.json")
	first := readFile(t, path)
	var vllm map[string]any
	if err := json.Unmarshal(first, &vllm); err != nil || vllm["completed"] != 120.0 || vllm["model_id"] != "mock" || vllm["backend"] != "openai" || vllm["total_output_tokens"] != 600.0 {
		t.Errorf("%v, %v", vllm, err)
	}
	expect.Equal(t, len(readLines[any](t, filepath.Join(res.dir, "profile_export.jsonl"))), 120, "lines")
	args := []string{"report", res.dir, "--json", "--export", "vllm"}
	start(t, nil, args...).ends(t, 2, "already exported: "+path)
	must.Do(t, os.Remove(path))
	succeeds(t, args...)
	expect.Equal(t, string(readFile(t, path)), string(first), "when `report` writes it")
}
