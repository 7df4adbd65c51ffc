package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// buildVerbatim makes the body of verbatim content and checks its size and where the salt is.
func buildVerbatim(t *testing.T, name string, o Options, l Verbatim, outputTokens int) string {
	t.Helper()
	b, err := New(name, o)
	if err == nil {
		err = b.Takes(l)
	}
	must.Do(t, err, "%s %+v", name, o)
	body := b.AppendVerbatim([]byte("before"), l, outputTokens)[len("before"):]
	expect.Equal(t, b.VerbatimSize(l, outputTokens), len(body), "VerbatimSize: %s", body)
	from, to := b.SaltSpan(body)
	if salted := o.CacheSalt != "" && l.Form != Payload; string(body[from:to]) != map[bool]string{true: o.CacheSalt}[salted] {
		t.Errorf("SaltSpan gives %q in %s", body[from:to], body)
	}
	once(t, body)
	return string(body)
}

// The messages of a chat, with the system's and without.
const (
	systemAndTurns = `{"role":"system","content":"be\n"},{"role":"user","content":"hi"},{"role":"assistant","content":"yes"},{"role":"user","content":"so?"}`
	turns          = `{"role":"user","content":"hi"},{"role":"assistant","content":"yes"},{"role":"user","content":"so?"}`
)

func TestVerbatimBodies(t *testing.T) {
	all := Options{Model: "m", Stream: true, ForceOutput: true, CacheSalt: "s", Extra: json.RawMessage(`{"temperature":0,"n":1}`)}
	const streamed = `,"stream":true,"stream_options":{"include_usage":true}`
	for _, c := range []struct {
		name, api string
		o         Options
		l         Verbatim
		tokens    int
		want      string
	}{
		{"text", "completions", Options{}, Verbatim{Form: Text, Content: []byte(`caf\u00e9 é\n`)}, 0, `{"prompt":"caf\u00e9 é\n"}`},
		{"text beside token ids", "completions", Options{TokenIDs: true, ForceOutput: true}, Verbatim{Form: Text, Content: []byte("a")}, 3,
			`{"prompt":"a","max_tokens":3,"min_tokens":3,"ignore_eos":true}`},
		{"text in a chat, all options", "chat", all, Verbatim{Form: Text, Content: []byte("a")}, 3,
			`{"model":"m","messages":[{"role":"user","content":"a"}],"max_tokens":3,"min_tokens":3,"ignore_eos":true` + streamed + `,"temperature":0,"n":1,"cache_salt":"s"}`},
		{"messages as they stand", "chat", Options{}, Verbatim{Form: Messages, Content: []byte(` {"role" : "user"}, {} `)}, 0, `{"messages":[ {"role" : "user"}, {} ]}`},
		{"tools, and extra that wins", "chat", all, Verbatim{Form: Messages, Content: []byte("{}"), Tools: []byte(`[ {"a":1} ]`), Extra: []byte(`{"temperature":1e0,"max_tokens":9,"stream":false}`)}, 3,
			`{"model":"m","messages":[{}],"ignore_eos":true,"temperature":1e0,"n":1,"tools":[ {"a":1} ],"max_tokens":9,"stream":false,"cache_salt":"s"}`},
		{"payload as it stands", "completions", Options{Model: "m", Stream: true, ForceOutput: true, CacheSalt: "s"}, Verbatim{Form: Payload, Content: []byte(` "prompt" : [1] `)}, 3, `{ "prompt" : [1] }`},
		{"payload with extra", "chat", all, Verbatim{Form: Payload, Content: []byte(`"model":"x", "messages":[ {} ],"n":2`), Extra: []byte(`{"n":3,"messages":[]}`)}, 3,
			`{"model":"x","messages":[],"n":3,"temperature":0}`},

		{"text", "tgi", Options{Model: "m"}, Verbatim{Form: Text, Content: []byte("a")}, 3, `{"inputs":"a","parameters":{"max_new_tokens":3,"details":true}}`},
		{"system apart", "messages", Options{Model: "m"}, Verbatim{Form: Messages, Content: []byte(systemAndTurns)}, 3, `{"model":"m","messages":[` + turns + `],"max_tokens":3,"system":"be\n"}`},
		{"a system of the row's own", "messages", Options{Model: "m"}, Verbatim{Form: Messages, Content: []byte(systemAndTurns), Extra: []byte(`{"system":"x"}`)}, 3, `{"model":"m","messages":[` + turns + `],"max_tokens":3,"system":"x"}`},
		{"no system", "messages", Options{Model: "m"}, Verbatim{Form: Messages, Content: []byte(turns)}, 3, `{"model":"m","messages":[` + turns + `],"max_tokens":3}`},
		{"messages as input", "responses", Options{Model: "m"}, Verbatim{Form: Messages, Content: []byte(systemAndTurns)}, 3, `{"model":"m","input":[` + systemAndTurns + `],"max_output_tokens":3}`},
		{"payload", "raw", Options{Model: "m"}, Verbatim{Form: Payload, Content: []byte(`"x":1`)}, 3, `{"x":1}`},
	} {
		expect.Equal(t, buildVerbatim(t, c.api, c.o, c.l, c.tokens), c.want, c.name)
	}
}

// TestWhoTakesMessages: the refusal of those that do not names all that do.
func TestWhoTakesMessages(t *testing.T) {
	chat := Verbatim{Form: Messages, Content: []byte(`{"role":"user","content":"a"}`)}
	var takers []string
	var refusals []error
	for _, name := range Names() {
		b := backend(t, name, Options{Model: "m"})
		if err := b.Takes(chat); err == nil {
			takers = append(takers, name)
		} else if b.Traits().Made {
			refusals = append(refusals, err)
		}
	}
	if len(takers) < 3 || len(refusals) < 3 {
		t.Fatalf("messages are taken by %q only; refused: %v", takers, refusals)
	}
	for _, err := range refusals {
		_, named, _ := strings.Cut(err.Error(), "--api ")
		for _, name := range takers {
			if !slices.Contains(strings.FieldsFunc(named, func(c rune) bool { return c == ',' || c == ' ' }), name) {
				t.Errorf("%q does not name %s", err, name)
			}
		}
	}
}

func TestTakes(t *testing.T) {
	for _, c := range []struct {
		api  string
		l    Verbatim
		says string
	}{
		{"completions", Verbatim{Form: Messages, Content: []byte("{}")}, "--api chat"},
		{"chat", Verbatim{Form: Text, Extra: []byte(`{"messages":[]}`)}, "given by the row itself"},
		{"chat", Verbatim{Form: Messages, Extra: []byte(`[1]`)}, "not a JSON object"},
		{"tgi", Verbatim{Form: Messages, Content: []byte(turns)}, "--api chat"},
		{"responses", Verbatim{Form: Messages, Content: []byte(`{"role":"user","content":[{"type":"text","text":"a"}]}`)}, "not a string"},
		{"messages", Verbatim{Form: Messages, Content: []byte(`{"role":"system","content":"x"}`)}, "there are only system messages"},
		{"messages", Verbatim{Form: Messages, Content: []byte(`{"role":"user","content":[]}`)}, "not a string"},
		{"messages", Verbatim{Form: Messages, Content: []byte(`{"role":"tool","content":"4"}`)}, "with tools"},
		{"messages", Verbatim{Form: Messages, Content: []byte(`{"role":"assistant","content":null,"tool_calls":[{}]}`)}, "with tools"},
		{"messages", Verbatim{Form: Messages, Content: []byte(turns), Tools: []byte("[]")}, "tools"},
		{"vllm-generate", Verbatim{Form: Text, Content: []byte("a")}, "no text"},
		{"vllm-generate", Verbatim{}, "no text"},
		{"raw", Verbatim{}, "whole bodies"},
		{"raw", Verbatim{Form: Text, Content: []byte("a")}, "whole bodies"},
		{"tgi", Verbatim{Extra: []byte(`{"parameters":3}`)}, "not a JSON object"},
	} {
		expect.Error(t, backend(t, c.api, Options{Model: "m"}).Takes(c.l), c.says, "%s %+v", c.api, c.l)
	}
}

// TestVerbatimsFromManyGoroutines: a backend is immutable.
func TestVerbatimsFromManyGoroutines(t *testing.T) {
	b := backend(t, "chat", Options{Model: "m", Extra: json.RawMessage(`{"a":1,"b":2}`)})
	done := make(chan string)
	for i := range 8 {
		go func() {
			l := Verbatim{Form: Messages, Content: []byte("{}"), Extra: fmt.Appendf(nil, `{"a":%d}`, i)}
			for range 200 {
				if got, want := string(b.AppendVerbatim(nil, l, 0)), fmt.Sprintf(`{"model":"m","messages":[{}],"a":%d,"b":2}`, i); got != want {
					done <- got
					return
				}
			}
			done <- ""
		}()
	}
	for range 8 {
		expect.Equal(t, <-done, "")
	}
}

// FuzzPayload merges by maps, which know no order.
func FuzzPayload(f *testing.F) {
	f.Add(`"a":1,"b":[{"c":"}"}]`, `{"b":2}`, `{"d":"\u00e9"}`)
	f.Add(` "a" : 1.50 `, `{}`, `{}`)
	f.Fuzz(func(t *testing.T, payload, run, row string) {
		var want, fromRun, fromRow map[string]json.RawMessage
		if json.Unmarshal([]byte("{"+payload+"}"), &want) != nil || json.Unmarshal([]byte(run), &fromRun) != nil || json.Unmarshal([]byte(row), &fromRow) != nil {
			t.Skip()
		}
		b, err := New("chat", Options{Stream: true, Extra: json.RawMessage(run)})
		l := Verbatim{Form: Payload, Content: []byte(payload), Extra: []byte(row)}
		if err != nil || want == nil || b.Takes(l) != nil {
			t.Skip()
		}
		for _, extra := range []map[string]json.RawMessage{fromRun, fromRow} {
			for k, v := range extra {
				want[k] = v
			}
		}
		body := b.AppendVerbatim(nil, l, 5)
		must.Equal(t, b.VerbatimSize(l, 5), len(body), "VerbatimSize of %s", body)
		var got map[string]json.RawMessage
		if err := json.Unmarshal(body, &got); err != nil || len(got) != len(want) {
			t.Fatalf("%s, want %v: %v", body, want, err)
		}
		for k, v := range want {
			if !bytes.Equal(compact(got[k]), compact(v)) {
				t.Fatalf("%q is %s, want %s, in %s", k, got[k], v, body)
			}
		}
	})
}
