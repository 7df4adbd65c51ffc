package mockllm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/valyala/fasthttp"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// idsOracle reads token ids with encoding/json. They may stand in a list that holds nothing else, as a batch of one.
func idsOracle(body []byte) ([]uint64, bool) {
	var raw []json.RawMessage
	if json.Unmarshal(body, &raw) != nil || raw == nil {
		return nil, false
	}
	if len(raw) == 1 && raw[0][0] == '[' {
		var only []json.RawMessage
		if json.Unmarshal(raw[0], &only) != nil {
			return nil, false
		}
		raw = only
	}
	ids := []uint64{}
	for _, r := range raw {
		v, err := strconv.ParseUint(string(r), 10, 64)
		if err != nil || v > maxTokenID {
			return nil, false
		}
		ids = append(ids, v)
	}
	return ids, true
}

// testHasher hashes as a server with the default configuration does.
func testHasher() promptHasher {
	cfg := Config{}.withDefaults()
	return newPromptHasher(&cfg, nil)
}

func hashIDs(ids []uint64) promptHasher {
	h := testHasher()
	for _, v := range ids {
		h.add(v)
	}
	return h
}

var jsonSeeds = []string{
	`{}`, `[]`, `null`, `true`, `0`, `-0`, `01`, `-`, `1.5e+10`, `1.`, `.5`, `1e`, `"a"`, `"\u00e9\n\"\\\/"`, `"\ud83d\ude00"`, `"\ud83d"`,
	`"\ud83dx"`, `"\ude00\ud83d"`, `"\u12g4"`, `"\x"`, `"`, "\"\t\"", `{"a":[1,{"b":null},"c"],"d":{}}`, `{"a" : 1 , "b":2}`, `{"a":1,}`, `[1,]`,
	`[1 2]`, `{"a"}`, `{a:1}`, ` [ 1 , 2 ] `, `[1]x`, `nul`, `truefalse`, `[[[[[[]]]]]]`, "\"\xff\"", `{"a":1}{}`, "\ufeff{}",
}

// promptOf hashes what is a completion's prompt if a body has the value.
func promptOf(value []byte) (params, promptHasher, error) {
	return decodeBody(Config{}, "/v1/completions", `{"prompt":`+string(value)+`}`)
}

func FuzzIDs(f *testing.F) {
	for _, s := range append(jsonSeeds, "[1,2,3]", "[1, 2 ,\n3]", "[2147483647]", "[2147483648]", "[01]", "[-1]", "[1.0]", "[1e3]", "[null]", "[1,,2]", `["1"]`,
		"[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]", "[0]", "[1",
		"[[0]]", "[[1,2]]", "[[]]", "[[[0]]]", "[[1],[2]]", "[ [ 1 ] ]", "[[1],2]") {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if first := bytes.TrimLeft(bytes.TrimLeft(body, " \t\r\n"), "["); len(first) > 0 && first[0] == '"' {
			t.Skip("a text")
		}
		_, got, err := promptOf(body)
		ids, ok := idsOracle(body)
		ok = ok && len(ids) > 0
		if (err == nil) != ok {
			t.Fatalf("%q: %v, want accepted %v", body, err, ok)
		}
		if want := hashIDs(ids); ok && (got.tokens != len(ids) || got.chain != want.chain || !slices.Equal(got.keys, want.keys)) {
			t.Fatalf("%q: got %+v, want %+v", body, got, want)
		}
	})
}

// wordsOracle splits a decoded text at ASCII white space.
func wordsOracle(text string) []uint64 {
	var ids []uint64
	for _, w := range strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r >= '\t' && r <= '\r' }) {
		h := uint64(wordBasis)
		for _, c := range []byte(w) {
			h = (h ^ uint64(c)) * wordMultiplier
		}
		ids = append(ids, h&(1<<63-1))
	}
	return ids
}

// FuzzWords: tokens are the words of the text as encoding/json decodes it.
func FuzzWords(f *testing.F) {
	for _, s := range append(jsonSeeds, `"one two  three"`, `" lead"`, `"trail "`, `"a\nb\tc\u0020d\u000be"`, `"caf\u00e9 café"`, `"a\\b c\"d"`, `"x`) {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if !utf8.Valid(body) || strings.TrimSpace(string(body)) == "null" {
			t.Skip()
		}
		_, got, err := promptOf(body)
		var text string
		wantErr := json.Unmarshal(body, &text)
		ids := wordsOracle(text)
		if len(ids) == 0 { // refused
			return
		}
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%q: %v, want %v", body, err, wantErr)
		}
		if want := hashIDs(ids); err == nil && (got.tokens != len(ids) || got.chain != want.chain) {
			t.Fatalf("%q: got %d tokens, want %d of %q", body, got.tokens, len(ids), text)
		}
	})
}

// decodeBody decodes a request as the server does.
func decodeBody(cfg Config, path, body string) (params, promptHasher, error) {
	var p params
	cfg = cfg.withDefaults()
	h := newPromptHasher(&cfg, nil)
	d := decoder{cfg: &cfg, proto: paths()[path], p: &p, hash: &h}
	err := d.decode([]byte(body))
	return p, h, err
}

func TestDecode(t *testing.T) {
	p, h, err := decodeBody(Config{}, "/v1/completions", `{"stream_options":{"include_usage":true,"continuous_usage_stats":false,"x":[1]},"prompt":[5,6,7],"model":"mé",
		"max_tokens":9,"min_tokens":4,"ignore_eos":true,"stream":true,"cache_salt":"s","temperature":0.5,"n":1,"messages":"ignored","logit_bias":{"1":[]}}`)
	must.Do(t, err)
	if !p.stream || !p.usage || p.continuousUsage || !p.ignoreEOS || p.maxTokens != 9 || p.minTokens != 4 || p.model != "mé" ||
		p.saltHash != hashBytes([]byte("s")) || h.tokens != 3 {
		t.Errorf("got %+v with %d tokens", p, h.tokens)
	}
}

// TestDecodeCounts checks how many tokens each form of a prompt has.
func TestDecodeCounts(t *testing.T) {
	cfg := Config{BOSTokens: 2, TemplateHead: 14, TemplateTail: 5}
	for _, c := range []struct {
		path string
		body string
		want int
	}{
		{"/v1/completions", `{"prompt":"one two three"}`, 5},
		{"/v1/completions", `{"prompt":[1,2,3]}`, 3},
		{"/v1/completions", `{"prompt":["one two"]}`, 4},
		{"/v1/completions", `{"prompt":[[1,2]]}`, 2},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"one two three"}]}`, 22},
		{"/v1/chat/completions", `{"messages":[{"role":"system","content":"be"},{"content":"one two","role":"user","name":"x"}]}`, 22},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":[{"type":"text","text":"one two"},{"text":"three","type":"text"}]}]}`, 22},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":null,"tool_calls":[{}]}]}`, 20},
	} {
		if _, h, err := decodeBody(cfg, c.path, c.body); err != nil || h.tokens != c.want {
			t.Errorf("%s: got %d tokens, %v; want %d", c.body, h.tokens, err, c.want)
		}
	}
}

// FuzzDecode: no body makes a decoder fail otherwise than by an error, and what it accepts is a JSON object.
func FuzzDecode(f *testing.F) {
	for _, s := range append(jsonSeeds, `{"prompt":[1,2],"max_tokens":4,"stream":true,"stream_options":{"include_usage":true}}`,
		`{"prompt":["a b"],"min_tokens":null,"cache_salt":"x","ignore_eos":true}`, `{"messages":[{"role":"user","content":[{"text":"a"}]}],"n":1}`,
		`{"input":[{"role":"user","content":[{"type":"input_text","text":"a"}]},{"type":"function_call_output","output":"b"}],"instructions":"c"}`,
		`{"input":"a b","max_output_tokens":3}`, `{"input":[[1,2,3]],"encoding_format":"float"}`,
		`{"messages":[{"role":"user","content":[{"type":"tool_result","content":[{"text":"a"}]}]}],"system":[{"text":"b"}],"max_tokens":3}`,
		`{"inputs":"a\\"b","parameters":{"max_new_tokens":3,"details":true,"return_full_text":true},"stream":true}`,
		`{"input_ids":[1,2],"sampling_params":{"max_new_tokens":4,"min_new_tokens":2,"ignore_eos":true},"stream":true,"extra_key":"k"}`,
		`{"text_input":"a","max_tokens":4,"stream":true,"end_id":-1}`, `{"text_input":"a","parameters":{"max_tokens":4,"stream":true}}`,
		`{"token_ids":[1,2],"sampling_params":{"max_tokens":9,"trace_decode_token_ids":[7,8]},"stream":true}`,
		`{"text_input":"a","sampling_parameters":"{\"max_tokens\":4}"}`) {
		for i := range len(paths()) {
			f.Add([]byte(s), i)
		}
	}
	f.Fuzz(func(t *testing.T, body []byte, which int) {
		all := slices.Sorted(maps.Keys(paths()))
		path := all[uint(which)%uint(len(all))]
		p, h, err := decodeBody(Config{TemplateHead: 2, BOSTokens: 1}, path, string(body))
		_, _ = protocolAt([]byte("/generate"), body)
		var object map[string]json.RawMessage
		if err == nil && json.Unmarshal(body, &object) != nil {
			t.Fatalf("%q was accepted", body)
		}
		least := int64(1)
		if paths()[path].vector {
			least = 0
		}
		if err == nil && (h.tokens < 1 || len(h.keys) != h.tokens/DefaultBlockTokens || p.maxTokens < least || p.minTokens > p.maxTokens) {
			t.Fatalf("%q: %+v, %d tokens, %d keys", body, p, h.tokens, len(h.keys))
		}
	})
}

// TestSamePrefixSameKeys: text and ids are other tokens; equal prefixes give equal keys however they are written.
func TestSamePrefixSameKeys(t *testing.T) {
	text := strings.Repeat("word other ", 20)
	plain, _ := json.Marshal(text)
	var escaped bytes.Buffer
	for _, c := range text {
		fmt.Fprintf(&escaped, `\u%04x`, c)
	}
	_, a, errA := decodeBody(Config{}, "/v1/completions", `{"prompt":`+string(plain)+`}`)
	_, b, errB := decodeBody(Config{}, "/v1/completions", `{"prompt":"`+escaped.String()+`"}`)
	if errA != nil || errB != nil || a.tokens != 40 || len(a.keys) != 2 || !slices.Equal(a.keys, b.keys) {
		t.Errorf("got %v (%v) and %v (%v)", a, errA, b, errB)
	}
	_, c, _ := decodeBody(Config{BOSTokens: 1}, "/v1/completions", `{"prompt":`+string(plain)+`}`)
	if c.keys[0] == a.keys[0] {
		t.Error("a BOS token does not change the first block")
	}
}

func TestOutputTokens(t *testing.T) {
	draw := rng(1)
	forced := params{maxTokens: 100, minTokens: -1, ignoreEOS: true}
	expect.Equal(t, forced.outputTokens(&Config{MeanOutput: 10}, &draw), 100, "ignore_eos: tokens")
	equal := params{maxTokens: 70, minTokens: 70}
	expect.Equal(t, equal.outputTokens(&Config{MeanOutput: 10}, &draw), 70, "min = max: tokens")
	free := params{maxTokens: 1000, minTokens: 5}
	expect.Equal(t, free.outputTokens(&Config{}, &draw), 1000, "no mean: tokens")
	sum := 0
	const draws = 20000
	for range draws {
		n := free.outputTokens(&Config{MeanOutput: 100}, &draw)
		if n < 5 || n > 199 {
			t.Fatalf("%d tokens, want 5..199", n)
		}
		sum += n
	}
	if mean := float64(sum) / draws; mean < 98 || mean > 102 {
		t.Errorf("mean %v, want about 100", mean)
	}
}

func TestSplitWords(t *testing.T) {
	cfg := Config{SplitWords: 4}
	for text, want := range map[string]int{"four": 1, "fiver": 2, "four fiver four": 4, "äöüß": 1, `äöü\u00dfé`: 2, `fo\u0075r`: 1, `fo\u0075rs`: 2} {
		if _, h, err := decodeBody(cfg, "/v1/completions", `{"prompt":"`+text+`"}`); err != nil || h.tokens != want {
			t.Errorf("%s: %d tokens, want %d (%v)", text, h.tokens, want, err)
		}
	}
	_, split, _ := decodeBody(cfg, "/v1/completions", `{"prompt":"`+strings.Repeat("fiver ", 8)+`"}`)
	_, whole, _ := decodeBody(Config{}, "/v1/completions", `{"prompt":"`+strings.Repeat("fiver ", 16)+`"}`)
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
	srv, err := alone(Config{TemplateHead: 2, BOSTokens: 1})
	must.Do(f, err)
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
		if _, h, err := decodeBody(srv.cfg, "/v1/completions", fmt.Sprintf(`{"prompt":%s}`, text)); err == nil && h.tokens != len(values) {
			t.Fatalf("%q: %d tokens, a completion of it has %d", body, len(values), h.tokens)
		}
	})
}
