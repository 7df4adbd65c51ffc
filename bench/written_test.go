package bench

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
)

// question is what a body asks last.
func question(t *testing.T, body string) string {
	t.Helper()
	var chat struct {
		Messages []struct{ Role, Content string }
	}
	if err := json.Unmarshal([]byte(body), &chat); err != nil || len(chat.Messages) != 1 || chat.Messages[0].Role != "user" {
		t.Fatalf("%s: %v", body, err)
	}
	return chat.Messages[0].Content
}

// convert converts a trace and returns the path of what was written.
func convert(t *testing.T, args ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "converted")
	succeeds(t, append([]string{"convert", "--output", path}, args...)...)
	return path
}

// TestWordsAreTheReplays: a trace of numbers of tokens, written in words, asks what the trace itself asks.
func TestWordsAreTheReplays(t *testing.T) {
	t.Parallel()
	lines := slices.Collect(strings.Lines(string(readFile(t, "samples/bailian.jsonl"))))
	part := strings.Join(lines[:30], "")
	path := newFile(t, "part.jsonl", part)
	how := []string{"--api", "chat", "--model", "m", "--cold", "off", "--rate", "300"}
	_, want := sent(t, part, with(how, "--prompt", "text", "--seed", "5")...)
	for _, format := range []string{"multi_turn", "batch"} {
		written := readFile(t, convert(t, path, "--format", format, "--seed", "5"))
		_, got := sent(t, string(written), how...)
		for row, body := range want {
			if g, w := question(t, got[row]), question(t, body); g != w {
				t.Fatalf("%s: row %d asks %q, want %q", format, row, g, w)
			}
		}
	}
	words := []string{"--api", "completions", "--prompt", "text", "--seed", "5"}
	single := convert(t, path, "--format", "single_turn", "--seed", "5")
	expect.Equal(t, fingerprint(t, with(words, single)...), fingerprint(t, with(words, path)...), "for completions single_turn has")
}
