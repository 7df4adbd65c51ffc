package mockllm

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
)

type tokenized struct {
	Count  int      `json:"count"`
	Max    *int     `json:"max_model_len"`
	Tokens []uint64 `json:"tokens"`
}

// tokenized posts to /tokenize.
func (ts *testServer) tokenized(body string) tokenized {
	ts.t.Helper()
	_, text := ts.mustPost(200, "/tokenize", body)
	var a tokenized
	if err := json.Unmarshal([]byte(text), &a); err != nil || a.Count != len(a.Tokens) {
		ts.t.Fatalf("%s: %s: %v", body, text, err)
	}
	for _, id := range a.Tokens {
		if id >= 1<<31 {
			ts.t.Fatalf("%s: id %d", body, id)
		}
	}
	return a
}

func TestTokenize(t *testing.T) {
	ts := start(t, Config{Model: "m", MaxModelTokens: 4096, TemplateHead: 3, TemplateTail: 2, BOSTokens: 1})
	whole := ts.tokenized(`{"prompt":"one two one","model":"m"}`)
	if *whole.Max != 4096 || len(whole.Tokens) != 4 {
		t.Fatalf("with BOS %+v", whole)
	}
	plain := whole.Tokens[1:]
	if plain[0] != plain[2] || plain[0] == plain[1] {
		t.Fatalf("words %v", plain)
	}
	talk := `{"model":"m","messages":[{"role":"user","content":"one two one"}]`
	full := ts.tokenized(talk + `}`).Tokens
	if len(full) != 8 || !slices.Equal(full[3:6], plain) {
		t.Fatalf("conversation %v", full)
	}
	seen := map[uint64]bool{}
	for _, id := range append(slices.Clone(full[:5]), append(full[6:], whole.Tokens[0])...) {
		if seen[id] {
			t.Errorf("id %d twice among %v and %d", id, full, whole.Tokens[0])
		}
		seen[id] = true
	}
	for body, want := range map[string]int{
		`{"model":"x","prompt":"a"}`: 404, `{"model":"m"}`: 400, `{"model":"m","prompt":[1]}`: 400, `{"model":"m","prompt":"a","messages":[]}`: 400,
		`{"model":"m","prompt":"a"`: 400, `{"model":"m","messages":[]}`: 400,
		`{"model":"m","prompt":"a","prompt":"b"}`: 400,
	} {
		ts.mustPost(want, "/tokenize", body)
	}
	ts.mustPost(415, "/tokenize", `{}`, "Content-Type", "text/plain")
	if got := ts.tokenized(`{"model":"m","prompt":""}`); got.Count != 1 {
		t.Errorf("nothing but a BOS is %+v", got)
	}
	if n := ts.Stats().Connections; n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

func TestNoTokenize(t *testing.T) {
	ts := start(t, Config{NoTokenize: true})
	ts.mustPost(404, "/tokenize", `{"prompt":"a"}`)
	if got := start(t, Config{}).tokenized(`{"prompt":"a"}`); got.Max != nil || got.Count != 1 {
		t.Errorf("without a limit %+v", got)
	}
}

// TestTemplateJitter: requests in a row never have the same template, in answers and in /tokenize.
func TestTemplateJitter(t *testing.T) {
	ts := start(t, Config{TemplateHead: 4, TemplateTail: 2, TemplateJitter: 2, CacheTokens: -1})
	const talk = `"messages":[{"role":"user","content":"one two"}]`
	for i := range 7 {
		a := ts.stream(chat, `{"max_tokens":1,"stream":true,"stream_options":{"include_usage":true},`+talk+`}`)
		if got := a.chunks[len(a.chunks)-1].Usage.Prompt; got != 8+i%3 {
			t.Errorf("answer %d: %d tokens, want %d", i, got, 8+i%3)
		}
		if got := ts.tokenized(`{` + talk + `}`).Count; got != 8+i%3 {
			t.Errorf("tokenized %d: %d tokens, want %d", i, got, 8+i%3)
		}
	}
	ts.stream(completions, `{"max_tokens":1,"stream":true,"prompt":"one two"}`)
	if got := ts.tokenized(`{"prompt":"one two"}`).Count; got != 2 {
		t.Errorf("a prompt without a template has %d tokens", got)
	}
}

func TestSplitWords(t *testing.T) {
	cfg := Config{SplitWords: 4}
	for text, want := range map[string]int{"four": 1, "fiver": 2, "four fiver four": 4, "äöüß": 1, `äöü\u00dfé`: 2, `fo\u0075r`: 1, `fo\u0075rs`: 2} {
		if _, h, err := decodeBody(cfg, completionsAPI{}, `{"prompt":"`+text+`"}`); err != nil || h.tokens != want {
			t.Errorf("%s: %d tokens, want %d (%v)", text, h.tokens, want, err)
		}
	}
	_, split, _ := decodeBody(cfg, completionsAPI{}, `{"prompt":"`+strings.Repeat("fiver ", 8)+`"}`)
	_, whole, _ := decodeBody(Config{}, completionsAPI{}, `{"prompt":"`+strings.Repeat("fiver ", 16)+`"}`)
	if len(split.keys) != 1 || len(whole.keys) != 1 || split.keys[0] == whole.keys[0] {
		t.Errorf("both halves of a word are one token: %v, %v", split.keys, whole.keys)
	}
}

// FuzzTokenize: what is accepted is a JSON object, and a text has the tokens that a completion of it has.
func FuzzTokenize(f *testing.F) {
	for _, s := range append(jsonSeeds, `{"prompt":"a b c"}`, `{"x":[1],"prompt":"a"}`, `{"messages":[{"role":"user","content":"a b"}]}`,
		`{"prompt":"a","prompt":"b"}`, `{"messages":[{"role":"u","content":[{"text":"a"}]}]}`) {
		f.Add([]byte(s))
	}
	srv, err := New(Config{TemplateHead: 2, BOSTokens: 1})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var req fasthttp.Request
		req.Header.SetContentType("application/json")
		req.SetBodyRaw(body)
		values, err := srv.decodeTokenize(&req)
		if err != nil {
			return
		}
		var object map[string]json.RawMessage
		if json.Unmarshal(body, &object) != nil {
			t.Fatalf("%q was accepted", body)
		}
		text, ok := object["prompt"]
		if !ok || len(object) > 1 {
			return
		}
		if _, h, err := decodeBody(srv.cfg, completionsAPI{}, fmt.Sprintf(`{"prompt":%s}`, text)); err == nil && h.tokens != len(values) {
			t.Fatalf("%q: %d tokens, a completion of it has %d", body, len(values), h.tokens)
		}
	})
}
