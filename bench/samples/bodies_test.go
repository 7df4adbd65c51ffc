package samples

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/trace"
)

// TestBodySamples: the samples that hold whole bodies are what their recipes say.
func TestBodySamples(t *testing.T) {
	for _, s := range []struct {
		path, format, endpoint string
		text                   []byte
		rows                   int
		notes                  int
	}{
		{"raw_payload.jsonl", "raw_payload", "", rawPayload(), 80, 0},
		{"inputs.json", "inputs_json", "", inputsJSON(), 56, 0},
		{"batch.jsonl", "batch", "/v1/chat/completions", batch(), 60, 0},
		{"sagemaker.jsonl", "sagemaker", "", sageMaker(), 120, 1},
	} {
		checkFile(t, s.path, s.text)
		tr := must.Have(trace.Open(s.path, trace.Options{Strict: true}))(t)
		if tr.Format != s.format || tr.Endpoint != s.endpoint || tr.Len() != s.rows || tr.Verbatims() != s.rows || len(tr.Lint.Notes()) != s.notes {
			t.Errorf("%s: %d rows of %s for %q, %d bodies, notes %q; want %d of %s for %q", s.path, tr.Len(), tr.Format, tr.Endpoint, tr.Verbatims(), tr.Lint.Notes(), s.rows, s.format, s.endpoint)
		}
		if (tr.Session != nil) != (s.format == "inputs_json") || tr.Untimed != (s.format != "sagemaker") {
			t.Errorf("%s: sessions %v, untimed %v", s.path, tr.Session != nil, tr.Untimed)
		}
		if s.format == "sagemaker" && (tr.SpanNS() < 4e9 || tr.SpanNS() > 8e9) {
			t.Errorf("%s spans %d ns, want 4 to 8 s", s.path, tr.SpanNS())
		}
	}
}

// message and body are what an OpenAI chat is asked, as far as the samples go.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type body struct {
	Model         string          `json:"model"`
	Messages      []message       `json:"messages"`
	MaxTokens     int             `json:"max_tokens"`
	Stream        bool            `json:"stream"`
	StreamOptions map[string]bool `json:"stream_options"`
}

// tell is a message of some words, from least to below most.
func (s *speaker) tell(role string, least, most int) message {
	return message{role, s.words(least, most-1)}
}

// ask is a body with messages of which the last is the user's.
func (s *speaker) ask(messages ...message) body {
	return body{"sample", messages, s.between(4, 31), true, map[string]bool{"include_usage": true}}
}

// session is the bodies of a conversation, each with all that was said before.
func (s *speaker) session(turns int) []body {
	said := []message{s.tell("system", 20, 60)}
	var all []body
	for range turns {
		said = append(said, s.tell("user", 5, 80))
		all = append(all, s.ask(said[:len(said):len(said)]...))
		said = append(said, s.tell("assistant", 4, 32))
	}
	return all
}

// inJSON is a value as JSON.
func inJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return string(text)
}

// rawPayload is raw_payload.jsonl: 80 bodies, a line a body.
func rawPayload() []byte {
	var out bytes.Buffer
	for k := newSpeaker(5); k.said < 160; {
		out.WriteString(inJSON(k.ask(k.tell("system", 20, 60), k.tell("user", 5, 200))) + "\n")
	}
	return out.Bytes()
}

// inputsJSON is inputs.json: 24 sessions of 1 to 4 turns, indented as AIPerf writes it.
func inputsJSON() []byte {
	k := newSpeaker(6)
	var sessions []string
	for i := range 24 {
		sessions = append(sessions, fmt.Sprintf(`{"session_id":"session_%06d","payloads":%s}`, i, inJSON(k.session(k.between(1, 4)))))
	}
	var out bytes.Buffer
	if err := json.Indent(&out, []byte(`{"data":[`+strings.Join(sessions, ",")+"]}\n"), "", "  "); err != nil {
		panic("BUG: " + err.Error())
	}
	return out.Bytes()
}

// batch is batch.jsonl: 60 requests for chat completions.
func batch() []byte {
	k := newSpeaker(7)
	var out []byte
	for i := range 60 {
		out = fmt.Appendf(out, `{"custom_id":"request-%d","method":"POST","url":"/v1/chat/completions","body":%s}`+"\n", i+1, inJSON(k.ask(k.tell("user", 5, 200))))
	}
	return out
}

// sageMaker is sagemaker.jsonl: 120 requests at 20 a second, at whole seconds, as that capture has them. Answers say
// how many tokens there were; every third is in base64.
func sageMaker() []byte {
	k := newSpeaker(8)
	first := time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)
	captured := func(kind, mode, data, encoding string) string {
		if encoding == "BASE64" {
			data = base64.StdEncoding.EncodeToString([]byte(data))
		}
		return fmt.Sprintf(`{"observedContentType":%q,"mode":%q,"data":%s,"encoding":%q}`, kind, mode, inJSON(data), encoding)
	}
	var out []byte
	for i, at := range poisson(120, 20, 8) {
		b := k.ask(k.tell("system", 20, 60), k.tell("user", 5, 200))
		words := 0
		for _, m := range b.Messages {
			words += 1 + strings.Count(m.Content, " ")
		}
		answer := fmt.Sprintf("data: {\"choices\":[],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d}}\n\ndata: [DONE]\n\n", words, b.MaxTokens)
		out = fmt.Appendf(out, `{"captureData":{"endpointInput":%s,"endpointOutput":%s},"eventMetadata":{"eventId":"00000000-0000-4000-8000-%012d","inferenceTime":%q},"eventVersion":"0"}`+"\n",
			captured("application/json", "INPUT", inJSON(b), []string{"JSON", "JSON", "BASE64"}[i%3]), captured("text/event-stream", "OUTPUT", answer, "BASE64"),
			i, first.Add(time.Duration(at).Truncate(time.Second)).Format(time.RFC3339))
	}
	return out
}
