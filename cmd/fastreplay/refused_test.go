package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/must"
)

// TestRefusedLines: what options, trace and server decide is refused before anything is sent and written, in a last
// line that says why. testdata/refused.txt has the lines, and words of what is said. S/ are the bundled traces, BAD/
// malformed ones. NOBODY does not listen; the other servers are mocks, each named after what it cannot do.
func TestRefusedLines(t *testing.T) {
	dir := t.TempDir()
	names := []string{"S/", "../../bench/samples/", "BAD/", "../../codec/trace/testdata/", "SMALL", "../../bench/samples/mooncake-small.jsonl --limit 5", "OUT", filepath.Join(dir, "out")}
	for name, text := range map[string]string{
		"TEXTS": `{"timestamp":0,"text_input":"x"}` + "\n" + `{"timestamp":5,"messages":[{"role":"user","content":"x"}]}`, "HEAVY": "127.0.0.1:1\n127.0.0.1:2 heavy", "EMPTY": "# nobody",
		"UNTIMED": `{"text_input":"x","output_length":4}`, "PAYLOAD": `{"payload":{"prompt":"y"}}`, "OWNPROMPT": `{"timestamp":0,"input_length":3,"output_length":2,"extra":{"prompt":"x"}}`,
		"FAILED": "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,3,475,API log\n5.1,ChatGPT,80,0,80,API log", "MINE": "mine", "there.json": "mine",
		"OWNKEYS": `{"ts":0,"prompt_tokens":600,"completion_tokens":4}`, "UNKNOWN": `{"prompt":"a","ts":1}`, "NOTIME": `{"prompt":"a"}`, "BLANK": "",
		"CONFIG": "foo: 3", "COLUMNS": "when_time,prompt_len,output_len\n0,100,10", "BINARY": "\x7fELF,\x02\x00\xff,\x00",
	} {
		path := filepath.Join(dir, strings.ToLower(name))
		must.Do(t, os.WriteFile(path, []byte(text+"\n"), 0o600))
		names = append(names, name, path)
	}
	must.Do(t, os.Symlink(filepath.Join(dir, "nowhere"), filepath.Join(dir, "link.json")))
	logs := map[string]string{}
	for name, args := range map[string][]string{
		"MOCK": nil, "NAMED": {"--model", "m"}, "SHORT": {"--max-model-len", "9000"}, "COLDLESS": {"--quirk", "no-flush", "--quirk", "ignore-salt"}, "ENCRYPTED": {"--tls-self-signed"}, "METRICLESS": {"--quirk", "no-metrics"},
		"REPLAYLESS": {"--quirk", "no-trace-replay"}, "JITTERY": {"--template-tokens", "21,5", "--template-jitter", "40"}, "TEMPLATED": {"--template-tokens", "21,5"},
		"SPLITTING": {"--split-words", "5"},
	} {
		logs[name] = filepath.Join(dir, name+".jsonl")
		url, _, _ := startMockCommand(t, strings.NewReader(""), append(args, "--log", logs[name], "--ttft", "0s", "--itl", "0s")...)
		names = append(names, name, url)
	}
	mock := names[slices.Index(names, "MOCK")+1]
	named := strings.NewReplacer(append(names, "NOBODY", "127.0.0.1:9", "HOST", strings.TrimPrefix(mock, "http://"))...)
	files := len(must.Have(os.ReadDir(dir))(t))
	for text := range strings.Lines(string(must.Have(os.ReadFile("testdata/refused.txt"))(t))) {
		line, want, _ := strings.Cut(strings.TrimSuffix(text, "\n"), " → ")
		line = strings.ReplaceAll(line, "MINEDIR", dir)
		args := strings.Fields(named.Replace(line))
		if command := strings.SplitN(line, " ", 2)[0]; len(args) > 0 && (strings.Contains(command, ".") || strings.ToUpper(command) == command) && !strings.Contains(line, "--output") {
			args = append(args, "--output", filepath.Join(dir, "out"))
			if !strings.Contains(line, "--url") && !strings.Contains(line, "--targets") {
				args = append(args, "--url", mock)
			}
		}
		var out, errs strings.Builder
		code := execute(t.Context(), args, stdio{strings.NewReader(""), &out, &errs})
		_, why, is := strings.Cut("\n"+errs.String(), "\nfastreplay: ")
		if code != exitUsage || !is || !strings.Contains(why, want) || out.String() != "" {
			t.Errorf("%s: exit code %d, no %q in\n%s%s", line, code, want, &errs, &out)
		}
		if left := must.Have(os.ReadDir(dir))(t); len(left) != files {
			t.Fatalf("%s: something was written: %v", line, left)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "mine")); err != nil || string(text) != "mine\n" {
		t.Errorf("the file was touched: %q, %v", text, err)
	}
	for name, log := range logs {
		if text, err := os.ReadFile(log); err != nil || strings.Count(string(text), "\n") != strings.Count(string(text), `"request_id":"mock-`) { // a probe has no id of ours
			t.Errorf("%s was asked more than probes: %v\n%s", name, err, text)
		}
	}
}
