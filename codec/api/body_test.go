package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// build makes a body as the engine does, and checks Size and SaltSpan on the way.
func build(t *testing.T, name string, o Options, prompt string, outputTokens int) []byte {
	t.Helper()
	b, err := New(name, o)
	must.Do(t, err, "%s %+v", name, o)
	body := b.AppendSuffix(append(b.AppendPrefix(nil), prompt...), outputTokens)
	expect.Equal(t, b.Size(len(prompt), outputTokens), len(body), "%s %+v: Size: %s", name, o, body)
	from, to := b.SaltSpan(body)
	if got := string(body[from:to]); got != o.CacheSalt && !bytes.Contains(o.Extra, []byte("cache_salt")) {
		t.Errorf("%s %+v: SaltSpan gives %q in %s", name, o, got, body)
	}
	return body
}

func TestBodies(t *testing.T) {
	checkBodies(t, []madeBody{
		{"zero options", "completions", Options{}, "hello world", 7, `{"prompt":"hello world","max_tokens":7}`},
		{"token ids, all options", "completions",
			Options{Model: "m", Stream: true, ForceOutput: true, CacheSalt: "0f-_A", TokenIDs: true}, "1,2,3", 12,
			`{"model":"m","prompt":[1,2,3],"max_tokens":12,"min_tokens":12,"ignore_eos":true,"stream":true,` +
				`"stream_options":{"include_usage":true},"cache_salt":"0f-_A"}`},
		{"chat, all options", "chat", Options{Model: "m", Stream: true, ForceOutput: true, CacheSalt: "s"}, "hi", 1,
			`{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":1,"min_tokens":1,"ignore_eos":true,` +
				`"stream":true,"stream_options":{"include_usage":true},"cache_salt":"s"}`},
		{"odd model name", "completions", Options{Model: `a"b\c<é>&` + "\n\u2028"}, "", 0,
			`{"model":"a\"b\\c<é>&\n\u2028","prompt":""}`},
		{"extras beside ours", "completions", Options{Extra: json.RawMessage(`{"temperature": 0, "a\"b": {"x": [1, 2]}}`)}, "p", 10,
			`{"prompt":"p","max_tokens":10,"temperature":0,"a\"b":{"x":[1,2]}}`},
		{"extras win", "completions",
			Options{Model: "m", ForceOutput: true, CacheSalt: "s",
				Extra: json.RawMessage(`{"model":"n","max_tokens":5,"min_tokens":null,"ignore_eos":false,"cache_salt":"t"}`)}, "p", 10,
			`{"prompt":"p","model":"n","max_tokens":5,"min_tokens":null,"ignore_eos":false,"cache_salt":"t"}`},
		{"no stream after all", "completions", Options{Stream: true, Extra: json.RawMessage(`{"stream":false}`)}, "p", 10, `{"prompt":"p","max_tokens":10,"stream":false}`},
		{"own stream options", "completions", Options{Stream: true, Extra: json.RawMessage(`{"stream_options":{}}`)}, "p", 10,
			`{"prompt":"p","max_tokens":10,"stream":true,"stream_options":{}}`},
		{"any output", "chat", Options{ForceOutput: true}, "p", 0, `{"messages":[{"role":"user","content":"p"}]}`},
		{"own max_tokens", "chat", Options{ForceOutput: true, Extra: json.RawMessage(`{"max_tokens":5}`)}, "p", 123,
			`{"messages":[{"role":"user","content":"p"}],"ignore_eos":true,"max_tokens":5}`},
		{"own max_completion_tokens", "chat", Options{ForceOutput: true, Extra: json.RawMessage(`{"max_completion_tokens":5}`)}, "p", 123,
			`{"messages":[{"role":"user","content":"p"}],"ignore_eos":true,"max_completion_tokens":5}`},

		{"responses", "responses", Options{Model: "m", Stream: true, ForceOutput: true, CacheSalt: "s"}, "hi", 7,
			`{"model":"m","input":"hi","max_output_tokens":7,"ignore_eos":true,"stream":true,"cache_salt":"s"}`},
		{"embeddings of ids", "embeddings", Options{Model: "m", Stream: true, ForceOutput: true, TokenIDs: true}, "1,2", 7, `{"model":"m","input":[1,2]}`},
		{"messages", "messages", Options{Model: "m", Stream: true, ForceOutput: true}, "hi", 7, `{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":7,"stream":true}`},
		{"tgi", "tgi", Options{Stream: true, ForceOutput: true}, "hi", 7, `{"inputs":"hi","parameters":{"max_new_tokens":7,"details":true}}`},
		{"tgi, any length, parameters of one's own", "tgi", Options{Extra: json.RawMessage(`{"parameters":{"top_k":3},"x":1}`)}, "hi", 0,
			`{"inputs":"hi","parameters":{"details":true,"top_k":3},"x":1}`},
		{"tgi, length of one's own", "tgi", Options{Extra: json.RawMessage(`{"parameters":{"max_new_tokens":3,"details":false}}`)}, "hi", 7,
			`{"inputs":"hi","parameters":{"max_new_tokens":3,"details":false}}`},
		{"sglang", "sglang", Options{Model: "", Stream: true, ForceOutput: true, TokenIDs: true}, "1,2", 12,
			`{"input_ids":[1,2],"sampling_params":{"max_new_tokens":12,"min_new_tokens":12,"ignore_eos":true},"stream":true}`},
		{"sglang, text, any length", "sglang", Options{}, "hi", 0, `{"text":"hi","sampling_params":{}}`},
		{"vllm-generate", "vllm-generate", Options{Model: "m", Stream: true, ForceOutput: true, TokenIDs: true, CacheSalt: "s", Extra: json.RawMessage(`{"sampling_params":{"temperature":0}}`)}, "1,2", 12,
			`{"model":"m","token_ids":[1,2],"sampling_params":{"max_tokens":12,"min_tokens":12,"ignore_eos":true,"temperature":0},"stream":true,"stream_options":{"include_usage":true},"cache_salt":"s"}`},
		{"triton-vllm", "triton-vllm", Options{Model: "m", Stream: true, ForceOutput: true}, "hi", 7,
			`{"text_input":"hi","parameters":{"max_tokens":7,"min_tokens":7,"ignore_eos":true},"stream":true,"exclude_input_in_output":true,"return_finish_reason":true,"return_num_input_tokens":true,"return_num_output_tokens":true}`},
		{"triton-vllm, an elder one", "triton-vllm", Options{Model: "m", Extra: json.RawMessage(`{"return_finish_reason":null,"return_num_input_tokens":null,"x":1}`)}, "hi", 0,
			`{"text_input":"hi","parameters":{},"stream":false,"exclude_input_in_output":true,"return_num_output_tokens":true,"x":1}`},
		{"triton-trtllm", "triton-trtllm", Options{Model: "m", ForceOutput: true}, "hi", 7,
			`{"text_input":"hi","max_tokens":7,"min_tokens":7,"min_length":7,"bad_words":"","stop_words":"","exclude_input_in_output":true,"stream":false}`},
	})
}

// madeBody is a body that is made for a prompt.
type madeBody struct {
	name, api string
	o         Options
	prompt    string
	tokens    int
	want      string
}

func checkBodies(t *testing.T, bodies []madeBody) {
	t.Helper()
	for _, c := range bodies {
		got := build(t, c.api, c.o, c.prompt, c.tokens)
		expect.Equal(t, string(got), c.want, "%s:\ngot %s", c.name, got)
		once(t, got)
	}
}

// once checks that a body is JSON in which no key comes twice at the top.
func once(t *testing.T, body []byte) {
	t.Helper()
	var v map[string]json.RawMessage
	expect.Equal(t, json.Unmarshal(body, &v), nil, body)
	expect.Equal(t, len(order(t, body)), len(v), "%s: members", body)
}

// order returns the keys of an object in order.
func order(t *testing.T, object []byte) (keys []string) {
	t.Helper()
	tree, err := decode(object)
	must.Do(t, err, object)
	for _, m := range tree.(ordered) {
		keys = append(keys, m.key)
	}
	return keys
}

// TestBodiesMeanWhatEncodingJSONReads builds every combination of options and decodes it.
func TestBodiesMeanWhatEncodingJSONReads(t *testing.T) {
	for bits := range 64 {
		on := func(i int) bool { return bits>>i&1 == 1 }
		o := Options{Stream: on(0), ForceOutput: on(1), TokenIDs: on(2)}
		if on(3) {
			o.Model = "Qwen/Qwen2.5-7B"
		}
		if on(4) {
			o.CacheSalt = "salt-0123"
		}
		if on(5) {
			o.Extra = json.RawMessage(`{"top_p":0.5,"ignore_eos":false}`)
		}
		for _, name := range []string{"completions", "chat"} {
			if name == "chat" && o.TokenIDs {
				expect.Refused(New(name, o))(t, "token ids", "chat took token ids")
				continue
			}
			want := map[string]any{"max_tokens": 345.0}
			if o.Model != "" {
				want["model"] = o.Model
			}
			if o.CacheSalt != "" {
				want["cache_salt"] = o.CacheSalt
			}
			if o.Stream {
				want["stream"], want["stream_options"] = true, map[string]any{"include_usage": true}
			}
			if o.ForceOutput {
				want["min_tokens"], want["ignore_eos"] = 345.0, true
			}
			if o.Extra != nil {
				want["top_p"], want["ignore_eos"] = 0.5, false
			}
			prompt := "11,22"
			switch {
			case o.TokenIDs:
				want["prompt"] = []any{11.0, 22.0}
			case name == "chat":
				want["messages"] = []any{map[string]any{"role": "user", "content": prompt}}
			default:
				want["prompt"] = prompt
			}
			body := build(t, name, o, prompt, 345)
			once(t, body)
			var got map[string]any
			must.Do(t, json.Unmarshal(body, &got), body)
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s %+v\ngot  %v\nwant %v", name, o, got, want)
			}
		}
	}
}

func TestSizeForAnyNumberOfTokens(t *testing.T) {
	for _, tokens := range []int{0, 1, 9, 10, 99, 100, 12_345, 1 << 31} {
		build(t, "completions", Options{ForceOutput: true, CacheSalt: "x"}, "p", tokens)
		build(t, "chat", Options{Stream: true}, strings.Repeat("p", tokens%1000), tokens)
	}
}

func TestNewRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		o    Options
		want string
	}{
		{"grpc", Options{}, `unknown API "grpc": use one of completions, chat, `},
		{"completions", Options{CacheSalt: `a"b`}, "cache salt"},
		{"completions", Options{Extra: json.RawMessage(`[1]`)}, "not a JSON object"},
		{"completions", Options{Extra: json.RawMessage(`{"a":}`)}, "not JSON"},
		{"chat", Options{Extra: json.RawMessage(`{"messages":[]}`)}, `"messages"`},
		{"tgi", Options{TokenIDs: true}, "no token ids"},
		{"sglang", Options{CacheSalt: "x"}, "no cache_salt"},
		{"triton-vllm", Options{}, "--model"},
		{"tgi", Options{Extra: json.RawMessage(`{"parameters":[]}`)}, "not a JSON object"},
	} {
		expect.Refused(New(c.name, c.o))(t, c.want, "%s %+v", c.name, c.o)
	}
}

func TestPaths(t *testing.T) {
	for _, c := range []struct{ name, whole, stream string }{
		{"completions", "/v1/completions", "/v1/completions"},
		{"chat", "/v1/chat/completions", "/v1/chat/completions"},
		{"responses", "/v1/responses", "/v1/responses"},
		{"embeddings", "/v1/embeddings", "/v1/embeddings"},
		{"messages", "/v1/messages", "/v1/messages"},
		{"tgi", "/generate", "/generate_stream"},
		{"sglang", "/generate", "/generate"},
		{"vllm-generate", "/inference/v1/generate", "/inference/v1/generate"},
		{"triton-vllm", "/v2/models/m/generate", "/v2/models/m/generate_stream"},
		{"triton-trtllm", "/v2/models/m/generate", "/v2/models/m/generate_stream"},
		{"raw", "", ""},
	} {
		whole, err1 := New(c.name, Options{Model: "m"})
		stream, err2 := New(c.name, Options{Model: "m", Stream: true})
		if err1 != nil || err2 != nil || whole.Path() != c.whole || stream.Path() != c.stream {
			t.Errorf("%s: %v %v, %v %v", c.name, whole, stream, err1, err2)
		}
	}
	for path, want := range map[string]string{"/v1/completions": "completions", "/v1/responses": "responses", "/generate_stream": "tgi", "/generate": "tgi", "/v1/score": "", "": ""} {
		expect.Equal(t, AtPath(path), want, "%q", path)
	}
}

func TestAppendAllocatesNothing(t *testing.T) {
	b := backend(t, "completions", Options{Model: "m", ForceOutput: true, TokenIDs: true, CacheSalt: "x"})
	buf := make([]byte, 0, 1000)
	size := 0
	expect.Equal(t, testing.AllocsPerRun(100, func() {
		buf = b.AppendSuffix(append(b.AppendPrefix(buf[:0]), "1,2,3"...), 678)
		size = b.Size(5, 678)
	}), 0, "allocations a body")
	expect.Equal(t, size, len(buf), "Size")
}

func TestParseExtra(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, ""},
		{[]string{"{}"}, ""},
		{[]string{"temperature:0"}, `{"temperature":0}`},
		{[]string{"a: 1.50", "b:x y", "c:true", `d:"q"`, "e:http://x:1", "f:", "g:[1, 2]", "h:01"},
			`{"a":1.50,"b":"x y","c":true,"d":"q","e":"http://x:1","f":"","g":[1,2],"h":"01"}`},
		{[]string{` {"a": {"b": null}, "c": "<&>"} `, "d:<"}, `{"a":{"b":null},"c":"<&>","d":"<"}`},
		{[]string{"a:1", `{"b":2,"a":3}`, "b:4"}, `{"a":3,"b":4}`},
		{[]string{`{"a":1,"a":2}`}, `{"a":2}`},
		{[]string{`{"n":12345678901234567890.10}`}, `{"n":12345678901234567890.10}`},
		{[]string{`chat_template_kwargs:{"enable_thinking":false}`}, `{"chat_template_kwargs":{"enable_thinking":false}}`},
	} {
		got, err := ParseExtra(c.args)
		if err != nil || string(got) != c.want {
			t.Errorf("%q\ngot  %s, error %v\nwant %s", c.args, got, err, c.want)
		}
	}
}

func TestParseExtraRefuses(t *testing.T) {
	for arg, want := range map[string]string{
		"prompt:x": "the trace's", `{"mess\u0061ges":[]}`: "the trace's",
		"temperature=0": "key:value", ":1": "key:value", "": "key:value", `{"a":1`: "not JSON", `{"a":1} x`: "not JSON",
	} {
		if got, err := ParseExtra([]string{"a:1", arg}); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), fmt.Sprintf("%q", arg)) {
			t.Errorf("%q: got %s, error %v, want one that says %q", arg, got, err, want)
		}
	}
}

func FuzzParseExtra(f *testing.F) {
	for _, s := range []string{"a:1", "a:b", `{"a":[1,{"b":"c"}]}`, "a:{}", "x", `{"a":1,"a":2}`} {
		f.Add(s, "b:2")
	}
	f.Fuzz(func(t *testing.T, one, two string) {
		got, err := ParseExtra([]string{one, two})
		if err != nil {
			return
		}
		b := backend(t, "completions", Options{Model: "m", Stream: true, ForceOutput: true, Extra: got})
		body := b.AppendSuffix(b.AppendPrefix(nil), 5)
		must.Equal(t, b.Size(0, 5), len(body), "Size of body %s", body)
		once(t, body)
	})
}
