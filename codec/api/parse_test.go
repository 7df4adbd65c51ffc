package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
)

var nothing = said{Prompt: -1, Completion: -1, More: -1, Cached: -1}

// with returns nothing, changed.
func with(change func(*said)) said {
	s := nothing
	change(&s)
	return s
}

func token(s *said)       { s.Token = true }
func text(s *said)        { s.Token, s.Text = true, true }
func reasoning(s *said)   { s.Token, s.Text, s.Reasoning = true, true, true }
func emptyFinish(s *said) { s.EmptyFinish, s.Finish = true, "stop" }

func finish(reason string) func(*said) { return func(s *said) { s.Finish = reason } }

func textAnd(reason string) func(*said) {
	return func(s *said) { s.Token, s.Text, s.Finish = true, true, reason }
}

func usage(prompt, completion, cached int) func(*said) {
	return func(s *said) { s.HasUsage, s.Prompt, s.Completion, s.Cached = true, prompt, completion, cached }
}

func failure(s *said) { s.IsError = true }

// document is what a server sends, and what it means to the API that reads it.
type document struct {
	api, name, in string
	want          said
	message       string // of an error
}

// choicesDocuments are what the servers of completions and chat send.
var choicesDocuments = []document{
	{"chat", "completions text", completionChunk, with(text), ""},
	{"chat", "chat text", chatChunk, with(text), ""},
	{"chat", "usage", usageChunk, with(usage(12035, 343, 4608)), ""},
	{"chat", "empty text", `{"choices":[{"index":0,"text":"","finish_reason":null}]}`, with(token), ""},
	{"chat", "text null", `{"choices":[{"index":0,"text":null,"finish_reason":null}]}`, nothing, ""},
	{"chat", "text with escapes", `{"choices":[{"text":"\"\\\n\u00e9"}]}`, with(text), ""},
	{"chat", "text and finish", `{"choices":[{"text":"x","finish_reason":"length"}]}`, with(textAnd("length")), ""},
	{"chat", "finish before text", `{"choices":[{"finish_reason":"length","text":"x"}]}`, with(textAnd("length")), ""},
	{"chat", "empty text and finish", `{"choices":[{"text":"","finish_reason":"stop"}]}`, with(emptyFinish), ""},
	{"chat", "finish only", `{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}`, with(finish("tool_calls")), ""},
	{"chat", "chat: empty content", `{"choices":[{"delta":{"content":""}}]}`, with(token), ""},
	{"chat", "chat: empty content and finish", `{"choices":[{"delta":{"content":""},"finish_reason":"stop"}]}`, with(emptyFinish), ""},
	{"chat", "chat: role only", `{"choices":[{"delta":{"role":"assistant","content":""}}]}`, nothing, ""},
	{"chat", "chat: role alone", `{"choices":[{"delta":{"role":"assistant"}}]}`, nothing, ""},
	{"chat", "chat: role null", `{"choices":[{"delta":{"role":null,"content":""}}]}`, with(token), ""},
	{"chat", "chat: role and content", `{"choices":[{"delta":{"role":"assistant","content":"x"}}]}`, with(text), ""},
	{"chat", "chat: role, no content, finish", `{"choices":[{"delta":{"role":"assistant","content":""},"finish_reason":"stop"}]}`, with(finish("stop")), ""},
	{"chat", "chat: content null", `{"choices":[{"delta":{"content":null}}]}`, nothing, ""},
	{"chat", "chat: nothing", `{"choices":[{"delta":{}}]}`, nothing, ""},
	{"chat", "chat: reasoning_content", `{"choices":[{"delta":{"content":null,"reasoning_content":"x"}}]}`, with(reasoning), ""},
	{"chat", "chat: reasoning beside empty content", `{"choices":[{"delta":{"content":"","reasoning":"x"}}]}`, with(reasoning), ""},
	{"chat", "chat: reasoning and content", `{"choices":[{"delta":{"reasoning":"x","content":"y"}}]}`, with(text), ""},
	{"chat", "chat: reasoning and a tool", `{"choices":[{"delta":{"reasoning":"x","tool_calls":[{"function":{"name":"f"}}]}}]}`, with(text), ""},
	{"chat", "chat: reasoning of one choice", `{"choices":[{"index":1,"delta":{"content":"y"}},{"index":0,"delta":{"reasoning":"x"}}]}`, with(text), ""},
	{"chat", "chat: refusal", `{"choices":[{"delta":{"refusal":"x"}}]}`, with(text), ""},
	{"chat", "chat: reasoning, empty", `{"choices":[{"delta":{"reasoning":""}}]}`, with(token), ""},
	{"chat", "chat: refusal", `{"choices":[{"delta":{"refusal":"no"}}]}`, with(text), ""},
	{"chat", "chat: content parts", `{"choices":[{"delta":{"content":[{"type":"text","text":"x"}]}}]}`, with(text), ""},
	{"chat", "chat: no content parts", `{"choices":[{"delta":{"content":[]}}]}`, nothing, ""},
	{"chat", "tool call begins", `{"choices":[{"delta":{"tool_calls":[{"id":"x","index":0,"type":"function","function":{"name":"f"}}]}}]}`, with(text), ""},
	{"chat", "tool call begins with the role", `{"choices":[{"delta":{"role":"assistant","tool_calls":[{"index":0,"function":{"name":"f","arguments":""}}]}}]}`, with(text), ""},
	{"chat", "tool call arguments", `{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a"}}]}}]}`, with(text), ""},
	{"chat", "tool call, empty arguments", `{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":""}}]}}]}`, with(token), ""},
	{"chat", "tool call, empty arguments and finish", `{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":""}}]},"finish_reason":"tool_calls"}]}`,
		with(func(s *said) { s.Token, s.Finish = true, "tool_calls" }), ""},
	{"chat", "no tool calls", `{"choices":[{"delta":{"tool_calls":[]}}]}`, nothing, ""},
	{"chat", "tool calls null", `{"choices":[{"delta":{"content":"","tool_calls":null}}]}`, with(token), ""},
	{"chat", "function call", `{"choices":[{"delta":{"function_call":{"arguments":"x"}}}]}`, with(text), ""},
	{"chat", "several choices", `{"choices":[{"index":0,"text":"","finish_reason":"stop"},{"index":1,"text":"x"}]}`, with(textAnd("stop")), ""},
	{"chat", "several choices, one empty", `{"choices":[{"index":0,"delta":{"content":"","role":"assistant"}},{"index":1,"delta":{"content":""}}]}`, with(token), ""},
	{"chat", "no choices", `{"choices":[]}`, nothing, ""},
	{"chat", "choices of a wrong type", `{"choices":{"text":"x"},"usage":[1]}`, nothing, ""},
	{"chat", "whole completion", `{"object":"text_completion","choices":[{"text":"a b","finish_reason":"length"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`,
		with(func(s *said) { textAnd("length")(s); usage(3, 2, -1)(s) }), ""},
	{"chat", "whole chat answer", `{"choices":[{"message":{"role":"assistant","content":"a","tool_calls":[]},"finish_reason":"eos_token"}],"usage":{"prompt_tokens":3,"completion_tokens":0,"prompt_tokens_details":null}}`,
		with(func(s *said) { textAnd("eos_token")(s); usage(3, 0, -1)(s) }), ""},
	{"chat", "keys like ours elsewhere", `{"id":"text","a":{"text":"x","usage":{"prompt_tokens":1}},"choices":[{"logprobs":{"text":"x","content":[{"text":"y"}],"finish_reason":"stop"}}]}`, nothing, ""},
	{"chat", "keys in other case", `{"Choices":[{"text":"x"}],"choices":[{"Text":"x"}]}`, nothing, ""},
	{"chat", "escaped key", `{"choice\u0073":[{"te\u0078t":"x"}]}`, with(text), ""},
	{"chat", "pretty-printed", "\n{\n  \"choices\" : [\n\t{ \"text\" : \"x\" , \"finish_reason\" : null }\r\n ] , \"usage\" : { \"prompt_tokens\" : 1 }\n}\n",
		with(func(s *said) { text(s); usage(1, -1, -1)(s) }), ""},
	{"chat", "usage null", `{"usage":null}`, nothing, ""},
	{"chat", "usage empty", `{"usage":{}}`, nothing, ""},
	{"chat", "usage of other types", `{"usage":{"prompt_tokens":"5","completion_tokens":1.5,"prompt_tokens_details":{"cached_tokens":-1}}}`, nothing, ""},
	{"chat", "usage too large", `{"usage":{"prompt_tokens":2147483648,"completion_tokens":2147483647}}`, with(usage(-1, 2147483647, -1)), ""},
	{"chat", "cached tokens zero", `{"usage":{"prompt_tokens":5,"prompt_tokens_details":{"audio_tokens":1,"cached_tokens":0}}}`, with(usage(5, -1, 0)), ""},
	{"chat", "cached tokens null", `{"usage":{"prompt_tokens":5,"prompt_tokens_details":{"cached_tokens":null}}}`, with(usage(5, -1, -1)), ""},
	{"chat", "DeepSeek's cached tokens", `{"usage":{"prompt_tokens":5,"prompt_cache_hit_tokens":4,"prompt_cache_miss_tokens":1}}`, with(usage(5, -1, 4)), ""},
	{"chat", "both kinds of cached tokens", `{"usage":{"prompt_tokens_details":{"cached_tokens":3},"prompt_tokens":5,"prompt_cache_hit_tokens":4}}`, with(usage(5, -1, 3)), ""},
	{"chat", "unknown finish reason", `{"choices":[{"finish_reason":"because \u00e9"}]}`, with(finish("because é")), ""},
	{"chat", "finish reason of another type", `{"choices":[{"finish_reason":{"type":"eos"}}]}`, nothing, ""},

	{"chat", "OpenAI's error", `{"error":{"message":"too \"long\"","type":"invalid_request_error","code":400}}`, with(failure), `too \"long\"`},
	{"chat", "error string", `{"error":"Model is overloaded","error_type":"overloaded"}`, with(failure), "Model is overloaded"},
	{"chat", "error without message", `{"error":{"code":500} }`, with(failure), `{"code":500}`},
	{"chat", "error true", `{"message":"out of memory","error":true}`, with(failure), "out of memory"},
	{"chat", "error null", `{"error":null,"choices":[{"text":"x"}]}`, with(text), ""},
	{"chat", "error false", `{"error":false,"message":"x"}`, nothing, ""},
	{"chat", "vLLM's error", `{"object":"error","message":"max_tokens must be at least 1","type":"BadRequestError","param":null,"code":400}`,
		with(failure), "max_tokens must be at least 1"},
	{"chat", "vLLM's error, message first", `{"message":"m","object":"error"}`, with(failure), "m"},
	{"chat", "FastAPI's error", `{"detail":"Not Found"}`, with(failure), "Not Found"},
	{"chat", "FastAPI's list", `{"detail":[{"loc":["body"],"msg":"Field required"}]}`, with(failure), `[{"loc":["body"],"msg":"Field required"}]`},
	{"chat", "detail of an answer", `{"detail":"x","choices":[]}`, nothing, ""},
	{"chat", "message of an answer", `{"message":"x"}`, nothing, ""},
}

// backend returns the named API's.
func backend(t *testing.T, name string, o Options) Backend {
	t.Helper()
	b, err := New(name, o)
	if err != nil {
		t.Fatalf("%s %+v: %v", name, o, err)
	}
	return b
}

// documents are those of every API. What is chat's is that of completions too.
func documents() []document {
	all := slices.Concat(choicesDocuments, dialectDocuments)
	for _, c := range choicesDocuments {
		c.api = "completions"
		all = append(all, c)
	}
	return all
}

// TestDocuments reads each document as an event and as a whole, and has the oracle read it.
func TestDocuments(t *testing.T) {
	var d Delta
	for _, c := range documents() {
		b := backend(t, c.api, Options{Model: "m"})
		for how, parse := range map[string]func([]byte, *Delta) error{"event": b.ParseEvent, "body": b.ParseBody} {
			if err := parse([]byte(c.in), &d); err != nil {
				t.Errorf("%s, %s as %s: %v", c.api, c.name, how, err)
			} else if got := saidBy(&d).weighed(); got != c.want || string(d.Error) != c.message {
				t.Errorf("%s, %s as %s: %s\ngot  %+v %q\nwant %+v %q", c.api, c.name, how, c.in, got, d.Error, c.want, c.message)
			}
		}
		oracle := oracles[c.api]
		if oracle == nil {
			continue
		}
		tree, err := decode([]byte(c.in))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if got := oracle(tree.(ordered)).weighed(); got != c.want {
			t.Errorf("%s, %s: the oracle reads %+v, want %+v", c.api, c.name, got, c.want)
		}
	}
}

// TestParseAllocatesNothing reads every event of every API, but for what no known server sends.
func TestParseAllocatesNothing(t *testing.T) {
	done := document{api: "chat", in: "[DONE]"}
	for _, c := range append(documents(), done) {
		if c.name == "unknown finish reason" || c.name == "escaped key" {
			continue
		}
		b, in := backend(t, c.api, Options{Model: "m"}), []byte(c.in)
		var d Delta
		if n := testing.AllocsPerRun(100, func() {
			if b.ParseEvent(in, &d) != nil || c.in != done.in && b.ParseBody(in, &d) != nil {
				t.Fatal(c.in)
			}
		}); n != 0 {
			t.Errorf("%s, %s: %v allocations", c.api, c.name, n)
		}
	}
}

func TestEventsThatAreNoJSON(t *testing.T) {
	var d Delta
	for in, want := range map[string]said{
		"[DONE]": with(func(s *said) { s.Done = true }), " [DONE] ": with(func(s *said) { s.Done = true }),
		"": nothing, " \n": nothing,
	} {
		d.Token, d.Finish, d.PromptTokens = true, "stop", 5
		if err := parseEvent([]byte(in), &d, choices); err != nil || saidBy(&d) != want {
			t.Errorf("%q: %+v, error %v", in, saidBy(&d), err)
		}
	}
}

func TestBadJSON(t *testing.T) {
	for _, in := range []string{
		`[]`, `"x"`, `1`, `null`, `DONE`, `[DONE`, `{`, `}`, `{}}`, `{} x`, `{}{}`, `{,}`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{"a":1 "b":2}`, `{"a":1"b":2}`, `{"a":{}"b":2}`,
		`{a:1}`, `{'a':1}`, `{"a":[1,]}`, `{"a":[,1]}`, `{"a":[1 2]}`, `{"a":[}`, `{"a":[1}`, `{"a":{]}`, `{"a":"x}`, `{"a":"\x"}`, `{"a":"\u12g4"}`,
		`{"a":"\u12"}`, "{\"a\":\"\n\"}", "{\"a\":\"\x00\"}", `{"a":"\`, `{"a":nul}`, `{"a":nulll}`, `{"a":True}`, `{"a":01}`, `{"a":-}`, `{"a":.5}`,
		`{"a":1.}`, `{"a":1e}`, `{"a":1e+}`, `{"a":+1}`, `{"a":NaN}`, "{\"a\":1\x00}", "\ufeff{}", `{"choices":[{"text":"x"}`, `{"error":{"message":"x"`,
		`{"choices":[{"delta":{"tool_calls":[{"function":{"name":"x"`, `{"usage":{"prompt_tokens":1x}}`, `{"usage":{"prompt_tokens":1`,
	} {
		var d Delta
		err := parseEvent([]byte(in), &d, choices)
		if !errors.Is(err, ErrBadJSON) {
			t.Errorf("%q: error %v, %+v", in, err, saidBy(&d))
		}
		if json.Valid([]byte(in)) && strings.HasPrefix(in, "{") {
			t.Errorf("%q is valid", in)
		}
	}
}

func TestErrorTellsWhere(t *testing.T) {
	var d Delta
	err := parseEvent([]byte(`{"choices":[{"text":nix}]}`), &d, choices)
	if want := `malformed JSON at byte 21: want null before "ix}]}"`; err == nil || err.Error() != want {
		t.Fatalf("got %v, want %s", err, want)
	}
}

func TestDepth(t *testing.T) {
	nested := func(open, close string, depth int) []byte {
		return []byte(`{"a":` + strings.Repeat(open, depth-1) + "1" + strings.Repeat(close, depth-1) + "}")
	}
	var d Delta
	if err := parseEvent([]byte(`{"a":[{}`+strings.Repeat(`,[],{"b":{}}`, MaxDepth)+"]}"), &d, choices); err != nil {
		t.Errorf("many, but not deep: %v", err)
	}
	for _, c := range []struct{ open, close string }{{"[", "]"}, {`{"a":`, "}"}} {
		if err := parseEvent(nested(c.open, c.close, MaxDepth), &d, choices); err != nil {
			t.Errorf("%d deep: %v", MaxDepth, err)
		}
		if err := parseEvent(nested(c.open, c.close, MaxDepth+1), &d, choices); !errors.Is(err, ErrBadJSON) {
			t.Errorf("%d deep: %v", MaxDepth+1, err)
		}
		if err := parseEvent([]byte(`{"a":`+strings.Repeat(c.open, 1_000_000)), &d, choices); !errors.Is(err, ErrBadJSON) {
			t.Errorf("a million deep: %v", err)
		}
	}
}

// TestRepeatedChunks gives chunks that nearly repeat the last one, and wants what a fresh Delta says.
func TestRepeatedChunks(t *testing.T) {
	b := backend(t, "chat", Options{})
	chunk := func(text string) string { return strings.Replace(completionChunk, " hello", text, 1) }
	for _, second := range []string{
		chunk("x"), chunk(""), chunk(`\n`), chunk(`\`), chunk(`"`), chunk(`a","text":"`), chunk(`","finish_reason":"stop","a":"`), chunk("\x01"), chunk("é"),
		chunk(strings.Repeat("long ", 1000)), completionChunk, completionChunk[:len(completionChunk)-1], completionChunk + " ", completionChunk + "x",
		strings.Replace(completionChunk, `"finish_reason":null`, `"finish_reason":"stop"`, 1), chatChunk, usageChunk, "[DONE]", "",
		strings.Replace(chunk("x"), "1732154321", "1732154322", 1), completionChunk[:150], completionChunk[100:],
	} {
		sameTwice(t, b, []byte(completionChunk), []byte(second))
		sameTwice(t, b, []byte(second), []byte(completionChunk))
	}
}

// TestRepeatedChunksWithMore remembers no chunk that says more than that there is text.
func TestRepeatedChunksWithMore(t *testing.T) {
	b := backend(t, "chat", Options{})
	for _, more := range []string{
		`{"choices":[{"text":"TEXT"}],"usage":{"prompt_tokens":7,"completion_tokens":3}}`,
		`{"choices":[{"text":"TEXT"}],"usage":{"prompt_tokens_details":{"cached_tokens":3}}}`,
		`{"choices":[{"text":"TEXT","finish_reason":"stop"}]}`,
		`{"choices":[{"text":"TEXT"}],"error":{"message":"x"}}`,
		`{"choices":[{"text":"TEXT"},{"text":"x"}]}`,
		`{"choices":[{"text":"x"},{"text":"TEXT"},{"delta":{"content":["x"]}}]}`,
		"{\"choices\":[{\"text\":\"TEXT\"\n}]}",
		`{"choices":[{"index":0,"delta":{"content":"","reasoning_content":"TEXT"}}]}`,
		`{"choices":[{"index":0,"delta":{"reasoning_content":"TEXT","content":"x"}}]}`,
		`{"choices":[{"index":0,"delta":{"content":"x","reasoning_content":"TEXT"}}]}`,
		`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"TEXT"}}]}}]}`,
		`{"choices":[{"index":1,"delta":{"content":"TEXT"}}]}`,
		`{"choices":[{"index":0,"delta":{"content":"x"}},{"index":1,"delta":{"content":"TEXT"}}]}`,
	} {
		for _, text := range []string{"x", "y", "", `\`, `\"`} {
			sameTwice(t, b, []byte(strings.Replace(more, "TEXT", "x", 1)), []byte(strings.Replace(more, "TEXT", text, 1)))
		}
	}
}

// TestRepeatedChunksAreRemembered keeps the short way from falling into disuse unnoticed.
func TestRepeatedChunksAreRemembered(t *testing.T) {
	for _, chunk := range []string{completionChunk, chatChunk} {
		var d Delta
		if err := parseEvent([]byte(chunk), &d, choices); err != nil {
			t.Fatal(err)
		}
		for text, want := range map[string]bool{"x": true, " other": true, `\n\"`: true, "é": true, "": false, `"`: false, `\`: false} {
			if got := d.last.matches([]byte(strings.Replace(chunk, " hello", text, 1))); got != want {
				t.Errorf("text %s: matches %v, want %v", text, got, want)
			}
		}
	}
}

// sameTwice parses one after the other into one Delta, and the second one twice.
func sameTwice(t *testing.T, b Backend, first, second []byte) {
	t.Helper()
	var fresh, used Delta
	wantErr := b.ParseEvent(second, &fresh)
	_ = b.ParseEvent(bytes.Clone(first), &used)
	for range 2 {
		buf := bytes.Clone(second)
		err := b.ParseEvent(buf, &used)
		if (err == nil) != (wantErr == nil) || err == nil && (saidBy(&used) != saidBy(&fresh) || !bytes.Equal(used.Error, fresh.Error)) {
			t.Fatalf("%q after %q\ngot  %+v, %v\nwant %+v, %v", second, first, saidBy(&used), err, saidBy(&fresh), wantErr)
		}
		clear(buf) // what is remembered must not lie in the caller's memory
	}
}
