package bench

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestMalformedTraces: each is refused with a line that names file and place, before any server is asked.
func TestMalformedTraces(t *testing.T) {
	long(t)
	t.Parallel()
	m := startMock(t)
	files, err := os.ReadDir("../codec/trace/testdata")
	if err != nil {
		t.Fatal(err)
	}
	refusals := 0
	for _, f := range files {
		if f.IsDir() {
			continue
		}
		refusals++
		path := filepath.Join("../codec/trace/testdata", f.Name())
		said := refused(t, "--trace", path, "--url", m.url)
		if !regexp.MustCompile(`^fastreplay: ` + regexp.QuoteMeta(path) + `(:\d+: |: | is )\S`).MatchString(said) {
			t.Errorf("%s: the message does not begin with the place:\n%s", f.Name(), said)
		}
	}
	if refusals < 20 {
		t.Errorf("only %d malformed traces", refusals)
	}
	if log := m.stop(t); len(log) != 0 {
		t.Errorf("the server was asked %d times", len(log))
	}
}

// TestRefusedBeforeAnybodyIsAsked: what options and trace tell needs no server, as one that is not there proves.
func TestRefusedBeforeAnybodyIsAsked(t *testing.T) {
	t.Parallel()
	nobody := deadURL(t)
	for line, want := range map[string]string{
		"samples/azure.csv --route session":                                "--route session: the trace has no conversations",
		"samples/azure.csv --scrape-url :::":                               `--scrape-url ":::": not an address`,
		"samples/azure.csv --resend sometimes":                             `--resend "sometimes": want never, unread or safe`,
		"samples/azure.csv --api responses --resend safe":                  "not safe to repeat; use unread",
		"samples/azure.csv --lane process --route least-inflight":          "--lane process: where a request goes is decided by responses",
		"samples/azure.csv --lane process --concurrency 2":                 "--lane process: a closed loop has no deadlines to keep",
		"samples/bailian.jsonl --lane process --sessions gated":            "--lane process: turns that wait for answers",
		"samples/sharegpt.json --rate 50 --lane process --history live":    "--lane process: live history is made of responses",
		"samples/mooncake-small.jsonl --lane process --rate max --limit 5": "does not accept connections", // not refused, but for the server
	} {
		if said := refused(t, append(strings.Fields(line), "--url", nobody)...); !strings.Contains(lastLine(said), want) {
			t.Errorf("%s: no %q in\n%s", line, want, said)
		}
	}
}

// TestBadUsage: exit 2 and one clear line, whatever is wrong before the start.
func TestBadUsage(t *testing.T) {
	m := startMock(t, "--model", "llama")
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead := ln.Addr().String()
	_ = ln.Close()
	load := []string{"--trace", "samples/mooncake-small.jsonl", "--limit", "5"}
	for _, c := range []struct {
		name string
		args []string
		says string
	}{
		{"no trace", nil, "no trace; give one with"},
		{"no such trace", []string{"nothing.jsonl"}, "nothing.jsonl"},
		{"nobody listens", with(load, "--url", dead), dead + " does not accept connections"},
		{"no such name", with(load, "--url", "no-such-host.invalid:80"), "cannot resolve no-such-host.invalid"},
		{"no such model", with(load, "--url", m.url, "--model", "gpt"), "The model `gpt` does not exist"},
		{"no address", with(load, "--url", "http://"), "not an address"},
		{"unknown flag", with(load, "--urls", m.url), "unknown flag"},
		{"unknown API", with(load, "--url", m.url, "--api", "soap"), "soap"},
		{"ids in a chat", with(load, "--url", m.url, "--api", "chat", "--prompt", "token-ids"), "--api chat takes text"},
		{"two plans", with(load, "--url", m.url, "--rate", "1", "--ramp", "1:2:1s"), "exclude each other"},
		{"no plan", with(load, "--url", m.url, "--no-fixed-schedule"), "say when requests leave, with --rate R, --rate max, --ramp or --concurrency N"},
		{"nothing selected", with(load, "--url", m.url, "--from", "10h"), "no row lies"},
		{"too little memory", with(load, "--url", m.url, "--max-memory", "10kB"), "raise --max-memory"},
		{"memory without a size", with(load, "--url", dead, "--max-memory", "much"), "--max-memory: size \"much\""},
		{"too many copies", with(load, "--url", dead, "--max-memory", "10kB", "--amplify", "500"), "more than the 10.0 kB allowed (--max-memory); use a smaller --amplify"},
		{"the prompt again", with(load, "--url", m.url, "--extra-inputs", "prompt:x"), "prompt"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if said := refused(t, c.args...); !strings.Contains(lastLine(said), c.says) {
				t.Errorf("the last line does not say %q:\n%s", c.says, said)
			}
		})
	}
	for id := range m.stop(t) {
		if !strings.HasPrefix(id, "mock-") { // a probe has no id of ours
			t.Errorf("request %s was sent", id)
		}
	}
}

// TestOutputIsNeverOverwritten: a directory with anything in it is refused.
func TestOutputIsNeverOverwritten(t *testing.T) {
	m := startMock(t)
	dir := t.TempDir()
	mine := filepath.Join(dir, "requests.jsonl")
	if err := os.WriteFile(mine, []byte("mine\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := startReplayIn(t, nil, dir, with(chat, "--url", m.url)...)
	if code := r.wait(t); code != 2 || !strings.Contains(r.stderr.String(), "not empty") {
		t.Errorf("exit %d:\n%s", code, r.stderr.String())
	}
	entries, _ := os.ReadDir(dir)
	if text, err := os.ReadFile(mine); err != nil || string(text) != "mine\n" || len(entries) != 1 {
		t.Errorf("the directory was touched: %q, %d files, %v", text, len(entries), err)
	}
	if log := m.stop(t); len(log) != 0 {
		t.Errorf("the server was asked %d times before the directory was looked at", len(log))
	}
}
