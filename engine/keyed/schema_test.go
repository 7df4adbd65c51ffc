package keyed

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/trace"
)

// conforms reports whether each line is valid by the schema of the manual.
func conforms(t *testing.T, text string) error {
	t.Helper()
	var schema jsonschema.Schema
	must.Do(t, json.Unmarshal(must.Have(os.ReadFile("../../cmd/fastreplay/manual/trace.schema.json"))(t), &schema))
	resolved := must.Have(schema.Resolve(nil))(t)
	for line := range strings.Lines(text) {
		var value any
		must.Do(t, json.Unmarshal([]byte(line), &value))
		if err := resolved.Validate(value); err != nil {
			return err
		}
	}
	return nil
}

// TestSchema: what is written is valid by the schema, with keys and without, and is read as it was.
func TestSchema(t *testing.T) {
	calls := talk(rand.New(rand.NewPCG(6, 6)), 3, 3)
	calls[2].session = ""
	for _, key := range []string{"", "new:" + filepath.Join(t.TempDir(), "key")} {
		text, _ := convert(t, logOf(calls, logs()["openai"]), key, Options{})
		must.Do(t, conforms(t, text))
		var again bytes.Buffer
		must.Do(t, trace.Write(&again, read(t, text), trace.Own))
		expect.Equal(t, again.String(), text, "what is read and written again")
	}
	samples := must.Have(filepath.Glob("../../bench/samples/*.jsonl"))(t)
	written := 0
	for _, path := range samples {
		tr := must.Have(trace.Open(path, trace.Options{}))(t)
		var out bytes.Buffer
		if tr.Verbatims() > 0 || trace.Write(&out, tr, trace.Own) != nil {
			continue
		}
		written++
		must.Do(t, conforms(t, out.String()), path)
		expect.List(t, read(t, out.String()).InputTokens, tr.InputTokens, path)
	}
	if written < 8 {
		t.Errorf("%d samples were written", written)
	}
}

// TestBadFiles: what the schema or the manual forbids is refused, with the line; so is a file that was cut.
func TestBadFiles(t *testing.T) {
	const head = `{"schema":"fastreplay/trace/v1","mode":"keyed","hash":"x","scope":"file","block_size":16,"chained":true,"unit":"token",` +
		`"source":"x","times":"none","time_unit":"ms","dropped":[],"rows":2,"lost":{}}`
	const row = `{"input_length":20,"output_length":30,"hash_ids":[1,2],"output_hash_ids":[3,4]}`
	good := head + "\n" + row + "\n" + row + "\n"
	must.Do(t, conforms(t, good))
	read(t, good)
	for _, bad := range []struct {
		was, is, why string
		schema       bool // the schema refuses it too
	}{
		{"trace/v1", "trace/v2", `t:1: schema is "fastreplay/trace/v2"`, true},
		{`"keyed"`, `"open"`, "t:1: mode is", true},
		{`"scope":"file"`, `"scope":"day"`, "t:1: scope is", true},
		{`"scope":"file",`, ``, "t:1: missing scope", true},
		{`"block_size":16`, `"block_size":0`, "t:1: block_size is 0", true},
		{`"block_size":16`, `"block_size":32`, "t:2: ", false},
		{`"lost":{}`, `"lost":{"failed":"x"}`, "t:1: the head: ", true},
		{`"rows":2`, `"rows":3`, "the head says 3 rows, and 2 are here", false},
		{head, row, "t:1: no head before the first row", false},
		{row, head, "t:2: a second head", false},
		{`"input_length":20,`, ``, "t:2: missing input_length", true},
		{`"input_length":20`, `"input_length":0`, "t:2: input_length 0 is out of range", true},
		{`[3,4]`, `[3,4,5]`, "t:2: 3 output_hash_ids, but 2 blocks end in the answer", false},
		{`[3,4]`, `[3,-4]`, "t:2: output_hash_ids: ", true},
		{`[3,4]`, `7`, "t:2: output_hash_ids: ", true},
		{row, row + "\n" + row[:30], "t:3: ", false},
	} {
		text := strings.Replace(good, bad.was, bad.is, 1)
		_, err := trace.Read(strings.NewReader(text), "t", trace.Options{Format: trace.Own})
		expect.Error(t, err, bad.why, "%s for %s", bad.is, bad.was)
		if bad.schema && conforms(t, text) == nil {
			t.Errorf("the schema takes %s for %s", bad.is, bad.was)
		}
	}
}
