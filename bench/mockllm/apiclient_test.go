package mockllm

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// seen is what a client makes of an answer.
type seen struct {
	events                     []string // what each event is, in words of the protocol's own
	text, tool                 string
	prompt, cached, completion int // -1 = not told
	finish                     string
	failure                    string // an error's message
}

// object is any JSON object.
type object map[string]any

// at looks up a member by its path; a number is an index.
func at(v any, path string) any {
	for _, name := range strings.Split(path, ".") {
		switch x := v.(type) {
		case object:
			v = x[name]
		case map[string]any:
			v = x[name]
		case []any:
			var i int
			if _, err := fmt.Sscan(name, &i); err != nil || i >= len(x) {
				return nil
			}
			v = x[i]
		default:
			return nil
		}
	}
	return v
}

func (o object) text(path string) string { s, _ := at(o, path).(string); return s }

func (o object) has(path string) bool { return at(o, path) != nil }

// number returns -1 where there is none.
func (o object) number(path string) int {
	if v, ok := at(o, path).(float64); ok {
		return int(v)
	}
	return -1
}

// count takes over the numbers that o has.
func (s *seen) count(o object, prompt, cached, completion string) {
	for _, c := range []struct {
		to   *int
		path string
	}{{&s.prompt, prompt}, {&s.cached, cached}, {&s.completion, completion}} {
		if n := o.number(c.path); c.path != "" && n >= 0 {
			*c.to = n
		}
	}
}

// apiTest is a protocol as a client of it knows it.
type apiTest struct {
	name, path, streamPath string
	// body asks for three tokens after a prompt of 40; %s is whether to stream it.
	body string
	// event and whole read an event's object and an answer, refusal the message of an error response.
	event               func(s *seen, name string, o object) string
	whole               func(s *seen, o object)
	refusal             string
	finish              string
	events              string // of a stream of three tokens
	failed              string // of one that fails after the first
	done                bool   // [DONE] comes last
	uncached, uncounted bool   // the protocol has no such numbers
}

var words40 = strings.TrimSuffix(strings.Repeat("w ", 40), " ")

func ids40() string { return strings.TrimSuffix(strings.Repeat("7,", 40), ",") }

func apiTests() []apiTest {
	openAIEvent := func(token func(object) (string, bool)) func(*seen, string, object) string {
		return func(s *seen, _ string, o object) string {
			if o.has("error") {
				s.failure = o.text("error.message")
				return "error"
			}
			s.count(o, "usage.prompt_tokens", "usage.prompt_tokens_details.cached_tokens", "usage.completion_tokens")
			if !o.has("choices.0") {
				return "usage"
			}
			if reason := o.text("choices.0.finish_reason"); reason != "" {
				s.finish = reason
			}
			if o.has("choices.0.delta.role") {
				return "role"
			}
			text, ok := token(o)
			if !ok {
				return "nothing"
			}
			s.text += text
			return "token"
		}
	}
	openAIWhole := func(text string) func(*seen, object) {
		return func(s *seen, o object) {
			s.count(o, "usage.prompt_tokens", "usage.prompt_tokens_details.cached_tokens", "usage.completion_tokens")
			s.text, s.finish = o.text(text), o.text("choices.0.finish_reason")
		}
	}
	tritonWhole := func(s *seen, o object) {
		s.count(o, "num_input_tokens", "", "num_output_tokens")
		s.text, s.finish = o.text("text_output"), o.text("finish_reason")
	}
	tritonEvent := func(s *seen, _ string, o object) string {
		if o.has("error") {
			s.failure = o.text("error")
			return "error"
		}
		s.prompt = o.number("num_input_tokens")
		if n := o.number("num_output_tokens"); n > 0 {
			s.completion = max(s.completion, 0) + n
		}
		s.finish = o.text("finish_reason")
		s.text += o.text("text_output")
		return "token"
	}
	tgiWholeAnswer := func(s *seen, o object) {
		s.text, s.finish = o.text("generated_text"), o.text("details.finish_reason")
		s.count(o, "", "", "details.generated_tokens")
		if prefill, ok := at(o, "details.prefill").([]any); ok {
			s.prompt = len(prefill)
		}
	}
	return []apiTest{
		{
			name: "completions", path: completions,
			body:  `{"prompt":[` + ids40() + `],"max_tokens":3,"stream":%s,"stream_options":{"include_usage":true}}`,
			event: openAIEvent(func(o object) (string, bool) { return o.text("choices.0.text"), o.has("choices.0.text") }),
			whole: openAIWhole("choices.0.text"), refusal: "error.message", finish: "length",
			events: "token token token usage", failed: "token error", done: true,
		}, {
			name: "chat", path: chat,
			body: `{"messages":[{"role":"user","content":"` + words40 + `"}],"max_tokens":3,"stream":%s,"stream_options":{"include_usage":true}}`,
			event: openAIEvent(func(o object) (string, bool) {
				return o.text("choices.0.delta.content"), o.has("choices.0.delta.content")
			}),
			whole: openAIWhole("choices.0.message.content"), refusal: "error.message", finish: "length",
			events: "role token token token usage", failed: "role token error", done: true,
		}, {
			name: "responses", path: "/v1/responses",
			body:  `{"input":[{"role":"user","content":[{"type":"input_text","text":"` + words40 + `"}]}],"max_output_tokens":3,"stream":%s}`,
			event: responsesEvent, whole: responsesWhole, refusal: "error.message", finish: "max_output_tokens",
			events: "created in_progress output_item.added content_part.added output_text.delta output_text.delta output_text.delta " +
				"output_text.done content_part.done output_item.done incomplete",
			failed: "created in_progress output_item.added content_part.added output_text.delta error",
		}, {
			name: "messages", path: "/v1/messages",
			body:  `{"messages":[{"role":"user","content":[{"type":"text","text":"` + words40 + `"}]}],"max_tokens":3,"stream":%s}`,
			event: messagesEvent, refusal: "error.message", finish: "max_tokens",
			whole: func(s *seen, o object) {
				messagesUsage(s, o, "usage")
				s.text, s.finish = o.text("content.0.text"), o.text("stop_reason")
			},
			events: "message_start content_block_start ping text_delta text_delta text_delta content_block_stop message_delta message_stop",
			failed: "message_start content_block_start ping text_delta error",
		}, {
			name: "tgi", path: "/generate", streamPath: "/generate_stream",
			body:  `{"inputs":"` + words40 + `","parameters":{"max_new_tokens":3,"details":true,"decoder_input_details":%s}}`,
			event: tgiEvent, whole: tgiWholeAnswer, refusal: "error", finish: "length",
			events: "token token token", failed: "token error", uncached: true,
		}, {
			name: "tgi without details", path: "/",
			body:  `{"inputs":"` + words40 + `","parameters":{"max_new_tokens":3},"stream":%s}`,
			event: tgiEvent, whole: tgiWholeAnswer, refusal: "error",
			events: "token token token", failed: "token error", uncached: true, uncounted: true,
		}, {
			name: "sglang", path: "/generate",
			body:  `{"input_ids":[` + ids40() + `],"sampling_params":{"max_new_tokens":3,"ignore_eos":true},"stream":%s}`,
			event: sglangEvent, whole: func(s *seen, o object) { sglangEvent(s, "", o) }, refusal: "error.message", finish: "length",
			events: "token token token", failed: "token error", done: true,
		}, {
			name: "triton with vLLM", path: "/v2/models/m/generate", streamPath: "/v2/models/m/versions/1/generate_stream",
			body: `{"text_input":"` + words40 + `","parameters":{"max_tokens":3,"ignore_eos":true},"stream":%s,"exclude_input_in_output":true,` +
				`"return_finish_reason":true,"return_num_input_tokens":true,"return_num_output_tokens":true}`,
			event: tritonEvent, whole: tritonWhole, refusal: "error", finish: "length",
			events: "token token token", failed: "token error", uncached: true,
		}, {
			name: "triton with TensorRT-LLM", path: "/v2/models/ensemble/generate", streamPath: "/v2/models/ensemble/generate_stream",
			body:  `{"text_input":"` + words40 + `","max_tokens":3,"stream":%s,"return_num_input_tokens":true,"return_num_output_tokens":true}`,
			event: tritonEvent, whole: tritonWhole, refusal: "error",
			events: "token token token", failed: "token error", uncached: true,
		},
	}
}

func responsesEvent(s *seen, name string, o object) string {
	if o.text("type") != name || o.number("sequence_number") != len(s.events) {
		s.failure = fmt.Sprintf("event %d is %s, its object %v", len(s.events), name, o)
	}
	switch name {
	case "response.output_text.delta", "response.reasoning_text.delta":
		s.text += o.text("delta")
	case "response.function_call_arguments.delta":
		s.tool += o.text("delta")
	case "response.incomplete", "response.completed":
		inner, _ := at(o, "response").(map[string]any)
		responsesWhole(s, inner)
	case "error":
		s.failure = o.text("message")
	}
	return strings.TrimPrefix(name, "response.")
}

// responsesWhole reads a response, whose text must be what its stream said, if there was one.
func responsesWhole(s *seen, o object) {
	s.count(o, "usage.input_tokens", "usage.input_tokens_details.cached_tokens", "usage.output_tokens")
	s.finish = o.text("incomplete_details.reason")
	text, tool := "", ""
	items, _ := at(o, "output").([]any)
	for i := range items {
		text += o.text(fmt.Sprintf("output.%d.content.0.text", i))
		tool += o.text(fmt.Sprintf("output.%d.arguments", i))
	}
	if len(s.events) > 0 && (text != s.text || tool != s.tool) {
		s.failure = fmt.Sprintf("the stream said %q and %q, its end %q and %q", s.text, s.tool, text, tool)
	}
	s.text, s.tool = text, tool
}

func messagesUsage(s *seen, o object, path string) {
	s.count(o, path+".input_tokens", path+".cache_read_input_tokens", path+".output_tokens")
	if s.prompt >= 0 {
		s.prompt += max(s.cached, 0)
	}
}

func messagesEvent(s *seen, name string, o object) string {
	if o.text("type") != name {
		s.failure = fmt.Sprintf("event %s is %v", name, o)
	}
	switch name {
	case "message_start":
		messagesUsage(s, o, "message.usage")
	case "content_block_delta":
		s.text += o.text("delta.text") + o.text("delta.thinking")
		s.tool += o.text("delta.partial_json")
		return o.text("delta.type")
	case "message_delta":
		s.finish = o.text("delta.stop_reason")
		messagesUsage(s, o, "usage")
	case "error":
		s.failure = o.text("error.message")
	}
	return name
}

func tgiEvent(s *seen, _ string, o object) string {
	if o.has("error") {
		s.failure = o.text("error")
		return "error"
	}
	if o.number("index") != len(s.events)+1 {
		s.failure = fmt.Sprint("index of ", o)
	}
	s.text += o.text("token.text")
	s.finish = o.text("details.finish_reason")
	s.count(o, "details.input_length", "", "details.generated_tokens")
	if whole := o.text("generated_text"); whole != "" && whole != s.text {
		s.failure = "generated_text " + whole
	}
	return "token"
}

func sglangEvent(s *seen, _ string, o object) string {
	if o.has("error") {
		s.failure = o.text("error.message")
		return "error"
	}
	ids, _ := at(o, "output_ids").([]any)
	if whole := o.text("text"); !strings.HasPrefix(whole, s.text) || len(ids) != len(strings.Fields(whole)) {
		s.failure = fmt.Sprintf("%q after %q, with %d ids", whole, s.text, len(ids))
	}
	s.text, s.finish = o.text("text"), o.text("meta_info.finish_reason.type")
	s.count(o, "meta_info.prompt_tokens", "meta_info.cached_tokens", "meta_info.completion_tokens")
	return "token"
}

// parse reads a stream strictly, by the rules of the HTML standard, and says whether [DONE] came last.
func (c *apiTest) parse(t *testing.T, stream string) (s seen, done bool) {
	t.Helper()
	s = seen{prompt: -1, cached: -1, completion: -1}
	for _, event := range strings.SplitAfter(stream, "\n\n") {
		if event == "" {
			continue
		}
		if done || !strings.HasSuffix(event, "\n\n") {
			t.Fatalf("%s: event %q in %q", c.name, event, stream)
		}
		name, data := "", ""
		for _, line := range strings.Split(strings.TrimSuffix(event, "\n\n"), "\n") {
			field, value, _ := strings.Cut(line, ":")
			value = strings.TrimPrefix(value, " ")
			switch field {
			case "event":
				name = value
			case "data":
				data = value
			default:
				t.Fatalf("%s: line %q", c.name, line)
			}
		}
		if data == "[DONE]" {
			done = true
			continue
		}
		var o object
		if err := json.Unmarshal([]byte(data), &o); err != nil {
			t.Fatalf("%s: event %q: %v", c.name, event, err)
		}
		s.events = append(s.events, c.event(&s, name, o))
	}
	return s, done
}

// ask sends the request and reads what comes; err is that of the body.
func (c *apiTest) ask(ts *testServer, stream bool, fault string) (s seen, done bool, err error) {
	ts.t.Helper()
	path, body := c.path, fmt.Sprintf(c.body, fmt.Sprint(stream))
	if stream && c.streamPath != "" {
		path = c.streamPath
	}
	if c.streamPath == "/generate_stream" {
		body = fmt.Sprintf(c.body, fmt.Sprint(!stream)) // decoder_input_details, which TGI has without a stream only
	}
	var header []string
	if fault != "" {
		header = []string{"X-Mock-Fault", fault, "Connection", "close"} // many a fault ends with the server's FIN
	}
	resp, text, err := ts.post(path, body, header...)
	if resp == nil {
		ts.t.Fatalf("%s: %v", c.name, err)
	}
	if err != nil && !stream {
		return seen{}, false, err
	}
	if got := resp.Header.Get("Content-Type"); stream != strings.HasPrefix(got, "text/event-stream") && resp.StatusCode == 200 {
		ts.t.Errorf("%s: content type %q", c.name, got)
	}
	if stream && resp.StatusCode == 200 {
		s, done = c.parse(ts.t, text)
		return s, done, err
	}
	if strings.HasPrefix(text, "[{") {
		text = text[1 : len(text)-1]
	}
	var o object
	if jsonErr := json.Unmarshal([]byte(text), &o); jsonErr != nil {
		return seen{}, false, jsonErr
	}
	s = seen{prompt: -1, cached: -1, completion: -1}
	if resp.StatusCode != 200 {
		s.failure = fmt.Sprint(resp.StatusCode, " ", o.text(c.refusal))
	} else {
		c.whole(&s, o)
	}
	return s, false, nil
}

// expect compares an answer with one of three tokens of which so many prompt tokens were cached.
func (c *apiTest) expect(t *testing.T, s seen, stream, done bool, cached int) {
	t.Helper()
	prompt, completion, finish := 40, 3, c.finish
	if c.uncached {
		cached = -1
	}
	if c.uncounted {
		prompt, completion = -1, -1
	}
	if s.failure != "" || len(strings.Fields(s.text)) != 3 || s.prompt != prompt || s.completion != completion || s.cached != cached || s.finish != finish {
		t.Errorf("%s, stream %v: %+v", c.name, stream, s)
	}
	if stream && (strings.Join(s.events, " ") != c.events || done != c.done) {
		t.Errorf("%s: events %q, done %v, want %q", c.name, s.events, done, c.events)
	}
}
