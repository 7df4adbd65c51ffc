package samples

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fastreplay/fastreplay/codec/prompt"
)

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

// talk makes chats of words that mean nothing, each a token of its own.
type talk struct {
	words *prompt.Text
	rng   *rand.Rand
	said  uint64
}

func newTalk(seed uint64) *talk {
	words, err := prompt.NewText(seed, prompt.BuiltIn())
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return &talk{words: words, rng: rand.New(rand.NewPCG(seed, 0))}
}

// say is a message of some words, from up to below to.
func (k *talk) say(role string, from, to int) message {
	k.said++
	return message{role, string(k.words.Append(nil, prompt.Spec{Tokens: from + k.rng.IntN(to-from), Unique: k.said}))}
}

// ask is a body with messages of which the last is the user's.
func (k *talk) ask(messages ...message) body {
	return body{"sample", messages, 4 + k.rng.IntN(28), true, map[string]bool{"include_usage": true}}
}

// session is the bodies of a conversation, each with all that was said before.
func (k *talk) session(turns int) []body {
	said := []message{k.say("system", 20, 60)}
	var all []body
	for range turns {
		said = append(said, k.say("user", 5, 80))
		all = append(all, k.ask(said[:len(said):len(said)]...))
		said = append(said, k.say("assistant", 4, 32))
	}
	return all
}

// line is a value as JSON, and the end of the line.
func line(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return append(text, '\n')
}

// RawPayload is raw_payload.jsonl: 80 bodies, a line a body.
func RawPayload() []byte {
	var out []byte
	for k := newTalk(5); k.said < 160; {
		out = append(out, line(k.ask(k.say("system", 20, 60), k.say("user", 5, 200)))...)
	}
	return out
}

// InputsJSON is inputs.json: 24 sessions of 1 to 4 turns, indented as AIPerf writes it.
func InputsJSON() []byte {
	type session struct {
		ID       string `json:"session_id"`
		Payloads []body `json:"payloads"`
	}
	k := newTalk(6)
	var all struct {
		Data []session `json:"data"`
	}
	for i := range 24 {
		all.Data = append(all.Data, session{fmt.Sprintf("session_%06d", i), k.session(1 + k.rng.IntN(4))})
	}
	var out bytes.Buffer
	if err := json.Indent(&out, line(all), "", "  "); err != nil {
		panic("BUG: " + err.Error())
	}
	return out.Bytes()
}

// Batch is batch.jsonl: 60 requests for chat completions.
func Batch() []byte {
	type request struct {
		ID     string `json:"custom_id"`
		Method string `json:"method"`
		URL    string `json:"url"`
		Body   body   `json:"body"`
	}
	k := newTalk(7)
	var out []byte
	for i := range 60 {
		out = append(out, line(request{fmt.Sprintf("request-%d", i+1), "POST", "/v1/chat/completions", k.ask(k.say("user", 5, 200))})...)
	}
	return out
}

// capture is a line of SageMaker's data capture.
type capture struct {
	Data struct {
		Input  part `json:"endpointInput"`
		Output part `json:"endpointOutput"`
	} `json:"captureData"`
	Event struct {
		ID   string `json:"eventId"`
		Time string `json:"inferenceTime"`
	} `json:"eventMetadata"`
	Version string `json:"eventVersion"`
}

type part struct {
	Type     string `json:"observedContentType"`
	Mode     string `json:"mode"`
	Data     string `json:"data"`
	Encoding string `json:"encoding"`
}

// SageMaker is sagemaker.jsonl: 120 requests at 20 a second, at whole seconds, as that capture has them. Answers say how many
// tokens there were; every third is in base64.
func SageMaker() []byte {
	k := newTalk(8)
	first := time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)
	var out []byte
	for i, at := range poisson(120, 20, 8) {
		b := k.ask(k.say("system", 20, 60), k.say("user", 5, 200))
		words := 0
		for _, m := range b.Messages {
			words += 1 + bytes.Count([]byte(m.Content), []byte(" "))
		}
		answer := fmt.Sprintf("data: {\"choices\":[],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d}}\n\ndata: [DONE]\n\n", words, b.MaxTokens)
		c := capture{Version: "0"}
		c.Data.Input = captured("application/json", "INPUT", string(bytes.TrimSpace(line(b))), i%3 == 2)
		c.Data.Output = captured("text/event-stream", "OUTPUT", answer, true)
		c.Event.ID = fmt.Sprintf("00000000-0000-4000-8000-%012d", i)
		c.Event.Time = first.Add(time.Duration(at).Truncate(time.Second)).Format(time.RFC3339)
		out = append(out, line(c)...)
	}
	return out
}

func captured(kind, mode, data string, packed bool) part {
	if packed {
		return part{kind, mode, base64.StdEncoding.EncodeToString([]byte(data)), "BASE64"}
	}
	return part{kind, mode, data, "JSON"}
}
