package api

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// TestRawTakesAnything: what is no known answer is a token chunk, and no whole body is refused.
func TestRawTakesAnything(t *testing.T) {
	b := backend(t, "raw", Options{})
	var d Delta
	const text = "token text"
	for in, want := range map[string]string{
		"hello": text, `{"detail":"fine"}`: text, `{"output":"x"}`: text, `[1]`: text, "": "nothing", " [DONE]": "done",
		`{"choices":[{"delta":{},"finish_reason":"stop"}]}`: "finish=stop",
	} {
		if err := b.ParseEvent([]byte(in), &d); err != nil || saidBy(&d).String() != want {
			t.Errorf("event %q: %v, %v", in, saidBy(&d), err)
		}
	}
	for _, in := range []string{"", "hello", `{"output":"x"}`, `{"a":`, `{"detail":"fine"}`} {
		if err := b.ParseBody([]byte(in), &d); err != nil || saidBy(&d).String() != text {
			t.Errorf("body %q: %v, %v", in, saidBy(&d), err)
		}
	}
}

// oracles apply the definitions of each API to a document.
var oracles = map[string]func(ordered) said{
	"responses": responsesMeaning, "embeddings": embeddingsMeaning, "messages": messagesMeaning, "tgi": tgiMeaning,
	"chat": meaning, "sglang": sglangMeaning, "vllm-generate": tokensMeaning, "triton-vllm": tritonMeaning, "triton-trtllm": tritonMeaning,
}

// carried is whether values of keys that carry text are there, and whether something is in one.
type carried struct{ present, filled bool }

func (c *carried) add(v any) {
	switch v := v.(type) {
	case string:
		c.present, c.filled = true, c.filled || v != ""
	case []any:
		c.present, c.filled = c.present || len(v) > 0, c.filled || len(v) > 0
	}
}

// carriedBy is what all of the values carry.
func carriedBy(values []any) (c carried) {
	for _, v := range values {
		c.add(v)
	}
	return c
}

func (c carried) onto(s *said) { s.Token, s.Text = c.present, c.filled }

// inner are the members of the objects under a key, one after the other.
func (o ordered) inner(key string) (all ordered) {
	for _, v := range o.all(key) {
		if object, ok := v.(ordered); ok {
			all = append(all, object...)
		}
	}
	return all
}

// lastText is the last value of a key if it is a string.
func (o ordered) lastText(key string) string {
	text, _ := o.last(key).(string)
	return text
}

// reason notes the last finish reason that is not empty.
func (s *said) reason(v any) {
	if text, _ := v.(string); text != "" {
		s.Finish = text
	}
}

// counts notes the numbers that an object has under some names.
func (s *said) counts(o ordered, names map[string]*int) {
	for _, m := range o {
		if to := names[m.key]; to != nil {
			*to = count(m.value)
		}
	}
	s.HasUsage = s.Prompt >= 0 || s.Completion >= 0 || s.More >= 0
}

// details notes the cached tokens that a usage has in an object of its own.
func (s *said) details(usage ordered, key string) {
	for _, m := range usage.inner(key) {
		switch m.key {
		case "cached_tokens":
			s.Cached = count(m.value)
		case "local_cached_tokens":
			s.Tiers.Device = count(m.value)
		case "external_cached_tokens":
			s.Tiers.External = count(m.value)
		}
	}
}

func responsesMeaning(o ordered) said {
	s, flat := nothing, ordered{}
	for _, m := range o { // what stands in the response counts as at the top
		if inner, ok := m.value.(ordered); ok && m.key == "response" {
			flat = append(flat, inner...)
			continue
		}
		flat = append(flat, m)
	}
	switch event := o.lastText("type"); {
	case strings.HasSuffix(event, ".delta"):
		carriedBy(o.all("delta")).onto(&s)
		s.Reasoning = s.Text && strings.HasPrefix(event, "response.reasoning")
	case event == "response.output_item.added":
		name := carriedBy(o.inner("item").all("name"))
		s.Token, s.Text = name.filled, name.filled
	}
	usage := flat.inner("usage")
	s.counts(usage, map[string]*int{"input_tokens": &s.Prompt, "output_tokens": &s.Completion})
	s.details(usage, "input_tokens_details")
	s.counts(usage.inner("output_tokens_details"), map[string]*int{"reasoning_tokens": &s.Thought})
	s.IsError = commonError(flat, false) || o.lastText("type") == "error"
	switch status := flat.lastText("status"); status {
	case "completed":
		s.Finish = status
	case "incomplete":
		s.Finish = status
		if reason := flat.inner("incomplete_details").lastText("reason"); reason != "" {
			s.Finish = reason
		}
	case "failed", "cancelled":
		s.IsError = true
	}
	return s
}

func embeddingsMeaning(o ordered) said {
	s := nothing
	for _, v := range o.all("data") {
		if list, ok := v.([]any); ok && len(list) > 0 {
			s.Done = true
		}
	}
	for _, u := range o.all("usage") {
		if usage, ok := u.(ordered); ok {
			addUsage(&s, usage)
		}
	}
	s.Completion, s.HasUsage, s.IsError = -1, s.Prompt >= 0, commonError(o, false)
	return s
}

func messagesMeaning(o ordered) said {
	s, flat := nothing, ordered{}
	var delta, start, thought carried
	for _, m := range o {
		object, ok := m.value.(ordered)
		switch {
		case ok && m.key == "message": // of which the answer's length is not known yet
			flat = append(append(flat, object...), pair{"begun", nil})
			continue
		case ok && m.key == "delta":
			for _, part := range object {
				switch part.key {
				case "text", "partial_json":
					delta.add(part.value)
				case "thinking":
					thought.add(part.value)
				case "stop_reason":
					flat = append(flat, part)
				}
			}
		case ok && m.key == "content_block":
			for _, part := range object {
				switch part.key {
				case "text", "name":
					start.add(part.value)
				case "thinking":
					thought.filled = thought.filled || part.value != "" && carriedBy([]any{part.value}).filled
				}
			}
		}
		flat = append(flat, m)
	}
	answered := delta.filled || start.filled
	carried{delta.present || start.filled || thought.present || thought.filled, answered || thought.filled}.onto(&s)
	s.Reasoning = thought.filled && !answered
	for _, m := range flat {
		switch m.key {
		case "begun":
			s.Completion, s.HasUsage = -1, s.Prompt >= 0
		case "stop_reason":
			s.reason(m.value)
		case "usage":
			usage, ok := m.value.(ordered)
			if !ok {
				continue
			}
			read, created := -1, -1
			s.counts(usage, map[string]*int{"input_tokens": &s.Prompt, "output_tokens": &s.Completion, "cache_read_input_tokens": &read, "cache_creation_input_tokens": &created})
			if s.Prompt >= 0 {
				s.Prompt += max(0, read) + max(0, created)
			}
			s.Cached = read
		}
	}
	s.Done, s.IsError = o.lastText("type") == "message_stop", commonError(flat, false)
	return s
}

func tgiMeaning(o ordered) said {
	s, details := nothing, o.inner("details")
	carriedBy(o.inner("token").all("text")).onto(&s)
	s.counts(details, map[string]*int{"generated_tokens": &s.Completion, "input_length": &s.Prompt})
	for _, v := range details.all("finish_reason") {
		s.reason(v)
	}
	s.IsError = commonError(o, false)
	return s
}

func sglangMeaning(o ordered) said {
	s, info := nothing, o.inner("meta_info")
	c := carriedBy(o.all("text"))
	for _, v := range o.all("output_ids") {
		ids, _ := v.([]any)
		c.present = c.present || len(ids) > 0
	}
	c.onto(&s)
	s.counts(info, map[string]*int{"prompt_tokens": &s.Prompt, "completion_tokens": &s.Completion, "cached_tokens": &s.Cached})
	s.tierDetails(info.inner("cached_tokens_details"))
	for _, v := range info.all("finish_reason") {
		s.reason(v)
		if why, ok := v.(ordered); ok {
			for _, kind := range why.all("type") {
				s.reason(kind)
			}
			s.IsError = s.IsError || s.Finish == "abort" && why.lastText("message") != ""
		}
	}
	s.IsError = s.IsError || commonError(o, false)
	return s
}

func tokensMeaning(o ordered) said {
	s := nothing
	for _, list := range o.all("choices") {
		choices, _ := list.([]any)
		for _, v := range choices {
			choice, _ := v.(ordered)
			for _, reason := range choice.all("finish_reason") {
				s.reason(reason)
			}
			ids, _ := choice.last("token_ids").([]any)
			if len(ids) == 0 {
				continue
			}
			s.Token, s.More = true, max(0, s.More)+len(ids)
			s.Text = s.Text || carriedBy(choice.all("text")).filled
			if n := count(choice.last("index")); n <= 0 && s.Content == "" {
				s.Content = choice.lastText("text")
			}
		}
	}
	for _, u := range o.all("usage") {
		if usage, ok := u.(ordered); ok {
			addUsage(&s, usage)
		}
	}
	s.tiers(o)
	if s.Completion >= 0 {
		s.More = -1
	}
	s.HasUsage = s.Prompt >= 0 || s.Completion >= 0 || s.More >= 0
	s.IsError = commonError(o, len(o.all("choices")) > 0)
	return s
}

// TestAnswersIDs: the ids of an event are those of encoding/json, whatever white space is around them, and reading them
// allocates nothing.
func TestAnswersIDs(t *testing.T) {
	b := backend(t, "vllm-generate", Options{TokenIDs: true})
	var d Delta
	var got []int
	read := func(event []byte) {
		got = got[:0]
		must.Do(t, b.ParseEvent(event, &d))
		for id, rest, ok := NextID(d.IDs); ok; id, rest, ok = NextID(rest) {
			got = append(got, id)
		}
	}
	for list, want := range map[string][]int{
		"[]": nil, "null": nil, "[7]": {7}, " [ 0 ,12 , 2147483647 ] ": {0, 12, 2147483647}, "[1,-2,3.5,\"x\",[4],2147483648,9]": {1, -1, -1, -1, -1, -1, 9},
	} {
		read([]byte(`{"choices":[{"token_ids":` + list + `,"index":0}]}`))
		expect.List(t, got, want, list)
	}
	read([]byte(`{"choices":[{"index":1,"token_ids":[5]},{"index":0,"token_ids":[6]}]}`))
	expect.List(t, got, []int{6}, "those of choice 0")
	event := []byte(`{"request_id":"r","usage":null,"output_mode":"tokens","choices":[{"index":0,"finish_reason":null,"token_ids":[10007,10008],"logprobs":null}]}`)
	expect.Equal(t, testing.AllocsPerRun(100, func() { read(event) }), 0, "allocations an event")
}

func tritonMeaning(o ordered) said {
	s, c := nothing, carriedBy(o.all("text_output"))
	s.counts(o, map[string]*int{"num_input_tokens": &s.Prompt, "num_output_tokens": &s.More})
	for _, v := range o.all("finish_reason") {
		if v != "None" {
			s.reason(v)
		}
	}
	answered := c.present
	c.present = c.present && (c.filled || s.More != 0)
	c.onto(&s)
	s.IsError = commonError(o, answered)
	return s
}

// TestOwnLength: a length counts where the API looks for it, and nowhere else.
func TestOwnLength(t *testing.T) {
	for _, c := range []struct {
		api, extra string
		want       bool
	}{
		{"chat", `{"max_completion_tokens":5}`, true}, {"chat", `{"parameters":{"max_tokens":5}}`, false}, {"completions", `{"max_tokens":5}`, true},
		{"tgi", `{"max_new_tokens":5}`, false}, {"tgi", `{"parameters":{"max_new_tokens":5}}`, true}, {"tgi", `{"parameters":{"top_k":5}}`, false},
		{"responses", `{"max_output_tokens":5}`, true}, {"sglang", `{"sampling_params":{"max_new_tokens":5}}`, true}, {"chat", ``, false}, {"grpc", `{"max_tokens":5}`, false},
	} {
		expect.Equal(t, OwnLength(c.api, json.RawMessage(c.extra)), c.want, "%s %s", c.api, c.extra)
		b, err := New(c.api, Options{Model: "m", Extra: json.RawMessage(c.extra)})
		if err != nil {
			continue
		}
		if alone := len(b.AppendSuffix(nil, 7)) == len(b.AppendSuffix(nil, 7_000_000)); alone != c.want {
			t.Errorf("%s %s: the body has a length of ours: %v", c.api, c.extra, !alone)
		}
	}
}
