package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// aRun is a command line of a short run.
const aRun = "../../bench/samples/mooncake-small.jsonl --rate max --limit 3 --no-probe --sender thread "

// TestNamedResultFiles: what other tools would write to the file named on their command line is written there.
func TestNamedResultFiles(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, `{"choices":[{"index":0,"text":"a","message":{"role":"assistant","content":"a"},"finish_reason":"length"}],`+
			`"usage":{"prompt_tokens":5,"completion_tokens":1}}`)
	}))
	defer server.Close()
	for name, c := range map[string]struct {
		line  string
		files []string // below the test's directory; those that are not JSON lines have the key after the colon
	}{
		"vllm":              {aRun + "--output DIR/out --save-result --result-filename DIR/r.json", []string{"r.json:completed"}},
		"vllm in a folder":  {aRun + "--result-dir DIR/out --save-result --result-filename r.json", []string{"out/r.json:completed"}},
		"vllm without name": {aRun + "--result-dir DIR/out --save-result", []string{"out/vllm.json:completed"}},
		"aiperf": {"profile --input-file " + aRun + "--artifact-dir DIR/out --profile-export-file my.json --custom-dataset-type mooncake_trace",
			[]string{"out/my.jsonl", "out/my.json:request_count"}},
		"aiperf's prefix": {"profile --input-file " + aRun + "--artifact-dir DIR/out --profile-export-prefix DIR/v1.5", []string{"v1.5.jsonl", "v1.5.json:request_count"}},
		"aiperf's folder": {"profile --input-file " + aRun + "--artifact-dir DIR/out", []string{"out/profile_export.jsonl", "out/profile_export_aiperf.json:request_count"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			_, said := runLine(t, strings.ReplaceAll(c.line, "DIR", dir)+" --no-stream -m m -u "+server.URL)
			for _, file := range c.files {
				file, key, whole := strings.Cut(file, ":")
				data, err := os.ReadFile(filepath.Join(dir, file))
				must.Do(t, err, said)
				expect.Contains(t, said, file, "not named")
				var object map[string]any
				if whole && (json.Unmarshal(data, &object) != nil || object[key] == nil) {
					t.Errorf("%s has no %s: %s", file, key, data)
				}
				if !whole && bytes.Count(data, []byte("\n")) != 3 {
					t.Errorf("%s: want a line for each of 3 requests, got %s", file, data)
				}
			}
		})
	}
}

// TestPassedThrough: what GenAI-Perf passes on behind -- is left out, with a note. A trace may stand there.
func TestPassedThrough(t *testing.T) {
	const file = "../../bench/samples/mooncake-small.jsonl"
	for _, passed := range []string{"-v", "--verbose", "-v --measurement-interval 4000", "--max-threads=256 -v"} {
		code, said := runLine(t, "profile -m m --dry-run --input-file "+file+" --custom-dataset-type mooncake_trace -- "+passed)
		if want := "what stands behind -- is for perf_analyzer, and left out: " + passed; code != exitOK || !strings.Contains(said, want) {
			t.Errorf("-- %s: exit code %d, %s", passed, code, said)
		}
	}
	if code, said := runLine(t, "profile --dry-run -- "+file); code != exitOK || strings.Contains(said, "perf_analyzer") {
		t.Errorf("a trace behind --: exit code %d, %s", code, said)
	}
	if code, said := runLine(t, "--dry-run "+file+" -- -v"); code != exitUsage {
		t.Errorf("-- -v of the main command: exit code %d, %s", code, said)
	}
}

// TestLostRows: a recording that lacks requests of its day says so before it is replayed.
func TestLostRows(t *testing.T) {
	for lost, want := range map[string]bool{`{"failed":3,"too_large":2}`: true, `{"failed":0}`: false} {
		file := filepath.Join(t.TempDir(), "day.jsonl")
		head := `{"schema":"fastreplay/trace/v1","mode":"as_in","block_size":16,"rows":1,"lost":` + lost + "}\n"
		must.Do(t, os.WriteFile(file, []byte(head+`{"timestamp":0,"input_length":9,"output_length":1}`), 0o600))
		_, said := runLine(t, "--dry-run -- "+file)
		expect.Equal(t, strings.Contains(said, "so the load was higher that day; lost: 3 failed, 2 too large"), want, said)
	}
}
