package bench

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/codec/trace"
)

// wordsOf is how many words there are in what a row asks, and in the recorded answer.
func wordsOf(t *testing.T, recorded *trace.Trace, i int) (asked, answered int64) {
	t.Helper()
	var answer string
	if err := json.Unmarshal([]byte(`"`+string(recorded.Answer(i))+`"`), &answer); err != nil {
		t.Fatal(err)
	}
	answered = int64(len(strings.Fields(answer)))
	l := recorded.Verbatim(i)
	if l.Kind == trace.VerbatimText {
		return int64(len(strings.Fields(string(l.Content)))), answered
	}
	var messages []struct {
		Content json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal([]byte("["+string(l.Content)+"]"), &messages); err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		var text string
		var parts []struct {
			Text string `json:"text"`
		}
		if json.Unmarshal(m.Content, &text) != nil {
			if err := json.Unmarshal(m.Content, &parts); err != nil {
				t.Fatal(err)
			}
		}
		for _, p := range parts {
			text += " " + p.Text
		}
		asked += int64(len(strings.Fields(text)))
	}
	return asked, answered
}

// TestTurns replays the bundled conversations: the server counts the words that the file has. Those of the answers are single
// tokens of the built-in vocabulary too, so a counted answer is as long as it has words.
func TestTurns(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"single_turn.jsonl": {"--scale", "2"}, "multi_turn.jsonl": {"--scale", "2"}, "sharegpt.json": {"--rate", "60"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join("samples", name)
			recorded, err := trace.Open(path, trace.Options{})
			if err != nil {
				t.Fatal(err)
			}
			m := startMock(t)
			r := run(t, with(args, path, "--url", m.url, "--api", "chat")...)
			r.prove(t)
			r.join(t, m.stop(t))
			r.only(t, "ok")
			if len(r.lines) != recorded.Len() {
				t.Errorf("%d lines, want %d", len(r.lines), recorded.Len())
			}
			for _, l := range r.lines {
				i := slices.Index(recorded.Row, int32(l.Row))
				asked, answered := wordsOf(t, recorded, i)
				if n := recorded.OutputTokens[i]; n > 0 {
					answered = int64(n)
				}
				if l.Prompt != asked || l.Completion != answered {
					t.Errorf("row %d: %d → %d tokens; the file has %d → %d", l.Row, l.Prompt, l.Completion, asked, answered)
				}
				if recorded.Session != nil && (l.Session != recorded.Session[i] || l.Turn != int64(recorded.Turn[i])) {
					t.Errorf("row %d: turn %d of session %d; recorded is %d of %d", l.Row, l.Turn, l.Session, recorded.Turn[i], recorded.Session[i])
				}
			}
			const counted = "the tokens of 162 recorded answers were counted with cl100k_base"
			if said := strings.Contains(r.stderr, counted) && strings.Contains(strings.Join(r.summary.Notes, "\n"), counted); said != (name == "sharegpt.json") {
				t.Errorf("said %v: %s", said, r.stderr)
			}
		})
	}
}

// TestConvertTurns: what is converted to Mooncake's format sends the same bytes, lengths that were counted included.
func TestConvertTurns(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"single_turn.jsonl", "multi_turn.jsonl", "sharegpt.json"} {
		path := filepath.Join("samples", name)
		to := convert(t, path, "--format", "mooncake")
		if got, want := fingerprint(t, to, "--rate", "50"), fingerprint(t, path, "--rate", "50"); got != want {
			t.Errorf("%s: the converted trace has %s, want %s", name, got, want)
		}
	}
}
