package metrics

import (
	"math"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/codec/record"
)

// TestGatewayOfWholeAnswers: a header that tells more than TTFT is of the whole answer, and no share of TTFT.
func TestGatewayOfWholeAnswers(t *testing.T) {
	collector := NewCollector(urls(1))
	var r record.Record
	r.Clear()
	r.PlannedNS, r.SentNS, r.HeadersNS, r.FirstTokenNS, r.LastTokenNS, r.Outcome, r.UpstreamNS = 0, 0, 10e6, 30e6, 90e6, record.OK, 93e6
	collector.Add(&r, 0)
	if g := collector.Summary(Summary{Requests: Requests{Planned: 1}, Limits: DefaultLimits()}, Probed{}).Gateway; g == nil || g.UpstreamMS.P50 != 93 || g.ServerShare != nil || g.Share != nil {
		t.Errorf("%s: want its time and no share", dump(g))
	}
}

// TestGateway: the shares of TTFT, and when a note names the gateway.
func TestGateway(t *testing.T) {
	const ms, none = 1_000_000, record.None
	for _, c := range []struct {
		what               string
		head, ttft         int64 // ms after sending
		own, upstream      int64 // ns
		share, serverShare float64
		note               string
	}{
		{"no gateway", 10, 30, none, none, 0, 0, ""},
		{"a quick one", 31, 32, 1 * ms, 30 * ms, 1. / 32, 30. / 32, ""},
		{"rounded up to a whole millisecond", 30, 30, none, 31 * ms, 0, 1, ""},
		{"Envoy before a server with an early head", 4, 200, none, 3 * ms, 1. / 200, 3. / 200, ""},
		{"Envoy with a queue", 950, 1000, none, 50 * ms, 0.9, 0.05, "the gateway took 90 % of TTFT, the server 5 % until the head of its response"},
		{"LiteLLM at work", 990, 1000, 600 * ms, 30 * ms, 0.96, 0.03, "the gateway took 96 % of TTFT, the server 3 % until the head of its response; it counts 600 ms a request as its own"},
		{"LiteLLM with a queue", 990, 1000, 100 * ms, 30 * ms, 0.96, 0.03, "the gateway took 96 % of TTFT, the server 3 % until the head of its response; it counts 100 ms a request as its own, and the rest is its queue, unless the server sends its head long before the first token"},
	} {
		collector := NewCollector(urls(2))
		for i := range 4 {
			var r record.Record
			r.Clear()
			r.PlannedNS, r.SentNS, r.Outcome, r.GatewayNS, r.UpstreamNS = 0, 0, record.OK, c.own, c.upstream
			r.HeadersNS, r.FirstTokenNS, r.LastTokenNS = c.head*ms, c.ttft*ms, c.ttft*ms+5
			collector.Add(&r, i%2)
		}
		s := collector.Summary(Summary{Requests: Requests{Planned: 4}, Limits: DefaultLimits()}, Probed{})
		switch g := s.Gateway; {
		case c.upstream == none:
			if g != nil {
				t.Errorf("%s: %+v, want none", c.what, g)
			}
		case g == nil || g.Requests != 4 || math.Abs(*g.Share-c.share) > 1e-9 || math.Abs(*g.ServerShare-c.serverShare) > 1e-9 || g.UpstreamMS.P50 != float64(c.upstream)/ms || (g.OwnMS == nil) != (c.own == none):
			t.Errorf("%s: %s", c.what, dump(g))
		}
		if notes := strings.Join(s.Notes, "\n"); strings.Contains(notes, "gateway") != (c.note != "") || !strings.Contains(notes+"\n", c.note) {
			t.Errorf("%s: notes %q, want %q", c.what, notes, c.note)
		}
	}
}

// TestLengthsOfSeveralChoices: usage counts the tokens of all choices, which is neither too long nor cut short.
func TestLengthsOfSeveralChoices(t *testing.T) {
	collector := NewCollector(urls(1))
	for _, c := range []struct{ choices, asked, tokens int64 }{{0, 0, 10}, {2, 2, 20}, {1, 2, 20}, {3, 3, 29}, {1, 0, 11}, {1, 2, 10}} {
		var r record.Record
		r.Clear()
		r.Outcome, r.OutputTokens, r.CompletionTokens, r.TokensFrom, r.Choices, r.AskedChoices = record.OK, 10, c.tokens, record.TokensFromUsage, c.choices, c.asked
		collector.Add(&r, 0)
	}
	s := collector.Summary(Summary{Requests: Requests{Planned: 6}, Limits: DefaultLimits()}, Probed{})
	if k := s.Tokens; k.CutShort != 1 || k.OverLong != 1 || k.SeveralChoices != 2 {
		t.Errorf("%+v", k)
	}
}

// TestWhatServersLeaveOpen: one thing is said in whole sentences, several fit into two lines, and targets are not listed one by one.
func TestWhatServersLeaveOpen(t *testing.T) {
	notes := func(targets int, unknown ...Unknown) string {
		collector := NewCollector(urls(targets))
		for i := range targets {
			var r record.Record
			r.Clear()
			r.Outcome = record.OK
			collector.Add(&r, i)
		}
		return strings.Join(collector.Summary(Summary{Requests: Requests{Planned: int64(targets)}, Limits: DefaultLimits()}, Probed{Unknown: unknown}).Notes, "\n")
	}
	ideal := Unknown{"exact ideal (no /tokenize; --chat-overhead)", "the head is unknown"}
	cold := Unknown{"cold start (no flush, no salt; --seed)", "nobody flushes"}
	if got := notes(1, ideal, cold); got != "the server leaves open: hits (no cached tokens), exact ideal (no /tokenize; --chat-overhead), cold start (no flush, no salt; --seed)" || len(got) > 2*70 {
		t.Error(got)
	}
	if got := notes(1); !strings.HasPrefix(got, "http://127.0.0.1:8000 reports no cached tokens, so its hits are unknown: vLLM needs") {
		t.Error(got)
	}
	if got := notes(300); !strings.HasPrefix(got, "each of 300 targets, such as http://127.0.0.1:8000, reports no cached tokens") || strings.Contains(got, "\n") {
		t.Error(got)
	}
}
