package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/engine/live"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/report"
)

// hostile is what a terminal must never get: a title, a colour, a C1 control, a change of writing direction.
const hostile = "\x1b]0;pwn\a\x1b[31m\u009b\u202e\x7f"

// inJSON is hostile in a string of JSON: written out, and as it is where JSON lets it.
var inJSON = strings.NewReplacer("\x1b", `\u001b`, "\a", `\u0007`).Replace(hostile)

// checkShown fails if a command printed what a terminal obeys.
func checkShown(t *testing.T, args []string) (code int, said string) {
	t.Helper()
	code, out, errs := ran(t, args...)
	for _, c := range out + errs {
		if c != '\n' && !unicode.IsGraphic(c) {
			t.Errorf("%q prints %q:\n%q\n%q", args, c, out, errs)
			break
		}
	}
	return code, out + errs
}

// TestHostileFiles: no control character of a trace, its name or a file of flags reaches the terminal.
func TestHostileFiles(t *testing.T) {
	dir := t.TempDir()
	row := `{"timestamp":0,"input_length":100,"output_length":5,"hash_ids":[1]`
	for name, text := range map[string]string{
		"keys.jsonl":             row + `,"k` + inJSON + `":"v` + inJSON + `"}`,
		"unknown.jsonl":          `{"k` + inJSON + `":1}`,
		"raw.jsonl":              row + `,"k` + hostile + `":1}`,
		"session.jsonl":          row + `,"type":"` + inJSON + `","session_id":"` + inJSON + `"}`,
		"value.jsonl":            `{"timestamp":"` + inJSON + `","input_length":100,"output_length":5,"hash_ids":[1]}`,
		"type.jsonl":             `{"chat_id":1,"parent_chat_id":-1,"timestamp":0.5,"input_length":100,"output_length":5,"type":"` + inJSON + `","turn":1,"hash_ids":[1,2,3,4,5,6,7]}`,
		"head.csv":               "a," + hostile + "b\n1,2\n",
		"cell.csv":               "TIMESTAMP,ContextTokens,GeneratedTokens\n" + hostile + ",4808,10\n",
		"chat.jsonl":             `{"custom_id":"` + inJSON + `","method":"POST","url":"/v1/` + inJSON + `","body":{"model":"` + inJSON + `","messages":[]}}`,
		"n\x1b[31m\u009be.jsonl": row + "}",
	} {
		path := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(path, []byte(text+"\n"), 0o600))
		for _, args := range []string{"--dry-run --no-probe --trace", "--bad-rows drop --dry-run", "inspect", "inspect --json", "report", "--dry-run --config", "convert --format azure"} {
			checkShown(t, append(strings.Fields(args), path))
		}
	}
	for _, args := range [][]string{{hostile}, {"--" + hostile}, {"--rate", hostile, "x"}, {"help", hostile}, {"--url", hostile, filepath.Join(dir, "keys.jsonl")}, {"report", hostile}, {"mock", "--fault", hostile}} {
		if code, _ := checkShown(t, args); code != exitUsage {
			t.Errorf("%q: exit code %d", args, code)
		}
	}
}

// TestHostileServer: no control character of a server, in its model, errors, headers, answers or metrics, reaches the
// terminal.
func TestHostileServer(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "t.jsonl")
	must.Do(t, os.WriteFile(trace, []byte(`{"timestamp":0,"input_length":100,"output_length":5,"hash_ids":[1]}`+"\n"), 0o600))
	for _, status := range []int{200, 503} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Instance", "pod\u009b\u202e")
			switch {
			case r.URL.Path == "/v1/models":
				fmt.Fprintf(w, `{"data":[{"id":"m%s"}]}`, inJSON)
			case r.URL.Path == "/metrics":
				fmt.Fprintf(w, "vllm:num_requests_running{model_name=\"%s\"} 1\n%s\n", hostile, hostile)
			case status != 200:
				w.WriteHeader(status)
				fmt.Fprintf(w, `{"error":{"message":"boom%s","type":"%s"}}`, inJSON, inJSON)
			default:
				w.Header().Set("Content-Type", "text/event-stream")
				fmt.Fprintf(w, "data: {\"choices\":[{\"text\":\"a%s\",\"index\":0}],\"model\":\"%s\"}\n\ndata: {\"error\":{\"message\":\"bad%s\"}}\n\n", inJSON, inJSON, inJSON)
			}
		}))
		defer srv.Close()
		dir := filepath.Join(t.TempDir(), "r")
		probed := []string{trace, "--verbose", "--url", srv.URL, "--output", filepath.Join(t.TempDir(), "p"), "--sender", "thread"}
		if code, said := checkShown(t, probed); code != exitUsage || !strings.Contains(said, `m\x1b]0;pwn`) {
			t.Errorf("probed: exit code %d: %s", code, said)
		}
		code, said := checkShown(t, []string{trace, "--url", srv.URL, "--no-probe", "--model", "m", "--instance-header", "x-instance", "--output", dir, "--sender", "thread"})
		if code == exitUsage || !strings.Contains(said, `\x1b]0;pwn`) {
			t.Errorf("status %d: exit code %d: %s", status, code, said)
		}
		checkShown(t, []string{"report", dir})
		checkShown(t, []string{"report", dir, "--json"})
		checkShown(t, []string{"report", dir, "--full"})
	}
}

// fill gives every text in v, however deep, hostile characters, and every list and map one member.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + hostile + "x")
	case reflect.Pointer:
		if v.IsNil() && v.CanSet() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		fill(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i))
			}
		}
	case reflect.Slice:
		if v.Len() < 2 {
			v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		}
		for i := range v.Len() {
			fill(v.Index(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i))
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(3)
	case reflect.Float64:
		v.SetFloat(0.25)
	case reflect.Bool:
		v.SetBool(true)
	}
}

// TestHostileTexts: whatever stands in a summary, a snapshot of a run or a report on a trace, the screens made of it
// are safe.
func TestHostileTexts(t *testing.T) {
	colour := regexp.MustCompile(`\x1b\[[0-9;]*m`)
	check := func(name, text string, err error) {
		t.Helper()
		if err != nil || name != "live.Line" && !strings.Contains(text, `\x1b]0`) {
			t.Errorf("%s: %v: no hostile text in %q", name, err, text)
		}
		for _, c := range colour.ReplaceAllString(text, "") {
			if c != '\n' && !unicode.IsGraphic(c) {
				t.Errorf("%s prints %q: %q", name, c, text)
				break
			}
		}
	}
	var s metrics.Summary
	fill(reflect.ValueOf(&s))
	for _, verdict := range []metrics.Grade{metrics.Valid, metrics.Limited, metrics.Invalid} {
		s.Verdict.Measurement = verdict
		for _, o := range []report.PrintOptions{{Dir: hostile, Page: hostile}, {Width: 160, Colour: true}, {Width: 60, Dir: "r"}} {
			var full, screen strings.Builder
			err := report.Print(&full, &s, o)
			check("report.Print", full.String(), err)
			err = report.Screen(&screen, &s, o)
			check("report.Screen", screen.String(), err)
		}
	}
	var shot live.Snapshot
	fill(reflect.ValueOf(&shot))
	check("live.Line", live.Line(&shot), nil)
	for _, width := range []int{60, 80, 160} {
		check("live.Screen", live.Screen(&shot, width, 24), nil)
	}
}
