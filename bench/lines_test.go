package bench

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// TestLinesOfPages: each line for newcomers runs as it stands, but for servers' addresses and how long it takes, over a
// sample. A line may miss an objective or tell too little, but is never refused.
func TestLinesOfPages(t *testing.T) {
	t.Parallel()
	line := regexp.MustCompile(`(?m)^    (fastreplay (?:.*\\\n)*.*)$`)
	for page, want := range map[string]int{"../README.md": 10, "../SKILL.md": 6, "switch": 6, "aiperf": 4, "agentx": 4, "vllm": 3, "guidellm": 4, "llm-d": 3, "k6": 3} {
		if !strings.Contains(page, "/") {
			page = "../cmd/fastreplay/manual/" + page + ".md"
		}
		t.Run(filepath.Base(page), func(t *testing.T) {
			t.Parallel()
			lines := line.FindAllStringSubmatch(string(readFile(t, page)), -1)
			expect.Equal(t, len(lines), want, "lines")
			a, b := startMock(t), startMock(t)
			home := t.TempDir()
			writeFile(t, filepath.Join(home, "trace.jsonl"), readFile(t, "samples/mooncake.jsonl"))
			writeFile(t, filepath.Join(home, "weka.jsonl"), readFile(t, "samples/weka.jsonl"))
			if page == "../SKILL.md" {
				few := steady(t, 40, 400, 3)
				for _, name := range []string{"base1", "base2", "base3", "new1", "new2", "new3"} {
					startReplayTo(t, nil, filepath.Join(home, name), "--trace", few, "--url", a.url).finish(t)
				}
			}
			address := strings.NewReplacer("http://gpu1:8000", a.url, "gpu1:8000", a.url, "gpu2:8000", b.url,
				"conversation.jsonl.zst", "trace.jsonl", "bench/samples/weka.jsonl", "weka.jsonl", "weka.jsonl.zst", "weka.jsonl",
				"--rate 20 ", "--rate 400 ", "--window 10s", "--window 500ms", "--slo", "--budget 8s --slo", "lanes=8", "lanes=8 --duration 500ms",
				"--window 30s", "--window 500ms --warm-in 0s", "--rate 50 ", "--rate 400 ", "--ramp 10:100:5s", "--rate max",
				"--duration 2m", "--duration 3s", "--duration 10s", "--duration 500ms",
				"agentx --concurrency 32", "agentx --concurrency 4 --unsafe-override --duration 3s")
			for _, m := range lines {
				c := shell(t, home, "bash", "-c", address.Replace(m[1]))
				said, err := c.CombinedOutput()
				if code := c.ProcessState.ExitCode(); code != 0 && code != 1 && code != 3 && code != 4 {
					t.Errorf("%s: %v\n%s", m[1], err, said)
				}
			}
			must.Do(t, filepath.WalkDir(home, func(path string, _ fs.DirEntry, err error) error {
				validBySchema(t, path)
				return err
			}))
		})
	}
}

// validBySchema: a file of results is valid by the schema of its name in the repository, if there is one.
func validBySchema(t *testing.T, path string) {
	t.Helper()
	name := strings.TrimSuffix(strings.TrimSuffix(strings.Replace(filepath.Base(path), "compared.", "compare.", 1), "l"), ".json")
	text, err := os.ReadFile("../cmd/fastreplay/manual/" + name + ".schema.json")
	if err != nil || name == "trace" {
		return
	}
	var schema jsonschema.Schema
	must.Do(t, json.Unmarshal(text, &schema))
	resolved := must.Have(schema.Resolve(nil))(t)
	in := json.NewDecoder(bytes.NewReader(readFile(t, path)))
	for n := 0; n == 0 || in.More(); n++ {
		var value map[string]any
		must.Do(t, in.Decode(&value), path)
		must.Do(t, resolved.Validate(value), path)
		for key := range value {
			if schema.Properties[key] == nil {
				t.Errorf("%s: %s is not in its schema", path, key)
			}
		}
	}
}
