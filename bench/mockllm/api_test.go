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
