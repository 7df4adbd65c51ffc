package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// ownedTrace has 60 rows one after the other. All have the same four blocks of 16 tokens, so that only whose they are
// tells their caches apart. Every fourth row is nobody's.
func ownedTrace(t *testing.T) (path string, owners []map[string]any) {
	t.Helper()
	var text strings.Builder
	for i := range 60 {
		row := map[string]any{"timestamp": i * 20, "input_length": 70, "output_length": 2, "hash_ids": []int{1, 2, 3, 4, 100 + i}}
		owner := map[string]any{}
		if i%4 > 0 {
			owner["tenant"] = fmt.Sprintf("t%d", i%3)
			owner["class"] = []string{"gold", "free"}[i%2]
			owner["priority"] = i%4 - 2
		}
		if i%8 == 5 {
			owner["headers"] = map[string]any{"X-Flow": fmt.Sprint("f", i), "traceparent": "00-1", "x-plain": "of the row"}
		}
		if i%4 == 3 {
			owner["model"] = fmt.Sprintf("lora-%d", i%8)
		}
		for key, value := range owner {
			row[key] = value
		}
		line, _ := json.Marshal(row)
		text.Write(append(line, '\n'))
		owners = append(owners, owner)
	}
	return newFile(t, "owned.jsonl", text.String()), owners
}

// TestOwnersOnTheWire: a server finds in each request the model, the priority and the headers that its row says, and
// nothing of them where it says nothing. The results tell the same requests apart.
func TestOwnersOnTheWire(t *testing.T) {
	t.Parallel()
	path, owners := ownedTrace(t)
	type got struct {
		Model    string
		Priority *int
		header   http.Header
	}
	var mu sync.Mutex
	seen := map[string]got{}
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var g got
		body, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(body, &g)
		g.header = r.Header
		mu.Lock()
		seen[r.Header.Get("X-Request-Id")] = g
		mu.Unlock()
		_, _ = io.WriteString(w, `{"choices":[{"text":"a b","finish_reason":"length"}],"usage":{"prompt_tokens":70,"completion_tokens":2}}`)
	})
	r := run(t, "--trace", path, "--block-tokens", "16", "--url", url, "--model", "base", "--api", "completions", "--no-stream", "--no-probe",
		"--header", "x-objective: {class}", "--header", "x-fairness: {tenant}/{class}", "--header", "x-plain: {other}")
	classes := map[string]int64{}
	for _, rec := range recordsOf(t, r.dir) {
		want, g := owners[rec.Row], seen[rec.RequestID]
		text := func(key string) string {
			if want[key] == nil {
				return ""
			}
			return fmt.Sprint(want[key])
		}
		model := text("model")
		expect.Equal(t, rec.Model, model, "row", rec.Row)
		if model == "" {
			model = "base"
		}
		expect.Equal(t, g.Model, model, "row", rec.Row)
		priority := ""
		if g.Priority != nil {
			priority = fmt.Sprint(*g.Priority)
		}
		expect.Equal(t, [2]string{priority, rec.Priority}, [2]string{text("priority"), text("priority")}, "row", rec.Row)
		expect.Equal(t, [2]string{g.header.Get("x-objective"), rec.Class}, [2]string{text("class"), text("class")}, "row", rec.Row)
		fairness := ""
		if want["tenant"] != nil {
			fairness = text("tenant") + "/" + text("class")
		}
		expect.Equal(t, [2]string{g.header.Get("x-fairness"), rec.Tenant}, [2]string{fairness, text("tenant")}, "row", rec.Row)
		expect.Equal(t, g.header.Get("x-plain"), "{other}", "a word that is none of ours stays")
		flow, parent := "", ""
		if want["headers"] != nil {
			flow, parent = fmt.Sprint("f", rec.Row), "00-1"
		}
		expect.Equal(t, [2]string{g.header.Get("x-flow"), g.header.Get("traceparent")}, [2]string{flow, parent}, "row", rec.Row)
		classes[text("class")]++
	}
	for _, part := range r.summary.Owners.Classes.Parts {
		expect.Equal(t, part.Requests, classes[part.Name], part.Name)
	}
	expect.Equal(t, len(r.summary.Owners.Tenants.Parts), 3, "tenants")
	expect.Equal(t, len(r.summary.Owners.Models.Parts), 2, "models")
	expect.Contains(t, r.stderr, "gold", "the screen")

	headers := []string{"--header", "x-fairness: {tenant}/{class}", "--header", "x-plain: {other}"}
	said := refused(t, with(headers, "--config", filepath.Join(r.dir, "run.json"))...)
	expect.Contains(t, said, "that run sent the header x-objective", "a header that rows fill is not given again")
}

// TestOwnersOfAnyFormat: --fields names what whose rows are in a format that has no such field, and inspect and convert
// take such a trace.
func TestOwnersOfAnyFormat(t *testing.T) {
	t.Parallel()
	path := newFile(t, "b.csv", "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"+
		"0,0,,gpt-4,20,2,22,API log\n0.1,1,,,20,2,22,API log\n")
	if code, _, said := inspect(t, "--fields", "model=Model", path); code != 0 {
		t.Errorf("exit %d\n%s", code, said)
	}
	first, second, _ := strings.Cut(succeeds(t, "convert", "--fields", "model=Model", "--format", "mooncake", path), "\n")
	expect.Contains(t, first, `"model":"gpt-4"`, "the first row")
	expect.Lacks(t, second, "model", "the second row")

	path, owners := ownedTrace(t)
	type row struct{ Headers map[string]string }
	for i, r := range readLines[row](t, convert(t, "--block-tokens", "16", "--format", "mooncake", path)) {
		given, _ := owners[i]["headers"].(map[string]any)
		expect.Equal(t, len(r.Headers), len(given), "headers of row %d", i)
		for name, value := range given {
			expect.Equal(t, r.Headers[strings.ToLower(name)], fmt.Sprint(value), "row %d", i)
		}
	}
}

// TestOwnersOfSamples: formats that have models, or who asks, in their objects fill the fields by the names there.
func TestOwnersOfSamples(t *testing.T) {
	t.Parallel()
	swiss := newFile(t, "swiss.jsonl", `{"timestamp":0,"prompt_tokens":9,"completion_tokens":2,"llm":"apertus-70b","user_hash":"u1"}`+"\n"+
		`{"timestamp":5,"prompt_tokens":9,"completion_tokens":2,"llm":"apertus-8b","user_hash":"u2"}`+"\n"+
		`{"timestamp":9,"prompt_tokens":9,"completion_tokens":2,"llm":"apertus-8b"}`+"\n")
	for _, c := range []struct {
		path, format, fields string
		want                 map[string]int
	}{
		{"samples/dynamo.jsonl", "dynamo", "model=model", map[string]int{"model=sample": 91}},
		{"samples/copilot.jsonl", "copilot", "model=model,class=initiator_type", map[string]int{"model=Model A": 78, "model=Model B": 10, "class=agent": 88}},
		{"samples/tracelab.jsonl", "tracelab", "model=model", map[string]int{"model=model-0": 46, "model=model-1": 56}},
		{"samples/otel.jsonl", "otel", "model=gen_ai.request.model", map[string]int{"model=m": 57}},
		{swiss, "mooncake", "input_length=prompt_tokens,output_length=completion_tokens,model=llm,tenant=user_hash",
			map[string]int{"model=apertus-70b": 1, "model=apertus-8b": 2, "tenant=u1": 1, "tenant=u2": 1}},
	} {
		for _, named := range []bool{false, true} {
			args := []string{c.path}
			if named {
				args = append(args, "--fields", c.fields)
			} else if c.path == swiss {
				continue
			}
			got := map[string]int{}
			for _, row := range readLines[map[string]any](t, convert(t, with(args, "--format", "mooncake")...)) {
				for _, field := range []string{"tenant", "model", "class", "priority"} {
					if row[field] != nil {
						got[field+"="+fmt.Sprint(row[field])]++
					}
				}
			}
			want := c.want
			code, said, _ := inspect(t, args...)
			expect.Equal(t, code, 0, said)
			told := strings.Contains(unwrapped(said), "only if all servers list them, or by --fields "+strings.Split(c.fields, ",")[0])
			several := c.format == "copilot" || c.format == "tracelab"
			expect.Equal(t, told, several && !named, "%s: inspect says that nobody asks for the models:\n%s", c.format, said)
			if !named { // a server need not have the models of a recording
				want = map[string]int{}
			}
			expect.Equal(t, fmt.Sprint(got), fmt.Sprint(want), c.format)
		}
	}
}

// TestRecordedModels: results tell the models of a recording apart. Requests ask for them if the server lists them all, and
// the ideal follows: then alone blocks are kept by model.
func TestRecordedModels(t *testing.T) {
	t.Parallel()
	text := string(readFile(t, "samples/dynamo.jsonl"))
	half := strings.Count(text, `"model":"sample"`) / 2
	text = strings.Replace(text, `"model":"sample"`, `"model":"lora-1"`, half)
	trace := newFile(t, "dynamo.jsonl", strings.ReplaceAll(text, `"model":"sample"`, `"model":"lora-2"`))
	for _, adapters := range []string{"0", "1", "2"} {
		m := startMock(t, "--adapters", adapters, "--log-all")
		r := run(t, "--trace", trace, "--url", m.url, "--rate", "max")
		r.only(t, "ok") // the mock refuses models that it does not list
		log := adapterLogOf(t, m)
		for _, rec := range recordsOf(t, r.dir) {
			asked := rec.Model
			if adapters != "2" {
				asked = "mock"
			}
			expect.Equal(t, log[rec.RequestID].Body.Model, asked, "%s adapters: the model of %s", adapters, rec.Model)
		}
		must.Equal(t, r.summary.Owners != nil && len(r.summary.Owners.Models.Parts) == 2, true, "a table of models")
		expect.Equal(t, strings.Contains(r.stderr, "only if all servers"), adapters != "2", "%s adapters: %s", adapters, r.stderr)
	}
}

// TestHitsByModel: a server keeps the blocks of each model apart, and so does the ideal.
func TestHitsByModel(t *testing.T) {
	t.Parallel()
	path, _ := ownedTrace(t)
	m := startMock(t)
	r := run(t, "--trace", path, "--block-tokens", "16", "--url", m.url, "--concurrency", "1")
	first := map[string]bool{}
	for _, rec := range recordsOf(t, r.dir) {
		want := int64(64)
		if !first[rec.Model] {
			want = 0
		}
		first[rec.Model] = true
		expect.Equal(t, rec.ExpectedCachedTokens, want, "ideal of row", rec.Row)
		expect.Equal(t, rec.CachedTokens, want, "row", rec.Row)
	}
	expect.Equal(t, len(first), 3, "models, and none")
}
