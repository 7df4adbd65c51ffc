package metrics

import (
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// sound is the summary of a run with nothing wrong with it, every number just
// inside its limit.
func sound() *Summary {
	return &Summary{
		Limits: DefaultLimits(),
		Run:    Run{DurationS: 10, Host: Host{CPUs: 2}},
		Requests: Requests{Planned: 1000, Sent: 1000, OK: 990, Failed: 10, Resent: 7, Late: 12,
			ByOutcome: map[string]int64{"ok": 990, "timeout": 10}},
		DriftUS:  &stats.Percentiles{P99: 5000, P999: 9e6, Max: 9e6},
		Tokens:   Tokens{Prompt: 100_000, OverLong: 3},
		Workload: Workload{InputTokens: 100_000, ShortRows: 3, ShortSurplus: 1000},
		PrefixCache: PrefixCache{
			AboveIdealTokens: 1000, AboveIdealRequests: 2,
		},
		Writes: Writes{Partial: 400},
		Client: Client{CPUS: 19, ReceiveLagUS: &stats.Percentiles{P99: 5000, Max: 1e6}},
	}
}

func TestJudge(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Summary)
		want   []string
	}{
		{"everything just inside its limit", func(*Summary) {}, nil},
		{"drift", func(s *Summary) { s.DriftUS.P99 = 5001 },
			[]string{"drift p99 is 5.001 ms, above --max-drift 5 ms (12 of 1,000 requests left later than that): give the client more or idle cores and real-time priority, or lower --scale"}},
		{"drift above another limit", func(s *Summary) { s.Limits.MaxDriftMS, s.DriftUS.P99 = 0.1, 150 },
			[]string{"drift p99 is 150.0 µs, above --max-drift 0.1 ms (12 of 1,000 requests left later than that): give the client more or idle cores and real-time priority, or lower --scale"}},
		{"drift below another limit", func(s *Summary) { s.Limits.MaxDriftMS, s.DriftUS.P99 = 50, 49_999 }, nil},
		{"a cap that held nothing back", func(s *Summary) { s.Cap = &Cap{InFlight: 8} }, nil},
		{"nothing sent", func(s *Summary) { s.DriftUS = nil }, nil},
		{"early", func(s *Summary) { s.Requests.Early = 1 },
			[]string{"1 request left before the planned instant: please report this as a bug"}},
		{"connections", func(s *Summary) { s.Connections = Connections{NotReady: 3, MaxWaitMS: 12.3456} },
			[]string{"3 requests found no connection ready at the deadline (longest wait 12.3 ms): too few were open ahead of demand; see whether the server accepts slowly, the client lacks cores, or the descriptor limit is low"}},
		{"receive lag", func(s *Summary) { s.Client.ReceiveLagUS.P99 = 7200 },
			[]string{"the client read late, at p99 7.200 ms after the kernel had received (limit 5 ms), so tokens that came apart may share one instant: give it more cores"}},
		{"no receive stamps", func(s *Summary) { s.Client.ReceiveLagUS = nil }, nil},
		{"starved", func(s *Summary) { s.Client.CPUS = 19.5 },
			[]string{"the client was starved of CPU, it used 97.5 % of 2 cores: give it more cores, or replay from several machines"}},
		{"unknown machine", func(s *Summary) { s.Run.Host.CPUs = 0 }, nil},
		{"short rows", func(s *Summary) { s.Workload.ShortSurplus = 1001 },
			[]string{"3 rows (no longer than what the server adds to a prompt) got 1,001 prompt tokens more than recorded, 1.001 % of all: use --api completions, or leave them out"}},
		{"prompts", func(s *Summary) { s.Tokens.PromptMismatches = 1 },
			[]string{"in 1 of 990 requests the server did not count the prompt tokens that were sent: its chat template is not constant, or its model splits our words; see the notes and --tokenizer"}},
		{"cut short", func(s *Summary) { s.Tokens.CutShort = 12 },
			[]string{"12 of 990 completions ended short of the recorded length: the server ignores min_tokens and ignore_eos, or its context is too small"}},
		{"cut short, but not forced", func(s *Summary) { s.Tokens.CutShort, s.Limits.ForcedOutput = 12, false }, nil},
		{"warm", func(s *Summary) { s.PrefixCache.AboveIdealTokens = 1001 },
			[]string{"the cache was warm, 2 requests hit 1,001 tokens more than an ideal cold cache could: use --cold flush or salt, restart the server, or --allow-warm"}},
		{"warm, less what overtaking explains", func(s *Summary) {
			s.PrefixCache.AboveIdealTokens, s.PrefixCache.OvertakenTokens = 50_000, 49_000
		}, nil},
		{"warm, but allowed", func(s *Summary) { s.PrefixCache.AboveIdealTokens, s.Limits.AllowWarm = 99_999, true }, nil},
		{"errors", func(s *Summary) { s.Requests.OK, s.Requests.Failed = 989, 11 },
			[]string{"11 of 1,000 requests failed (1.1 %, limit 1 %): see the outcomes, or allow it with --max-error-rate"}},
		{"errors above another limit", func(s *Summary) { s.Limits.MaxErrorRate = 0 },
			[]string{"10 of 1,000 requests failed (1 %, limit 0 %): see the outcomes, or allow it with --max-error-rate"}},
		{"errors below another limit", func(s *Summary) { s.Limits.MaxErrorRate, s.Requests.OK, s.Requests.Failed = 0.5, 500, 500 }, nil},
		{"everything failed", func(s *Summary) { s.Limits.MaxErrorRate, s.Requests.OK, s.Requests.Failed = 1, 0, 1000 },
			[]string{`none of 1,000 requests succeeded: see the outcomes, and "error" in requests.jsonl`}},
		{"nothing planned", func(s *Summary) { s.Requests = Requests{} }, nil},
		{"refused rows", func(s *Summary) { s.Workload.RefusedRows = 4 },
			[]string{"4 rows of the selection could not be replayed: see the notes on the trace"}},
		{"repaired rows", func(s *Summary) { s.Workload.RepairedRows = 4 }, nil},
		{"records lost", func(s *Summary) { s.Requests.Unwritten = 1 },
			[]string{"1 record could not be written to disk, though this summary counts them: make room and run again"}},
		{"records missing", func(s *Summary) { s.Requests.Planned = 1001 },
			[]string{"1,001 requests planned but 1,000 recorded: please report this as a bug"}},
		{"interrupted", func(s *Summary) {
			s.Run.Partial = true
			s.Requests = Requests{Planned: 1000, Sent: 600, OK: 500, Failed: 500,
				ByOutcome: map[string]int64{"ok": 500, "cancelled": 95, "not_sent": 400, "reset": 5}}
		}, []string{"interrupted when 600 of 1,000 requests had been sent"}},
		{"the sender died", func(s *Summary) {
			s.Run.Partial, s.Run.SenderDied = true, "the sending process (pid 7) died"
			s.Requests.Sent = 600
		}, []string{"the sending process (pid 7) died when 600 of 1,000 requests had been sent; 400 were not: run again, or send from threads of this process with --lane thread"}},
		{"interrupted with errors", func(s *Summary) {
			s.Run.Partial = true
			s.Requests = Requests{Planned: 1000, Sent: 600, OK: 490, Failed: 510,
				ByOutcome: map[string]int64{"ok": 490, "cancelled": 100, "not_sent": 400, "reset": 10}}
		}, []string{"interrupted when 600 of 1,000 requests had been sent",
			"10 of 500 requests failed (2 %, limit 1 %): see the outcomes, or allow it with --max-error-rate"}},
		{"cut when its time was over", func(s *Summary) {
			s.Run.Cut = true
			s.Requests = Requests{Planned: 1000, Sent: 600, OK: 500, Failed: 500,
				ByOutcome: map[string]int64{"ok": 500, "cancelled": 95, "not_sent": 400, "reset": 5}}
		}, nil},
		{"cut, with errors", func(s *Summary) {
			s.Run.Cut = true
			s.Requests = Requests{Planned: 1000, Sent: 600, OK: 490, Failed: 510,
				ByOutcome: map[string]int64{"ok": 490, "cancelled": 100, "not_sent": 400, "reset": 10}}
		}, []string{"10 of 500 requests failed (2 %, limit 1 %): see the outcomes, or allow it with --max-error-rate"}},
		{"interrupted at once", func(s *Summary) {
			s.Run.Partial = true
			s.Requests = Requests{Planned: 9, Failed: 9, ByOutcome: map[string]int64{"not_sent": 9}}
		}, []string{"interrupted when 0 of 9 requests had been sent"}},
		{"not sent without an interruption", func(s *Summary) {
			s.Requests = Requests{Planned: 100, Sent: 90, OK: 90, Failed: 10, ByOutcome: map[string]int64{"ok": 90, "not_sent": 10}}
		}, []string{"10 of 100 requests failed (10 %, limit 1 %): see the outcomes, or allow it with --max-error-rate"}},
	} {
		s := sound()
		tt.change(s)
		got := Judge(s)
		if got.Valid != (len(tt.want) == 0) || !slices.Equal(got.Reasons, tt.want) {
			t.Errorf("%s:\ngot  %v %q\nwant %q", tt.name, got.Valid, got.Reasons, tt.want)
		}
		if got.Reasons == nil {
			t.Errorf("%s: reasons are nil; JSON must have []", tt.name)
		}
		if s.Verdict.Reasons != nil || s.Verdict.Valid {
			t.Errorf("%s: Judge changed the summary", tt.name)
		}
	}
}

func TestJudgeTakesFurtherReasons(t *testing.T) {
	got := Judge(sound(), "the clock was set back by 3 s")
	if got.Valid || !slices.Equal(got.Reasons, []string{"the clock was set back by 3 s"}) {
		t.Errorf("got %+v", got)
	}
}

// notesOf returns the notes of a run with one target whose only request is r.
func notesOf(r *record.Record, change func(*Summary)) []string {
	c := NewCollector([]string{"http://a:1"})
	c.Add(r, 0)
	info := Summary{Requests: Requests{Planned: 1}, Limits: DefaultLimits()}
	if change != nil {
		change(&info)
	}
	return c.Summary(info, Probed{}).Notes
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
		info   func(*Summary)
		want   []string
	}{
		{name: "nothing"},
		{name: "tokens per chunk", record: func(r *record.Record) { r.Chunks = 50 },
			want: []string{"a chunk carries 2.00 tokens on average: ITL is per chunk, TPOT per token"}},
		{name: "half a per cent off", record: func(r *record.Record) { r.OutputTokens, r.CompletionTokens, r.Chunks = 1005, 1005, 1000 }},
		{name: "a little more", record: func(r *record.Record) { r.OutputTokens, r.CompletionTokens, r.Chunks = 1006, 1006, 1000 },
			want: []string{"a chunk carries 1.01 tokens on average: ITL is per chunk, TPOT per token"}},
		{name: "mismatch", record: func(r *record.Record) { r.PromptTokens = 1519 },
			want: []string{"row 7 is the first whose prompt tokens differ: 500 sent, 1,519 counted"}},
		{name: "no usage", record: func(r *record.Record) { r.TokensFrom = record.TokensFromChunks },
			want: []string{"the server sent no usage in 1 request: their completion tokens are counted chunks"}},
		{name: "longer", record: func(r *record.Record) { r.OutputTokens = 99 }, want: []string{"1 completion longer than recorded"}},
		{name: "shorter", record: func(r *record.Record) { r.OutputTokens = 101 }, info: func(i *Summary) { i.Limits.ForcedOutput = false },
			want: []string{"1 completion shorter than recorded, for the output length was not forced"}},
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
		{name: "a failure", record: func(r *record.Record) { r.Outcome, r.Error = record.HTTPError, "no such \x1b[31mmodel\n" },
			want: []string{`http_error, for example row 7: "no such \x1b[31mmodel\n"`}},
		{name: "a long failure", record: func(r *record.Record) { r.Outcome, r.Error = record.Reset, strings.Repeat("é", 201) },
			want: []string{`reset, for example row 7: "` + strings.Repeat("é", 200) + `…"`}},
		{name: "an interrupted request", record: func(r *record.Record) { r.Outcome, r.Error = record.NotSent, "stopped" },
			info: func(i *Summary) { i.Run.Partial = true }},
		{name: "a request that was cut", record: func(r *record.Record) { r.Outcome, r.Error = record.Cancelled, "over" },
			info: func(i *Summary) { i.Run.Cut = true },
			want: []string{"1 request cut and 0 never sent, for the run's time was over: the verdict does not count them as failed"}},
		{name: "a failure without words", record: func(r *record.Record) { r.Outcome = record.Reset }},
		{name: "further notes", info: func(i *Summary) {
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
	got := c.Summary(Summary{Requests: Requests{Planned: 2}, Limits: DefaultLimits()}, Probed{}).Verdict
	want := []string{
		"2 requests planned but 1 recorded: please report this as a bug",
		"drift p99 is 6.000 ms, above --max-drift 5 ms (1 of 1 request left later than that): give the client more or idle cores and real-time priority, or lower --scale",
		"in 1 of 1 request the server did not count the prompt tokens that were sent: its chat template is not constant, or its model splits our words; see the notes and --tokenizer",
		"1 of 1 completion ended short of the recorded length: the server ignores min_tokens and ignore_eos, or its context is too small",
		"the cache was warm, 1 request hit 80 tokens more than an ideal cold cache could: use --cold flush or salt, restart the server, or --allow-warm",
	}
	if got.Valid || !slices.Equal(got.Reasons, want) {
		t.Errorf("got %q\nwant %q", got.Reasons, want)
	}
}
