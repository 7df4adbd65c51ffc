package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// exactRows are enough for all lengths of prefixes.
const exactRows = 200

// exactTrace is some rows of the published conversation trace, or of one with the same kind of prompts where this machine
// does not have it.
func exactTrace(t *testing.T) []string {
	t.Helper()
	if dir := os.Getenv("FASTREPLAY_TRACES"); dir != "" {
		return []string{"--trace", filepath.Join(dir, "mooncake-conversation.jsonl.zst"), "--limit", fmt.Sprint(exactRows)}
	}
	t.Log("FASTREPLAY_TRACES is not set: a generated trace takes the place of the published one")
	return []string{"--trace", generate(t, "--rows", fmt.Sprint(exactRows), "--turns", "1:6", "--turn-tokens", "100:900", "--system-tokens", "1300", "--reuse", "0.7",
		"--input-tokens", "1400:6000", "--output-tokens", "3")}
}

// TestExactHits: one at a time and with an unlimited cache, every row's prompt has the recorded tokens. The server finds
// exactly those in its cache that an ideal one would. That holds for every API, kind of prompt, chat template and size of
// blocks.
func TestExactHits(t *testing.T) {
	t.Parallel()
	args := exactTrace(t)
	for _, c := range []struct {
		name, says string
		mock, args []string
	}{
		{"token ids", "the server adds none", nil, nil},
		{"text with a BOS", "adds 1 before and 0 after every prompt (/tokenize)", []string{"--bos-tokens", "1"}, []string{"--prompt", "text"}},
		{"text with a BOS that nobody tells of", "adds 1 before and 0 after", []string{"--bos-tokens", "1", "--quirk", "no-tokenize"}, []string{"--prompt", "text"}},
		{"chat", "adds 21 before and 5 after every prompt (/tokenize)", []string{"--template-tokens", "21,5"}, []string{"--api", "chat"}},
		{"chat, told", "adds 21 before and 5 after every prompt (--chat-overhead)", []string{"--template-tokens", "21,5", "--quirk", "no-tokenize"},
			[]string{"--api", "chat", "--chat-overhead", "21,5"}},
		{"large blocks", "blocks of 64 tokens", []string{"--template-tokens", "21,5", "--block-tokens", "64"}, []string{"--api", "chat"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := startMock(t, append(c.mock, "--ttft", "0s", "--itl", "0s", "--tokens-per-chunk", "100")...)
			r := run(t, append(append(c.args, args...), "--url", m.url, "--concurrency", "1")...)
			r.sound(t)
			hits, wrong := int64(0), 0
			for _, l := range r.lines {
				hits += l.Cached
				if l.Cached != l.Expected || l.Prompt != l.Input {
					wrong++
					if wrong < 5 {
						t.Errorf("row %d: %d of %d tokens cached; want %d of %d", l.Row, l.Cached, l.Prompt, l.Expected, l.Input)
					}
				}
			}
			if len(r.lines) != exactRows || wrong > 0 || hits == 0 {
				t.Errorf("%d of %d rows differ, %d tokens were cached", wrong, len(r.lines), hits)
			}
			if s := r.summary.PrefixCache.Shortfall; s == nil || s.Tokens != 0 {
				t.Errorf("shortfall %+v", s)
			}
			if !strings.Contains(r.stderr, c.says) {
				t.Errorf("the run does not say %q:\n%s", c.says, r.stderr)
			}
			r.join(t, m.stop(t))
		})
	}
}

// TestHitsByRange: if the length of the template's head is unknown, the expected hits are a range that holds the real ones.
// Nothing exact is claimed.
func TestHitsByRange(t *testing.T) {
	t.Parallel()
	m := startMock(t, "--template-tokens", "21,5", "--quirk", "no-tokenize", "--ttft", "0s", "--itl", "0s")
	r := run(t, append(exactTrace(t), "--url", m.url, "--concurrency", "1", "--api", "chat")...)
	r.verdict(t)
	c := r.summary.PrefixCache
	if c.ExpectedRange == nil || c.ExpectedHitRatio != nil || c.Shortfall != nil {
		t.Fatalf("%+v", c)
	}
	if got := ratio(c.ReportedHitRatio); got < c.ExpectedRange[0] || got > c.ExpectedRange[1] || c.ExpectedRange[0] >= c.ExpectedRange[1] {
		t.Errorf("reported %v, expected %v", got, *c.ExpectedRange)
	}
	if !strings.Contains(r.stderr, "give them with --chat-overhead HEAD,TAIL") {
		t.Errorf("the run does not say what to do:\n%s", r.stderr)
	}
	for _, l := range r.lines {
		if l.Expected != absent {
			t.Fatalf("row %d: %d tokens expected", l.Row, l.Expected)
		}
	}
}

// TestShortfall: at speed, against a cache that evicts all the time, what is missing of the ideal is told by cause.
func TestShortfall(t *testing.T) {
	path := mooncake(t)
	t.Parallel()
	for _, c := range []struct {
		name       string
		mock, args []string
	}{
		{"token ids", nil, nil},
		{"chat", []string{"--template-tokens", "21,5"}, []string{"--api", "chat"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := startMock(t, append(c.mock, "--ttft", "30ms", "--itl", "0.2ms", "--tokens-per-chunk", "10", "--cache-tokens", "1500000")...)
			r := run(t, append(c.args, "--trace", path, "--limit", "800", "--scale", "60", "--url", m.url)...)
			late, log := int64(0), m.stop(t)
			for i := range r.lines {
				if r.lines[i].seenLate(log, r.summary.Run.MonotonicStartNS) {
					late += r.lines[i].Prompt
				}
			}
			r.only(t, "ok")
			r.verdict(t)
			p := r.summary.PrefixCache
			s := p.Shortfall
			if s == nil || s.InPrefillTokens == 0 || s.EvictedTokens == 0 || s.NotReportedTokens != 0 {
				t.Fatalf("shortfall %+v", s)
			}
			if s.Tokens != s.InPrefillTokens+s.EvictedTokens+s.UnexplainedTokens || s.Tokens != *p.ExpectedTokens-*p.ReportedTokens+p.AboveIdealTokens {
				t.Errorf("shortfall %+v of %d expected and %d reported does not add up", s, *p.ExpectedTokens, *p.ReportedTokens)
			}
			prompt := r.summary.Tokens.Prompt
			share := float64(s.UnexplainedTokens) / float64(prompt)
			allowed := 0.01 + float64(late)/float64(prompt) // the model goes by the client's instants
			t.Logf("of %d prompt tokens %d expected, %d reported; %+v, unexplained %.3f %%", prompt, *p.ExpectedTokens, *p.ReportedTokens, *s, 100*share)
			if share > allowed {
				t.Errorf("unexplained: %.2f %% of the prompt tokens, %.2f %% are explained by late ones", 100*share, 100*allowed)
			}
		})
	}
}

// seenLate says whether client and server saw the request's arrival or its first token more than 5 ms apart.
func (l *line) seenLate(log map[string][]served, origin int64) bool {
	s := log[l.ID][0]
	return s.Arrived-origin-max(l.Sent, l.Written) > 5e6 || l.FirstToken-(s.First-origin) > 5e6
}

// TestSuspects: each way in which prompts or hits can be wrong is said in one line, with the right verdict.
func TestSuspects(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		mock, args []string
		says       string // by a run that does not start
	}{
		{"a template that is not constant", []string{"--template-tokens", "21,5", "--template-jitter", "40"}, nil, "is not constant"},
		{"another vocabulary", []string{"--split-words", "5"}, nil, "does not take each word of the built-in list as one token; give the model's own tokenizer with --tokenizer"},
		{"the wrong overhead", []string{"--template-tokens", "21,5"}, []string{"--chat-overhead", "20,5"}, "--chat-overhead 20,5: that makes 25 tokens, the servers add 26 to a prompt"},
		{"a head that the server contradicts", []string{"--template-tokens", "21,5"}, []string{"--chat-overhead", "1,25"}, "--chat-overhead 1,25: the servers say 21,5 (/tokenize)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			said := refused(t, with(chat, append(c.args, "--api", "chat", "--url", startMock(t, c.mock...).url)...)...)
			if last := lastLine(said); !strings.Contains(last, c.says) {
				t.Errorf("said %q", last)
			}
		})
	}
	t.Run("no cached tokens", func(t *testing.T) {
		m := startMock(t, "--quirk", "no-cached-tokens", "--template-tokens", "21,5")
		r := run(t, with(chat, "--api", "chat", "--url", m.url, "--scrape", "off")...) // its counters would tell the hits
		r.verdict(t)
		p := r.summary.PrefixCache
		if p.Shortfall == nil || p.Shortfall.NotReportedTokens != *p.ExpectedTokens || p.Shortfall.Tokens != *p.ExpectedTokens || p.ReportedHitRatio != nil {
			t.Errorf("%+v", p)
		}
		if notes := strings.Join(r.summary.Notes, "\n"); !strings.Contains(notes, "reports no cached tokens, so its hits are unknown: vLLM needs --enable-prompt-tokens-details, SGLang --enable-cache-report") {
			t.Errorf("notes: %s", notes)
		}
	})
	t.Run("a server of smaller blocks that does not tell", func(t *testing.T) {
		m := startMock(t, "--block-tokens", "1", "--quirk", "no-metrics")
		rows := filepath.Join(t.TempDir(), "growing.jsonl") // each prompt is the one before it and 17 tokens more
		var text strings.Builder
		for i := range 20 {
			fmt.Fprintf(&text, `{"timestamp":%d,"input_length":%d,"output_length":2,"hash_ids":[1,2,3]}`+"\n", 10*i, 1030+17*i)
		}
		writeFile(t, rows, text.String())
		one := []string{"--trace", rows, "--concurrency", "1", "--url", m.url}
		r := run(t, one...)
		r.verdict(t)
		if notes := strings.Join(r.summary.Notes, "\n"); !strings.Contains(notes, "the server reuses smaller pieces; give their size with --engine-block-tokens") {
			t.Errorf("notes: %s", notes)
		}
		r = run(t, append(one, "--engine-block-tokens", "1")...)
		r.verdict(t)
		for _, l := range r.lines {
			if l.Cached != l.Expected {
				t.Errorf("row %d: %d cached, %d expected", l.Row, l.Cached, l.Expected)
			}
		}
	})
	t.Run("a server without a cache", func(t *testing.T) {
		m := startMock(t, "--cache-tokens", "0")
		r := run(t, append(oneByOne(t), "--url", m.url)...)
		r.verdict(t)
		if s := r.summary.PrefixCache.Shortfall; s.CacheOffTokens == 0 || s.CacheOffTokens != s.Tokens || !strings.Contains(r.stderr, "the servers say that prefix caching is off") {
			t.Errorf("%+v\n%s", s, r.stderr)
		}
	})
	t.Run("a context shorter than the probes", func(t *testing.T) {
		m := startMock(t, "--max-model-len", "900")
		rows := generate(t, "--rows", "20", "--rate", "200", "--input-tokens", "20:700", "--output-tokens", "2")
		run(t, "--trace", rows, "--url", m.url).verdict(t)
	})
	t.Run("a warm server", func(t *testing.T) {
		m := startMock(t, "--quirk", "no-flush", "--quirk", "ignore-salt", "--template-tokens", "21,5")
		run(t, with(chat, "--api", "chat", "--url", m.url)...)
		run(t, with(chat, "--api", "chat", "--url", m.url)...).verdict(t, "the cache was warm")
	})
}

// TestTokenizers replays prompts made of the words, or the ids, of each kind of tokenizer. Each prompt is counted again with it
// before the start. A tokenizer that is not the server's is refused.
func TestTokenizers(t *testing.T) {
	t.Parallel()
	folder := filepath.Join("..", "codec", "tokenizer", "testdata")
	rows := generate(t, "--rows", "40", "--rate", "200", "--input-tokens", "20:3000", "--output-tokens", "2", "--reuse", "0.5")
	for n, name := range []string{"qwen2.json", "llama3.json", "llama2.json", "mistral.json", "unigram.json", "t5.json", "o200k_base"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tokenizer := name
			if strings.HasSuffix(name, ".json") {
				tokenizer = filepath.Join(folder, name)
			}
			m := startMock(t, "--template-tokens", "9,4", "--bos-tokens", "1")
			for k, args := range [][]string{{"--api", "chat"}, {"--prompt", "text"}, {"--prompt", "token-ids"}} {
				if k == n%2 { // the words of one kind of prompt are those of the other
					continue
				}
				if name == "t5.json" && args[1] == "token-ids" {
					said := refused(t, append(args, "--trace", rows, "--url", m.url, "--tokenizer", tokenizer)...)
					if last := lastLine(said); !strings.Contains(last, "have the same number of digits, and 1000 are needed; use --prompt text") {
						t.Errorf("said %q", last)
					}
					continue
				}
				r := run(t, append(args, "--trace", rows, "--url", m.url, "--tokenizer", tokenizer, "--verify-prompts", "all")...)
				r.sound(t)
				if says := "verified: 40 of 40 prompts counted again with " + tokenizer + ", each exact"; !strings.Contains(r.stderr, says) {
					t.Errorf("%v: the run does not say %q:\n%s", args, says, r.stderr)
				}
			}
		})
	}
	t.Run("of another model", func(t *testing.T) {
		m := startMock(t, "--split-words", "5")
		tokenizer := filepath.Join(folder, "qwen2.json")
		said := refused(t, "--trace", rows, "--api", "chat", "--url", m.url, "--tokenizer", tokenizer)
		if last := lastLine(said); !strings.Contains(last, "its model does not take each word of "+tokenizer+" as one token, so that is not its tokenizer") {
			t.Errorf("said %q", last)
		}
	})
	t.Run("missing", func(t *testing.T) {
		said := refused(t, "--trace", rows, "--tokenizer", "nowhere.json")
		if last := lastLine(said); !strings.Contains(last, "--tokenizer") || !strings.Contains(last, "nowhere.json") {
			t.Errorf("said %q", last)
		}
	})
}
