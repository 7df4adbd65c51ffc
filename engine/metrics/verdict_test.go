package metrics

import (
	"math"
	"reflect"
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
		Requests: Requests{Planned: 1000, Sent: 1000, OK: 500, Failed: 500, Resent: 7, Late: 12, ByOutcome: map[string]int64{"ok": 500, "timeout": 500},
			Failures: []Failure{{Outcome: "timeout", Phase: PhaseStream, Count: 500}}},
		RunLatencies: RunLatencies{DriftUS: &stats.Percentiles{P50: 1000, P99: 5e6, P999: 9e6, Max: 9e6, Mean: 900, Count: 1000}},
		Lateness:     Lateness{DisplacedMS: 15, Displaced: 100, MeanGapMS: new(10.0), Sending: []Unsafe{}, Reading: []Unsafe{}},
		Tokens:       Tokens{Prompt: 100_000, OverLong: 3},
		Workload:     Workload{InputTokens: 100_000, ShortRows: 3, ShortSurplus: 1000},
		PrefixCache: PrefixCache{
			AboveIdealTokens: 1000, AboveIdealRequests: 2,
		},
		Connections: Connections{NotReady: 1, MaxWaitMS: 0.501},
		Writes:      Writes{Partial: 400},
		Client:      Client{CPUS: 19, ReceiveLagUS: &stats.Percentiles{P99: 5e6, Max: 1e7}},
	}
}

// said are the reasons of a verdict, a sentence each.
func said(v Verdict) (out []string) {
	for _, r := range v.Reasons {
		out = append(out, r.String())
	}
	return out
}

// closedLoop makes s a closed loop of n slots of which this share was lost, a quarter of it by one request.
func closedLoop(s *Summary, n int64, share float64) {
	s.Run.Concurrency, s.Lateness = n, Lateness{SlotsLostShare: &share, Sending: []Unsafe{}, Reading: []Unsafe{}}
	s.DriftUS = &stats.Percentiles{P50: 2000, P99: 8000, Max: share / 4 * s.Run.DurationS * float64(n) * 1e6}
}

func TestJudge(t *testing.T) {
	const cores = "give the client more or idle cores and real-time priority (root or CAP_SYS_NICE), or "
	for _, tt := range []struct {
		name   string
		change func(*Summary)
		grade  Grade
		want   []string
	}{
		{"everything just inside its limit", func(*Summary) {}, Valid, nil},
		{"a percentile moved", func(s *Summary) {
			s.DriftUS.P99 = 8900
			s.Lateness.Sending = []Unsafe{{"ttft", "p99", 44.3, 2.2}}
		}, Limited, []string{"TTFT p99 may be off by 2.20 ms; all else is safe: requests left late (p50 1.00 ms, p99 8.90 ms, max 9.00 s); no cause was seen on this machine: " +
			cores + "lower --scale; or accept it with --max-drift 20ms"}},
		{"several moved, at a rate, with priority", func(s *Summary) {
			s.DriftUS.P99, s.Run.Arrival, s.Client.Realtime = 8000, &Arrival{}, true
			s.Lateness.Sending = []Unsafe{{"ttft", "p99", 44.3, 2.2}, {"ttft", "p999", 44.3, 3.3}, {"e2e", "p999", 44.3, 2.25}}
		}, Limited, []string{"TTFT p99, p99.9 may be off by up to 3.30 ms; E2E p99.9 may be off by 2.25 ms; all else is safe: requests left late (p50 1.00 ms, p99 8.00 ms, max 9.00 s); " +
			"no cause was seen on this machine: give the client more or idle cores, or lower --rate; or accept it with --max-drift 10ms"}},
		{"and accepted", func(s *Summary) {
			s.DriftUS.P99, s.Limits.MaxDriftNS, s.Lateness.Displaced = 8900, 10e6, 900
			s.Lateness.Sending = []Unsafe{{"ttft", "p99", 44.3, 2.2}}
		}, Valid, nil},
		{"above what was demanded", func(s *Summary) { s.DriftUS.P99, s.Limits.MaxDriftNS = 150, 0.1e6 }, Invalid,
			[]string{"drift p99 is 150.0 µs, above --max-drift 0.1 ms: requests left late (p50 1.00 ms, p99 150 µs, max 9.00 s); no cause was seen on this machine: " + cores + "lower --scale"}},
		{"another load", func(s *Summary) { s.Lateness.Displaced, s.Run.Arrival = 101, &Arrival{RampS: 1} }, Invalid,
			[]string{"the load was another one: 10.1 % of the requests left more than 15.0 ms late: requests left late (p50 1.00 ms, p99 5.00 s, max 9.00 s); no cause was seen on this machine: " + cores + "lower --ramp"}},
		{"one request of three", func(s *Summary) { s.Requests.Sent, s.Lateness.Displaced = 3, 1 }, Valid, nil},
		{"a closed loop with slots empty for 5 %, and one request", func(s *Summary) { closedLoop(s, 8, 0.066) }, Valid, nil},
		{"a closed loop with slots empty", func(s *Summary) { closedLoop(s, 8, 0.08) }, Limited,
			[]string{"throughput may be 6 % too low, since the slots were empty for so long: requests left late (p50 2.00 ms, p99 8.00 ms, max 1.60 s); no cause was seen on this machine: " +
				cores + "lower --concurrency; or accept it with --max-drift 10ms"}},
		{"a closed loop of half its size", func(s *Summary) { closedLoop(s, 8, 0.6) }, Invalid,
			[]string{"the load was another one: on average 4.4 of 8 requests were in flight: requests left late (p50 2.00 ms, p99 8.00 ms, max 12.0 s); no cause was seen on this machine: " +
				cores + "lower --concurrency"}},
		{"a closed loop, accepted", func(s *Summary) { closedLoop(s, 8, 0.6); s.Limits.MaxDriftNS = 10e6 }, Valid, nil},
		{"a cap that held nothing back", func(s *Summary) { s.Cap = &Cap{InFlight: 8} }, Valid, nil},
		{"nothing sent", func(s *Summary) { s.DriftUS = nil }, Valid, nil},
		{"early", func(s *Summary) { s.Requests.Early = 1 }, Invalid,
			[]string{"1 request sent before the planned time: please report this as a bug"}},
		{"late reads that moved something", func(s *Summary) {
			s.Client.ReceiveLagUS.P99, s.Lateness.Reading = 7200, []Unsafe{{"itl", "p99", 10, 3}}
		}, Limited, []string{"ITL p99 may be off by 3.00 ms; all else is safe: answers were read late (p99 7.20 ms), so token chunks that came apart were found together, or the server waited for room in a full buffer; " +
			"no cause was seen on this machine: give the client more cores; or accept it with --max-receive-lag 10ms"}},
		{"late sending and late reads", func(s *Summary) {
			s.DriftUS.P99, s.Lateness.Sending = 8900, []Unsafe{{"ttft", "p99", 44.3, 2.2}}
			s.Client.ReceiveLagUS.P99, s.Lateness.Reading = 7200, []Unsafe{{"itl", "p99", 10, 3}}
		}, Limited, []string{"TTFT p99 may be off by 2.20 ms: requests left late (p50 1.00 ms, p99 8.90 ms, max 9.00 s); no cause was seen on this machine: " +
			cores + "lower --scale; or accept it with --max-drift 20ms",
			"ITL p99 may be off by 3.00 ms: answers were read late (p99 7.20 ms), so token chunks that came apart were found together, or the server waited for room in a full buffer; " +
				"no cause was seen on this machine: give the client more cores; or accept it with --max-receive-lag 10ms"}},
		{"late reads, accepted", func(s *Summary) {
			s.Client.ReceiveLagUS.P99, s.Lateness.Reading, s.Limits.MaxReceiveLagNS = 7200, []Unsafe{{"itl", "p99", 10, 3}}, 8e6
		}, Valid, nil},
		{"late reads above what was demanded", func(s *Summary) { s.Client.ReceiveLagUS.P99, s.Limits.MaxReceiveLagNS = 7200, 5e6 }, Invalid,
			[]string{"receive lag p99 is 7.200 ms, above --max-receive-lag 5 ms: answers were read late (p99 7.20 ms), so token chunks that came apart were found together, or the server waited for room in a full buffer; " +
				"no cause was seen on this machine: give the client more cores"}},
		{"no receive stamps", func(s *Summary) { s.Client.ReceiveLagUS = nil }, Valid, nil},
		{"starved", func(s *Summary) { s.Client.CPUS = 19.5 }, Invalid,
			[]string{"the client lacked CPU time, so its times are not the server's: it used 97.5 % of 2 cores: give it more cores, or replay from several machines"}},
		{"unknown machine", func(s *Summary) { s.Run.Host.CPUs = 0 }, Valid, nil},
		{"short rows", func(s *Summary) { s.Workload.ShortSurplus = 1001 }, Invalid,
			[]string{"3 rows got 1,001 prompt tokens more than recorded, 1.001 % of all: they are no longer than what the server adds to a prompt: use --api completions, or leave them out"}},
		{"prompts", func(s *Summary) { s.Tokens.PromptMismatches = 1 }, Invalid,
			[]string{"the server counted other prompt tokens than were sent in 1 of 500 requests: its chat template is not constant, or its tokenizer splits our words: see the notes and --tokenizer"}},
		{"cut short", func(s *Summary) { s.Tokens.CutShort = 12 }, Invalid,
			[]string{"12 of 500 completions ended short of the recorded length: the server ignores min_tokens and ignore_eos, or its context is too small: " +
				"serve with a larger context, or accept it with --no-force-output"}},
		{"cut short, but not forced", func(s *Summary) { s.Tokens.CutShort, s.Limits.ForcedOutput = 12, false }, Valid, nil},
		{"warm", func(s *Summary) { s.PrefixCache.AboveIdealTokens = 1001 }, Invalid,
			[]string{"the cache was warm, 2 requests hit 1,001 tokens more than an ideal cold cache could: use --cold flush or salt, restart the server, or accept it with --allow-warm"}},
		{"warm, less what overtaking explains", func(s *Summary) {
			s.PrefixCache.AboveIdealTokens, s.PrefixCache.OvertakenTokens = 50_000, 49_000
		}, Valid, nil},
		{"warm, but allowed", func(s *Summary) { s.PrefixCache.AboveIdealTokens, s.Limits.AllowWarm = 99_999, true }, Valid, nil},
		{"all but one failed", func(s *Summary) { s.Requests.OK, s.Requests.Failed = 1, 999 }, Valid, nil},
		{"everything failed", func(s *Summary) {
			s.Requests.OK, s.Requests.Failed = 0, 1000
			s.Requests.Failures = []Failure{{"http_error", PhaseHeaders, 503, 990, "no\x1b"}, {Count: 10}}
		}, Invalid, []string{`none of 1,000 requests succeeded, so nothing was measured: 990 of them: HTTP 503 "no\x1b": see "error" in requests.jsonl`}},
		{"the client had no descriptors", func(s *Summary) { s.Connections.NoResources = 2 }, Invalid,
			[]string{"2 requests failed because this machine had no descriptor, port or memory for a connection: " +
				"raise the limit (ulimit -n, net.ipv4.ip_local_port_range), or have fewer requests in flight"}},
		{"nothing planned", func(s *Summary) { s.Requests, s.DriftUS = Requests{}, nil }, Valid, nil},
		{"refused rows", func(s *Summary) { s.Workload.RefusedRows = 4 }, Invalid,
			[]string{"4 rows of the selection could not be replayed: see the notes on the trace"}},
		{"repaired rows", func(s *Summary) { s.Workload.RepairedRows = 4 }, Valid, nil},
		{"records lost", func(s *Summary) { s.Requests.Unwritten = 1 }, Invalid,
			[]string{"1 record could not be written to disk, though this summary counts them: make room and run again"}},
		{"records missing", func(s *Summary) { s.Requests.Planned = 1001 }, Invalid,
			[]string{"1,001 requests planned but 1,000 recorded: please report this as a bug"}},
		{"interrupted", func(s *Summary) {
			s.Run.Partial = true
			s.Lateness.Displaced = 0
			s.Requests = Requests{Planned: 1000, Sent: 600, OK: 500, Failed: 5, Stopped: 495}
		}, Invalid, []string{"interrupted when 600 of 1,000 requests had been sent"}},
		{"the sender died", func(s *Summary) {
			s.Run.Partial, s.Run.SenderDied = true, "the sending process (pid 7) died"
			s.Requests.Sent, s.Lateness.Displaced = 600, 0
		}, Invalid, []string{"600 of 1,000 requests were sent: the sending process (pid 7) died: run again, or send from threads of this process with --sender thread"}},
		{"cut when its time was over", func(s *Summary) {
			s.Run.Cut = true
			s.Lateness.Displaced = 0
			s.Requests = Requests{Planned: 1000, Sent: 600, OK: 500, Failed: 5, Stopped: 495}
		}, Valid, nil},
		{"interrupted at once", func(s *Summary) {
			s.Run.Partial = true
			s.Requests, s.DriftUS = Requests{Planned: 9, Stopped: 9}, nil
		}, Invalid, []string{"interrupted when 0 of 9 requests had been sent"}},
		{"the gravest first", func(s *Summary) {
			s.Workload.RefusedRows, s.DriftUS.P99 = 4, 8900
			s.Lateness.Sending = []Unsafe{{"ttft", "p99", 44.3, 2.2}}
		}, Invalid, []string{"4 rows of the selection could not be replayed: see the notes on the trace",
			"TTFT p99 may be off by 2.20 ms: requests left late (p50 1.00 ms, p99 8.90 ms, max 9.00 s); no cause was seen on this machine: " +
				cores + "lower --scale; or accept it with --max-drift 20ms"}},
	} {
		s := sound()
		tt.change(s)
		got := Judge(s)
		if got.Measurement != tt.grade || got.Valid != (tt.grade != Invalid) || !slices.Equal(said(got), tt.want) {
			t.Errorf("%s:\ngot  %s %q\nwant %s %q", tt.name, got.Measurement, said(got), tt.grade, tt.want)
		}
		if got.Reasons == nil || got.Unsafe == nil || got.Objectives == nil {
			t.Errorf("%s: a list is nil; JSON must have []", tt.name)
		}
		if (len(got.Unsafe) > 0) != strings.Contains(strings.Join(said(got), ""), "may be off") {
			t.Errorf("%s: unsafe %v", tt.name, got.Unsafe)
		}
		if s.Verdict.Reasons != nil || s.Verdict.Valid {
			t.Errorf("%s: Judge changed the summary", tt.name)
		}
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
			want: []string{"a chunk has 2.00 tokens on average: ITL is per chunk, TPOT per token"}},
		{name: "half a per cent off", record: func(r *record.Record) { r.OutputTokens, r.CompletionTokens, r.Chunks = 1005, 1005, 1000 }},
		{name: "a little more", record: func(r *record.Record) { r.OutputTokens, r.CompletionTokens, r.Chunks = 1006, 1006, 1000 },
			want: []string{"a chunk has 1.01 tokens on average: ITL is per chunk, TPOT per token"}},
		{name: "mismatch", record: func(r *record.Record) { r.PromptTokens = 1519 },
			want: []string{"row 7 is the first whose prompt tokens differ: 500 sent, 1,519 counted"}},
		{name: "no usage", record: func(r *record.Record) { r.TokensFrom = record.TokensFromChunks },
			want: []string{"the server sent no usage in 1 request: their completion tokens are counted chunks"}},
		{name: "longer", record: func(r *record.Record) { r.OutputTokens = 99 }, want: []string{"1 completion longer than recorded"}},
		{name: "shorter", record: func(r *record.Record) { r.OutputTokens = 101 }, info: func(i *Summary) { i.Limits.ForcedOutput = false },
			want: []string{"1 completion shorter than recorded, because the output length was not forced"}},
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
			info: func(i *Summary) { i.Run.Partial = true }},
		{name: "a request that was cut", record: func(r *record.Record) { r.Outcome, r.Error = record.Cancelled, "over" },
			info: func(i *Summary) { i.Run.Cut = true },
			want: []string{"1 request cut off and 0 not sent, because the run's time was over: the verdict does not count them as failed"}},
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
		"the server counted other prompt tokens than were sent in 1 of 1 request: its chat template is not constant, or its tokenizer splits our words: see the notes and --tokenizer",
		"1 of 1 completion ended short of the recorded length: the server ignores min_tokens and ignore_eos, or its context is too small: serve with a larger context, or accept it with --no-force-output",
		"the cache was warm, 1 request hit 80 tokens more than an ideal cold cache could: use --cold flush or salt, restart the server, or accept it with --allow-warm",
	}
	if got.Valid || !slices.Equal(said(got), want) {
		t.Errorf("got %q\nwant %q", said(got), want)
	}
}

func TestHistoryNotes(t *testing.T) {
	for _, c := range []struct {
		h    *History
		want []string
	}{
		{nil, nil},
		{&History{Turns: 5, Live: 5}, nil},
		{&History{Turns: 9, Live: 2, Partly: 3, Recorded: 4, Why: HistoryGaps{Late: 1, Failed: 2, NoText: 1, Tools: 2, Apart: 1}}, []string{
			"live history: 7 of 9 follow-up turns were sent with the file's text in place of an answer: 1 left before an earlier turn had ended " +
				"(--sessions gated or think wait for it), 2 follow a turn that failed, 1 follow an answer without text, 2 follow a tool call, " +
				"1 do not begin with the messages of an earlier turn"}},
	} {
		if got := historyNotes(c.h); !reflect.DeepEqual(got, c.want) {
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
		s := collector.Summary(Summary{Requests: Requests{Planned: 4}, Limits: DefaultLimits()}, Probed{})
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
	s := collector.Summary(Summary{Requests: Requests{Planned: 6}, Limits: DefaultLimits()}, Probed{})
	if k := s.Tokens; k.CutShort != 1 || k.OverLong != 1 || k.SeveralChoices != 2 {
		t.Errorf("%+v", k)
	}
}

// TestWhatServersLeaveOpen: the note on one unknown is a sentence, several fit into two lines, and targets are not
// listed one by one.
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
