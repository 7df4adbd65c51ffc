package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/engine/report"
)

// TestGateNeedsAServer: no objective is asked of the embedded mock, whichever way it was given.
func TestGateNeedsAServer(t *testing.T) {
	config := func(text string) []string { return []string{"x.jsonl", "--config", configFile(t, text)} }
	for _, args := range [][]string{
		{"x.jsonl", "--require", "ttft.p95<5s"},
		{"x.jsonl", "--max-error-rate", "0.01"},
		{"x.jsonl", "--goodput", "ttft:500"},
		{"x.jsonl", "--ttft-slo", "0.5"}, // trace-replayer's
		config("require: ttft.p95<5s\n"),
		config("require: [ttft.p95<5s, goodput>=99%]\ngoodput: ttft:500\n"),
		config("ttft-slo: 0.5\n"),
	} {
		_, _, err := typed(args...)
		expect.Error(t, err, "judges a server, and none is named", args)
		if _, _, err = typed(append(args, "--url", "h:1")...); err != nil {
			t.Errorf("%q with a server: %v", args, err)
		}
		if _, _, err = typed(append(args, "--dry-run")...); err != nil {
			t.Errorf("%q without a run: %v", args, err)
		}
	}
	for _, line := range []string{"--require ttft.p95<5s", "--goodput ttft:500"} {
		code, said := runLine(t, "demo "+line)
		if code != exitUsage || !strings.Contains(said, "judges a server, and none is named") {
			t.Errorf("demo %s: exit code %d, %s", line, code, said)
		}
	}
}

// TestGateOnGoodput: without bounds there is no goodput, so the objective is refused before the run, not missed after
// it.
func TestGateOnGoodput(t *testing.T) {
	args := []string{"x.jsonl", "--url", "h:1", "--require", "goodput>=99%"}
	_, _, err := typed(args...)
	expect.Error(t, err, `--goodput "ttft:500ms"`, "without bounds")
	if _, _, err := typed(append(args, "--goodput", "ttft:500ms")...); err != nil {
		t.Errorf("with bounds: %v", err)
	}
}

// TestEmptyServer: a variable of the shell that is not set makes no demo. testdata/refused.txt has the command lines.
func TestEmptyServer(t *testing.T) {
	for text, want := range map[string]string{
		"url: ''": "--url is empty", "url: [a:1, '']": "--url is empty", "host: ''": "--host is empty", "url:": "url has no value", "url: []": "url has no value",
		"require: []": "require has no value",
	} {
		_, _, err := typed("x.jsonl", "--config", configFile(t, text+"\n"))
		expect.Error(t, err, want, text)
	}
	for flag, want := range map[string]string{"--url= ": "--url is empty", "--base-url=": "--url is empty", "--endpoint=": "--endpoint is empty"} {
		_, _, err := typed("x.jsonl", flag)
		expect.Error(t, err, want, flag)
	}
}

// TestGateOfADemo: what was measured of the mock is judged by no later command either.
func TestGateOfADemo(t *testing.T) {
	dirs := map[bool]string{}
	for _, demo := range []bool{true, false} {
		dir := t.TempDir()
		dirs[demo] = dir
		summary := `{"schema":2,"run":{"started_at":"2026-01-02T15:04:05Z","scale":1,"targets":["http://a"],"api":"completions","demo":` + map[bool]string{true: "true", false: "false"}[demo] +
			`},"workload":{"fingerprint":"f"},"requests":{"planned":1,"ok":1},"verdict":{"measurement":"valid","valid":true}}`
		record := `{"request_id":"` + filepath.Base(dir) + `-0","row":0,"target":"http://a","planned_ns":0,"sent_ns":0,"first_token_ns":5,"last_token_ns":9,"done_ns":9,"completion_tokens":3,"outcome":"ok"}`
		for name, text := range map[string]string{report.SummaryName: summary, report.RequestsName: record + "\n"} {
			must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		}
	}
	ofServer, demo := dirs[false], dirs[true]
	for line, want := range map[string]bool{
		"report " + demo + " --require error_rate<=100%": true, "report " + ofServer + " --require error_rate<=100%": false, "report " + demo: false,
		"report " + demo + " --json --require error_rate<=100%":         true,
		"compare " + ofServer + " " + demo + " --fail-if ttft.p99:+5%":  true,
		"compare " + demo + " " + ofServer + " --fail-if ttft.p99:+5%":  true,
		"compare " + ofServer + " " + demo + " --fail-if error_rate:+1": false,
		"compare " + ofServer + " " + demo:                              false,
	} {
		code, said := runLine(t, line)
		expect.Equal(t, code == exitUsage && strings.Contains(said, "a demo against the embedded mock"), want, "%s: exit code %d, %s", line, code, said)
	}
}

// runLine runs the program, and returns its exit code and what it said.
func runLine(t *testing.T, line string) (code int, said string) {
	t.Helper()
	code, _, said = ran(t, strings.Fields(line)...)
	return code, said
}

// ran is how a command ends, and what it prints on both outputs.
func ran(t *testing.T, args ...string) (code int, out, said string) {
	t.Helper()
	var printed, errs strings.Builder
	code = execute(t.Context(), args, stdio{strings.NewReader(""), &printed, &errs})
	return code, printed.String(), errs.String()
}

// TestTraceFromStandardInput: - is a trace wherever a file is. What has been read once is not read again, and not for
// two purposes.
func TestTraceFromStandardInput(t *testing.T) {
	const sample = "../../bench/samples/mooncake-small.jsonl"
	for _, line := range []string{"- --dry-run", "--trace - --dry-run", "inspect -", "profile --input-file - --dry-run", "convert - --format mooncake"} {
		in := must.Have(os.Open(sample))(t)
		before := os.Stdin
		os.Stdin = in
		code, said := runLine(t, line)
		os.Stdin = before
		_ = in.Close()
		expect.Equal(t, code, exitOK, "%s: exit code, %s", line, said)
	}
	config := configFile(t, "trace: ['-']\n")
	_, _, err := typed("--config", config)
	expect.Error(t, err, "standard input, which cannot be read again", "a trace that was read already")
	if _, _, err = typed("-", "--config", config); err != nil {
		t.Errorf("a trace that is piped again: %v", err)
	}
	if _, err = given(t, "- --start-at -"); err == nil || !strings.Contains(err.Error(), "standard input cannot have both") {
		t.Errorf("a trace and a moment: %v", err)
	}
}

// TestShortenedTraceIsTaught: how to keep a long trace short stands where one looks first.
func TestShortenedTraceIsTaught(t *testing.T) {
	readme := must.Have(os.ReadFile("../../README.md"))(t)
	help := helpOf(t, newRootCommand(), "--help")
	for _, flag := range []string{"--from", "--to", "--limit", "--duration"} {
		if !strings.Contains(string(readme), flag+" ") || !strings.Contains(help, flag+" ") {
			t.Errorf("the README and --help do not both have %s", flag)
		}
	}
}

// TestTell: what all runs of a comparison say of the trace is printed once, and the verdict of each run.
func TestTell(t *testing.T) {
	var out strings.Builder
	r := interleaved{ui: &terminal{w: &out}, said: map[string]bool{}}
	for _, name := range []string{"a1", "b1"} {
		r.tell(name, "trace: its unit is doubtful\nVALID   of "+name+"\nMISSED   1 of 1 objective")
	}
	expect.Equal(t, out.String(), "trace: its unit is doubtful\na1: VALID   of a1\nb1: VALID   of b1\n")
}
