package collect

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// said are the reasons of a verdict, a sentence each.
func said(v metrics.Verdict) (out []string) {
	for _, r := range v.Reasons {
		out = append(out, r.String())
	}
	return out
}

// texts are those of notes.
func texts(all metrics.Notes) (out []string) {
	for _, n := range all {
		out = append(out, n.Text)
	}
	return out
}

// notesOf returns the notes of a run with one target whose only request is r.
func notesOf(r *record.Record, change func(*metrics.Summary)) []string {
	c := NewCollector([]string{"http://a:1"})
	c.Add(r, 0)
	info := metrics.Summary{Requests: metrics.Requests{Planned: 1}, Limits: metrics.DefaultLimits()}
	if change != nil {
		change(&info)
	}
	s := c.Summary(info, Probed{})
	for i, code := range s.NoteCodes {
		if (code == "") != (s.Notes[i] == "said the engine") {
			panic(s.Notes[i] + " has the code " + code)
		}
	}
	return s.Notes[:len(s.NoteCodes)]
}

func answered() *record.Record {
	r := new(record.Record)
	r.Clear()
	r.Row, r.Outcome, r.PlannedNS, r.SentNS, r.FirstTokenNS, r.LastTokenNS = 7, record.OK, 0, 10, 20, 30
	r.InputTokens, r.PromptTokens, r.OutputTokens, r.CompletionTokens = 500, 500, 100, 100
	r.TokensFrom, r.Chunks = record.TokensFromUsage, 100
	r.BuiltTokens = 500
	r.ExpectedCachedTokens, r.LeastCachedTokens, r.MostCachedTokens, r.CachedTokens = 400, 400, 400, 400
	return r
}

func TestNotes(t *testing.T) {
	for _, tt := range []struct {
		name   string
		record func(*record.Record)
		info   func(*metrics.Summary)
		want   []string
	}{
		{name: "nothing"},
		{name: "tokens per chunk", record: func(r *record.Record) { r.Chunks = 50 },
			want: []string{"a chunk has 2.00 tokens on average: ITL is per chunk, TPOT per token"}},
		{name: "100 tokens in 4 chunks, of which 75 came in the time of all but the first", record: func(r *record.Record) { r.Chunks = 4 },
			want: []string{"a chunk has 25.00 tokens on average: ITL is per chunk, TPOT per token. TPOT is about 24.2 % too short, if first chunks have as many"}},
		{name: "half a per cent off", record: func(r *record.Record) { r.OutputTokens, r.CompletionTokens, r.Chunks = 1005, 1005, 1000 }},
		{name: "a little more", record: func(r *record.Record) { r.OutputTokens, r.CompletionTokens, r.Chunks = 1006, 1006, 1000 },
			want: []string{"a chunk has 1.01 tokens on average: ITL is per chunk, TPOT per token"}},
		{name: "more chunks than tokens", record: func(r *record.Record) { r.Chunks = 110 },
			want: []string{"a chunk has 0.91 tokens on average: ITL is per chunk, TPOT per token",
				"the server counts fewer tokens than it sent chunks: if the first chunk of an answer is none of them, TTFT is too short"}},
		{name: "mismatch", record: func(r *record.Record) { r.PromptTokens = 1519 },
			want: []string{"row 7 is the first whose prompt tokens differ: 500 sent, 1,519 counted"}},
		{name: "no usage", record: func(r *record.Record) { r.TokensFrom = record.TokensFromChunks },
			want: []string{"the server counted no tokens in 1 request: their completion tokens are counted chunks"}},
		{name: "longer", record: func(r *record.Record) { r.OutputTokens = 99 }, want: []string{"1 completion longer than recorded"}},
		{name: "all tokens at one instant", record: func(r *record.Record) { r.LastTokenNS = r.FirstTokenNS },
			want: []string{"1 response brought all tokens at one instant, so there is no TPOT or ITL of them; " +
				"a proxy that buffers streams does that, a server without TCP_NODELAY, or one whose chunks have their output under a name that is not known here, and TTFT is then the time of the whole answer"}},
		{name: "an answer that came whole", record: func(r *record.Record) { r.FirstTokenNS, r.Chunks = record.None, 0 },
			want: []string{"1 answer came whole, and not as streams: the server, or a proxy, ignores \"stream\": true, or rows' own bodies ask for that. They have no TTFT, TPOT or ITL"}},
		{name: "an answer that was asked for whole", record: func(r *record.Record) { r.FirstTokenNS, r.Chunks = record.None, 0 },
			info: func(i *metrics.Summary) { i.Run.AskedWhole = true }},
		{name: "shorter", record: func(r *record.Record) { r.OutputTokens = 101 }, info: func(i *metrics.Summary) { i.Limits.ForcedOutput = false },
			want: []string{"1 of 1 completion shorter than recorded, since the output length was not forced, or the server cut them: throughput and E2E are those of less work"}},
		{name: "above the ideal", record: func(r *record.Record) { r.CachedTokens = 416 },
			want: []string{"1 request hit 16 tokens above the ideal for the plan's order"}},
		{name: "above an ideal of which the most is known", record: func(r *record.Record) {
			r.ExpectedCachedTokens, r.MostCachedTokens, r.CachedTokens = record.None, 400, 416
		}, want: []string{"1 request hit 16 tokens above the ideal for the plan's order"}},
		{name: "pieces smaller than assumed", record: func(r *record.Record) { r.MostCachedTokens, r.CachedTokens = 415, 407 },
			want: []string{"1 request hit more than whole blocks of the assumed size: the server reuses smaller pieces; give their size with --engine-block-tokens"}},
		{name: "an ideal of which nothing is known", record: func(r *record.Record) {
			r.ExpectedCachedTokens, r.MostCachedTokens, r.CachedTokens = record.None, record.None, 480
		}},
		{name: "no cached tokens", record: func(r *record.Record) { r.CachedTokens = record.None },
			want: []string{"http://a:1 reports no cached tokens, so its hits are unknown: vLLM needs --enable-prompt-tokens-details, SGLang --enable-cache-report, and some APIs (TGI's, Triton's, embeddings) have no such count"}},
		{name: "an interrupted request", record: func(r *record.Record) { r.Outcome, r.Error = record.NotSent, "stopped" },
			info: func(i *metrics.Summary) { i.Run.Partial = true }},
		{name: "a request that was cut", record: func(r *record.Record) { r.Outcome, r.Error = record.Cancelled, "over" },
			info: func(i *metrics.Summary) { i.Run.Cut = true },
			want: []string{"1 request cut off and 0 not sent, because the run's time was over: the verdict does not count them as failed"}},
		{name: "a failure without words", record: func(r *record.Record) { r.Outcome = record.Reset }},
		{name: "further notes", info: func(i *metrics.Summary) {
			i.Workload.RepairedRows, i.Workload.DroppedRows, i.Notes = 3, 1, []string{"said the engine"}
		}, want: []string{"said the engine"}},
	} {
		r := answered()
		if tt.record != nil {
			tt.record(r)
		}
		if got := notesOf(r, tt.info); !slices.Equal(got, tt.want) || got == nil {
			t.Errorf("%s:\ngot  %q\nwant %q", tt.name, got, tt.want)
		}
	}
}

// TestVerdictOfRecords goes the whole way from records to reasons.
func TestVerdictOfRecords(t *testing.T) {
	c := NewCollector([]string{"http://a:1"})
	r := answered()
	r.PromptTokens, r.CompletionTokens, r.Chunks, r.CachedTokens, r.SentNS = 499, 99, 99, 480, 6_000_000
	c.Add(r, 0)
	got := planned(c, 2).Verdict
	want := []string{
		"2 requests planned but 1 recorded: please report this as a bug",
		"the server counted other prompt tokens than were sent in 1 of 1 request: its chat template is not constant, or its tokenizer splits our words: see the notes and --tokenizer",
		"1 of 1 completion ended short of the recorded length: the server ignores min_tokens and ignore_eos, its context is too small, or its usage counts fewer tokens than it sent: serve with a larger context, or accept it with --no-force-output",
		"the cache was warm, 1 request hit 80 tokens more than an ideal cold cache could: use --cold flush or salt, another --seed, restart the server, or accept it with --allow-warm",
	}
	if got.Valid || !slices.Equal(said(got), want) {
		t.Errorf("got %q\nwant %q", said(got), want)
	}
}

func TestHistoryNotes(t *testing.T) {
	for _, c := range []struct {
		h    *metrics.History
		want []string
	}{
		{nil, nil},
		{&metrics.History{Turns: 5, Live: 5}, nil},
		{&metrics.History{Turns: 9, Live: 2, Partly: 3, Recorded: 4, Why: metrics.HistoryGaps{Late: 1, Failed: 2, NoText: 1, Tools: 2, Apart: 1}}, []string{
			"live history: 7 of 9 follow-up turns were sent with the file's text in place of an answer: 1 left before an earlier turn had ended " +
				"(--sessions gated or think wait for it), 2 follow a turn that failed, 1 follow an answer without text, 2 follow a tool call, " +
				"1 do not begin with the messages of an earlier turn"}},
	} {
		if got := texts(historyNotes(c.h)); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%+v\ngot  %q\nwant %q", c.h, got, c.want)
		}
	}
}

// TestGateway: the shares of TTFT, and when a note names the gateway.
func TestGateway(t *testing.T) {
	const ms, none = 1_000_000, record.None
	for _, c := range []struct {
		what               string
		head, ttft         int64   // ms after sending
		own, upstream      int64   // ns
		share, serverShare float64 // below 0: none
		note               string
	}{
		{"no gateway", 10, 30, none, none, 0, 0, ""},
		{"a time of the whole answer, above TTFT", 10, 30, none, 93 * ms, -1, -1, ""},
		{"a quick one", 31, 32, 1 * ms, 30 * ms, 1. / 32, 30. / 32, ""},
		{"rounded up to a whole millisecond", 30, 30, none, 31 * ms, 0, 1, ""},
		{"Envoy before a server with an early head", 4, 200, none, 3 * ms, 1. / 200, 3. / 200, ""},
		{"Envoy with a queue", 950, 1000, none, 50 * ms, 0.9, 0.05, "the gateway took 90 % of TTFT, the server 5 % until the head of its response"},
		{"LiteLLM at work", 990, 1000, 600 * ms, 30 * ms, 0.96, 0.03, "the gateway took 96 % of TTFT, the server 3 % until the head of its response; the gateway reports 600 ms a request as its own time"},
		{"LiteLLM with a queue", 990, 1000, 100 * ms, 30 * ms, 0.96, 0.03, "the gateway took 96 % of TTFT, the server 3 % until the head of its response; the gateway reports 100 ms a request as its own time, and the rest is its queue, unless the server sends its head long before the first token"},
	} {
		collector := NewCollector(urls(2))
		for i := range 4 {
			var r record.Record
			r.Clear()
			r.PlannedNS, r.SentNS, r.Outcome, r.GatewayNS, r.UpstreamNS = 0, 0, record.OK, c.own, c.upstream
			r.HeadersNS, r.FirstTokenNS, r.LastTokenNS = c.head*ms, c.ttft*ms, c.ttft*ms+5
			collector.Add(&r, i%2)
		}
		s := planned(collector, 4)
		switch g := s.Gateway; {
		case c.upstream == none:
			if g != nil {
				t.Errorf("%s: %+v, want none", c.what, g)
			}
		case g == nil || g.Requests != 4 || (g.Share == nil) != (c.share < 0) || g.Share != nil && math.Abs(*g.Share-c.share)+math.Abs(*g.ServerShare-c.serverShare) > 1e-9 || g.UpstreamMS.P50 != float64(c.upstream)/ms || (g.OwnMS == nil) != (c.own == none):
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
	s := planned(collector, 6)
	if k := s.Tokens; k.CutShort != 1 || k.OverLong != 1 || k.SeveralChoices != 2 {
		t.Errorf("%+v", k)
	}
}

// TestWhatServersLeaveOpen: the note on one unknown is a sentence, several fit into two lines, and targets are not
// listed one by one.
func TestWhatServersLeaveOpen(t *testing.T) {
	notes := func(targets int, unknown ...metrics.Unknown) string {
		collector := NewCollector(urls(targets))
		for i := range targets {
			var r record.Record
			r.Clear()
			r.Outcome = record.OK
			collector.Add(&r, i)
		}
		return strings.Join(collector.Summary(metrics.Summary{Requests: metrics.Requests{Planned: int64(targets)}, Limits: metrics.DefaultLimits()}, Probed{Unknown: unknown}).Notes, "\n")
	}
	ideal := metrics.Unknown{What: "exact ideal (no /tokenize; --chat-overhead)", Note: "the head is unknown"}
	cold := metrics.Unknown{What: "cold start (no flush, no salt; --seed)", Note: "nobody flushes"}
	if got := notes(1, ideal, cold); got != "the server does not report: hits (no cached tokens), exact ideal (no /tokenize; --chat-overhead), cold start (no flush, no salt; --seed)" || len(got) > 2*70 {
		t.Error(got)
	}
	if got := notes(1); !strings.HasPrefix(got, "http://127.0.0.1:8000 reports no cached tokens, so its hits are unknown: vLLM needs") {
		t.Error(got)
	}
	if got := notes(300); !strings.HasPrefix(got, "each of 300 targets, such as http://127.0.0.1:8000, reports no cached tokens") || strings.Contains(got, "\n") {
		t.Error(got)
	}
}

// TestAnswersThatMislead: if answers name several models, or begin with a chunk that need not be a token, a run is not
// VALID, and the reason says why.
func TestAnswersThatMislead(t *testing.T) {
	judge := func(change func(i int, r *record.Record)) metrics.Verdict {
		c := NewCollector([]string{"http://a:1", "http://b:1"})
		for i := range 100 {
			r := answered()
			r.FirstTokenNS, r.FirstTextNS, r.LastTokenNS = 20e6, 20e6, 1e9
			r.AnswerModel = "old"
			change(i, r)
			c.Add(r, i%2)
		}
		return planned(c, 100).Verdict
	}
	for name, tt := range map[string]struct {
		change func(i int, r *record.Record)
		want   []string
	}{
		"all alike": {func(int, *record.Record) {}, nil},
		"two targets": {func(i int, r *record.Record) { r.AnswerModel = []string{"old", "new"}[i%2] }, []string{"all numbers mix several models, by the names in the answers: " +
			`"new" in 50 requests of http://b:1; "old" in 50 requests of http://a:1: find out who answers, or see the numbers of each target; measure one model at a time`}},
		"a canary of two targets": {func(i int, r *record.Record) { r.AnswerModel = []string{"old", "new"}[i/90] }, []string{"all numbers mix several models, by the names in the answers: " +
			`"old" in 90 requests of 2 targets; "new" in 10 requests of 2 targets: find out who answers, or see the numbers of each target; measure one model at a time`}},
		"rows' models":  {func(i int, r *record.Record) { r.Model, r.AnswerModel = fmt.Sprint(i%4), fmt.Sprint(i%4) }, nil},
		"some are mute": {func(i int, r *record.Record) { r.AnswerModel = []string{"", "old"}[i/50] }, nil},
		"another in mid-run": {func(i int, r *record.Record) {
			if i >= 70 && i%2 == 1 {
				r.AnswerModel = "new"
			}
		}, []string{"all numbers mix several models, by the names in the answers: " +
			`"old" in 85 requests of 2 targets; "new" in 15 requests of http://b:1: find out who answers, or see the numbers of each target; measure one model at a time`}},
		"empty chunks that are tokens": {func(_ int, r *record.Record) { r.FirstTextNS = 30e6 }, nil},
		"few empty chunks": {func(i int, r *record.Record) {
			r.Chunks = 90
			if i < 10 {
				r.FirstTextNS = 30e6
			}
		}, nil},
		"empty chunks long before the text": {func(i int, r *record.Record) {
			r.Chunks = 90
			if i < 11 {
				r.FirstTextNS = 30e6
			}
		}, []string{"TTFT and TTFO may be too short, and TPOT too long: in 11 of 100 requests the first chunk had no text or came sooner than a token takes, and the server's count of tokens " +
			"does not show that a token was in it: see first_token_ns and first_text_ns in requests.jsonl; E2E is safe"}},
		"empty chunks just before the text": {func(_ int, r *record.Record) { r.Chunks, r.FirstTextNS = 90, 20.9e6 }, nil},
		"a space at once": {func(_ int, r *record.Record) {
			r.Chunks, r.FirstTokenNS, r.FirstTextNS = r.CompletionTokens+1, 1e6, 1e6
		},
			[]string{"TTFT and TTFO may be too short, and TPOT too long: in 100 of 100 requests the first chunk had no text or came sooner than a token takes, and the server's count of tokens " +
				"does not show that a token was in it: see first_token_ns and first_text_ns in requests.jsonl; E2E is safe"}},
		"nobody counts": {func(_ int, r *record.Record) { r.TokensFrom, r.FirstTextNS = record.TokensFromChunks, 30e6 },
			[]string{"TTFT and TTFO may be too short, and TPOT too long: in 100 of 100 requests the first chunk had no text or came sooner than a token takes, and the server's count of tokens " +
				"does not show that a token was in it: see first_token_ns and first_text_ns in requests.jsonl; E2E is safe"}},
	} {
		grade := map[bool]metrics.Grade{true: metrics.Limited, false: metrics.Valid}[tt.want != nil]
		if v := judge(tt.change); v.Measurement != grade || !slices.Equal(said(v), tt.want) {
			t.Errorf("%s: %s %q, want %q", name, v.Measurement, said(v), tt.want)
		}
	}
}

// TestHardlyMade: answers that come faster than models make them are named, of as many as tell a median.
func TestHardlyMade(t *testing.T) {
	for n, told := range map[int]bool{1: false, 20: true} {
		for _, gapNS := range []int64{10_000, 400_000, -10_000} { // below 0: whole answers, which have no first token
			c := NewCollector([]string{"http://a"})
			whole := gapNS < 0
			for i := range n {
				r := sentAt(int64(i)*s, record.OK, 20*ms)
				r.CompletionTokens, r.Chunks = 11, 11
				r.LastTokenNS = r.FirstTokenNS + 10*gapNS
				if whole {
					r.FirstTokenNS, r.LastTokenNS = record.None, r.SentNS-11*gapNS
				}
				r.DoneNS = r.LastTokenNS
				c.Add(r, 0)
			}
			notes := strings.Join(planned(c, 0).Notes, "; ")
			expect.Equal(t, strings.Contains(notes, "a token every 10.0 µs"), told && gapNS != 400_000, "%d of %d ns: %s", n, gapNS, notes)
		}
	}
}
