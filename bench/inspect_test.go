package bench

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	inspection "github.com/fastreplay/fastreplay/engine/inspect"
)

// inspect runs the command and returns the exit code and what it said.
func inspect(t *testing.T, args ...string) (code int, out, said string) {
	t.Helper()
	p := start(t, nil, append([]string{"inspect"}, args...)...)
	code = p.wait(t)
	return code, p.stdout.String(), p.stderr.String()
}

// document is what `inspect --json` prints of traces.
func document(t *testing.T, args ...string) (d inspection.Document) {
	t.Helper()
	must.Do(t, json.Unmarshal([]byte(succeeds(t, append([]string{"inspect", "--json"}, args...)...)), &d))
	return d
}

// TestInspectPages: a page for each trace, side by side and in HTML, with routers for each size of caches.
func TestInspectPages(t *testing.T) {
	t.Parallel()
	html := filepath.Join(t.TempDir(), "page.html")
	code, out, said := inspect(t, "--instances", "2", "--load-bound", "2", "--html", html, "samples/bailian.jsonl", "samples/mooncake-small.jsonl")
	page := string(readFile(t, html))
	if code != 0 || said != "" || !strings.HasPrefix(page, "<!DOCTYPE html>") {
		t.Fatalf("exit %d: %s", code, said)
	}
	for _, text := range []string{"hits on 2 instances, unlimited caches", "prefix, load bound 2", "mooncake-small.jsonl"} {
		if !strings.Contains(out, text) || !strings.Contains(page, text) {
			t.Errorf("no %q in\n%s", text, out)
		}
	}
}

// TestInspectAgreesWithReplay: the bytes that inspect promises are those that a run lays out, but for what surrounds
// the prompts.
func TestInspectAgreesWithReplay(t *testing.T) {
	t.Parallel()
	d := document(t, "samples/mooncake.jsonl")
	m := startMock(t)
	res := run(t, "samples/mooncake.jsonl", "--url", m.url, "--scale", "20", "--allow-warm")
	prompts := d.Traces[0].Replay.TokenIDs.PromptBytes
	if around := (res.summary.Client.WireBytes - prompts) / 1200; around < 100 || around > 1000 {
		t.Errorf("%d bytes of prompts and %d of images: %d around each", prompts, res.summary.Client.WireBytes, around)
	}
}

// TestInspectRefused: what a replay refuses is shown with the reason first, and the exit code is 1.
func TestInspectRefused(t *testing.T) {
	t.Parallel()
	for name, reason := range map[string]string{
		"wrong-block-size.jsonl": "pass --block-tokens 16",
		"many-faults.jsonl":      "line 2: input_length -1 is out of range",
	} {
		path := "../codec/trace/testdata/" + name
		code, out, said := inspect(t, path)
		if words := unwrapped(out); code != 1 || said != "" || !strings.Contains(words, "REFUSED: ") || !strings.Contains(words, reason) {
			t.Errorf("%s: exit %d\n%s%s", name, code, out, said)
		}
		expect.Equal(t, lastLine(out), "A replay would refuse "+path+".", "%s: the last line", name)
	}
	if code, out, _ := inspect(t, "../codec/trace/testdata/many-faults.jsonl", "--bad-rows", "drop"); code != 0 || strings.Contains(out, "REFUSED") {
		t.Errorf("lenient: exit %d\n%s", code, out)
	}
}
