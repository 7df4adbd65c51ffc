package report

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// TestReleasedSummaries: what a release wrote is read for ever after, each key of it.
func TestReleasedSummaries(t *testing.T) {
	paths := must.Have(filepath.Glob("testdata/v*/summary.json"))(t)
	if len(paths) == 0 {
		t.Fatal("no release left a summary")
	}
	for _, path := range paths {
		text := must.Have(os.ReadFile(path))(t)
		var s metrics.Summary
		in := json.NewDecoder(bytes.NewReader(text))
		in.DisallowUnknownFields()
		must.Do(t, in.Decode(&s), path)
		var raw struct {
			TTFT struct{ P99 float64 } `json:"ttft_ms"`
			Runs struct{ OK int64 }    `json:"requests"`
		}
		must.Do(t, json.Unmarshal(text, &raw))
		expect.Equal(t, s.TTFTMS.P99, raw.TTFT.P99, path)
		expect.Equal(t, s.Requests.OK, raw.Runs.OK, path)
		var out bytes.Buffer
		must.Do(t, Screen(&out, &s, PrintOptions{}), path)
		expect.Contains(t, out.String(), "300 ok", path)
	}
}
