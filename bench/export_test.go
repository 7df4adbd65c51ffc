package bench

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// exported is what a run left for other tools.
type exported struct {
	lines        []aiperfLine
	aiperf, vllm map[string]any
}

type aiperfLine struct {
	Metadata map[string]any `json:"metadata"`
	Error    map[string]any `json:"error"`
}

func readExports(t *testing.T, dir string) *exported {
	t.Helper()
	e := &exported{lines: readLines[aiperfLine](t, filepath.Join(dir, "profile_export.jsonl"))}
	for name, into := range map[string]*map[string]any{"profile_export_aiperf.json": &e.aiperf, "vllm.json": &e.vllm} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			err = json.Unmarshal(text, into)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	return e
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

// TestExport: `report` gives the same bytes as the run.
func TestExport(t *testing.T) {
	t.Parallel()
	m := startMock(t)
	res := run(t, "--trace", steady(t, 120, 200, 5), "--url", m.url, "--export", "aiperf", "--export", "vllm", "--compress")
	res.verdict(t)
	e := readExports(t, res.dir)
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
	r := startReplay(t, "--trace", steady(t, lasting, 100, 10), "--url", m.url, "--no-probe", "--grace", "50ms", "--cold", "off", "--export", "vllm", "--export", "aiperf")
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
