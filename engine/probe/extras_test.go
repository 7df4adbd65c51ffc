package probe

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/prompt"
	"github.com/fastreplay/fastreplay/engine/internal/workloadtest"
)

// pickyBody has what servers compare with one another in a request.
type pickyBody struct {
	Prompt        []int           `json:"prompt"`
	Max           int             `json:"max_tokens"`
	Min           int             `json:"min_tokens"`
	N             int             `json:"n"`
	Stream        bool            `json:"stream"`
	StreamOptions json.RawMessage `json:"stream_options"`
	Thinking      struct {
		Budget int `json:"budget_tokens"`
	} `json:"thinking"`
}

// refusal is vLLM's and Anthropic's answer to a body of which one part contradicts another; "" is none.
func (b *pickyBody) refusal() string {
	switch {
	case b.Min > b.Max:
		return fmt.Sprintf("min_tokens must be less than or equal to max_tokens=%d, got %d.", b.Max, b.Min)
	case b.StreamOptions != nil && !b.Stream:
		return "Stream options can only be defined when `stream=True`."
	case b.Thinking.Budget >= b.Max:
		return "`max_tokens` must be greater than `thinking.budget_tokens`."
	case b.Stream && b.N > 1:
		return "best_of is not currently supported with streaming."
	}
	return ""
}

func pickyServer(w http.ResponseWriter, r *http.Request) {
	var body pickyBody
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if why := body.refusal(); why != "" {
		http.Error(w, fmt.Sprintf(`{"error":{"message":%q}}`, why), http.StatusBadRequest)
		return
	}
	answer := fmt.Sprintf(`{"choices":[{"text":"a","finish_reason":"length"}],"usage":{"prompt_tokens":%d,"completion_tokens":1}}`, len(body.Prompt))
	if body.Stream {
		answer = "data: " + answer + "\n\ndata: [DONE]\n\n"
	}
	_, _ = io.WriteString(w, answer)
}

// TestProbesKeepToTheUsersExtras: what the run's requests may have, probes and warm-ups may have, too. A contradiction
// that the run's requests would have is reported, and the flag that it comes from.
func TestProbesKeepToTheUsersExtras(t *testing.T) {
	for extra, refused := range map[string]string{
		`{}`:                                        "",
		`{"min_tokens":50}`:                         "",
		`{"min_tokens":50,"ignore_eos":false}`:      "",
		`{"max_tokens":7}`:                          "",
		`{"min_tokens":5,"max_tokens":7}`:           "",
		`{"stream_options":{"include_usage":true}}`: "",
		`{"thinking":{"budget_tokens":60}}`:         "",
		`{"thinking":{"budget_tokens":64}}`:         "thinking.budget_tokens",
		`{"n":2}`:                                   "",
		`{"stop":["x"],"logprobs":1,"min_p":0.1}`:   "",
		`{"min_tokens":9,"max_tokens":7}`:           "; it is in --extra-inputs",
	} {
		t.Run(extra, func(t *testing.T) {
			b := proberOf(t, http.HandlerFunc(pickyServer))
			backendOf := func(stream bool) func(string) (api.Backend, error) {
				return func(string) (api.Backend, error) {
					return api.New("completions", api.Options{Model: "m", Stream: stream, ForceOutput: true, TokenIDs: true, Extra: json.RawMessage(extra)})
				}
			}
			b.Backend, b.AsRun, b.Extra, b.RunOutput = backendOf(false), backendOf(true), extra, 64
			source := must.Have(prompt.NewTokenIDs(0, prompt.BuiltInIDs()))(t)
			checked := func(what string, err error) {
				t.Helper()
				switch {
				case refused == "" && err != nil:
					t.Errorf("%s: %v", what, err)
				case refused != "" && (err == nil || !strings.Contains(err.Error(), refused) || strings.Contains(err.Error(), "--no-force-output")):
					t.Errorf("%s: error %v, want %q", what, err, refused)
				}
			}
			added, err := b.Overhead(t.Context(), source)
			checked("overhead", err)
			expect.Equal(t, added, 0, "tokens are added")
			_, _, err = b.SaltWorks(t.Context(), source)
			checked("salt", err)
			w := workloadtest.Work(t, 6)
			for i := range w.Targets {
				w.Targets[i] = b.Targets[0]
			}
			for i := range w.Trace.OutputTokens {
				w.Trace.OutputTokens[i] = 64
			}
			checked("warm-up", b.WarmUp(t.Context(), w, source, 6, 2, ""))
		})
	}
}
