package mockllm

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// syncBuffer is a log that may be read while the server writes it.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// testServer is a server under test with a client that shares nothing with it.
type testServer struct {
	*Server
	t      *testing.T
	client *http.Client
	log    *syncBuffer
	closed bool
}

// start runs a server until the test ends.
func start(t *testing.T, cfg Config) *testServer {
	t.Helper()
	log := &syncBuffer{}
	if cfg.Log == nil {
		cfg.Log = log
	}
	srv, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ts := serve(t, srv)
	ts.log = log
	return ts
}

// serve starts a server that was made.
func serve(t *testing.T, srv *Server) *testServer {
	t.Helper()
	ts := &testServer{Server: srv, t: t, client: &http.Client{Timeout: patience, Transport: &http.Transport{MaxIdleConnsPerHost: 100}}}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := ts.Start(ln); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ts.finish)
	return ts
}

// finish closes the server, after which the log is whole.
func (ts *testServer) finish() {
	if ts.closed {
		return
	}
	ts.closed = true
	ts.client.CloseIdleConnections()
	if err := ts.Close(); err != nil {
		ts.t.Error("Close:", err)
	}
}

// logLine is a line of the request log.
type logLine struct {
	RequestID    string `json:"request_id"`
	ArrivalNS    *int64 `json:"arrival_ns"`
	ArrivedNS    *int64 `json:"arrived_ns"`
	BeginNS      *int64 `json:"begin_ns"`
	FirstNS      *int64 `json:"first_token_ns"`
	LastNS       *int64 `json:"last_token_ns"`
	DoneNS       *int64 `json:"done_ns"`
	Status       *int   `json:"status"`
	PromptTokens *int   `json:"prompt_tokens"`
	Cached       *int   `json:"cached_tokens"`
	Completion   *int   `json:"completion_tokens"`
	API          string `json:"api"`
	Peer         string `json:"peer"`
	Fault        string `json:"fault"`
	End          ending `json:"end"`
}

// lines closes the server and returns the log by request id.
func (ts *testServer) lines() map[string]logLine {
	ts.t.Helper()
	ts.finish()
	out := map[string]logLine{}
	sc := bufio.NewScanner(&ts.log.buf)
	for sc.Scan() {
		var l logLine
		dec := json.NewDecoder(bytes.NewReader(sc.Bytes()))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&l); err != nil {
			ts.t.Fatalf("log line %q: %v", sc.Text(), err)
		}
		if _, twice := out[l.RequestID]; twice {
			ts.t.Fatalf("request %s is logged twice", l.RequestID)
		}
		out[l.RequestID] = l
	}
	return out
}

// request makes a completion request; header pairs follow.
func (ts *testServer) request(path, body string, header ...string) *http.Request {
	ts.t.Helper()
	req, err := http.NewRequest("POST", ts.URL()+path, strings.NewReader(body))
	if err != nil {
		ts.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return req
}

// post sends a request and reads its answer whole; err is the error of the exchange or of the body.
func (ts *testServer) post(path, body string, header ...string) (*http.Response, string, error) {
	ts.t.Helper()
	resp, err := ts.client.Do(ts.request(path, body, header...))
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp, string(b), err
}

// mustPost is post for an answer that must come whole.
func (ts *testServer) mustPost(status int, path, body string, header ...string) (*http.Response, string) {
	ts.t.Helper()
	resp, text, err := ts.post(path, body, header...)
	if err != nil {
		ts.t.Fatalf("%s %s: %v", path, body, err)
	}
	if resp.StatusCode != status {
		ts.t.Fatalf("%s %s: status %d (%s), want %d", path, body, resp.StatusCode, text, status)
	}
	return resp, text
}

// chunk is any object that the server sends.
type chunk struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Model   string `json:"model"`
	Choices []struct {
		Index   int     `json:"index"`
		Text    *string `json:"text"`
		Delta   *delta  `json:"delta"`
		Message *delta  `json:"message"`
		Finish  *string `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		Prompt     int `json:"prompt_tokens"`
		Total      int `json:"total_tokens"`
		Completion int `json:"completion_tokens"`
		Details    *struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
	SentNS *int64 `json:"sent_ns"`
	Error  *struct {
		Message string `json:"message"`
		Code    int    `json:"code"`
	} `json:"error"`
}

type delta struct {
	Role      string  `json:"role"`
	Content   *string `json:"content"`
	Reasoning *string `json:"reasoning_content"`
}

// tokenText returns the text of a token chunk and whether it is one.
func (c chunk) tokenText() (string, bool) {
	if len(c.Choices) != 1 {
		return "", false
	}
	ch := c.Choices[0]
	switch {
	case ch.Text != nil:
		return *ch.Text, true
	case ch.Delta == nil || ch.Delta.Role != "":
		return "", false
	case ch.Delta.Content != nil:
		return *ch.Delta.Content, true
	case ch.Delta.Reasoning != nil:
		return *ch.Delta.Reasoning, true
	}
	return "", false
}

// answer is a stream as its client sees it.
type answer struct {
	chunks []chunk
	tokens int // token chunks
	text   string
	finish string
	done   bool // [DONE] came last
}

// cached returns the reported cached tokens, -1 where there is no report.
func (a answer) cached() int {
	for _, c := range a.chunks {
		if c.Usage != nil && c.Usage.Details != nil {
			return c.Usage.Details.Cached
		}
	}
	return -1
}

// parseStream reads an event stream strictly.
func parseStream(t *testing.T, stream string) answer {
	t.Helper()
	var a answer
	for _, event := range strings.SplitAfter(strings.ReplaceAll(stream, "\r\n", "\n"), "\n\n") {
		if event == "" || strings.HasPrefix(event, ": ") {
			continue
		}
		data, ok := strings.CutPrefix(event, "data: ")
		data, end := strings.CutSuffix(data, "\n\n")
		if !ok || !end || strings.Contains(data, "\n") || a.done {
			t.Fatalf("event %q in %q", event, stream)
		}
		if data == "[DONE]" {
			a.done = true
			continue
		}
		var c chunk
		if err := json.Unmarshal([]byte(data), &c); err != nil {
			t.Fatalf("event %q: %v", event, err)
		}
		a.chunks = append(a.chunks, c)
		if text, ok := c.tokenText(); ok {
			a.tokens++
			a.text += text
		}
		if len(c.Choices) == 1 && c.Choices[0].Finish != nil {
			a.finish = *c.Choices[0].Finish
		}
	}
	return a
}

// stream posts a streaming request and reads its answer.
func (ts *testServer) stream(path, body string, header ...string) answer {
	ts.t.Helper()
	resp, text := ts.mustPost(200, path, body, header...)
	if got := resp.Header.Get("Content-Type"); got != "text/event-stream; charset=utf-8" {
		ts.t.Errorf("content type %q", got)
	}
	return parseStream(ts.t, text)
}

const (
	completions = "/v1/completions"
	chat        = "/v1/chat/completions"
	// shortStream asks for three tokens after three.
	shortStream = `{"model":"m","prompt":[7,8,9],"max_tokens":3,"ignore_eos":true,"stream":true,"stream_options":{"include_usage":true}}`
)

// patience is after how long a test gives up on what must happen.
const patience = 30 * time.Second

// eventually waits for a condition that another goroutine brings about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("never happened: " + what)
		}
	}
}

func TestCompletionStream(t *testing.T) {
	ts := start(t, Config{CacheTokens: -1})
	a := ts.stream(completions, shortStream, "X-Request-Id", `id "1"`)
	if a.tokens != 3 || a.finish != "length" || !a.done || len(a.chunks) != 4 || len(strings.Fields(a.text)) != 3 {
		t.Fatalf("got %+v", a)
	}
	for i, c := range a.chunks {
		if c.ID != `cmpl-id "1"` || c.Object != "text_completion" || c.Model != "m" || c.SentNS != nil || c.Created == 0 {
			t.Errorf("chunk %d: %+v", i, c)
		}
		if last := i == 2; i < 3 && (c.Choices[0].Finish != nil) != last || (c.Usage != nil) != (i == 3) {
			t.Errorf("chunk %d: %+v", i, c)
		}
	}
	u := a.chunks[3].Usage
	if len(a.chunks[3].Choices) != 0 || u.Prompt != 3 || u.Completion != 3 || u.Total != 6 || u.Details.Cached != 0 {
		t.Errorf("usage %+v", u)
	}
}

func TestChatStream(t *testing.T) {
	ts := start(t, Config{TemplateHead: 14, TemplateTail: 5, ReasoningTokens: 2})
	a := ts.stream(chat, `{"model":"m","messages":[{"role":"user","content":"one two"}],"max_completion_tokens":5,"stream":true,"stream_options":{"include_usage":true}}`)
	if a.tokens != 5 || a.finish != "length" || !a.done || len(a.chunks) != 7 {
		t.Fatalf("got %+v", a)
	}
	role := a.chunks[0].Choices[0].Delta
	if role.Role != "assistant" || role.Content == nil || *role.Content != "" {
		t.Errorf("role chunk %+v", role)
	}
	for i, c := range a.chunks[1:6] {
		if d := c.Choices[0].Delta; (d.Reasoning != nil) != (i < 2) || (d.Content != nil) != (i >= 2) || c.Object != "chat.completion.chunk" {
			t.Errorf("token %d: %+v", i, d)
		}
	}
	if u := a.chunks[6].Usage; u.Prompt != 21 || u.Completion != 5 || !strings.HasPrefix(a.chunks[0].ID, "chatcmpl-mock-") {
		t.Errorf("usage %+v, id %s", u, a.chunks[0].ID)
	}
}

func TestWholeAnswers(t *testing.T) {
	ts := start(t, Config{ReasoningTokens: 1, Stamp: true})
	for path, body := range map[string]string{
		completions: `{"model":"m","prompt":"a b","max_tokens":6}`,
		chat:        `{"model":"m","messages":[{"role":"user","content":"a b"}],"max_tokens":6}`,
	} {
		resp, text := ts.mustPost(200, path, body)
		var c chunk
		if err := json.Unmarshal([]byte(text), &c); err != nil || resp.Header.Get("Content-Type") != "application/json" {
			t.Fatalf("%s: %q: %v", path, text, err)
		}
		ch := c.Choices[0]
		said := ""
		if path == chat {
			if ch.Message.Role != "assistant" || c.Object != "chat.completion" {
				t.Errorf("%s: %s", path, text)
			}
			said = *ch.Message.Reasoning + *ch.Message.Content
		} else {
			said = *ch.Text
		}
		if len(strings.Fields(said)) != 6 || *ch.Finish != "length" || c.Usage.Prompt != 2 || c.Usage.Completion != 6 || c.SentNS == nil {
			t.Errorf("%s: %s", path, text)
		}
	}
}

// TestSameAnswerStreamedOrNot: the text depends on the seed and the request id alone.
func TestSameAnswerStreamedOrNot(t *testing.T) {
	body := `{"prompt":"a","max_tokens":20}`
	var texts []string
	for _, seed := range []uint64{1, 1, 2} {
		ts := start(t, Config{Seed: seed})
		_, whole := ts.mustPost(200, completions, body, "X-Request-Id", "same")
		var c chunk
		if err := json.Unmarshal([]byte(whole), &c); err != nil {
			t.Fatal(err)
		}
		a := ts.stream(completions, `{"stream":true,`+body[1:], "X-Request-Id", "same")
		if *c.Choices[0].Text != a.text {
			t.Errorf("streamed %q, whole %q", a.text, *c.Choices[0].Text)
		}
		texts = append(texts, a.text)
	}
	if texts[0] != texts[1] || texts[0] == texts[2] {
		t.Errorf("texts of seeds 1, 1, 2: %q", texts)
	}
}

func TestStreamShapes(t *testing.T) {
	body := `{"prompt":"a b","max_tokens":10,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`
	for name, c := range map[string]struct {
		cfg    Config
		tokens int // token chunks
		chunks int
		words  int
	}{
		"plain":            {Config{}, 10, 11, 10},
		"finish chunk":     {Config{FinishChunk: true}, 11, 12, 10}, // its text key is there, and empty
		"tokens per chunk": {Config{TokensPerChunk: 4}, 3, 4, 10},
		"empty":            {Config{EmptyChunks: 1}, 10, 11, 0},
		"crlf, comments":   {Config{CRLF: true, Comments: true, Coalesce: true}, 10, 11, 10},
		"late head":        {Config{LateHead: true}, 10, 11, 10},
	} {
		t.Run(name, func(t *testing.T) {
			ts := start(t, c.cfg)
			a := ts.stream(completions, body)
			if a.tokens != c.tokens || len(a.chunks) != c.chunks || len(strings.Fields(a.text)) != c.words || a.finish != "length" || !a.done {
				t.Fatalf("%d token chunks of %d, %q, %s", a.tokens, len(a.chunks), a.text, a.finish)
			}
			for i, ch := range a.chunks {
				if ch.Usage == nil || ch.Usage.Completion > 10 || i >= c.tokens && ch.Usage.Completion != 10 {
					t.Errorf("usage of chunk %d: %+v", i, ch.Usage)
				}
			}
		})
	}
}

func TestEmptyChunkShare(t *testing.T) {
	ts := start(t, Config{EmptyChunks: 0.25})
	a := ts.stream(completions, `{"prompt":"a","max_tokens":4000,"stream":true}`)
	if words := len(strings.Fields(a.text)); a.tokens != 4000 || words < 2850 || words > 3150 {
		t.Errorf("%d words in %d chunks, want about 3000 in 4000", words, a.tokens)
	}
}

func TestChatFinishChunk(t *testing.T) {
	ts := start(t, Config{FinishChunk: true})
	_, text := ts.mustPost(200, chat, `{"messages":[{"role":"user","content":"x"}],"max_tokens":2,"stream":true}`)
	a := parseStream(t, text)
	if !strings.Contains(text, `"delta":{},"logprobs":null,"finish_reason":"length"`) || a.tokens != 2 || a.finish != "length" || !a.done {
		t.Errorf("got %s", text)
	}
}

// TestPrefixCache walks through what an ideal cache of 16-token blocks holds.
func TestPrefixCache(t *testing.T) {
	ts := start(t, Config{CacheTokens: -1})
	ids := func(n int) string { return strings.TrimSuffix(strings.Repeat("5,", n), ",") }
	ask := func(prompt, extra string) int {
		return ts.stream(completions, `{"prompt":[`+prompt+`],"max_tokens":1,"stream":true,"stream_options":{"include_usage":true}`+extra+`}`).cached()
	}
	for i, c := range []struct {
		prompt, extra string
		want          int
	}{
		{ids(40), "", 0},
		{ids(40), "", 32},
		{ids(33), "", 32},
		{ids(32), "", 16}, // never the whole prompt
		{ids(16), "", 0},
		{ids(32) + ",6", "", 32},
		{ids(40), `,"cache_salt":"x"`, 0},
		{ids(40), `,"cache_salt":"x"`, 32},
		{ids(40), `,"cache_salt":"y"`, 0},
		{ids(15) + ",6," + ids(20), "", 0},
	} {
		if got := ask(c.prompt, c.extra); got != c.want {
			t.Errorf("request %d: %d tokens cached, want %d", i, got, c.want)
		}
	}
	for _, path := range []string{"/reset_prefix_cache", "/flush_cache"} {
		ask(ids(40), "")
		ts.mustPost(200, path, "")
		if got := ask(ids(40), ""); got != 0 {
			t.Errorf("%d tokens cached after %s", got, path)
		}
	}
}

func TestCachedTokenReports(t *testing.T) {
	body := `{"prompt":[` + strings.Repeat("1,", 31) + `1,2],"max_tokens":1,"stream":true,"stream_options":{"include_usage":true}}`
	for name, c := range map[string]struct {
		cfg  Config
		want [2]int
	}{
		"reported":    {Config{CacheTokens: -1}, [2]int{0, 32}},
		"left out":    {Config{CacheTokens: -1, NoCachedTokens: true}, [2]int{-1, -1}},
		"zero hidden": {Config{CacheTokens: -1, OmitZeroCached: true}, [2]int{-1, 32}},
		"no cache":    {Config{}, [2]int{0, 0}},
		"one prompt":  {Config{CacheTokens: 48}, [2]int{0, 32}}, // two whole blocks, and one for the rest and the output
	} {
		ts := start(t, c.cfg)
		if got := [2]int{ts.stream(completions, body).cached(), ts.stream(completions, body).cached()}; got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestCacheFillsWhenPrefillEnds: a prompt is no help to others before its first token.
func TestCacheFillsWhenPrefillEnds(t *testing.T) {
	ts := start(t, Config{CacheTokens: -1, TTFT: 400 * time.Millisecond})
	body := `{"prompt":[` + strings.Repeat("1,", 40) + `2],"max_tokens":1,"stream":true,"stream_options":{"include_usage":true}}`
	var wg sync.WaitGroup
	for range 2 { // together: neither finds the other
		wg.Go(func() {
			if got := ts.stream(completions, body).cached(); got != 0 {
				t.Errorf("%d tokens cached while nothing was prefilled", got)
			}
		})
	}
	wg.Wait()
	if got := ts.stream(completions, body).cached(); got != 32 {
		t.Errorf("%d tokens cached, want 32", got)
	}
}

func TestPages(t *testing.T) {
	ts := start(t, Config{Model: `a"b`, MaxModelTokens: 99, CacheTokens: 1600, NoFlush: true})
	get := func(method, path string) (int, string, http.Header) {
		req, _ := http.NewRequest(method, ts.URL()+path, nil)
		resp, err := ts.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(b), resp.Header
	}
	for _, c := range []struct {
		method, path string
		status       int
		text         string
	}{
		{"GET", "/health", 200, ""},
		{"HEAD", "/health", 200, ""},
		{"GET", "/ping", 200, ""},
		{"GET", "/version", 200, "mockllm"},
		{"GET", "/v1/models?x=1", 200, `{"object":"list","data":[{"id":"a\"b","object":"model"`},
		{"GET", "/v1/models", 200, `"max_model_len":99}]}`},
		{"HEAD", "/v1/models", 200, ""},
		{"GET", "/nothing", 404, "Not Found"},
		{"HEAD", "/nothing", 404, ""},
		{"POST", "/flush_cache", 404, "Not Found"},
		{"GET", "/v1/completions", 405, "Method Not Allowed"},
		{"DELETE", "/v1/models", 405, "Method Not Allowed"},
	} {
		status, body, header := get(c.method, c.path)
		if status != c.status || !strings.Contains(body, c.text) {
			t.Errorf("%s %s: %d %s", c.method, c.path, status, body)
		}
		if status == 405 && header.Get("Allow") == "" {
			t.Errorf("%s %s: 405 without Allow", c.method, c.path)
		}
	}
	if n := ts.Stats().Connections; n != 1 {
		t.Errorf("%d connections for a client that keeps one alive", n)
	}
}

func TestMetrics(t *testing.T) {
	ts := start(t, Config{CacheTokens: 1600, MeanOutput: 3})
	body := `{"prompt":[` + strings.Repeat("1,", 32) + `2],"max_tokens":1000,"stream":true}`
	out := ts.stream(completions, body).tokens + ts.stream(completions, body).tokens
	ts.stream(completions, shortStream)
	resp, err := ts.client.Get(ts.URL() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	for _, want := range []string{
		`vllm:num_requests_running{engine="0",model_name="mock"} 0`,
		`vllm:num_requests_waiting{engine="0",model_name="mock"} 0`,
		`vllm:kv_cache_usage_perc{engine="0",model_name="mock"} 0`,
		`vllm:prefix_cache_queries_total{engine="0",model_name="mock"} 69`,
		`vllm:prefix_cache_hits_total{engine="0",model_name="mock"} 32`,
		`vllm:prompt_tokens_total{engine="0",model_name="mock"} 69`,
		`vllm:generation_tokens_total{engine="0",model_name="mock"} ` + jsonNumber(out+3),
		`vllm:request_success_total{engine="0",model_name="mock",finished_reason="stop"} 2`,
		`vllm:request_success_total{engine="0",model_name="mock",finished_reason="length"} 1`,
		`vllm:cache_config_info{block_size="16",cache_dtype="auto",enable_prefix_caching="True",engine="0",num_gpu_blocks="101",num_gpu_blocks_override="None",sliding_window="None"} 1.0`,
	} {
		if !strings.Contains(string(text), want+"\n") {
			t.Errorf("no line %s in\n%s", want, text)
		}
	}
}

// TestTokensMadeCountWholeAnswers: an answer that comes at once was made token by token all the same; a vector has none.
func TestTokensMadeCountWholeAnswers(t *testing.T) {
	ts := start(t, Config{})
	for _, path := range []string{completions, chat} {
		before := ts.Stats().OutputTokens
		ts.mustPost(200, path, `{"prompt":"a","messages":[{"role":"user","content":"a"}],"max_tokens":7}`)
		if n := ts.Stats().OutputTokens - before; n != 7 {
			t.Errorf("%s: %d tokens made for a whole answer of 7", path, n)
		}
	}
	before := ts.Stats().OutputTokens
	ts.mustPost(200, "/v1/embeddings", `{"input":"a"}`)
	if n := ts.Stats().OutputTokens - before; n != 0 {
		t.Errorf("%d tokens made for a vector", n)
	}
}

func jsonNumber(v any) string { b, _ := json.Marshal(v); return string(b) }

func TestErrorsAndKey(t *testing.T) {
	ts := start(t, Config{Model: "m", APIKey: "secret"})
	ts.mustPost(401, completions, shortStream)
	ts.mustPost(401, completions, shortStream, "Authorization", "Bearer wrong")
	key := []string{"Authorization", "Bearer secret"}
	ts.mustPost(200, completions, shortStream, key...)
	_, text := ts.mustPost(404, completions, `{"model":"x\"y","prompt":"a"}`, key...)
	var c chunk
	if err := json.Unmarshal([]byte(text), &c); err != nil || c.Error.Code != 404 || c.Error.Message != "The model `x\"y` does not exist." {
		t.Errorf("%s: %v", text, err)
	}
	ts.mustPost(400, completions, `{"model":"m","prompt":[1,`, key...)
	ts.mustPost(415, completions, shortStream, "Authorization", "Bearer secret", "Content-Type", "text/plain")
	ts.mustPost(400, completions, shortStream, "Authorization", "Bearer secret", "X-Mock-Fault", "nonsense")
	if n := ts.Stats().Connections; n != 1 {
		t.Errorf("%d connections: an error must not cost the connection", n)
	}
}

// TestLog: one line a request, instants in order, on the clock that the stamps use, no latency shorter than asked.
func TestLog(t *testing.T) {
	const ttft, itl = 30 * time.Millisecond, 5 * time.Millisecond
	ts := start(t, Config{TTFT: ttft, ITL: itl, PrefillPerToken: time.Millisecond, Stamp: true, CacheTokens: -1})
	a := ts.stream(completions, `{"prompt":"a b c d e f g h i j","max_tokens":8,"stream":true}`, "X-Request-Id", "one")
	ts.mustPost(200, completions, `{"prompt":"a","max_tokens":3}`, "X-Request-Id", "two")
	ts.mustPost(400, completions, `{"prompt":[]}`, "X-Request-Id", "three")
	lines := ts.lines()
	if len(lines) != 3 {
		t.Fatalf("%d lines, want 3", len(lines))
	}
	l := lines["one"]
	if *l.ArrivalNS > *l.ArrivedNS || *l.FirstNS-*l.ArrivedNS < int64(ttft+10*time.Millisecond) || *l.DoneNS < *l.LastNS ||
		*l.LastNS-*l.ArrivedNS < int64(ttft+10*time.Millisecond+7*itl) {
		t.Errorf("instants %d %d %d %d %d", *l.ArrivalNS, *l.ArrivedNS, *l.FirstNS, *l.LastNS, *l.DoneNS)
	}
	if *l.Status != 200 || *l.PromptTokens != 10 || *l.Completion != 8 || *l.Cached != 0 || l.End != endDone || !strings.HasPrefix(l.Peer, "127.0.0.1:") {
		t.Errorf("line %+v", l)
	}
	if first, last := *a.chunks[0].SentNS, *a.chunks[7].SentNS; first != *l.FirstNS || last != *l.LastNS {
		t.Errorf("stamps %d, %d; log %d, %d", first, last, *l.FirstNS, *l.LastNS)
	}
	for i, c := range a.chunks {
		if due := *l.ArrivedNS + int64(ttft+10*time.Millisecond) + int64(i)*int64(itl); *c.SentNS < due {
			t.Errorf("token %d was sent %d ns early", i, due-*c.SentNS)
		}
	}
	l = lines["two"]
	if *l.DoneNS-*l.ArrivedNS < int64(ttft+time.Millisecond+2*itl) || l.FirstNS != nil || *l.Completion != 3 || l.End != endDone {
		t.Errorf("line %+v", l)
	}
	l = lines["three"]
	if *l.Status != 400 || l.FirstNS != nil || l.DoneNS != nil || l.Completion != nil || l.End != endError {
		t.Errorf("line %+v", l)
	}
}

// TestSpread: gaps vary within the bounds, around the mean, and equally for the same seed.
func TestSpread(t *testing.T) {
	draw, again := rng(9), rng(9)
	r := &reply{cfg: &Config{ITL: time.Millisecond, Spread: 0.5}, draw: draw}
	sum := int64(0)
	const draws = 100_000
	for range draws {
		g := r.gap(1)
		if g < 500_000 || g >= 1_500_000 {
			t.Fatalf("gap %d ns", g)
		}
		if want := int64(float64(time.Millisecond) * again.spread(0.5)); g != want {
			t.Fatalf("gap %d ns, the same seed gave %d", g, want)
		}
		sum += g
	}
	if mean := sum / draws; mean < 997_000 || mean > 1_003_000 {
		t.Errorf("mean gap %d ns, want 1,000,000", mean)
	}
}

func TestSlotsAndQueue(t *testing.T) {
	ts := start(t, Config{Slots: 2, MaxQueue: 1, TTFT: time.Hour})
	var conns []net.Conn
	for i := range 3 {
		conns = append(conns, ts.raw(shortStream))
		eventually(t, "request admitted", func() bool { st := ts.Stats(); return st.Running+st.Waiting == i+1 })
	}
	if st := ts.Stats(); st.Running != 2 || st.Waiting != 1 {
		t.Fatalf("running %d, waiting %d", st.Running, st.Waiting)
	}
	resp, _ := ts.mustPost(503, completions, shortStream)
	if resp.Header.Get("Retry-After") == "" {
		t.Error("503 without Retry-After")
	}
	conns[0].Close() // frees a slot, which the waiting request takes
	eventually(t, "the queue moves", func() bool { st := ts.Stats(); return st.Running == 2 && st.Waiting == 0 })
	conns = append(conns, ts.raw(shortStream))
	eventually(t, "request waits", func() bool { return ts.Stats().Waiting == 1 })
	conns[3].Close() // leaves the queue
	eventually(t, "request leaves the queue", func() bool { return ts.Stats().Waiting == 0 })
	conns[1].Close()
	conns[2].Close()
	eventually(t, "all are gone", func() bool { st := ts.Stats(); return st.Running == 0 && st.Gone == 4 })
}

// TestOneSlot: with one slot answers come one after the other, whenever their requests arrived.
func TestOneSlot(t *testing.T) {
	const ttft = 2 * time.Millisecond
	ts := start(t, Config{Slots: 1, TTFT: ttft})
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() { ts.stream(completions, shortStream, "X-Request-Id", jsonNumber(i)) })
	}
	wg.Wait()
	lines := slices.Collect(maps.Values(ts.lines()))
	slices.SortFunc(lines, func(a, b logLine) int { return cmp.Compare(*a.FirstNS, *b.FirstNS) })
	for i := range len(lines) - 1 {
		if gap := *lines[i+1].FirstNS - *lines[i].DoneNS; gap < int64(ttft) {
			t.Errorf("answer %d began %d ns after the end of answer %d, want at least %d", i+1, gap, i, int64(ttft))
		}
	}
}

// raw opens a connection and sends a completion request on it.
func (ts *testServer) raw(body string, headers ...string) net.Conn {
	ts.t.Helper()
	nc, err := net.Dial("tcp", ts.Addr().String())
	if err != nil {
		ts.t.Fatal(err)
	}
	nc.SetDeadline(time.Now().Add(patience))
	ts.t.Cleanup(func() { nc.Close() })
	if _, err := nc.Write([]byte(rawRequest(completions, body, headers...))); err != nil {
		ts.t.Fatal(err)
	}
	return nc
}

// rawRequest renders a request; each header is a whole line.
func rawRequest(path, body string, headers ...string) string {
	return "POST " + path + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: " + jsonNumber(len(body)) + "\r\n" +
		strings.Join(append(headers, ""), "\r\n") + "\r\n" + body
}
