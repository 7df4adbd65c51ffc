package probe

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/prompt"
	"github.com/fastreplay/fastreplay/engine/workload"
)

// wordServer counts a token for each word, and what its template adds.
type wordServer struct {
	head, tail  int
	wordTokens  func(word string) int // nil = one each
	jitter      bool                  // the template has a token more in every second request
	noTokenize  bool
	tokenizeLag int  // tokens by which /tokenize differs
	shifting    bool // /tokenize names other tokens each time
	growing     bool // /tokenize answers with a token more each time
	metrics     string
	asked       atomic.Int64
}

func (s *wordServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/metrics" && s.metrics != "" {
		io.WriteString(w, s.metrics)
		return
	}
	var body struct{ Messages []struct{ Content string } }
	if json.NewDecoder(r.Body).Decode(&body) != nil || len(body.Messages) != 1 {
		http.Error(w, "no message", 404)
		return
	}
	tokens := s.tokens(body.Messages[0].Content, s.asked.Add(1))
	switch {
	case r.URL.Path == "/v1/chat/completions":
		fmt.Fprintf(w, `{"object":"chat.completion","choices":[{"index":0,"message":{"content":"a"},"finish_reason":"length"}],"usage":{"prompt_tokens":%d,"completion_tokens":1}}`, len(tokens))
	case r.URL.Path == "/tokenize" && !s.noTokenize:
		lag := s.tokenizeLag
		if s.growing {
			lag += int(s.asked.Load()) - 1
		}
		for range lag {
			tokens = append(tokens, -9)
		}
		json.NewEncoder(w).Encode(map[string]any{"count": len(tokens), "tokens": tokens})
	default:
		http.Error(w, "not found", 404)
	}
}

// tokens are the template's with negative ids, and a word's by its letters.
func (s *wordServer) tokens(text string, request int64) (ids []int64) {
	for i := range s.head {
		ids = append(ids, int64(-1-i))
	}
	if s.shifting {
		ids[0] -= 1000 * request
	}
	for word := range strings.FieldsSeq(text) {
		n := 1
		if s.wordTokens != nil {
			n = s.wordTokens(word)
		}
		for range n {
			id := int64(0)
			for _, c := range []byte(word) {
				id = id*31 + int64(c)
			}
			ids = append(ids, id)
		}
	}
	for i := range s.tail {
		ids = append(ids, int64(-101-i))
	}
	if s.jitter && request%2 == 0 {
		ids = append(ids, -201)
	}
	return ids
}

func proberOf(t *testing.T, servers ...http.Handler) *Prober {
	t.Helper()
	b := &Prober{ConnectTimeout: 10 * time.Second, Timeout: 30 * time.Second}
	for _, s := range servers {
		h := httptest.NewServer(s)
		t.Cleanup(h.Close)
		target := must.Have(workload.ParseTarget(h.URL, "/v1/chat/completions"))(t)
		target.Endpoints = []netip.AddrPort{netip.MustParseAddrPort(strings.TrimPrefix(h.URL, "http://"))}
		b.Targets = append(b.Targets, target)
	}
	b.Tokenize = func() (api.Backend, error) { return api.New("chat", api.Options{Model: "m"}) }
	b.Backend = func(string) (api.Backend, error) { return b.Tokenize() }
	return b
}

func builtInText(t *testing.T) *prompt.Text {
	t.Helper()
	text := must.Have(prompt.NewText(0, prompt.BuiltIn()))(t)
	return text
}

func TestOverhead(t *testing.T) {
	twice := func(word string) int { return 1 + len(word)/7 }
	for name, c := range map[string]struct {
		servers []http.Handler
		want    int
		err     string // a part of the error
	}{
		"none":               {[]http.Handler{&wordServer{}}, 0, ""},
		"constant":           {[]http.Handler{&wordServer{head: 20, tail: 5}}, 25, ""},
		"targets alike":      {[]http.Handler{&wordServer{head: 3}, &wordServer{tail: 3}}, 3, ""},
		"targets differ":     {[]http.Handler{&wordServer{head: 3}, &wordServer{head: 4}}, 0, "adds 3 tokens to a prompt, http"},
		"not constant":       {[]http.Handler{&wordServer{head: 20, jitter: true}}, 0, "template of http"},
		"another vocabulary": {[]http.Handler{&wordServer{head: 20, wordTokens: twice}}, 0, "does not take each word of the built-in list as one token"},
		"fewer than sent":    {[]http.Handler{&wordServer{wordTokens: func(string) int { return 0 }}}, 0, "does not take each word of the built-in list as one token"},
		"no such endpoint":   {[]http.Handler{http.NotFoundHandler()}, 0, "HTTP 404"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := proberOf(t, c.servers...).Overhead(context.Background(), builtInText(t))
			if c.err == "" && (err != nil || got != c.want) {
				t.Fatalf("%d, %v; want %d", got, err, c.want)
			}
			if c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Fatalf("error %v, want %q in it", err, c.err)
			}
		})
	}
}

// TestCountOfTokenIDs: a server that counts other tokens than the ids that it got is not told of a tokenizer.
func TestCountOfTokenIDs(t *testing.T) {
	server := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"choices":[{"text":"a"}],"usage":{"prompt_tokens":0,"completion_tokens":1}}`)
	})
	b := proberOf(t, server)
	b.Backend = func(string) (api.Backend, error) {
		return api.New("completions", api.Options{Model: "m", TokenIDs: true})
	}
	ids := must.Have(prompt.NewTokenIDs(0, prompt.BuiltInIDs()))(t)
	_, err := b.Overhead(context.Background(), ids)
	expect.Contains(t, err.Error(), "counts 0 tokens in a prompt of 16 token ids", "error")
	expect.Lacks(t, err.Error(), "--tokenizer", "error")
}

func TestHead(t *testing.T) {
	for name, c := range map[string]struct {
		servers []http.Handler
		want    workload.Overhead
		err     string
	}{
		"head and tail":     {[]http.Handler{&wordServer{head: 20, tail: 5}}, workload.Overhead{Head: 20, Tail: 5}, ""},
		"head alone":        {[]http.Handler{&wordServer{head: 25}}, workload.Overhead{Head: 25}, ""},
		"tail alone":        {[]http.Handler{&wordServer{tail: 25}}, workload.Overhead{Tail: 25}, ""},
		"two alike":         {[]http.Handler{&wordServer{head: 20, tail: 5}, &wordServer{head: 20, tail: 5}}, workload.Overhead{Head: 20, Tail: 5}, ""},
		"two that differ":   {[]http.Handler{&wordServer{head: 20, tail: 5}, &wordServer{head: 5, tail: 20}}, workload.Overhead{}, "different tokens in front"},
		"no such endpoint":  {[]http.Handler{&wordServer{head: 20, tail: 5, noTokenize: true}}, workload.Overhead{}, "/tokenize answers HTTP 404"},
		"another count":     {[]http.Handler{&wordServer{head: 20, tail: 5, tokenizeLag: 1}}, workload.Overhead{}, "counts 90 tokens where completions count 89"},
		"a changing prompt": {[]http.Handler{&wordServer{head: 20, tail: 5, shifting: true}}, workload.Overhead{}, "not constant"},
		"a growing tail":    {[]http.Handler{&wordServer{head: 20, tail: 5, growing: true}}, workload.Overhead{}, "not constant"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := proberOf(t, c.servers...).Head(context.Background(), builtInText(t), 25)
			if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("%+v, error %v; want %+v, %q", got, err, c.want, c.err)
			}
		})
	}
}

func TestPrefixCaches(t *testing.T) {
	const line = `vllm:cache_config_info{block_size="32",cache_dtype="auto",engine="0",num_gpu_blocks="1000",num_gpu_blocks_override="None"} 1.0` + "\n"
	for page, want := range map[string]struct {
		cache   workload.PrefixCache
		engines int
	}{
		line: {workload.PrefixCache{BlockTokens: 32, Tokens: 31968}, 1},
		"# TYPE vllm:cache_config_info gauge\n" + line + "vllm:other 3\n":                            {workload.PrefixCache{BlockTokens: 32, Tokens: 31968}, 1},
		line + strings.ReplaceAll(line, `engine="0"`, `engine="1"`):                                  {workload.PrefixCache{BlockTokens: 32, Tokens: 63936}, 2},
		`vllm:cache_config_info{block_size="16",num_gpu_blocks="None"} 1`:                            {workload.PrefixCache{BlockTokens: 16, Tokens: 0}, 1},
		`vllm:cache_config_info{num_gpu_blocks="9",hash_block_size="64",block_size="16"} 1`:          {workload.PrefixCache{BlockTokens: 16, Tokens: 128}, 1},
		`vllm:cache_config_info{block_size="16",enable_prefix_caching="False",num_gpu_blocks="3"} 1`: {workload.PrefixCache{BlockTokens: 16, Tokens: 32, Off: true}, 1},
		// Models with several kinds of layers: the capacity is no number of such blocks.
		`vllm:cache_config_info{block_size="4",kv_cache_size_tokens="900000",num_gpu_blocks="400000"} 1`: {workload.PrefixCache{BlockTokens: 4, Tokens: 900000, Assumed: true}, 1},
		`vllm:cache_config_info{block_size="16",kv_cache_size_tokens="16000",num_gpu_blocks="1001"} 1`:   {workload.PrefixCache{BlockTokens: 16, Tokens: 16000}, 1},
		// vLLM 0.32 on CPU, one kind of layers: 32,768 and 1,000 tokens the longest sequence, which has 1,024 and 8
		// blocks.
		`vllm:cache_config_info{block_size="32",kv_cache_max_concurrency="0.29296875",kv_cache_size_tokens="9600",num_gpu_blocks="300"} 1`: {workload.PrefixCache{BlockTokens: 32, Tokens: 299 * 32}, 1},
		`vllm:cache_config_info{block_size="128",kv_cache_max_concurrency="37.5",kv_cache_size_tokens="37500",num_gpu_blocks="300"} 1`:     {workload.PrefixCache{BlockTokens: 128, Tokens: 299 * 128}, 1},
		// A second kind with a window of 4,096 tokens, in blocks of the same size: a sequence has 1,024 and 129 blocks.
		`vllm:cache_config_info{block_size="32",kv_cache_max_concurrency="0.2601908",kv_cache_size_tokens="8525",num_gpu_blocks="300"} 1`: {workload.PrefixCache{BlockTokens: 32, Tokens: 8525, Assumed: true}, 1},
		// A hybrid model with blocks of several sizes; 262,144 tokens are the longest sequence.
		`vllm:cache_config_info{block_size="8",kv_cache_max_concurrency="1.7679558",kv_cache_size_tokens="463459",num_gpu_blocks="320"} 1`: {workload.PrefixCache{BlockTokens: 8, Tokens: 463459, Assumed: true}, 1},
		`vllm:cache_config_info{block_size="None"} 1`:    {},
		`vllm:cache_config_info{hash_block_size="16"} 1`: {},
		`vllm:cache_config_info{block_size="16`:          {}, // cut off
		"":                                               {},
	} {
		b := proberOf(t, &wordServer{metrics: page}, &wordServer{})
		caches, engines := b.PrefixCaches(context.Background())
		if got := caches[b.Targets[0].Endpoints[0]]; got != want.cache || engines != want.engines {
			t.Errorf("%q: %+v of %d engines, want %+v", page, got, engines, want)
		}
		if _, told := caches[b.Targets[1].Endpoints[0]]; told {
			t.Error("a server without metrics told a size")
		}
	}
}

// TestParseAnswer reads streams in whole, also one that breaks off without the blank line of its last event.
func TestParseAnswer(t *testing.T) {
	tgi := must.Have(api.New("tgi", api.Options{Stream: true}))(t)
	const token = "data:{\"token\":{\"text\":\"a\"},\"details\":null}\n\n"
	const last = "data:{\"token\":{\"text\":\"b\"},\"details\":{\"finish_reason\":\"length\",\"generated_tokens\":2,\"input_length\":9}}"
	for answer, want := range map[string]struct {
		prompt int
		error  string
	}{
		token + last + "\n\n": {9, ""}, token + last: {9, ""}, token + "data:{\"error\":\"no\"}\n\n" + last: {-1, "no"}, token + "data:{\"error\":\"no\"}": {-1, "no"},
		`{"error":"bad"}`: {-1, "bad"}, token: {-1, ""},
	} {
		var d api.Delta
		if err := parseAnswer(tgi, []byte(answer), &d); err != nil || d.PromptTokens != want.prompt || string(d.Error) != want.error || d.IsError != (want.error != "") {
			t.Errorf("%q: %d prompt tokens, error %q, %v", answer, d.PromptTokens, d.Error, err)
		}
	}
	expect.Error(t, parseAnswer(tgi, []byte("\n<html>log in</html>"), new(api.Delta)), "", "a page counts as an answer")
}

// TestModels: what servers list of their models and contexts, and whose fault it is if they do not.
func TestModels(t *testing.T) {
	for _, c := range []struct {
		status         int
		body, name     string
		context        int
		lists          bool
		says, saysNone string
	}{
		{200, `{"data":[{"id":"m","object":"model","max_model_len":4096}]}`, "m", 4096, true, "", ""},
		{200, `{"data":[{"id":"m","max_model_len":null}]}`, "m", 0, true, "", ""},
		{200, `{"data":[{"id":"m","max_model_len":4096},{"id":"lora","parent":"m","max_model_len":null}]}`, "lora", 4096, true, "", ""},
		{200, `{"data":[{"id":"m","parent":"n"},{"id":"n","parent":"n"}]}`, "m", 0, true, "", ""},
		{200, `{"data":[{"id":"a","parent":"b"},{"id":"b","parent":"a"}]}`, "a", 0, true, "", ""},
		{200, `{"data":[{"id":"m","max_context_length":7}]}`, "m", 7, true, "", ""},
		{200, `{"data":[{"id":"m","context_length":8}]}`, "m", 8, true, "", ""},
		{200, `{"data":[{"id":"m","context_window":9}]}`, "other", 0, false, "", ""},
		{200, `{"data":[{"id":"openai/*"}]}`, "openai/x", 0, true, "", ""},
		{200, `{"data":[{"id":"m","max_model_len":"4k","parent":{},"context_length":1e99,"context_window":-3}]}`, "m", 0, true, "", ""},
		{200, `{"data":[]}`, "m", 0, false, "give it with --model", "--api-key"},
		{404, `nothing here`, "m", 0, false, "HTTP 404", "--api-key"},
		{401, `{"error":"no key"}`, "m", 0, false, "HTTP 401: credentials missing or refused, give a key with --api-key-file, --api-key", "--model"},
		{403, `{"error":"no"}`, "m", 0, false, "--api-key-file", "--model"},
	} {
		b := proberOf(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		}))
		models, err := b.Models(context.Background(), &b.Targets[0])
		if said := fmt.Sprint(err); (c.says == "") != (err == nil) || !strings.Contains(said, c.says) || c.saysNone != "" && strings.Contains(said, c.saysNone) {
			t.Errorf("%s: error %v, want %q in it and %q not", c.body, err, c.says, c.saysNone)
		}
		if got := models.Context(c.name); got != c.context || models.Lists(c.name) != c.lists {
			t.Errorf("%s: context of %q is %d, listed: %v; want %d, %v", c.body, c.name, got, models.Lists(c.name), c.context, c.lists)
		}
	}
}

// TestSaltOfEachTarget: one that ignores a salt is found wherever it stands, and one that reports no hits proves none.
func TestSaltOfEachTarget(t *testing.T) {
	served := func(hits ...int) http.Handler {
		asked := 0
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked++
			fmt.Fprintf(w, `{"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"length"}],"usage":{"prompt_tokens":1024,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":%d}}}`, hits[asked-1])
		})
	}
	for name, c := range map[string]struct {
		first, second []int
		works, seen   bool
	}{
		"both":               {[]int{0, 1000, 0}, []int{0, 1000, 0}, true, true},
		"the second ignores": {[]int{0, 1000, 0}, []int{0, 1000, 1000}, false, true},
		"the first ignores":  {[]int{0, 1000, 1000}, nil, false, true},
		"the second is mute": {[]int{0, 1000, 0}, []int{0, 0, 0}, true, false},
	} {
		works, seen, err := proberOf(t, served(c.first...), served(c.second...)).SaltWorks(t.Context(), builtInText(t))
		must.Do(t, err)
		expect.Equal(t, [2]bool{works, seen}, [2]bool{c.works, c.seen}, name)
	}
}

// TestFlushOfAnyPath: a server that answers any path with 200 has flushed nothing.
func TestFlushOfAnyPath(t *testing.T) {
	for answer, flushed := range map[string]bool{
		"": true, "Cache flushed.\nPlease check backend logs for more details.": true, `{"success":true}`: true,
		"data: {}\n\n": false, "\n<!doctype html>": false, `{"choices":[]}`: false, `{"error":{"message":"no such path"}}`: false,
	} {
		_, err := proberOf(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, answer)
		})).Flush(t.Context())
		expect.Equal(t, err == nil, flushed, "%q: %v", answer, err)
	}
}
