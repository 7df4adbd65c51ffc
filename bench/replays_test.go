package bench

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/trace"
)

// chat is a stretch of a bundled sample: shared prefixes, bursts at one instant.
var chat = []string{"--trace", "samples/mooncake-small.jsonl", "--limit", "30", "--scale", "4"}

// with returns args followed by more.
func with(args []string, more ...string) []string { return append(slices.Clone(args), more...) }

// replayed is a load, the flags that replay it, and those of the servers.
type replayed struct {
	name       string
	load       []string // "" = chat
	args, mock []string
	whole      bool // no stream
	servers    int  // 0 = one
	says       string
}

// replay does it and checks what holds for every sound run: no request is lost, prompts and answers are as long as
// recorded, and each line agrees with the servers' logs.
func (c *replayed) replay(t *testing.T, more ...string) *results {
	t.Helper()
	if c.load == nil {
		c.load = chat
	}
	mocks, urls := startMocks(t, max(1, c.servers), c.mock...)
	r := run(t, slices.Concat(c.load, c.args, more, urls)...)
	logs := map[string][]served{}
	for _, m := range mocks {
		for id, entries := range m.stop(t) {
			logs[id] = append(logs[id], entries...)
		}
	}
	r.prove(t)
	r.join(t, logs)
	r.only(t, "ok")
	r.verdict(t)
	for _, l := range r.lines {
		if l.Status != 200 || l.Resent != 0 {
			t.Errorf("row %d: status %d, sent %d times again", l.Row, l.Status, l.Resent)
		}
	}
	expect.Contains(t, r.stderr, c.says, "the run does not say")
	return r
}

// TestPaths replays the same stretch in every way that a server may be spoken to. The APIs are TestBackends'.
func TestPaths(t *testing.T) {
	t.Parallel()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	gzip := []string{"-H", "Accept-Encoding: gzip"}
	for _, c := range []replayed{
		{name: "gzip", mock: []string{"--quirk", "gzip"}, args: gzip},
		{name: "gzip, whole", mock: []string{"--quirk", "gzip"}, args: with(gzip, "--no-stream"), whole: true},
		{name: "https", mock: []string{"--tls-self-signed", "--tls-ca", ca}, args: []string{"--ca-cert", ca}},
		{name: "https, whole", mock: []string{"--tls-self-signed"}, args: []string{"--insecure", "--no-stream"}, whole: true},
		{name: "IPv6", mock: []string{"--listen", "[::1]:0"}},
		{name: "CRLF and comments", mock: []string{"--quirk", "crlf", "--quirk", "comments", "--quirk", "coalesce"}},
		{name: "late head, finish chunk", mock: []string{"--quirk", "late-head", "--quirk", "finish-chunk", "--empty-chunks", "0.5"}},
		{name: "compressed records", args: []string{"--compress"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.name == "IPv6" && !hasIPv6() {
				t.Skip("no IPv6 on this machine")
			}
			r := c.replay(t)
			expect.Equal(t, len(r.lines), 30, "lines")
			for _, l := range r.lines {
				if l.Completion != l.Output || l.TokensFrom != "usage" || l.Finish != "length" || (l.FirstToken != absent && l.Chunks == l.Output) == c.whole {
					t.Errorf("row %d: %+v", l.Row, l)
				}
			}
		})
	}
}

func hasIPv6() bool {
	ln, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		return false
	}
	_ = ln.Close()
	return true
}

// TestSamples replays a part of each bundled trace. Conversations, turns and types stand in the records.
func TestSamples(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("samples/*[nlv]") // .json, .jsonl and .csv
	if err != nil || len(files) < 20 {
		t.Fatal(files, err)
	}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			recorded := must.Have(trace.Open(path, trace.Options{Limit: 50}))(t)
			part := replayed{load: []string{path, "--limit", "50"}, mock: []string{"--ttft", "0s", "--itl", "0s", "--tokens-per-chunk", "20"}}
			r := part.replay(t, "--concurrency", "20", "--allow-warm") // requests overtake each other
			expect.Equal(t, len(r.lines), recorded.Len(), "lines")
			for _, l := range r.lines {
				i := slices.Index(recorded.Row, int32(l.Row))
				if recorded.Session != nil && (l.Session != recorded.Session[i] || l.Turn != int64(recorded.Turn[i])) ||
					recorded.Type != nil && l.Type != recorded.Types[recorded.Type[i]] {
					t.Errorf("row %d: session %d, turn %d, type %q", l.Row, l.Session, l.Turn, l.Type)
				}
			}
		})
	}
}

// TestExactHits: one at a time, the server finds exactly the tokens in its cache that an ideal one would, in every row.
// That holds for every API, kind of prompt, tokenizer, chat template and size of blocks; what a cache too small lacks
// is eviction to the token.
func TestExactHits(t *testing.T) {
	t.Parallel()
	published := exactTrace(t)
	sample := func(name string, more ...string) []string {
		return with([]string{"samples/" + name, "--limit", "40"}, more...)
	}
	template := []string{"--template-tokens", "21,5"}
	for _, c := range []replayed{
		{name: "token ids", load: published, says: "the server adds none"},
		{name: "text with a BOS", load: published, args: []string{"--prompt", "text"}, mock: []string{"--bos-tokens", "1"}, says: "adds 1 before and 0 after every prompt (/tokenize)"},
		{name: "text with a BOS that nobody tells of", load: published, args: []string{"--prompt", "text"}, mock: []string{"--bos-tokens", "1", "--quirk", "no-tokenize"}, says: "adds 1 before and 0 after"},
		{name: "chat", load: published, args: []string{"--api", "chat"}, mock: template, says: "adds 21 before and 5 after every prompt (/tokenize)"},
		{name: "chat, told", load: published, args: []string{"--api", "chat", "--chat-overhead", "21,5"}, mock: with(template, "--quirk", "no-tokenize"), says: "adds 21 before and 5 after every prompt (--chat-overhead)"},
		{name: "large blocks", load: published, args: []string{"--api", "chat"}, mock: with(template, "--block-tokens", "64"), says: "blocks of 64 tokens"},
		{name: "three times over", load: sample("bailian.jsonl", "--amplify", "3"), says: "  amplified       3 times "},
		{name: "conversations", load: sample("multi_turn.jsonl")},
		{name: "recorded answers", load: sample("sharegpt.json"), says: "recorded answers were counted with cl100k_base"},
		{name: "whole bodies", load: sample("inputs.json")},
		{name: "prompts", load: sample("single_turn.jsonl", "--limit", "7", "--repeat", "2"), args: []string{"--api", "completions"}},
		{name: "prompts counted here", load: sample("single_turn.jsonl", "--limit", "7", "--repeat", "2"), args: []string{"--api", "completions", "--tokenizer", "o200k_base"}, mock: []string{"--quirk", "no-tokenize"}},
		{name: "placed", load: sample("multi_turn.jsonl"), args: []string{"--route", "prefix"}, servers: 2},
		{name: "evicted", load: sample("multi_turn.jsonl"), mock: []string{"--cache-tokens", "1600"}},
		{name: "conversations in blocks of 32", load: sample("multi_turn.jsonl"), mock: []string{"--block-tokens", "32"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.mock = with(c.mock, "--ttft", "0s", "--itl", "0s", "--tokens-per-chunk", "100")
			r := c.replay(t, "--concurrency", "1")
			expected, hits, evicts := int64(0), int64(0), c.name == "evicted"
			for _, l := range r.lines {
				expected, hits = expected+l.Expected, hits+l.Cached
				if l.Expected == absent || l.Cached != l.Expected && !evicts {
					t.Errorf("row %d: %d of %d tokens cached, want %d", l.Row, l.Cached, l.Prompt, l.Expected)
				}
			}
			s := r.summary.PrefixCache.Shortfall
			if hits == 0 || (hits < expected) != evicts || s == nil || s.Tokens != expected-hits || s.EvictedTokens != s.Tokens {
				t.Errorf("%d of %d expected tokens were cached; %+v", hits, expected, s)
			}
			expect.Lacks(t, r.stderr, "counted other numbers of tokens")
		})
	}
}

// exactTrace is some rows of the published conversation trace, enough for all lengths of prefixes, or of one with the
// same kind of prompts where this machine does not have it.
func exactTrace(t *testing.T) []string {
	t.Helper()
	if dir := os.Getenv("FASTREPLAY_TRACES"); dir != "" {
		return []string{"--trace", filepath.Join(dir, "mooncake-conversation.jsonl.zst"), "--limit", "200"}
	}
	t.Log("FASTREPLAY_TRACES is not set: a generated trace takes the place of the published one")
	return []string{"--trace", generate(t, "--rows", "200", "--turns", "1:6", "--turn-tokens", "100:900", "--system-tokens", "1300", "--reuse", "0.7",
		"--input-tokens", "1400:6000", "--output-tokens", "3")}
}

// TestTokenizers replays prompts made of the words, or the ids, of kinds of tokenizers. Each prompt is counted again
// with it before the start.
func TestTokenizers(t *testing.T) {
	t.Parallel()
	folder := filepath.Join("..", "codec", "tokenizer", "testdata")
	rows := generate(t, "--rows", "40", "--rate", "200", "--input-tokens", "20:3000", "--output-tokens", "2", "--reuse", "0.5")
	for tokenizer, args := range map[string][]string{
		filepath.Join(folder, "qwen2.json"): {"--api", "chat"}, filepath.Join(folder, "llama2.json"): {"--prompt", "text"},
		filepath.Join(folder, "t5.json"): {"--prompt", "text"}, "o200k_base": {"--prompt", "token-ids"},
	} {
		t.Run(filepath.Base(tokenizer), func(t *testing.T) {
			t.Parallel()
			c := replayed{load: []string{"--trace", rows}, mock: []string{"--template-tokens", "9,4", "--bos-tokens", "1"}, says: "verified: 40 of 40 prompts counted again with " + tokenizer + ", each exact"}
			c.replay(t, with(args, "--tokenizer", tokenizer, "--verify-prompts", "all")...)
		})
	}
}
