package report

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// TestReleasedSummaries: what a release wrote is read for ever after, each key of it, and is valid by the schema of today.
func TestReleasedSummaries(t *testing.T) {
	var schema jsonschema.Schema
	must.Do(t, json.Unmarshal(must.Have(os.ReadFile("../../cmd/fastreplay/manual/summary.schema.json"))(t), &schema))
	resolved := must.Have(schema.Resolve(nil))(t)
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
		var was, is map[string]any
		must.Do(t, json.Unmarshal(text, &was))
		must.Do(t, resolved.Validate(was), path)
		must.Do(t, json.Unmarshal(must.Have(json.Marshal(s))(t), &is))
		kept(t, path, was, is)
		was["requests"] = "many"
		expect.Error(t, resolved.Validate(was), "requests", "a text is no object")
		var out bytes.Buffer
		must.Do(t, Screen(&out, &s, PrintOptions{}), path)
		expect.Contains(t, out.String(), "300 ok", path)
	}
}

// kept: what a release wrote is there again with the same value, whatever has come to it.
func kept(t *testing.T, path string, was, is any) {
	t.Helper()
	switch was := was.(type) {
	case map[string]any:
		again, _ := is.(map[string]any)
		for key, value := range was {
			if _, there := again[key]; !there {
				t.Errorf("%s: no %q", path, key)
			}
			kept(t, path+" "+key, value, again[key])
		}
	case []any:
		again, _ := is.([]any)
		must.Equal(t, len(again), len(was), path)
		for i, value := range was {
			kept(t, path, value, again[i])
		}
	default:
		expect.Equal(t, is, was, path)
	}
}
