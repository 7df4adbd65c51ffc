package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
)

// recorder is a server that keeps the bodies it gets, by request id, and answers whole or as a stream, whatever is
// asked for.
type recorder struct {
	mu     sync.Mutex
	bodies map[string]string
}

func (r *recorder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	r.mu.Lock()
	r.bodies[req.Header.Get("X-Request-Id")] = string(body)
	r.mu.Unlock()
	var asked struct {
		Stream bool `json:"stream"`
	}
	const usage = `"usage":{"prompt_tokens":3,"completion_tokens":1}`
	if json.Unmarshal(body, &asked) != nil || !asked.Stream {
		fmt.Fprintf(w, `{"choices":[{"text":"x","message":{"content":"x"},"finish_reason":"stop"}],%s}`, usage)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "data: {\"choices\":[{\"text\":\"x\",\"delta\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}],%s}\n\ndata: [DONE]\n\n", usage)
}

// sent replays a file against a recorder and returns the bodies by row.
func sent(t *testing.T, file string, args ...string) (*results, map[int64]string) {
	t.Helper()
	server := &recorder{bodies: map[string]string{}}
	r := run(t, with(args, newFile(t, "trace.jsonl", file), "--url", serve(t, server.ServeHTTP), "--no-probe")...)
	r.only(t, "ok")
	rows := map[int64]string{}
	for _, l := range r.lines {
		rows[l.Row] = server.bodies[l.ID]
	}
	return r, rows
}

// TestVerbatimBodies: what is verbatim arrives unchanged.
func TestVerbatimBodies(t *testing.T) {
	t.Parallel()
	file := `{"timestamp":0,"text_input":"Caf\u00e9 é \"q\"\n<&>","output_length":2}
{"timestamp":1,"messages":[ {"role":"system", "content":"Be  brief."},{"role":"user","content":[{"type":"text","text":"Hi"}]} ],"tools":[ {"type":"function","function":{"name":"f"}} ],"output_length":2,"extra":{"temperature":0.50,"stream":false}}
{"timestamp":2,"payload":{ "messages" : [] ,"stream":true, "model":"mine" }}
{"timestamp":3,"payload":{"n":1},"extra":{"n":2}}
`
	const forced = `,"max_tokens":2,"min_tokens":2,"ignore_eos":true`
	_, rows := sent(t, file, "--model", "m", "--cold", "off")
	for row, want := range map[int64]string{
		0: `{"model":"m","messages":[{"role":"user","content":"Caf\u00e9 é \"q\"\n<&>"}]` + forced + `,"stream":true,"stream_options":{"include_usage":true}}`,
		1: `{"model":"m","messages":[ {"role":"system", "content":"Be  brief."},{"role":"user","content":[{"type":"text","text":"Hi"}]} ]` + forced +
			`,"tools":[ {"type":"function","function":{"name":"f"}} ],"temperature":0.50,"stream":false}`,
		2: `{ "messages" : [] ,"stream":true, "model":"mine" }`,
		3: `{"n":2}`,
	} {
		expect.Equal(t, rows[row], want, "row %d", row)
	}
	_, rows = sent(t, file, "--model", "m", "--cold", "salt", "--extra-inputs", "temperature:1", "--extra-inputs", "seed:7", "--no-force-output")
	for row, parts := range map[int64][]string{
		0: {`"max_tokens":2,"stream":true`, `"temperature":1,"seed":7,"cache_salt":"`},
		1: {`"temperature":0.50`, `"seed":7`, `"cache_salt":"`},
		2: {`{"messages":[],"stream":true,"model":"mine","temperature":1,"seed":7}`},
		3: {`{"n":2,"temperature":1,"seed":7}`},
	} {
		for _, part := range parts {
			expect.Contains(t, rows[row], part, "row %d", row)
		}
	}
}

// TestPayloadsAreNotSalted: nobody is told of a salt that is not there.
func TestPayloadsAreNotSalted(t *testing.T) {
	t.Parallel()
	const text, payload = `{"text_input":"x"}` + "\n", `{"payload":{"prompt":"y"}}` + "\n"
	r, rows := sent(t, text+payload, "--concurrency", "1", "--cold", "salt", "--model", "m")
	if !strings.Contains(rows[0], "cache_salt") || strings.Contains(rows[1], "cache_salt") {
		t.Errorf("sent %v", rows)
	}
	expect.Contains(t, strings.Join(r.summary.Notes, "\n"), "no cache_salt is in 1 payload", "notes")
}

// TestUntimedTraces: without timestamps somebody must say when requests leave.
func TestUntimedTraces(t *testing.T) {
	t.Parallel()
	path := newFile(t, "queries.jsonl", strings.Repeat(`{"text_input":"What is the capital of France?","output_length":4}`+"\n", 6))
	for _, args := range [][]string{{"--concurrency", "2", "--warmup", "1"}, {"--rate", "50"}, {"--rate", "max"}, {"--ramp", "20:60:1s"}} {
		m := startMock(t)
		r := run(t, with(args, path, "--url", m.url)...)
		r.only(t, "ok")
		for _, l := range r.lines {
			if l.Prompt != 6 || l.Completion != 4 {
				t.Errorf("%v: %+v", args, l)
			}
		}
		m.stop(t)
	}
}

// TestVerbatimUnknown: if the tokens are unknown, ideal hits are absent and the run prints why. If a tokenizer counts
// others than the server, the run prints that.
func TestVerbatimUnknown(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		says  string
		known bool
		mock  []string
		args  []string
	}{
		{"ideal hits of 5 prompts stay unknown, after 0 were counted with the servers' /tokenize: http://", false, []string{"--quirk", "no-tokenize"}, nil},
		{"stay unknown: with --history live turns carry what the servers answer", false, nil, []string{"--history", "live", "--sessions", "gated"}},
		{"how many tokens that is, and how many of them a cache can hold, only the servers can tell", false, nil, []string{"--no-probe", "--model", "mock", "--cold", "off"}},
		{"the servers counted other numbers of tokens in 5 prompts than were counted before the start (row ", true, nil, []string{"--tokenizer", "../codec/tokenizer/testdata/llama3.json", "--api", "completions"}},
	} {
		file := "multi_turn.jsonl"
		if c.known {
			file = "single_turn.jsonl"
		}
		r := run(t, with(c.args, "samples/"+file, "--concurrency", "1", "--limit", "5", "--url", startMock(t, c.mock...).url)...)
		r.only(t, "ok")
		expect.Contains(t, r.stderr, c.says, "it did not say")
		for _, l := range r.lines {
			expect.Equal(t, l.Expected != absent, c.known, "%q: row %d: %d expected", c.args, l.Row, l.Expected)
		}
	}
}
