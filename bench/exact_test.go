package bench

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// TestHitsByRange: if the length of the template's head is unknown, the expected hits are a range that holds the real
// ones. Nothing exact is claimed.
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
	expect.Contains(t, r.stderr, "give them with --chat-overhead HEAD,TAIL", "the run does not say what to do")
	for _, l := range r.lines {
		must.Equal(t, l.Expected, absent, "row %d: tokens expected", l.Row)
	}
}

// TestShortfall: at speed, against a cache that evicts all the time, what is missing of the ideal is told by cause.
func TestShortfall(t *testing.T) {
	path := mooncake(t)
	t.Parallel()
	m := startMock(t, "--template-tokens", "21,5", "--ttft", "30ms", "--itl", "0.2ms", "--tokens-per-chunk", "10", "--cache-tokens", "1500000")
	r := run(t, "--api", "chat", "--trace", path, "--limit", "800", "--scale", "60", "--url", m.url)
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
}

// seenLate says whether client and server saw the request's arrival or its first token more than 5 ms apart.
func (l *line) seenLate(log map[string][]served, origin int64) bool {
	s := log[l.ID][0]
	return s.Arrived-origin-max(l.Sent, l.Written) > 5e6 || l.FirstToken-(s.First-origin) > 5e6
}

// TestSuspects: each way in which prompts or hits can be wrong is said in one line, with the right verdict.
func TestSuspects(t *testing.T) {
	t.Parallel()
	t.Run("a server of smaller blocks that does not tell", func(t *testing.T) {
		m := startMock(t, "--block-tokens", "1", "--quirk", "no-metrics")
		var text strings.Builder
		for i := range 20 { // each prompt is the one before it and 17 tokens more
			fmt.Fprintf(&text, `{"timestamp":%d,"input_length":%d,"output_length":2,"hash_ids":[1,2,3]}`+"\n", 10*i, 1030+17*i)
		}
		one := []string{"--trace", newFile(t, "growing.jsonl", text.String()), "--concurrency", "1", "--url", m.url}
		r := run(t, one...)
		r.verdict(t)
		expect.Contains(t, strings.Join(r.summary.Notes, "\n"), "the server reuses smaller pieces; give their size with --engine-block-tokens", "notes")
		r = run(t, append(one, "--engine-block-tokens", "1")...)
		r.verdict(t)
		for _, l := range r.lines {
			expect.Equal(t, l.Cached, l.Expected, "row %d: cached", l.Row)
		}
	})
	t.Run("a warm server", func(t *testing.T) {
		m := startMock(t, "--quirk", "no-flush", "--quirk", "ignore-salt")
		run(t, with(chat, "--url", m.url)...)
		warm := run(t, with(chat, "--url", m.url)...)
		if warm.verdict(t, "the cache was warm"); !strings.Contains(warm.stderr, "cannot flush and ignore cache_salt") {
			t.Errorf("it does not say why:\n%s", warm.stderr)
		}
	})
}
