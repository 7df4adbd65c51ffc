package mockllm

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
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

// TestAPIs: every protocol, streamed and whole, when all is well and with the faults that it has a form for.
func TestAPIs(t *testing.T) {
	for _, c := range apiTests() {
		for _, stream := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/stream=%v", c.name, stream), func(t *testing.T) {
				ts := start(t, Config{CacheTokens: -1})
				for _, cached := range []int{0, 32} { // the same prompt again: its whole blocks are there
					s, done, err := c.ask(ts, stream, "")
					if err != nil {
						t.Fatal(err)
					}
					c.expect(t, s, stream, done, cached)
				}
				if s, _, err := c.ask(ts, stream, "status:503"); err != nil || !strings.HasPrefix(s.failure, "503 ") || !strings.HasSuffix(s.failure, "injected fault: status") {
					t.Errorf("status: %+v, %v", s, err)
				}
				c.checkErrorEvent(t, ts, stream)
				c.checkTruncated(t, ts, stream)
				c.checkNoUsage(t, ts, stream)
				if n := ts.Stats().Gone; n != 0 {
					t.Errorf("%d clients were gone", n)
				}
			})
		}
	}
}

func (c *apiTest) checkErrorEvent(t *testing.T, ts *testServer, stream bool) {
	t.Helper()
	s, done, err := c.ask(ts, stream, "error-event:1")
	if !stream {
		if err == nil {
			t.Errorf("half an answer was read as %+v", s)
		}
		return
	}
	if err != nil || strings.Join(s.events, " ") != c.failed || !strings.HasSuffix(s.failure, "injected fault: error-event") || s.finish != "" && s.finish != "None" || done != c.done {
		t.Errorf("error event: %+v, done %v, %v; want events %s", s, done, err, c.failed)
	}
}

func (c *apiTest) checkTruncated(t *testing.T, ts *testServer, stream bool) {
	t.Helper()
	s, done, err := c.ask(ts, stream, "truncate:1")
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("truncate: %v", err)
	}
	want := strings.TrimSuffix(c.failed, " error")
	if stream && (strings.Join(s.events, " ") != want || done || len(strings.Fields(s.text)) != 1) {
		t.Errorf("truncate: %+v, done %v; want events %s", s, done, want)
	}
}

func (c *apiTest) checkNoUsage(t *testing.T, ts *testServer, stream bool) {
	t.Helper()
	s, done, err := c.ask(ts, stream, "no-usage")
	if err != nil || s.failure != "" || s.prompt != -1 || s.completion != -1 || s.cached != -1 || len(strings.Fields(s.text)) != 3 {
		t.Errorf("no usage: %+v, %v", s, err)
	}
	want := strings.TrimSuffix(c.events, " usage")
	if stream && (strings.Join(s.events, " ") != want || done != c.done) {
		t.Errorf("no usage: events %q, done %v; want %s", s.events, done, want)
	}
}

// TestPartsOfAnAnswer: reasoning, text and a tool call, where a protocol has them; what the pieces of the arguments say
// together is JSON.
func TestPartsOfAnAnswer(t *testing.T) {
	wants := map[string]string{
		"chat": "role nothing token nothing usage",
		"responses": "created in_progress output_item.added reasoning_part.added reasoning_text.delta reasoning_text.done reasoning_part.done output_item.done " +
			"output_item.added content_part.added output_text.delta output_text.done content_part.done output_item.done " +
			"output_item.added function_call_arguments.delta function_call_arguments.done output_item.done incomplete",
		"messages": "message_start content_block_start ping thinking_delta signature_delta content_block_stop content_block_start text_delta " +
			"content_block_stop content_block_start input_json_delta content_block_stop message_delta message_stop",
	}
	for _, c := range apiTests() {
		ts := start(t, Config{ReasoningTokens: 1, ToolTokens: 1})
		s, done, err := c.ask(ts, true, "")
		want, has := wants[c.name]
		if !has {
			want = c.events
		}
		if err != nil || strings.Join(s.events, " ") != want || done != c.done || s.failure != "" {
			t.Errorf("%s: %+v, done %v, %v; want %s", c.name, s, done, err, want)
		}
		if c.name != "chat" && has && !json.Valid([]byte(s.tool)) {
			t.Errorf("%s: arguments %s", c.name, s.tool)
		}
		ts.finish()
	}
}

// TestChatToolCall: a chunk a token, and together the arguments of the whole answer.
func TestChatToolCall(t *testing.T) {
	ts := start(t, Config{ToolTokens: 3})
	const body = `{"messages":[{"role":"user","content":"x"}],"max_tokens":5,"stream":%v}`
	_, text := ts.mustPost(200, chat, fmt.Sprintf(body, false), "X-Request-Id", "same")
	var whole object
	if err := json.Unmarshal([]byte(text), &whole); err != nil {
		t.Fatal(err)
	}
	arguments, chunks := "", 0
	c := apiTest{name: "chat", event: func(_ *seen, _ string, o object) string {
		if o.has("choices.0.delta.tool_calls.0") {
			if named := o.text("choices.0.delta.tool_calls.0.function.name") == toolName; named != (chunks == 0) {
				t.Errorf("chunk %d: %v", chunks, o)
			}
			arguments += o.text("choices.0.delta.tool_calls.0.function.arguments")
			chunks++
		}
		return o.text("choices.0.finish_reason")
	}}
	_, stream := ts.mustPost(200, chat, fmt.Sprintf(body, true), "X-Request-Id", "same")
	s, _ := c.parse(t, stream)
	if chunks != 3 || !json.Valid([]byte(arguments)) || arguments != whole.text("choices.0.message.tool_calls.0.function.arguments") ||
		whole.text("choices.0.finish_reason") != "tool_calls" || s.events[len(s.events)-1] != "tool_calls" {
		t.Errorf("%d chunks, arguments %s, whole %v", chunks, arguments, whole)
	}
}

// TestChunksSayTheSame: whatever the chunks are like, an event that repeats the text agrees with them.
func TestChunksSayTheSame(t *testing.T) {
	for _, c := range apiTests() {
		ts := start(t, Config{TokensPerChunk: 2, EmptyChunks: 0.5, CRLF: false, Coalesce: true})
		for range 10 {
			if s, _, err := c.ask(ts, true, ""); err != nil || s.failure != "" && !strings.Contains(s.failure, "ids") && !strings.Contains(s.failure, "index") {
				t.Errorf("%s: %+v, %v", c.name, s, err)
			}
		}
		ts.finish()
	}
}

// TestAPIStampsAndFields: every object of every protocol has them, with CR LF and comments too.
func TestAPIStampsAndFields(t *testing.T) {
	for _, c := range apiTests() {
		ts := start(t, Config{Stamp: true, BodyFields: []string{"nvext.worker_id={instance}", "nvext.zone=a", "who=x"}, Instance: 7,
			Headers: []string{"x-instance: m{instance}"}, CRLF: true, Comments: true})
		for _, stream := range []bool{true, false} {
			path := c.path
			if stream && c.streamPath != "" {
				path = c.streamPath
			}
			body := fmt.Sprintf(c.body, fmt.Sprint(stream != (c.streamPath == "/generate_stream")))
			resp, text := ts.mustPost(200, path, body)
			if resp.Header.Get("X-Instance") != "m7" {
				t.Errorf("%s: headers %v", c.name, resp.Header)
			}
			objects := 0
			for _, line := range strings.Split(text, "\r\n") {
				line = strings.TrimSpace(strings.TrimPrefix(line, "data:"))
				if !strings.HasPrefix(line, "{") && !strings.HasPrefix(line, "[{") {
					continue
				}
				objects++
				var o object
				if err := json.Unmarshal([]byte(strings.Trim(line, "[]")), &o); err != nil {
					t.Fatalf("%s: %q: %v", c.name, line, err)
				}
				if o.number("sent_ns") <= 0 || o.number("nvext.worker_id") != 7 || o.text("nvext.zone") != "a" || o.text("who") != "x" {
					t.Errorf("%s: %s", c.name, line)
				}
			}
			if want := len(strings.Fields(c.events)); stream && objects != want || !stream && objects != 1 {
				t.Errorf("%s: %d objects", c.name, objects)
			}
		}
		ts.finish()
	}
}

// TestAPIsUnderEveryFault: no fault of any protocol hangs, and the connection's state is right afterwards.
func TestAPIsUnderEveryFault(t *testing.T) {
	faults := []string{"reset-before", "close-before", "reset-after:0", "truncate:0", "truncate:3", "slow-bytes:1us", "split", "bad-json:1", "bad-chunk:1",
		"bad-status", "error-event:0", "error-event:3", "no-finish", "short:1", "big-event:1000", "interim", "no-length"}
	for _, c := range apiTests() {
		ts := start(t, Config{CacheTokens: 160, Gzip: true, Slots: 1})
		for _, fault := range faults {
			for _, stream := range []bool{true, false} {
				path := c.path
				if stream && c.streamPath != "" {
					path = c.streamPath
				}
				body := fmt.Sprintf(c.body, fmt.Sprint(stream != (c.streamPath == "/generate_stream")))
				_, text, err := ts.post(path, body, "X-Mock-Fault", fault, "Connection", "close")
				if fault == "big-event:1000" && (err != nil || stream && !strings.Contains(text, strings.Repeat("x", 1000))) {
					t.Errorf("%s: %s: %q, %v", c.name, fault, text, err)
				}
				if fault == "bad-json:1" && stream && (err != nil || strings.Count(text, "data:") < 4) {
					t.Errorf("%s: %s: %q, %v", c.name, fault, text, err)
				}
			}
		}
		if s, done, err := c.ask(ts, true, ""); err != nil {
			t.Error(err)
		} else {
			c.expect(t, s, true, done, 32)
		}
		if st := ts.Stats(); st.Running != 0 || st.Waiting != 0 {
			t.Errorf("%s: %+v", c.name, st)
		}
		ts.finish()
	}
}

// TestResponseIsCreatedAtOnce: the first events of /v1/responses do not wait for the first token.
func TestResponseIsCreatedAtOnce(t *testing.T) {
	ts := start(t, Config{TTFT: time.Hour})
	resp, err := ts.client.Do(ts.request("/v1/responses", `{"input":"a","stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	br := bufio.NewReader(resp.Body)
	for _, want := range []string{"event: response.created\n", "event: response.in_progress\n"} {
		for i := range 3 { // an event's name, its data, a blank line
			line, err := br.ReadString('\n')
			if err != nil || i == 0 && line != want {
				t.Fatalf("%q, %v, want %q", line, err, want)
			}
		}
	}
}

func TestEmbeddings(t *testing.T) {
	ts := start(t, Config{BOSTokens: 1, CacheTokens: -1})
	for body, want := range map[string]int{
		`{"input":"a b"}`: 3, `{"input":[1,2]}`: 2, `{"input":[[1,2,3]],"encoding_format":"float"}`: 3, `{"input":["a"],"model":"m"}`: 2,
	} {
		_, text := ts.mustPost(200, "/v1/embeddings", body, "X-Request-Id", body)
		var o object
		if err := json.Unmarshal([]byte(text), &o); err != nil {
			t.Fatal(err)
		}
		vector, _ := at(o, "data.0.embedding").([]any)
		if len(vector) != vectorLength || o.number("usage.prompt_tokens") != want || o.number("usage.total_tokens") != want {
			t.Errorf("%s: %s", body, text)
		}
	}
	ts.mustPost(503, "/v1/embeddings", `{"input":"a"}`, "X-Mock-Fault", "status:503")
	if _, _, err := ts.post("/v1/embeddings", `{"input":"a"}`, "X-Mock-Fault", "truncate:1"); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("truncate: %v", err)
	}
	ts.mustPost(400, "/v1/embeddings", `{"input":["a","b"]}`)
	ts.mustPost(400, "/v1/embeddings", `{"input":"a","encoding_format":"base64"}`)
	if _, text := ts.mustPost(200, "/v1/embeddings", `{"input":"a"}`, "X-Mock-Fault", "no-usage"); strings.Contains(text, "usage") {
		t.Error(text)
	}
	for _, l := range ts.lines() {
		if l.API != "embeddings" {
			t.Errorf("line %+v", l)
		}
	}
}

// TestRefusalsOfAPIs: each protocol's statuses and forms.
func TestRefusalsOfAPIs(t *testing.T) {
	ts := start(t, Config{Model: "m", MaxModelTokens: 50})
	for _, c := range []struct {
		path, body string
		status     int
		text       string
	}{
		{"/v1/responses", `{"model":"m","max_output_tokens":3}`, 400, `"message":"input: field required"`},
		{"/v1/responses", `{"model":"m","input":[],"max_output_tokens":3}`, 400, "input: at least one is needed"},
		{"/v1/responses", `{"model":"m","input":[{"content":"a"}]}`, 400, "a message without a role"},
		{"/v1/responses", `{"model":"x","input":"a"}`, 404, "does not exist"},
		{"/v1/messages", `{"model":"m","messages":[{"role":"user","content":"a"}]}`, 400, `{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: Field required"}}`},
		{"/v1/messages", `{"model":"x","messages":[{"role":"user","content":"a"}],"max_tokens":1}`, 404, `"not_found_error"`},
		{"/v1/messages", `{"model":"m","max_tokens":1}`, 400, "messages: field required"},
		{"/generate", `{"inputs":7}`, 422, `{"error":"Input validation error: inputs: expected a string","error_type":"validation"}`},
		{"/generate_stream", `{"inputs":"a","parameters":{"max_new_tokens":99}}`, 200, `data:{"error":"Input validation error: This model's`},
		{"/generate_stream", `{"inputs":"a","parameters":{"decoder_input_details":true}}`, 200, "is not supported when streaming tokens"},
		{"/generate", `{"input_ids":[1],"sampling_params":{"max_new_tokens":99}}`, 400, `{"error":{"message":"This model's`},
		{"/generate", `{"stream":true,"input_ids":[1],"sampling_params":{"max_new_tokens":99}}`, 200, "}}\n\ndata: [DONE]\n\n"},
		{"/generate", `{"sampling_params":{}}`, 400, "Either text, input_ids"},
		{"/v2/models/m/generate", `{"parameters":{}}`, 400, `{"error":"text_input: field required"}`},
		{"/v2/models/x/generate", `{"text_input":"a","parameters":{}}`, 404, `{"error":"`},
		{"/v2/models/m/generate", `{"text_input":"a"}`, 400, "'max_tokens' is missing"},
		{"/v2/models/m/generate", `{"text_input":"a","max_tokens":1,"stream":true}`, 500, "exactly 1 response"},
		{"/v2/models/m/generate_stream", `{"text_input":"a","parameters":{"stream":true},"exclude_input_in_output":false}`, 400, "is not allowed"},
		{"/v2/models/m/explain", `{}`, 404, "Not Found"},
	} {
		if _, text := ts.mustPost(c.status, c.path, c.body); !strings.Contains(text, c.text) {
			t.Errorf("%s %s: %s", c.path, c.body, text)
		}
	}
}

// TestKeyOfAPIs: a key may come either way, and its lack is told in the protocol's form.
func TestKeyOfAPIs(t *testing.T) {
	ts := start(t, Config{APIKey: "secret"})
	const body = `{"messages":[{"role":"user","content":"a"}],"max_tokens":1}`
	if _, text := ts.mustPost(401, "/v1/messages", body); !strings.Contains(text, `"type":"authentication_error"`) {
		t.Error(text)
	}
	ts.mustPost(401, "/v1/messages", body, "X-Api-Key", "wrong")
	ts.mustPost(200, "/v1/messages", body, "X-Api-Key", "secret")
	ts.mustPost(401, "/generate", `{"inputs":"a"}`)
	ts.mustPost(200, "/generate", `{"inputs":"a"}`, "Authorization", "Bearer secret")
}

// TestOverloadOfAPIs: a full queue is 503, but TGI's 429.
func TestOverloadOfAPIs(t *testing.T) {
	full := &requestError{503, "ServiceUnavailableError", "The queue is full, try again later."}
	for _, a := range allAPIs() {
		got, want := a.refuse(&params{}, full), 503
		if a.traits().name == "tgi" {
			want = 429
		}
		if got.status != want || !json.Valid(got.body) {
			t.Errorf("%s: %d %s", a.traits().name, got.status, got.body)
		}
	}
}

// TestTGIHeaders: a whole answer tells its tokens in its head.
func TestTGIHeaders(t *testing.T) {
	ts := start(t, Config{})
	resp, _ := ts.mustPost(200, "/generate", `{"inputs":"a b","parameters":{"max_new_tokens":3}}`)
	if resp.Header.Get("X-Prompt-Tokens") != "2" || resp.Header.Get("X-Generated-Tokens") != "3" || resp.Header.Get("X-Inference-Time") == "" {
		t.Errorf("headers %v", resp.Header)
	}
	if _, text := ts.mustPost(200, "/generate", `{"parameters":{"max_new_tokens":1,"return_full_text":true},"inputs":"a \"b"}`); !strings.HasPrefix(text, `{"generated_text":"a \"b `) {
		t.Error(text)
	}
}

// TestTritonForms: the prompt comes first where the backend puts it, and a stream is one event unless asked for more.
func TestTritonForms(t *testing.T) {
	ts := start(t, Config{})
	for _, c := range []struct{ path, body, want string }{
		{"m/generate", `{"text_input":"a b","parameters":{"max_tokens":1}}`, `"text_output":"a b `},
		{"m/generate", `{"text_input":"a b","parameters":{"max_tokens":1,"exclude_input_in_output":true}}`, `"text_output":" `},
		{"m/generate", `{"text_input":"a b","sampling_parameters":"{\"max_tokens\":1}","return_num_output_tokens":true}`, `"num_output_tokens":1`},
		{"m/generate", `{"text_input":"a b","max_tokens":1}`, `"sequence_start":false,"text_output":" `},
		{"ensemble/generate", `{"text_input":"a b","max_tokens":1,"exclude_input_in_output":false}`, `"text_output":"a b `},
		{"m/generate_stream", `{"text_input":"a b","max_tokens":9}`, "data: {"},
	} {
		_, text := ts.mustPost(200, "/v2/models/"+c.path, c.body, "Content-Type", "application/x-www-form-urlencoded") // as curl -d sends it
		if !strings.Contains(text, c.want) || strings.Count(text, "text_output") != 1 {
			t.Errorf("%s %s: %s", c.path, c.body, text)
		}
	}
	for _, path := range []string{"/v2/health/ready", "/v2/health/live", "/v2/models/m/ready", "/v2/models/m/versions/1/ready"} {
		resp, err := ts.client.Get(ts.URL() + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 200 {
			t.Errorf("%s: %d", path, resp.StatusCode)
		}
	}
}

// TestSGLangIncremental: the other way that SGLang's server can be started.
func TestSGLangIncremental(t *testing.T) {
	ts := start(t, Config{Incremental: true})
	var texts []string
	c := apiTest{name: "sglang", event: func(_ *seen, _ string, o object) string {
		texts = append(texts, o.text("text"))
		return fmt.Sprint(o.number("meta_info.completion_tokens"), len(at(o, "output_ids").([]any)))
	}}
	_, stream := ts.mustPost(200, "/generate", `{"text":"a b","sampling_params":{"max_new_tokens":3},"stream":true}`)
	s, done := c.parse(t, stream)
	if !slices.Equal(s.events, []string{"1 1", "2 1", "3 1"}) || len(strings.Fields(strings.Join(texts, ""))) != 3 || !done {
		t.Errorf("%q, %q", s.events, texts)
	}
}

// TestSystemPromptStandsFirst: wherever it stands in the body, so that the conversations of one share its blocks.
func TestSystemPromptStandsFirst(t *testing.T) {
	for path, bodies := range map[string][2]string{
		"/v1/messages":  {`{"system":"%s","messages":[{"role":"user","content":"a"}],"max_tokens":1}`, `{"messages":[{"role":"user","content":"b"}],"max_tokens":1,"system":[{"type":"text","text":"%s"}]}`},
		"/v1/responses": {`{"instructions":"%s","input":"a"}`, `{"input":[{"role":"user","content":"b"}],"instructions":"%s"}`},
	} {
		ts := start(t, Config{CacheTokens: -1, TemplateHead: 3})
		ts.mustPost(200, path, fmt.Sprintf(bodies[0], words40))
		_, text := ts.mustPost(200, path, fmt.Sprintf(bodies[1], words40))
		if !strings.Contains(text, `"cache_read_input_tokens":32`) && !strings.Contains(text, `"cached_tokens":32`) {
			t.Errorf("%s: %s", path, text)
		}
	}
}

func TestBodyFields(t *testing.T) {
	for want, lines := range map[string][]string{
		``:                                     nil,
		`,"a":1,"b":{"c":"x y","d":{"e":[1]}}`: {"b.c=x y", "a=1", "b.d.e=[1]"},
		`,"a":""`:                              {"a="},
	} {
		if got, err := renderFields(lines); err != nil || string(got) != want {
			t.Errorf("%q: %s, %v", lines, got, err)
		}
	}
	for _, lines := range [][]string{{"a"}, {"=1"}, {"a=1", "a=2"}, {"a=1", "a.b=2"}} {
		if got, err := renderFields(lines); err == nil {
			t.Errorf("%q: %s", lines, got)
		}
	}
}

// TestGroup: servers of one group have caches of their own, and end one by one.
func TestGroup(t *testing.T) {
	var configs []Config
	for i := range 3 {
		configs = append(configs, Config{CacheTokens: -1, Instance: i, Headers: []string{"x-instance: {instance}"}})
	}
	servers, err := NewGroup(configs)
	if err != nil {
		t.Fatal(err)
	}
	c := apiTests()[0]
	for i, srv := range servers {
		ts := serve(t, srv)
		for _, cached := range []int{0, 32} {
			s, done, err := c.ask(ts, true, "")
			if err != nil {
				t.Fatal(err)
			}
			c.expect(t, s, true, done, cached)
		}
		if resp, _ := ts.mustPost(200, completions, shortStream); resp.Header.Get("X-Instance") != fmt.Sprint(i) {
			t.Errorf("headers of %d: %v", i, resp.Header)
		}
		if i < 2 {
			ts.finish() // the others go on
		}
	}
	if _, err := NewGroup(nil); err == nil {
		t.Error("a group of none")
	}
}
