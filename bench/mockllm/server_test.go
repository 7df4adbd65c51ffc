package mockllm

import (
	"bufio"
	"bytes"
	"crypto/x509"
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

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/mockllm/fault"
	"github.com/fastreplay/fastreplay/bench/must"
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

// alone makes a server of its own group.
func alone(cfg Config) (*Server, error) {
	servers, err := NewGroup([]Config{cfg})
	if err != nil {
		return nil, err
	}
	return servers[0], nil
}

// start runs a server until the test ends.
func start(t *testing.T, cfg Config) *testServer {
	t.Helper()
	log := &syncBuffer{}
	if cfg.Log == nil {
		cfg.Log = log
	}
	srv := must.Have(alone(cfg))(t)
	ts := serve(t, srv)
	ts.log = log
	return ts
}

// serve starts a server that was made.
func serve(t *testing.T, srv *Server) *testServer {
	t.Helper()
	ts := &testServer{Server: srv, t: t, client: &http.Client{Timeout: patience, Transport: &http.Transport{MaxIdleConnsPerHost: 100}}}
	ln := must.Have(net.Listen("tcp", "127.0.0.1:0"))(t)
	must.Do(t, ts.Start(ln))
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
	RequestID    string          `json:"request_id"`
	ArrivalNS    *int64          `json:"arrival_ns"`
	ArrivedNS    *int64          `json:"arrived_ns"`
	BeginNS      *int64          `json:"begin_ns"`
	FirstNS      *int64          `json:"first_token_ns"`
	LastNS       *int64          `json:"last_token_ns"`
	DoneNS       *int64          `json:"done_ns"`
	Status       *int            `json:"status"`
	PromptTokens *int            `json:"prompt_tokens"`
	Cached       *int            `json:"cached_tokens"`
	Completion   *int            `json:"completion_tokens"`
	Model        string          `json:"model"`
	Priority     int64           `json:"priority"`
	LoadNS       int64           `json:"load_ns"`
	API          string          `json:"api"`
	Peer         string          `json:"peer"`
	Fault        string          `json:"fault"`
	End          ending          `json:"end"`
	TokenNS      []int64         `json:"token_ns"` // of Config.LogAll
	Body         json.RawMessage `json:"body"`
	Headers      json.RawMessage `json:"headers"`
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
	req := must.Have(http.NewRequest("POST", ts.URL()+path, strings.NewReader(body)))(ts.t)
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

// answer is a completion's stream, as far as the tests look at it.
type answer struct {
	tokens, prompt, cached int // the last two are -1 where nothing reports them
	text                   string
	sentNS                 []int64
	done                   bool // [DONE] came last
}

// parseStream reads a stream of completions. Its form is what TestTranscripts is about.
func parseStream(t *testing.T, stream string) answer {
	t.Helper()
	a := answer{prompt: -1, cached: -1}
	for _, event := range strings.Split(strings.TrimSuffix(stream, "\n\n"), "\n\n") {
		data := strings.TrimPrefix(event, "data: ")
		if a.done = data == "[DONE]"; a.done {
			continue
		}
		var c struct {
			Choices []struct{ Text *string }
			SentNS  int64 `json:"sent_ns"`
			Usage   *struct {
				Prompt  int `json:"prompt_tokens"`
				Details *struct {
					Cached int `json:"cached_tokens"`
				} `json:"prompt_tokens_details"`
			}
		}
		must.Do(t, json.Unmarshal([]byte(data), &c), "event %q", event)
		if len(c.Choices) == 1 && c.Choices[0].Text != nil {
			a.tokens, a.text, a.sentNS = a.tokens+1, a.text+*c.Choices[0].Text, append(a.sentNS, c.SentNS)
		}
		if c.Usage != nil && c.Usage.Details != nil {
			a.prompt, a.cached = c.Usage.Prompt, c.Usage.Details.Cached
		}
	}
	return a
}

// stream posts a streaming completion request and reads its answer.
func (ts *testServer) stream(body string, header ...string) answer {
	ts.t.Helper()
	_, text := ts.mustPost(200, completionsPath, body, header...)
	return parseStream(ts.t, text)
}

const (
	completionsPath = "/v1/completions"
	// shortStream asks for three tokens after three.
	shortStream = `{"model":"m","prompt":[7,8,9],"max_tokens":3,"ignore_eos":true,"stream":true,"stream_options":{"include_usage":true}}`
)

// patience is after how long a test gives up on what must happen.
const patience = 30 * time.Second

// counts are what a server has done so far.
type counts struct {
	Requests, Ended, Done    int64 // generation requests: begun, of these ended, of these answered whole
	Running, Waiting         int   // of them in a slot, and in the queue
	CachedBlocks, HeldBlocks int   // different ones in the prefix cache; of a limited one those of requests in a slot
	BlockedWrites            int64 // events that a socket did not take at once
}

func (ts *testServer) counts() counts {
	s := &ts.stats
	running, waiting, cache := ts.sched.stats(ts.clock.now())
	return counts{
		int64(s.requests.Load()), s.ended.Load(), s.stopped.Load() + s.cut.Load(),
		running, waiting, ts.sched.findable(), cache.held, s.blockedWrites.Load(),
	}
}

// eventually waits for a condition that another goroutine brings about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("never happened: " + what)
		}
	}
}

func jsonNumber(v any) string { b, _ := json.Marshal(v); return string(b) }

// TestLog: one line a request, instants in order, on the clock that the stamps use, no latency shorter than asked.
func TestLog(t *testing.T) {
	const ttft, itl = 30 * time.Millisecond, 5 * time.Millisecond
	ts := start(t, Config{TTFT: ttft, ITL: itl, PrefillPerToken: time.Millisecond, Stamp: true, CacheTokens: -1})
	a := ts.stream(`{"prompt":"a b c d e f g h i j","max_tokens":8,"stream":true}`, "X-Request-Id", "one")
	ts.mustPost(200, completionsPath, `{"prompt":"a","max_tokens":3}`, "X-Request-Id", "two")
	ts.mustPost(400, completionsPath, `{"prompt":[]}`, "X-Request-Id", "three")
	lines := ts.lines()
	must.Equal(t, len(lines), 3, "lines")
	l := lines["one"]
	if *l.ArrivalNS > *l.ArrivedNS || *l.FirstNS-*l.ArrivedNS < int64(ttft+10*time.Millisecond) || *l.DoneNS < *l.LastNS ||
		*l.LastNS-*l.ArrivedNS < int64(ttft+10*time.Millisecond+7*itl) {
		t.Errorf("instants %d %d %d %d %d", *l.ArrivalNS, *l.ArrivedNS, *l.FirstNS, *l.LastNS, *l.DoneNS)
	}
	if *l.Status != 200 || *l.PromptTokens != 10 || *l.Completion != 8 || *l.Cached != 0 || l.End != endDone || !strings.HasPrefix(l.Peer, "127.0.0.1:") {
		t.Errorf("line %+v", l)
	}
	if first, last := a.sentNS[0], a.sentNS[7]; first != *l.FirstNS || last != *l.LastNS {
		t.Errorf("stamps %d, %d; log %d, %d", first, last, *l.FirstNS, *l.LastNS)
	}
	for i, sent := range a.sentNS {
		if due := *l.ArrivedNS + int64(ttft+10*time.Millisecond) + int64(i)*int64(itl); sent < due {
			t.Errorf("token %d was sent %d ns early", i, due-sent)
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

// TestLogAll: the instant of each event with tokens is the one of its stamp, a whole answer has one, and the body is
// the request's.
func TestLogAll(t *testing.T) {
	ts := start(t, Config{LogAll: true, Stamp: true, LateHead: true})
	a := ts.stream(`{"prompt":"a", "max_tokens":4,`+"\n"+`"stream":true}`, "X-Request-Id", "stream")
	ts.mustPost(200, completionsPath, `{"prompt":[7,8],"max_tokens":4}`, "X-Request-Id", "whole")
	ts.mustPost(400, completionsPath, `{"prompt":`, "X-Request-Id", "refused")
	lines := ts.lines()
	if l := lines["stream"]; !slices.Equal(l.TokenNS, a.sentNS) || string(l.Body) != `{"prompt":"a","max_tokens":4,"stream":true}` {
		t.Errorf("tokens at %v, sent at %v, body %s", l.TokenNS, a.sentNS, l.Body)
	}
	if l := lines["whole"]; len(l.TokenNS) != 1 || l.TokenNS[0] != *l.DoneNS || string(l.Body) != `{"prompt":[7,8],"max_tokens":4}` {
		t.Errorf("tokens at %v, done at %d, body %s", l.TokenNS, *l.DoneNS, l.Body)
	}
	if l := lines["refused"]; len(l.TokenNS) != 0 || string(l.Body) != "null" {
		t.Errorf("of a refused request: %v, %s", l.TokenNS, l.Body)
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
		must.Equal(t, g, int64(float64(time.Millisecond)*again.spread(0.5)), "gap ns")
		sum += g
	}
	if mean := sum / draws; mean < 997_000 || mean > 1_003_000 {
		t.Errorf("mean gap %d ns, want 1,000,000", mean)
	}
}

// raw opens a connection and sends a completion request on it.
func (ts *testServer) raw(body string, headers ...string) net.Conn {
	ts.t.Helper()
	nc := must.Have(net.Dial("tcp", ts.Addr().String()))(ts.t)
	nc.SetDeadline(time.Now().Add(patience))
	ts.t.Cleanup(func() { nc.Close() })
	must.Have(nc.Write([]byte(rawRequest(body, headers...))))(ts.t)
	return nc
}

// rawRequest renders a completion request; each header is a whole line.
func rawRequest(body string, headers ...string) string {
	return "POST " + completionsPath + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: " + jsonNumber(len(body)) + "\r\n" +
		strings.Join(append(headers, ""), "\r\n") + "\r\n" + body
}

// TestTextOfTheSeed: an answer's text depends on the seed and the request id, not on whether it is streamed.
// Config.EmptyChunks of its chunks are empty.
func TestTextOfTheSeed(t *testing.T) {
	ts := start(t, Config{EmptyChunks: 0.25})
	body := `{"prompt":"a","max_tokens":4000}`
	a := ts.stream(`{"stream":true,`+body[1:], "X-Request-Id", "same")
	if words := len(strings.Fields(a.text)); a.tokens != 4000 || words < 2850 || words > 3150 {
		t.Errorf("%d words in %d chunks, want about 3000 in 4000", words, a.tokens)
	}
	ts = start(t, Config{})
	_, whole := ts.mustPost(200, completionsPath, body, "X-Request-Id", "same")
	if a := ts.stream(`{"stream":true,`+body[1:], "X-Request-Id", "same"); !strings.Contains(whole, a.text) || a.tokens != 4000 {
		t.Errorf("streamed %q, whole %s", a.text, whole)
	}
}

// TestResponseIsCreatedAtOnce: the first events of /v1/responses do not wait for the first token.
func TestResponseIsCreatedAtOnce(t *testing.T) {
	ts := start(t, Config{TTFT: time.Hour})
	resp := must.Have(ts.client.Do(ts.request("/v1/responses", `{"input":"a","stream":true}`)))(t)
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

// TestOverloadOfAPIs: a full queue is 503, but TGI's 429.
func TestOverloadOfAPIs(t *testing.T) {
	full := &requestError{503, "ServiceUnavailableError", "The queue is full, try again later."}
	for path, p := range paths() {
		got, want := p.refuse(&params{}, full), 503
		if p.name == "tgi" {
			want = 429
		}
		if got.status != want || !json.Valid(got.body) {
			t.Errorf("%s: %d %s", path, got.status, got.body)
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
		expect.Refused(renderFields(lines))(t, "", lines)
	}
}

func TestValidate(t *testing.T) {
	expect.Equal(t, (&Config{}).Validate(), nil, "zero configuration")
	bad := Config{TTFT: -1, Spread: 2, Slots: -1, MaxQueue: 5, MaxModelTokens: -1, TemplateHead: -1, MeanOutput: -1, EmptyChunks: 1.5, KeepAlive: -1,
		Pacers: -1, Faults: []fault.Fault{{Kind: "x"}}}
	err := bad.Validate()
	for _, want := range []string{"latencies", "spread", "slots", "queue", "model length", "template", "mean output", "empty chunks", "keep-alive", "pacers", `"x"`} {
		expect.Error(t, err, want)
	}
	expect.Refused(alone(bad))(t, "", "it is accepted")
}

// TestFaultSplitWrites: the pieces arrive one by one.
func TestFaultSplitWrites(t *testing.T) {
	ts := start(t, Config{LateHead: true})
	nc := ts.raw(`{"prompt":"a","max_tokens":1,"stream":true}`, "X-Mock-Fault: slow-bytes:300us", "Connection: close")
	buf := make([]byte, 4096)
	reads, total := 0, 0
	for {
		n, err := nc.Read(buf)
		total += n
		if err != nil {
			break
		}
		reads++
	}
	if reads < total/20 { // a loaded machine merges many
		t.Errorf("%d reads for %d bytes sent one by one", reads, total)
	}
}

// TestShareOfFaults: of requests in a row each fault has its share of those that no earlier one has hit, also by the
// header.
func TestShareOfFaults(t *testing.T) {
	ts := start(t, Config{Faults: []fault.Fault{{Kind: fault.Status, N: 503, Share: 0.25}, {Kind: fault.Status, N: 418, Share: 0.5}}})
	for _, c := range []struct {
		requests int
		header   []string
		want     map[int]int
	}{
		{40, nil, map[int]int{503: 10, 418: 15, 200: 15}},
		{7, []string{"X-Mock-Fault", "status:500@0.15"}, map[int]int{500: 1, 200: 6}},
		{13, []string{"X-Mock-Fault", "status:500@0.15"}, map[int]int{500: 2, 200: 11}},
		{5, []string{"X-Mock-Fault", "status:500@0"}, map[int]int{200: 5}},
		{5, []string{"X-Mock-Fault", "status:500"}, map[int]int{500: 5}},
	} {
		got := map[int]int{}
		for range c.requests {
			resp, _, err := ts.post(completionsPath, `{"prompt":"a","max_tokens":1}`, c.header...)
			must.Do(t, err)
			got[resp.StatusCode]++
		}
		if !maps.Equal(got, c.want) {
			t.Errorf("%d requests with %q: %v, want %v", c.requests, c.header, got, c.want)
		}
	}
	ts = start(t, Config{NoHeaderFaults: true})
	ts.mustPost(200, completionsPath, shortStream, "X-Mock-Fault", "status:500")
}

// TestSelfSigned: a certificate holds for the loopback names and the given host.
func TestSelfSigned(t *testing.T) {
	host, _, err := SelfSigned("mock.example")
	must.Do(t, err)
	leaf, err := x509.ParseCertificate(host.Certificates[0].Certificate[0])
	if err != nil || leaf.VerifyHostname("mock.example") != nil || leaf.VerifyHostname("127.0.0.1") != nil || leaf.VerifyHostname("localhost") != nil {
		t.Errorf("names %v %v, %v", leaf.DNSNames, leaf.IPAddresses, err)
	}
}

// benchmarkReply is a reply in the middle of its stream, without a connection.
func benchmarkReply(p *protocol) *reply {
	srv, err := alone(Config{Stamp: true, ITL: time.Millisecond, Spread: 0.2, Incremental: true})
	if err != nil {
		panic(err)
	}
	r := &reply{srv: srv, cfg: &srv.cfg, proto: p, id: []byte("0123456789abcdef"), createdS: 1_700_000_000, total: 1 << 60, phase: phaseTokens, part: partText, headSent: true}
	r.p.stream = true
	r.divide()
	return r
}

// TestNoAllocationPerEvent: composing an event of a running stream allocates nothing.
func TestNoAllocationPerEvent(t *testing.T) {
	for path, p := range paths() {
		if p.vector {
			continue
		}
		r := benchmarkReply(p)
		var buf eventBuffer
		now := int64(1)
		compose := func() {
			now++
			buf.out = r.appendDue(&buf, buf.out[:0], now)
		}
		compose()
		expect.Equal(t, testing.AllocsPerRun(1000, compose), 0, "%s: allocations an event", path)
	}
}
