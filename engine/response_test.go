package engine

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/http1"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/internal/redacttest"
	"github.com/fastreplay/fastreplay/engine/redact"
)

// events is the body of a completions stream of n tokens.
func events(n int, rest ...string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `data: {"choices":[{"index":0,"text":" t%d","finish_reason":null}]}`+"\n\n", i)
	}
	for _, event := range rest {
		b.WriteString("data: " + event + "\n\n")
	}
	return b.String()
}

const emptyEvent = `data: {"choices":[{"index":0,"text":"","finish_reason":null}]}` + "\n\n"

const (
	finish = `{"choices":[{"index":0,"text":"","finish_reason":"length"}]}`
	done   = "[DONE]"
)

func usage(prompt, completion, cached int) string {
	return fmt.Sprintf(`{"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d}}}`, prompt, completion, cached)
}

func responseText(status int, headers, body string) string {
	return fmt.Sprintf("HTTP/1.1 %d X\r\nContent-Length: %d\r\n%s\r\n%s", status, len(body), headers, body)
}

func chunk(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

func chunked(body string) string {
	var b strings.Builder
	b.WriteString("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/event-stream\r\n\r\n")
	for len(body) > 0 {
		n := min(37, len(body))
		fmt.Fprintf(&b, "%x\r\n%s\r\n", n, body[:n])
		body = body[n:]
	}
	return b.String() + "0\r\n\r\n"
}

func newResponse(t testing.TB, stream bool) (*response, *record.Record) {
	backend := must.Have(api.New("completions", api.Options{Stream: stream}))(t)
	p := &response{backend: backend, stream: stream, marks: backend.Traits().Marks, names: &instanceNames{}, secrets: redact.NewRedactor([]http1.Header{{Name: "Authorization", Value: "Bearer sk-verysecret"}})}
	rec := new(record.Record)
	rec.Clear()
	rec.OutputTokens = 4
	p.begin(rec)
	return p, rec
}

// play feeds the pieces at instants 100, 200, … and then what the connection did: nil leaves it open.
func play(p *response, pieces [][]byte, end error) (ended bool) {
	now := int64(0)
	for i := 0; i < len(pieces); i++ {
		now += 100
		var compressed *inflateSource
		ended, compressed = p.feed(pieces[i], now)
		if compressed != nil {
			next := func() ([]byte, int64, error) {
				i++
				now += 100
				if i >= len(pieces) {
					return nil, now, end
				}
				return pieces[i], now, nil
			}
			var err error
			if now, err = p.readInflated(compressed, next); err != nil && err != errResponseEnded {
				p.broken(err, now)
			}
			return true
		}
		if ended {
			return true
		}
	}
	if end != nil {
		p.broken(end, now+100)
		return true
	}
	return false
}

func TestResponseOutcomes(t *testing.T) {
	const sse = "Content-Type: text/event-stream\r\n"
	cases := []struct {
		name, raw string
		end       error
		outcome   record.Outcome // 0 = ok
		chunks    int64
		tokens    int64 // 0 = one a chunk
		err       string
		spent     bool // the connection cannot be used again
	}{
		{name: "whole stream", raw: chunked(events(3, finish, usage(9, 3, 0), done)), chunks: 3},
		{name: "last token is in the finish chunk", raw: chunked(events(3, finish, usage(9, 4, 0), done)), chunks: 4},
		{name: "no usage", raw: chunked(events(3, finish, done)), chunks: 3},
		{name: "no finish but DONE", raw: chunked(events(3, usage(9, 3, 0), done)), chunks: 3},
		{name: "no finish and no usage, but DONE", raw: chunked(events(3, done)), outcome: record.Truncated, chunks: 3, err: "neither a finish reason nor a count"},
		{name: "last event lacks its blank line", raw: responseText(200, sse, strings.TrimSuffix(events(2, finish), "\n\n")), chunks: 2},
		{name: "ends inside an event", raw: responseText(200, sse, events(2, finish)+"data: {\"cho"), outcome: record.Truncated, chunks: 2, err: "inside an event", spent: true},
		{name: "read to close", raw: "HTTP/1.1 200 OK\r\n" + sse + "\r\n" + events(2, finish, done), end: io.EOF, chunks: 2, spent: true},
		{name: "more after DONE", raw: chunked(events(3, finish, usage(9, 3, 0), done) + events(5, usage(9, 8, 0))), chunks: 3},
		{name: "no finish, no DONE", raw: chunked(events(3)), outcome: record.Truncated, chunks: 3, err: "without a finish reason"},
		{name: "cut in the body", raw: chunked(events(3, finish, done))[:300], end: io.EOF, outcome: record.Truncated, err: "cut short", spent: true},
		{name: "cut in the head", raw: "HTTP/1.1 200 OK\r\nConte", end: io.EOF, outcome: record.Truncated, err: "head", spent: true},
		{name: "closed without a byte", raw: "", end: io.EOF, outcome: record.Reset, err: "before it answered", spent: true},
		{name: "reset without a byte", raw: "", end: syscall.ECONNRESET, outcome: record.Reset, err: "reset", spent: true},
		{name: "reset in the body", raw: chunked(events(3))[:200], end: syscall.ECONNRESET, outcome: record.Reset, err: "reset", spent: true},
		{name: "status 500 with a message", raw: responseText(500, "", `{"error":{"message":"out of \"blocks\"","code":500}}`), outcome: record.HTTPError, err: `out of "blocks"`},
		{name: "status 502 with a page", raw: responseText(502, "Content-Type: text/html\r\n", "<html>bad gateway</html>"), outcome: record.HTTPError, err: "bad gateway"},
		{name: "error in the stream", raw: chunked(events(2, `{"error":{"message":"preempted"}}`, done)), outcome: record.StreamError, chunks: 2, err: "preempted"},
		{name: "an event called an error", raw: chunked(events(2) + "event: error\ndata: {\"message\":\"out of blocks\",\"code\":500}\n\n" + events(0, finish, done)), outcome: record.StreamError, chunks: 2, err: "out of blocks"},
		{name: "an event called an error, not JSON", raw: chunked(events(2, finish) + "event: error\ndata: engine died\n\n"), outcome: record.StreamError, chunks: 2, err: "engine died"},
		{name: "an event called an error, without data", raw: chunked(events(2, finish) + "event:error\r\n: worker lost\r\n\r\n" + events(0, done)), outcome: record.StreamError, chunks: 2, err: "an error without a message"},
		{name: "an error that looks like a token", raw: chunked(events(2) + "event: error\n" + events(1, finish, done)), outcome: record.StreamError, chunks: 2, err: "choices"},
		{name: "other events have names, too", raw: chunked("event: message\n" + events(2) + "event: errors\n" + events(1, finish, done)), chunks: 3},
		{name: "JSON error with status 200", raw: responseText(200, "", `{"error":{"message":"no such model"}}`), outcome: record.StreamError, err: "no such model"},
		{name: "malformed event", raw: chunked(events(1, `{"choices":[{`)), outcome: record.BadResponse, chunks: 1, spent: true},
		{name: "not HTTP", raw: "SSH-2.0-OpenSSH_9.2\r\n\r\n", outcome: record.BadResponse, spent: true},
		{name: "empty stream", raw: chunked("data: [DONE]\n\n"), outcome: record.BadResponse, err: "no token chunk"},
		{name: "half a character, so no text", raw: chunked(events(0, `{"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}`, usage(9, 1, 0), done)), chunks: 1},
		{name: "two tokens of half a character", raw: chunked(events(0, `{"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}`, usage(9, 2, 0), done)), chunks: 1, tokens: 2},
		{name: "finished without a token", raw: chunked(events(0, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, usage(9, 0, 0), done)), outcome: record.BadResponse, err: "no token chunk"},
		{name: "given up", raw: chunked(events(2, `{"choices":[{"index":0,"text":"","finish_reason":"abort"}]}`, done)), outcome: record.StreamError, chunks: 2, err: "abort"},
		{name: "credential repeated", raw: responseText(401, "", `{"error":"bad key sk-verysecret"}`), outcome: record.HTTPError, err: "bad key ***"},
		{name: "a page in place of an answer", raw: responseText(200, "Content-Type: text/html\r\n", "\n <html>log in</html>"), outcome: record.BadResponse, err: "a page (HTML or XML)"},
		{name: "an empty chunk before the tokens", raw: chunked(emptyEvent + events(3, finish, usage(9, 3, 0), done)), chunks: 3},
		{name: "empty chunks that may be tokens", raw: chunked(emptyEvent + emptyEvent + events(3, finish, usage(9, 4, 0), done)), chunks: 5, tokens: 4},
		{name: "network lost", raw: "", end: syscall.ETIMEDOUT, outcome: record.Reset, err: "connection lost", spent: true},
		{name: "finish chunk beside chunks of several tokens", raw: chunked(events(2, finish, usage(9, 4, 0), done)), chunks: 2, tokens: 4},
		{name: "close asked for", raw: "HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.SplitN(chunked(events(1, finish, done)), "\r\n\r\n", 2)[1], chunks: 1, spent: true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for _, size := range []int{1, 7, 1 << 20} {
				p, rec := newResponse(t, true)
				if !play(p, slices.Collect(slices.Chunk([]byte(c.raw), size)), c.end) {
					t.Fatalf("pieces of %d: the reply has not ended", size)
				}
				if rec.Outcome != c.outcome || !strings.Contains(rec.Error, c.err) {
					t.Errorf("pieces of %d: %v %q, want %v with %q", size, rec.Outcome, rec.Error, c.outcome, c.err)
				}
				if tokens := cmp.Or(c.tokens, c.chunks); c.chunks > 0 && (rec.Chunks != c.chunks || rec.CompletionTokens != tokens) {
					t.Errorf("pieces of %d: %d chunks, %d tokens; want %d, %d", size, rec.Chunks, rec.CompletionTokens, c.chunks, tokens)
				}
				expect.Equal(t, int64(len(p.gaps)), max(0, rec.Chunks-1), "pieces of %d: %d gaps between %d chunks", size, len(p.gaps), rec.Chunks)
				expect.Equal(t, p.reusable, !c.spent, "pieces of %d: reusable", size)
				expect.Equal(t, rec.Outcome == record.OK, rec.Error == "", "pieces of %d: outcome %v with error %q", size, rec.Outcome, rec.Error)
			}
		})
	}
}

// TestHiddenReasoning: reasoning that is counted and does not come takes no part in the time per token.
func TestHiddenReasoning(t *testing.T) {
	counted := func(thought int) string {
		return fmt.Sprintf(`{"choices":[],"usage":{"completion_tokens":10,"completion_tokens_details":{"reasoning_tokens":%d}}}`, thought)
	}
	reasons := `data: {"choices":[{"index":0,"delta":{"reasoning_content":"hm"}}]}` + "\n\n"
	for raw, hidden := range map[string]int64{
		events(3, finish, counted(7), done):              7,
		emptyEvent + events(3, finish, counted(7), done): 7,
		events(10, finish, counted(7), done):             record.None, // it is text, as of <think>
		events(10, finish, counted(0), done):             record.None,
		events(3, finish, counted(10), done):             record.None, // what came is none of it
		reasons + events(2, finish, counted(7), done):    record.None,
	} {
		p, rec := newResponse(t, true)
		play(p, [][]byte{[]byte(chunked(raw))}, nil)
		expect.Equal(t, rec.HiddenTokens, hidden, raw)
		expect.Equal(t, rec.CompletionTokens, 10, raw)
		expect.Equal(t, rec.SentTokens(), 10-max(0, hidden), raw)
	}
}

// TestEndlessAnswer: a server that never ends an answer is given up, before its chunks or its text fill the memory.
func TestEndlessAnswer(t *testing.T) {
	stretch := []byte(strings.Repeat(events(1), 1000))
	long := []byte(`data: {"choices":[{"index":0,"text":"` + strings.Repeat("x", 1<<20) + `"}]}` + "\n\n")
	for name, piece := range map[string][]byte{"token chunks": stretch, "of text": long} {
		p, rec := newResponse(t, true)
		p.answer.Wanted = true
		ended, _ := p.feed([]byte("HTTP/1.1 200 OK\r\n\r\n"), 100)
		read := 0
		for ; !ended && read < 256<<20; read += len(piece) {
			ended, _ = p.feed(piece, 200)
		}
		if !ended || rec.Outcome != record.BadResponse || !strings.Contains(rec.Error, name) {
			t.Errorf("%s: ended %v after %d bytes: %v %q", name, ended, read, rec.Outcome, rec.Error)
		}
	}
}

// TestResponseInstants gives every event a read of its own and expects each instant where its event was read.
func TestResponseInstants(t *testing.T) {
	p, rec := newResponse(t, true)
	special := `{"choices":[{"index":0,"text":"","finish_reason":null}]}` // a token without text
	pieces := [][]byte{
		[]byte("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"), // 100
		[]byte("data: " + special + "\n\n"),                    // 200
		[]byte(events(1)),                                      // 300
		[]byte(events(2)),                                      // 400: two tokens in one read
		[]byte(events(0, finish)),                              // 500
		[]byte(events(0, usage(7, 5, 3), done)),                // 600
	}
	play(p, pieces, io.EOF)
	want := *rec
	want.HeadersNS, want.FirstTokenNS, want.FirstTextNS, want.FirstOutputNS, want.LastTokenNS, want.DoneNS = 100, 200, 300, 200, 500, 700
	want.Chunks, want.CompletionTokens, want.PromptTokens, want.CachedTokens = 5, 5, 7, 3
	want.TokensFrom, want.FinishReason, want.Status, want.Outcome, want.Error = record.TokensFromUsage, "length", 200, record.OK, ""
	expect.Equal(t, *rec, want, "record")
	expect.List(t, p.gaps, []int64{100, 100, 0, 100}, "gaps")
}

// TestEmptyFirst: TTFT is the time of the first token. If the server counts no token for the empty chunks before it,
// they are none; else they may be half a character each.
func TestEmptyFirst(t *testing.T) {
	for tokens, want := range map[int]record.Record{
		2: {FirstTokenNS: 400, FirstTextNS: 400, FirstOutputNS: 400, LastTokenNS: 500, Chunks: 2},
		3: {FirstTokenNS: 200, FirstTextNS: 400, FirstOutputNS: 200, LastTokenNS: 500, Chunks: 4},
		4: {FirstTokenNS: 200, FirstTextNS: 400, FirstOutputNS: 200, LastTokenNS: 500, Chunks: 4},
	} {
		p, rec := newResponse(t, true)
		play(p, [][]byte{
			[]byte("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"),
			[]byte(emptyEvent), []byte(emptyEvent), []byte(events(1)), []byte(events(1)), []byte(events(0, usage(7, tokens, 3), done)),
		}, io.EOF)
		got := record.Record{FirstTokenNS: rec.FirstTokenNS, FirstTextNS: rec.FirstTextNS, FirstOutputNS: rec.FirstOutputNS, LastTokenNS: rec.LastTokenNS, Chunks: rec.Chunks}
		expect.Equal(t, got, want, "%d tokens", tokens)
		expect.Equal(t, int64(len(p.gaps)), want.Chunks-1, "%d tokens: gaps", tokens)
	}
}

// TestAnswerModel: a record has the model that the answer names first, streamed or whole, in every API that names one.
func TestAnswerModel(t *testing.T) {
	for text, want := range map[string]string{
		responseText(200, "", `data: {"model":"m1","choices":[{"index":0,"text":"a"}]}`+"\n\n"+`data: {"model":"m2","choices":[{"index":0,"text":"a"}]}`+"\n\ndata: [DONE]\n\n"): "m1",
		responseText(200, "", `{"choices":[{"text":"a b","finish_reason":"length"}],"model":"m3"}`):                                                                              "m3",
		responseText(200, "", `{"choices":[{"text":"a b","finish_reason":"length"}],"model":7}`):                                                                                 "",
	} {
		p, rec := newResponse(t, true)
		play(p, [][]byte{[]byte(text)}, nil)
		expect.Equal(t, rec.AnswerModel, want, "%s", text)
	}
}

// TestFirstOutput against the definition, of streams of chunks in any order: the first chunk with text says whether the
// answer begins with reasoning. If it does, the answer itself begins with the first other text, and else with the first
// chunk.
func TestFirstOutput(t *testing.T) {
	const empty, reasoning, answer, both = "\"content\":\"\"", "\"reasoning\":\"x\"", "\"content\":\"x\"", "\"reasoning\":\"x\",\"content\":\"y\""
	kinds := []string{empty, reasoning, answer, both}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 500 {
		p, rec := newResponse(t, true)
		pieces := [][]byte{[]byte("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")} // read at 100, and each other piece 100 later
		var chunks []string
		for range 1 + rng.IntN(6) {
			chunks = append(chunks, kinds[rng.IntN(len(kinds))])
			pieces = append(pieces, []byte(`data: {"choices":[{"index":0,"delta":{`+chunks[len(chunks)-1]+"}}]}\n\n"))
		}
		play(p, append(pieces, []byte(events(0, done))), io.EOF)
		want := int64(record.None)
		firstText := slices.IndexFunc(chunks, func(c string) bool { return c != empty })
		if firstText < 0 || chunks[firstText] != reasoning {
			want = 200
		} else if at := slices.IndexFunc(chunks, func(c string) bool { return c == answer || c == both }); at >= 0 {
			want = 200 + 100*int64(at)
		}
		if rec.FirstOutputNS != want || rec.FirstTokenNS != 200 {
			t.Fatalf("%q: first output at %d, want %d; first token at %d", chunks, rec.FirstOutputNS, want, rec.FirstTokenNS)
		}
	}
}

func TestResponseOfAWholeBodyHasNoFirstToken(t *testing.T) {
	p, rec := newResponse(t, false)
	body := `{"choices":[{"text":"a b","finish_reason":"length"}],"usage":{"prompt_tokens":5,"completion_tokens":2}}`
	play(p, [][]byte{[]byte(responseText(200, "", body))}, nil)
	if rec.Outcome != record.OK || rec.FirstTokenNS != record.None || rec.LastTokenNS != 100 || rec.CompletionTokens != 2 || rec.CachedTokens != record.None {
		t.Errorf("record %+v", rec)
	}
}

func TestResponseInflates(t *testing.T) {
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	for range 3 {
		_, _ = w.Write([]byte(events(1)))
		_ = w.Flush()
	}
	_, _ = w.Write([]byte(events(0, finish, done)))
	_ = w.Close()
	head := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n", z.Len())
	for _, size := range []int{1, 5, 1 << 20} {
		p, rec := newResponse(t, true)
		play(p, slices.Collect(slices.Chunk(append([]byte(head), z.Bytes()...), size)), io.EOF)
		if rec.Outcome != record.OK || rec.Chunks != 3 || !p.reusable {
			t.Errorf("pieces of %d: %v %q, %d chunks, reusable %v", size, rec.Outcome, rec.Error, rec.Chunks, p.reusable)
		}
	}
	p, rec := newResponse(t, true)
	play(p, [][]byte{append([]byte(head), z.Bytes()[:z.Len()/2]...)}, io.EOF)
	expect.Equal(t, rec.Outcome, record.Truncated, "half a gzip body: %q", rec.Error)
	p, rec = newResponse(t, true)
	play(p, [][]byte{[]byte(head + strings.Repeat("x", z.Len()))}, io.EOF)
	expect.Equal(t, rec.Outcome, record.BadResponse, "garbage for gzip: %q", rec.Error)
}

func FuzzResponse(f *testing.F) {
	f.Add([]byte(chunked(events(2, finish, usage(1, 2, 3), done))), uint8(3), true)
	f.Add([]byte(responseText(500, "", `{"error":"x"}`)), uint8(1), false)
	f.Fuzz(func(t *testing.T, raw []byte, size uint8, stream bool) {
		p, rec := newResponse(t, stream)
		if !play(p, slices.Collect(slices.Chunk(raw, int(size)+1)), io.EOF) {
			t.Fatal("the end of the connection did not end the reply")
		}
		if rec.Outcome == record.NotSent || (rec.Outcome == record.OK) != (rec.Error == "") {
			t.Fatalf("outcome %v with error %q", rec.Outcome, rec.Error)
		}
		// A gap is between two chunks of one choice.
		if stream && len(p.spans) <= 1 && int64(len(p.gaps)) != max(0, rec.Chunks-1) {
			t.Fatalf("%d gaps between %d chunks", len(p.gaps), rec.Chunks)
		}
	})
}

// vllmStream is a responseText as vLLM sends it: an event of usual size in each chunk.
func vllmStream(n int) string {
	event := func(choices, usage string) string {
		data := `data: {"id":"cmpl-8f4b8a7b6c5d4e3f2a1b0c9d8e7f6a5b","object":"text_completion","created":1732154321,` +
			`"model":"Qwen/Qwen2.5-7B-Instruct","choices":[` + choices + `],"usage":` + usage + "}\n\n"
		return fmt.Sprintf("%x\r\n%s\r\n", len(data), data)
	}
	var b strings.Builder
	b.WriteString("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/event-stream\r\n\r\n")
	for i := range n {
		reason := `null`
		if i == n-1 {
			reason = `"length"`
		}
		b.WriteString(event(fmt.Sprintf(`{"index":0,"text":" t%d","logprobs":null,"finish_reason":%s,"stop_reason":null}`, i, reason), "null"))
	}
	b.WriteString(event("", fmt.Sprintf(`{"prompt_tokens":9,"total_tokens":%d,"completion_tokens":%d}`, n+9, n)))
	return b.String() + "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"
}

const benchTokens = 256

// BenchmarkResponse reads, from memory, small events cut by chunks of 37 bytes.
func BenchmarkResponse(b *testing.B) {
	benchmarkResponse(b, chunked(events(benchTokens, finish, usage(9, benchTokens, 0), done)))
}

// BenchmarkResponseOfVLLM reads, from memory, usual events with a chunk each.
func BenchmarkResponseOfVLLM(b *testing.B) { benchmarkResponse(b, vllmStream(benchTokens)) }

func benchmarkResponse(b *testing.B, response string) {
	p, rec := newResponse(b, true)
	raw := []byte(response)
	b.ReportAllocs()
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		rec.Clear()
		p.begin(rec)
		p.feed(raw, 1)
	}
	b.ReportMetric(float64(b.N*benchTokens)/b.Elapsed().Seconds(), "events/s")
	if rec.Outcome != record.OK || rec.Chunks != benchTokens {
		b.Fatalf("%v %q, %d chunks", rec.Outcome, rec.Error, rec.Chunks)
	}
}

// TestResponseOfSeveralChoices: the tokens of choices that come in turn are measured by choice.
func TestResponseOfSeveralChoices(t *testing.T) {
	chance := rand.New(rand.NewPCG(5, 6))
	p, _ := newResponse(t, true)
	for round := range 50 {
		rec := new(record.Record)
		rec.Clear()
		p.begin(rec)
		n := 1 + chance.IntN(4)
		pieces := [][]byte{[]byte("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")}
		at, gaps, tokens := map[int][]int64{}, []int64(nil), 0
		for range 1 + chance.IntN(30) {
			tokens++
			i, now := chance.IntN(n), int64(100*(len(pieces)+1)) // as play has it
			if before := at[i]; len(before) > 0 {
				gaps = append(gaps, now-before[len(before)-1])
			}
			at[i] = append(at[i], now)
			pieces = append(pieces, fmt.Appendf(nil, "data: {\"choices\":[{\"index\":%d,\"text\":\"a%d\",\"finish_reason\":null}]}\n\n", i, chance.IntN(999)))
		}
		pieces = append(pieces, fmt.Appendf(nil, "data: {\"choices\":[{\"index\":0,\"text\":\"\",\"finish_reason\":\"length\"}],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":%d}}\n\ndata: [DONE]\n\n", tokens))
		play(p, pieces, io.EOF)
		took := int64(0)
		for _, of := range at {
			took += of[len(of)-1] - of[0]
		}
		want := int64(record.None)
		if rest := tokens - len(at); rest > 0 {
			want = int64(math.Round(float64(took) / float64(rest)))
		}
		if rec.Outcome != record.OK || rec.TPOTNS() != want || !slices.Equal(p.gaps, gaps) || len(at) > 1 && rec.Choices != int64(len(at)) {
			t.Errorf("round %d: %v, %d choices, TPOT %d, gaps %v; want %d choices, %d, %v", round, rec.Outcome, rec.Choices, rec.TPOTNS(), p.gaps, len(at), want, gaps)
		}
	}
	p, rec := newResponse(t, false)
	play(p, [][]byte{[]byte("HTTP/1.1 200 OK\r\n\r\n" + `{"choices":[{"index":0,"text":"a","finish_reason":"length"},{"index":1,"text":"b","finish_reason":"length"}],"usage":{"prompt_tokens":9,"completion_tokens":8}}`)}, io.EOF)
	if rec.Outcome != record.OK || rec.Choices != 2 || rec.CompletionTokens != 8 {
		t.Errorf("of a whole answer: %+v", rec)
	}
}

// TestResponseDoesNotAllocate: a stream is read, and its text kept or not, without an allocation.
func TestResponseDoesNotAllocate(t *testing.T) {
	pieces := slices.Collect(slices.Chunk([]byte(chunked(events(64, finish, usage(9, 64, 0), done))), 200))
	for _, wanted := range []bool{false, true} {
		p, rec := newResponse(t, true)
		rec.OutputTokens = 64
		round := func() {
			rec.Clear()
			p.begin(rec)
			p.answer.Wanted = wanted
			for _, piece := range pieces {
				p.feed(piece, 1)
			}
		}
		round()
		if n := testing.AllocsPerRun(50, round); n != 0 || rec.Outcome != record.OK {
			t.Errorf("wanted %v: %v allocations (%v %q), want 0", wanted, n, rec.Outcome, rec.Error)
		}
		text := " t0"
		for i := 1; i < 64; i++ {
			text += fmt.Sprint(" t", i)
		}
		if !wanted {
			text = ""
		}
		expect.Equal(t, string(p.answer.Text), text, "wanted %v: kept %q", wanted, p.answer.Text)
	}
}

// TestSecretsInRecords: whatever field of an answer repeats a key, and in whatever pieces it comes, the record has none
// of it.
func TestSecretsInRecords(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 20 {
		key := redacttest.RandomKey(rng, 4+rng.IntN(40))
		for name, spell := range redacttest.Spellings() {
			if name == "\\x" {
				continue // no JSON
			}
			plain, k := spell(key), redacttest.Quoted(spell(key))
			if strings.HasPrefix(name, "\\") || strings.HasPrefix(name, "JSON") || name == "slashes" {
				k = plain
			}
			for _, answer := range []string{
				"200 OK\r\nTarget-Pod: " + plain + "\r\n\r\ndata: {\"choices\":[{\"text\":\"a\",\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
				"200 OK\r\nTarget-Pod: " + strings.Repeat("p", redact.MaxInstanceName-5) + plain + "\r\n\r\ndata: {\"choices\":[{\"text\":\"a\",\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
				"200 OK\r\n\r\ndata: {\"choices\":[{\"text\":\"a\",\"finish_reason\":\"" + k + "\"}],\"nvext\":{\"worker_id\":\"w" + k + "\"}}\n\ndata: [DONE]\n\n",
				"200 OK\r\n\r\ndata: {\"error\":{\"message\":\"no " + k + "\"}}\n\n",
				"200 OK\r\n\r\ndata: {\"choices\":" + plain + "}\n\n",
				"200 OK\r\n" + plain + "\r\n\r\n", "200 OK\r\nX-" + plain + " : 1\r\n\r\n",
				"401 No\r\n\r\n{\"error\":{\"message\":\"Incorrect API key provided: " + k + "\"}}",
				"401 No\r\n\r\n{\"detail\":[{\"input\":\"" + strings.Repeat("e", 512-30) + k + "\"}]}",
				"502 Bad\r\n\r\n<p>" + strings.Repeat(plain+" ", 1+2*redact.MaxErrorRead/(1+len(plain))),
			} {
				answer = "HTTP/1.1 " + strings.Replace(answer, "\r\n", "\r\nConnection: close\r\n", 1)
				p, rec := newResponse(t, true)
				p.secrets = redact.NewRedactor([]http1.Header{redacttest.Bearer(key)})
				p.names.secrets, p.names.headers = p.secrets, 1
				p.head.Keep("target-pod")
				ended := false
				for rest := answer; rest != "" && !ended; {
					n := 1 + rng.IntN(len(rest))
					ended, _ = p.feed([]byte(rest[:n]), 1)
					rest = rest[n:]
				}
				if !ended {
					p.broken(io.EOF, 2)
				}
				line := string(rec.AppendJSON(nil))
				var back map[string]any
				must.Do(t, json.Unmarshal([]byte(line), &back))
				for _, text := range []string{line, fmt.Sprint(back)} {
					must.Equal(t, redacttest.Holds(text, key), "", "%s of %q: is in %s:\nafter %q", name, key, text, answer)
				}
			}
		}
	}
}
