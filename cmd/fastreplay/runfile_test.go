package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/engine/report"
)

// runFile writes what run.json has of a run's flags.
func runFile(t *testing.T, flags map[string]any) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), report.PlanName)
	var text bytes.Buffer
	must.Do(t, report.EncodeJSON(&text, map[string]any{"run": map[string]any{"options": flags}, "workload": map[string]any{"fingerprint": "sha256:x"}}))
	must.Do(t, os.WriteFile(path, text.Bytes(), 0o600))
	return path
}

// TestFlagsOfARun: the flags that a run writes down mean the same when they are read again, whatever names they were
// given by.
func TestFlagsOfARun(t *testing.T) {
	for _, line := range []string{
		"/x",
		"--trace /a --trace /b --url h:1 --url g:2 --scale 2.5 --seed 18446744073709551615 --no-stream --timeout 1m30s",
		"/x --rate 10 --arrival gamma:0.5 --duration 5s --grace 1s --warmup 3",
		"/x --fields timestamp=ts,input_length=p --time-unit ms --block-tokens 16 --from 1s --to 2m --limit 7 --bad-rows drop",
		"/x --url h:1 --concurrency 4 --amplify 2 --repeat 3 --goodput ttft:100 --extra-inputs a:1 --extra-inputs {\"b\":[1,{\"c\":2}]}",
		"/x --url h:1 --chat-overhead 3,4 --api chat --cache-tokens 3M --max-memory 1GiB --spin 50us --instance-header A --max-drift 7ms",
		"--input-file /x --request-rate 20 --benchmark-duration 5 --streaming --endpoint-type chat",
		"--input-file /x --fixed-schedule --fixed-schedule-start-offset 1500 --fixed-schedule-end-offset 2500.5",
		"profile --input-file /x --concurrency 3 --fixed-schedule --random-seed 3",
		"/x --url h:1 -c 4 -d 5 --grace 5s --assume-latency 200ms,10ms --route prefix --bad-rows drop --require ttft.p99<500ms --require goodput>=90% --goodput ttft:500 --max-error-rate 0.05 --quiet",
		"gen:rows=20,input-tokens=100,output-tokens=10 --rate 10 --arrival gamma:0.5",
		"--dataset-name timed_trace --dataset-path /x --num-prompts 7 --host h --port 9",
	} {
		args := strings.Fields(line)
		o, l, err := typed(args...)
		must.Do(t, err, line)
		path := filepath.Dir(runFile(t, resolvedFlags(o))) // as its run.json
		again, m, err := typed("--config", path)
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		got := strings.Replace(settings(m.Flags), "--config "+path, "", 1)
		want := settings(l.Flags)
		if len(o.Traces) > 0 && !strings.Contains(want, "--trace") {
			want += " --trace " + strings.Join(o.Traces, ",")
		}
		if !sameWords(got, want) || again.Read.FileTime != o.Read.FileTime || again.Again.Fingerprint != "sha256:x" {
			t.Errorf("%s\ngot  %s, %+v\nwant %s, %+v", line, got, again.Read, want, o.Read)
		}
	}
}

func sameWords(a, b string) bool {
	x, y := strings.Fields(a), strings.Fields(b)
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y)
}

// TestMaskedFlags: what a run's file masks must be given again, and the error names how.
func TestMaskedFlags(t *testing.T) {
	file := runFile(t, map[string]any{"trace": []string{"/x"}, "url": []string{"127.0.0.1:1"}, "header": []string{"X-Team: ***", "Authorization: ***", "X-Open: yes"},
		"api-key-file": "/etc/hostname"}) // which a stranger's results must not send to their servers
	for _, c := range []struct{ line, key, want string }{
		{"", "", `--config ` + file + `: that run sent the header X-Team, and no file of results has its value; give it again with --header "X-Team: …"`},
		{"-H X-Team:a", "", "give it again with OPENAI_API_KEY and --url, or with --api-key-file"},
		{"-H X-Team:a --api-key k", "", ""},
		{"-H x-team:a", "k", "give it again with OPENAI_API_KEY and --url"},
		{"-H x-team:a --url 127.0.0.1:1", "k", ""},
	} {
		t.Setenv("OPENAI_API_KEY", c.key)
		args := append([]string{"../../bench/samples/azure.csv", "--config", file, "--dry-run", "--json"}, strings.Fields(c.line)...)
		code, out, said := ran(t, args...)
		expect.Equal(t, code != exitOK, c.want != "", "%q: exit code %d", c.line, code)
		expect.Contains(t, said, c.want, "%q", c.line)
		expect.Equal(t, strings.Contains(out, `"X-Open: ***"`), c.want == "" && !strings.Contains(c.line, "-H"), "%q: headers of %s", c.line, out)
	}
	o, _, err := typed("/x", "--url", "h:1/?key=s3cr3t")
	must.Do(t, err)
	flags := resolvedFlags(o)
	if text, _ := json.Marshal(flags); strings.Contains(string(text), "s3cr3t") {
		t.Errorf("%s", text)
	}
	// Of searches for capacity, too.
	o, _, err = typed("/x", "--url", "h:1", "-H", "X-Team: s3cr3t-team", "--extra-inputs", "user:s3cr3t-team", "--extra-inputs", `{"api_key":"s3cr3t-key","top_k":5}`)
	must.Do(t, err)
	if text, _ := json.Marshal(resolvedFlags(o)["extra-inputs"]); strings.Contains(string(text), "s3cr3t") || !strings.Contains(string(text), "top_k") {
		t.Errorf("%s", text)
	}
	masked := runFile(t, flags)
	for line, refused := range map[string]bool{"": true, "--url h:1/?key=again": false} {
		if _, _, err := typed(append([]string{"--config", masked}, strings.Fields(line)...)...); err != nil != refused {
			t.Errorf("%q: %v", line, err)
		}
	}
}

// TestKeyOfTheEnvironment: a server that only results name does not get it, and the run says so. Those of the command
// line and of a file of flags do.
func TestKeyOfTheEnvironment(t *testing.T) {
	targets := filepath.Join(t.TempDir(), "targets")
	must.Do(t, os.WriteFile(targets, []byte("127.0.0.1:1\n"), 0o600))
	of := func(flags map[string]any) string { return runFile(t, flags) }
	url, host := of(map[string]any{"url": []string{"127.0.0.1:1"}}), of(map[string]any{"host": "127.0.0.1", "port": 1})
	for _, c := range []struct {
		line string
		sent bool
	}{
		{"--url 127.0.0.1:1", true},
		{"--config " + url, false},
		{"--config " + filepath.Dir(url), false},
		{"--config " + host, false},
		{"--config " + of(map[string]any{"endpoint": "http://127.0.0.1:1/v1/chat/completions"}), false},
		{"--config " + of(map[string]any{"targets": targets}), false},
		{"--url 127.0.0.1:1 --config " + of(map[string]any{"targets": targets}), false},
		{"--config " + of(map[string]any{"targets": "dns:127.0.0.1:1", "route": "least-inflight"}), false},
		{"--url 127.0.0.1:1 --config " + url, true},
		{"--host 127.0.0.1 --port 1 --config " + url, true},
		{"--url 127.0.0.1:1 --config " + of(map[string]any{"endpoint": "/v1/completions"}), true},
		{"--config " + configFile(t, "url: 127.0.0.1:1\n"), true}, // which may run commands, too
	} {
		t.Setenv("OPENAI_API_KEY", "s3cr3t-key")
		args := append([]string{"../../bench/samples/azure.csv", "--no-probe", "--dry-run"}, strings.Fields(c.line)...)
		code, _, said := ran(t, args...)
		expect.Equal(t, code, exitOK, "%s: %s", c.line, said)
		o, _, err := typed(args...)
		must.Do(t, err, c.line)
		hidden := !strings.Contains(o.Hide()("s3cr3t-key"), "s3cr3t")
		expect.Equal(t, hidden, c.sent, "%s: the key is among what is sent", c.line)
		expect.Equal(t, strings.Contains(said, "the key in OPENAI_API_KEY is not sent"), !c.sent, "%s: %s", c.line, said)
	}
}

// TestResultsSetNoMore: files of results set what runs write there, so that no stranger's runs a command or writes here.
func TestResultsSetNoMore(t *testing.T) {
	plain := filepath.Join(t.TempDir(), report.PlanName)
	must.Do(t, os.WriteFile(plain, []byte(`{"at": ["1s=touch /tmp/x"], "url": ["127.0.0.1:1"]}`), 0o600))
	for path, want := range map[string]string{
		plain:               "it lacks run.options",
		filepath.Dir(plain): "it lacks run.options",
		runFile(t, map[string]any{"at": []string{"1s=true"}}): "at: results do not have it",
		runFile(t, map[string]any{"output": "/tmp/x"}):        "output: results do not have it",
		runFile(t, map[string]any{"api-key": "k"}):            "api-key: results do not have it",
	} {
		_, _, err := typed("/x", "--config", path)
		expect.Error(t, err, want, path)
	}
}
