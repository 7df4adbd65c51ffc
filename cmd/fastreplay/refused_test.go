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
// line that says why. testdata/refused.txt has the lines, and words of what is said. A line that begins with = is a
// file, by its name; its lines end with ⏎. S/ are the bundled traces, BAD/ malformed ones. NOBODY does not listen; the
// other servers are mocks, each named after what it cannot do.
func TestRefusedLines(t *testing.T) {
	dir := t.TempDir()
	names := []string{"S/", "../../bench/samples/", "BAD/", "../../codec/trace/testdata/", "SMALL", "../../bench/samples/mooncake-small.jsonl --limit 5", "OUT", filepath.Join(dir, "out")}
	put := func(name, text string) {
		path := filepath.Join(dir, strings.ToLower(name))
		must.Do(t, os.WriteFile(path, []byte(text+"\n"), 0o600))
		names = append(names, name, path)
	}
	put("BINARY", "\x7fELF,\x02\x00\xff,\x00")
	table := strings.ReplaceAll(string(must.Have(os.ReadFile("testdata/refused.txt"))(t)), "MINEDIR", dir)
	var lines []string
	for text := range strings.Lines(table) {
		text = strings.TrimSuffix(text, "\n")
		file, is := strings.CutPrefix(text, "= ")
		if !is {
			lines = append(lines, text)
			continue
		}
		name, text, _ := strings.Cut(file, " ")
		put(name, strings.ReplaceAll(text, "⏎", "\n"))
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
	for _, text := range lines {
		line, want, _ := strings.Cut(text, " → ")
		args := strings.Fields(named.Replace(line))
		if command := strings.SplitN(line, " ", 2)[0]; len(args) > 0 && (strings.Contains(command, ".") || strings.ToUpper(command) == command) && !strings.Contains(line, "--output") {
			args = append(args, "--output", filepath.Join(dir, "out"))
			if !strings.Contains(line, "--url") && !strings.Contains(line, "--targets") {
				args = append(args, "--url", mock)
			}
		}
		code, out, said := ran(t, args...)
		_, why, is := strings.Cut("\n"+said, "\nfastreplay: ")
		if code != exitUsage || !is || !strings.Contains(why, want) || out != "" {
			t.Errorf("%s: exit code %d, no %q in\n%s%s", line, code, want, said, out)
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
