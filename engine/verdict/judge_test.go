package verdict

import (
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// sound is the summary of a run with nothing wrong with it, every number just
// inside its limit.
func sound() *metrics.Summary {
	return &metrics.Summary{
		Limits: metrics.DefaultLimits(),
		Run:    metrics.Run{DurationS: 10, Host: metrics.Host{CPUs: 2}},
		Requests: metrics.Requests{Planned: 1000, Sent: 1000, OK: 500, Failed: 500, Resent: 7, Late: 12, ByOutcome: map[string]int64{"ok": 500, "timeout": 500},
			Failures: []metrics.Failure{{Outcome: "timeout", Phase: metrics.PhaseStream, Count: 500}}},
		RunLatencies: metrics.RunLatencies{DriftUS: &stats.Percentiles{P50: 1000, P99: 5e6, P999: 9e6, Max: 9e6, Mean: 900, Count: 1000}},
		Lateness:     metrics.Lateness{DisplacedMS: 15, Displaced: 100, MeanGapMS: new(10.0), Sending: []metrics.Unsafe{}, Reading: []metrics.Unsafe{}},
		Tokens:       metrics.Tokens{Prompt: 100_000, OverLong: 3},
		Workload:     metrics.Workload{InputTokens: 100_000, ShortRows: 3, ShortSurplus: 1000},
		PrefixCache: metrics.PrefixCache{
			AboveIdealTokens: 1000, AboveIdealRequests: 2,
		},
		Connections: metrics.Connections{NotReady: 1, MaxWaitMS: 0.501},
		Writes:      metrics.Writes{Partial: 400},
		Client:      metrics.Client{CPUS: 19, ReceiveLagUS: &stats.Percentiles{P99: 5e6, Max: 1e7}},
	}
}

// said are the reasons of a verdict, a sentence each.
func said(v metrics.Verdict) (out []string) {
	for _, r := range v.Reasons {
		out = append(out, r.String())
	}
	return out
}

// closedLoop makes s a closed loop of n slots of which this share was lost, a quarter of it by one request.
func closedLoop(s *metrics.Summary, n int64, share float64) {
	s.Run.Concurrency, s.Lateness = n, metrics.Lateness{SlotsLostShare: &share, Sending: []metrics.Unsafe{}, Reading: []metrics.Unsafe{}}
	s.DriftUS = &stats.Percentiles{P50: 2000, P99: 8000, Max: share / 4 * s.Run.DurationS * float64(n) * 1e6}
}

func TestJudge(t *testing.T) {
	const cores = "give the client more or idle cores and real-time priority (root or CAP_SYS_NICE), or "
	for _, tt := range []struct {
		name   string
		change func(*metrics.Summary)
		grade  metrics.Grade
		want   []string
	}{
		{"everything just inside its limit", func(*metrics.Summary) {}, metrics.Valid, nil},
		{"a percentile moved", func(s *metrics.Summary) {
			s.DriftUS.P99 = 8900
			s.Lateness.Sending = []metrics.Unsafe{{Metric: "ttft", Percentile: "p99", ValueMS: 44.3, EffectMS: 2.2}}
		}, metrics.Limited, []string{"TTFT p99 may be off by 2.20 ms; all else is safe: requests left late (p50 1.00 ms, p99 8.90 ms, max 9.00 s); no cause was seen on this machine: " +
			cores + "lower --scale; or accept it with --max-drift 20ms"}},
		{"several moved, at a rate, with priority", func(s *metrics.Summary) {
			s.DriftUS.P99, s.Run.Arrival, s.Client.Realtime = 8000, &metrics.Arrival{}, true
			s.Lateness.Sending = []metrics.Unsafe{{Metric: "ttft", Percentile: "p99", ValueMS: 44.3, EffectMS: 2.2}, {Metric: "ttft", Percentile: "p999", ValueMS: 44.3, EffectMS: 3.3}, {Metric: "e2e", Percentile: "p999", ValueMS: 44.3, EffectMS: 2.25}}
		}, metrics.Limited, []string{"TTFT p99, p99.9 may be off by up to 3.30 ms; E2E p99.9 may be off by 2.25 ms; all else is safe: requests left late (p50 1.00 ms, p99 8.00 ms, max 9.00 s); " +
			"no cause was seen on this machine: give the client more or idle cores, or lower --rate; or accept it with --max-drift 10ms"}},
		{"and accepted", func(s *metrics.Summary) {
			s.DriftUS.P99, s.Limits.MaxDriftNS, s.Lateness.Displaced = 8900, 10e6, 900
			s.Lateness.Sending = []metrics.Unsafe{{Metric: "ttft", Percentile: "p99", ValueMS: 44.3, EffectMS: 2.2}}
		}, metrics.Valid, nil},
		{"above what was demanded", func(s *metrics.Summary) { s.DriftUS.P99, s.Limits.MaxDriftNS = 150, 0.1e6 }, metrics.Invalid,
			[]string{"drift p99 is 150.0 µs, above --max-drift 0.1 ms: requests left late (p50 1.00 ms, p99 150 µs, max 9.00 s); no cause was seen on this machine: " + cores + "lower --scale"}},
		{"another load", func(s *metrics.Summary) { s.Lateness.Displaced, s.Run.Arrival = 101, &metrics.Arrival{RampS: 1} }, metrics.Invalid,
			[]string{"the load was another one: 10.1 % of the requests left more than 15.0 ms late: requests left late (p50 1.00 ms, p99 5.00 s, max 9.00 s); no cause was seen on this machine: " + cores + "lower --ramp"}},
		{"one request of three", func(s *metrics.Summary) { s.Requests.Sent, s.Lateness.Displaced = 3, 1 }, metrics.Valid, nil},
		{"a closed loop with slots empty for 5 %, and one request", func(s *metrics.Summary) { closedLoop(s, 8, 0.066) }, metrics.Valid, nil},
		{"a closed loop with slots empty", func(s *metrics.Summary) { closedLoop(s, 8, 0.08) }, metrics.Limited,
			[]string{"throughput may be 6 % too low, since the slots were empty for so long: requests left late (p50 2.00 ms, p99 8.00 ms, max 1.60 s); no cause was seen on this machine: " +
				cores + "lower --concurrency; or accept it with --max-drift 10ms"}},
		{"a closed loop of half its size", func(s *metrics.Summary) { closedLoop(s, 8, 0.6) }, metrics.Invalid,
			[]string{"the load was another one: on average 4.4 of 8 requests were in flight: requests left late (p50 2.00 ms, p99 8.00 ms, max 12.0 s); no cause was seen on this machine: " +
				cores + "lower --concurrency"}},
		{"a closed loop, accepted", func(s *metrics.Summary) { closedLoop(s, 8, 0.6); s.Limits.MaxDriftNS = 10e6 }, metrics.Valid, nil},
		{"a cap that held nothing back", func(s *metrics.Summary) { s.Cap = &metrics.Cap{InFlight: 8} }, metrics.Valid, nil},
		{"nothing sent", func(s *metrics.Summary) { s.DriftUS = nil }, metrics.Valid, nil},
		{"early", func(s *metrics.Summary) { s.Requests.Early = 1 }, metrics.Invalid,
			[]string{"1 request sent before the planned time: please report this as a bug"}},
		{"late reads that moved something", func(s *metrics.Summary) {
			s.Client.ReceiveLagUS.P99, s.Lateness.Reading = 7200, []metrics.Unsafe{{Metric: "itl", Percentile: "p99", ValueMS: 10, EffectMS: 3}}
		}, metrics.Limited, []string{"ITL p99 may be off by 3.00 ms; all else is safe: answers were read late (p99 7.20 ms), so token chunks that came apart were found together, or the server waited for room in a full buffer; " +
			"no cause was seen on this machine: give the client more cores; or accept it with --max-receive-lag 10ms"}},
		{"late sending and late reads", func(s *metrics.Summary) {
			s.DriftUS.P99, s.Lateness.Sending = 8900, []metrics.Unsafe{{Metric: "ttft", Percentile: "p99", ValueMS: 44.3, EffectMS: 2.2}}
			s.Client.ReceiveLagUS.P99, s.Lateness.Reading = 7200, []metrics.Unsafe{{Metric: "itl", Percentile: "p99", ValueMS: 10, EffectMS: 3}}
		}, metrics.Limited, []string{"TTFT p99 may be off by 2.20 ms: requests left late (p50 1.00 ms, p99 8.90 ms, max 9.00 s); no cause was seen on this machine: " +
			cores + "lower --scale; or accept it with --max-drift 20ms",
			"ITL p99 may be off by 3.00 ms: answers were read late (p99 7.20 ms), so token chunks that came apart were found together, or the server waited for room in a full buffer; " +
				"no cause was seen on this machine: give the client more cores; or accept it with --max-receive-lag 10ms"}},
		{"late reads, accepted", func(s *metrics.Summary) {
			s.Client.ReceiveLagUS.P99, s.Lateness.Reading, s.Limits.MaxReceiveLagNS = 7200, []metrics.Unsafe{{Metric: "itl", Percentile: "p99", ValueMS: 10, EffectMS: 3}}, 8e6
		}, metrics.Valid, nil},
		{"late reads above what was demanded", func(s *metrics.Summary) { s.Client.ReceiveLagUS.P99, s.Limits.MaxReceiveLagNS = 7200, 5e6 }, metrics.Invalid,
			[]string{"receive lag p99 is 7.200 ms, above --max-receive-lag 5 ms: answers were read late (p99 7.20 ms), so token chunks that came apart were found together, or the server waited for room in a full buffer; " +
				"no cause was seen on this machine: give the client more cores"}},
		{"no receive stamps", func(s *metrics.Summary) { s.Client.ReceiveLagUS = nil }, metrics.Valid, nil},
		{"starved", func(s *metrics.Summary) { s.Client.CPUS = 19.5 }, metrics.Invalid,
			[]string{"the client lacked CPU time, so its times are not the server's: it used 97.5 % of 2 cores: give it more cores, or replay from several machines"}},
		{"unknown machine", func(s *metrics.Summary) { s.Run.Host.CPUs = 0 }, metrics.Valid, nil},
		{"short rows", func(s *metrics.Summary) { s.Workload.ShortSurplus = 1001 }, metrics.Invalid,
			[]string{"3 rows got 1,001 prompt tokens more than recorded, 1.001 % of all: they are no longer than what the server adds to a prompt: use --api completions, or leave them out"}},
		{"prompts", func(s *metrics.Summary) { s.Tokens.PromptMismatches = 1 }, metrics.Invalid,
			[]string{"the server counted other prompt tokens than were sent in 1 of 500 requests: its chat template is not constant, or its tokenizer splits our words: see the notes and --tokenizer"}},
		{"cut short", func(s *metrics.Summary) { s.Tokens.CutShort = 12 }, metrics.Invalid,
			[]string{"12 of 500 completions ended short of the recorded length: the server ignores min_tokens and ignore_eos, its context is too small, or its usage counts fewer tokens than it sent: " +
				"serve with a larger context, or accept it with --no-force-output"}},
		{"longer than allowed", func(s *metrics.Summary) {
			s.Tokens.Completion, s.Tokens.OverLong, s.Tokens.OverLongTokens = 50_000, 500, 45_000
		}, metrics.Invalid, []string{"500 of 500 completions have more tokens than max_tokens allows, 45,000 tokens in all: " +
			"the server ignores max_tokens, or its usage counts tokens that it did not send: " +
			"compare its usage with the text of an answer; throughput, TPOT and NTPOT rest on it. Or accept it with --no-force-output"}},
		{"longer by the end of each answer", func(s *metrics.Summary) {
			s.Tokens.Completion, s.Tokens.OverLong, s.Tokens.OverLongTokens = 5_000, 500, 500
		}, metrics.Valid, nil},
		{"longer, but not forced", func(s *metrics.Summary) {
			s.Tokens.Completion, s.Tokens.OverLongTokens, s.Limits.ForcedOutput = 50_000, 45_000, false
		}, metrics.Valid, nil},
		{"cut short, but not forced", func(s *metrics.Summary) { s.Tokens.CutShort, s.Limits.ForcedOutput = 12, false }, metrics.Valid, nil},
		{"more cached than sent", func(s *metrics.Summary) {
			s.PrefixCache.AboveIdealTokens, s.PrefixCache.HitRatio = 200_001, new(3.0)
		}, metrics.Invalid, []string{"the servers count more cached tokens than their prompts have, so whether the cache was cold is unknown: use --cold flush or salt, restart the server, or accept it with --allow-warm"}},
		{"warm", func(s *metrics.Summary) { s.PrefixCache.AboveIdealTokens = 1001 }, metrics.Invalid,
			[]string{"the cache was warm, 2 requests hit 1,001 tokens more than an ideal cold cache could: use --cold flush or salt, restart the server, or accept it with --allow-warm"}},
		{"warm, less what overtaking explains", func(s *metrics.Summary) {
			s.PrefixCache.AboveIdealTokens, s.PrefixCache.OvertakenTokens = 50_000, 49_000
		}, metrics.Valid, nil},
		{"warm, but allowed", func(s *metrics.Summary) { s.PrefixCache.AboveIdealTokens, s.Limits.AllowWarm = 99_999, true }, metrics.Valid, nil},
		{"all but one failed", func(s *metrics.Summary) { s.Requests.OK, s.Requests.Failed = 1, 999 }, metrics.Valid, nil},
		{"everything failed", func(s *metrics.Summary) {
			s.Requests.OK, s.Requests.Failed = 0, 1000
			s.Requests.Failures = []metrics.Failure{{Outcome: "http_error", Phase: metrics.PhaseHeaders, Status: 503, Count: 990, Example: "no\x1b"}, {Count: 10}}
		}, metrics.Invalid, []string{`none of 1,000 requests succeeded, so nothing was measured: 990 of them: HTTP 503 "no\x1b": see "error" in requests.jsonl`}},
		{"the client had no descriptors", func(s *metrics.Summary) { s.Connections.NoResources = 2 }, metrics.Invalid,
			[]string{"2 requests failed because this machine had no descriptor, port or memory for a connection: " +
				"raise the limit (ulimit -n, net.ipv4.ip_local_port_range), or have fewer requests in flight"}},
		{"nothing planned", func(s *metrics.Summary) { s.Requests, s.DriftUS = metrics.Requests{}, nil }, metrics.Valid, nil},
		{"refused rows", func(s *metrics.Summary) { s.Workload.RefusedRows = 4 }, metrics.Invalid,
			[]string{"4 rows of the selection could not be replayed: see the notes on the trace"}},
		{"repaired rows", func(s *metrics.Summary) { s.Workload.RepairedRows = 4 }, metrics.Valid, nil},
		{"records lost", func(s *metrics.Summary) { s.Requests.Unwritten = 1 }, metrics.Invalid,
			[]string{"1 record could not be written to disk, though this summary counts them: make room and run again"}},
		{"records missing", func(s *metrics.Summary) { s.Requests.Planned = 1001 }, metrics.Invalid,
			[]string{"1,001 requests planned but 1,000 recorded: please report this as a bug"}},
		{"interrupted", func(s *metrics.Summary) {
			s.Run.Partial = true
			s.Lateness.Displaced = 0
			s.Requests = metrics.Requests{Planned: 1000, Sent: 600, OK: 500, Failed: 5, Stopped: 495}
		}, metrics.Invalid, []string{"interrupted when 600 of 1,000 requests had been sent"}},
		{"the sender died", func(s *metrics.Summary) {
			s.Run.Partial, s.Run.SenderDied = true, "the sending process (pid 7) died"
			s.Requests.Sent, s.Lateness.Displaced = 600, 0
		}, metrics.Invalid, []string{"600 of 1,000 requests were sent: the sending process (pid 7) died: run again, or send from threads of this process with --sender thread"}},
		{"cut when its time was over", func(s *metrics.Summary) {
			s.Run.Cut = true
			s.Lateness.Displaced = 0
			s.Requests = metrics.Requests{Planned: 1000, Sent: 600, OK: 500, Failed: 5, Stopped: 495}
		}, metrics.Valid, nil},
		{"interrupted at once", func(s *metrics.Summary) {
			s.Run.Partial = true
			s.Requests, s.DriftUS = metrics.Requests{Planned: 9, Stopped: 9}, nil
		}, metrics.Invalid, []string{"interrupted when 0 of 9 requests had been sent"}},
		{"the gravest first", func(s *metrics.Summary) {
			s.Workload.RefusedRows, s.DriftUS.P99 = 4, 8900
			s.Lateness.Sending = []metrics.Unsafe{{Metric: "ttft", Percentile: "p99", ValueMS: 44.3, EffectMS: 2.2}}
		}, metrics.Invalid, []string{"4 rows of the selection could not be replayed: see the notes on the trace",
			"TTFT p99 may be off by 2.20 ms: requests left late (p50 1.00 ms, p99 8.90 ms, max 9.00 s); no cause was seen on this machine: " +
				cores + "lower --scale; or accept it with --max-drift 20ms"}},
	} {
		s := sound()
		tt.change(s)
		got := Judge(s)
		if got.Measurement != tt.grade || got.Valid != (tt.grade != metrics.Invalid) || !slices.Equal(said(got), tt.want) {
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

// TestUnfilled: a closed loop of fewer requests than slots is another load, by as much as slots may be empty at all. So
// are lanes that lack jobs, unless some may go on only after the end of the run.
func TestUnfilled(t *testing.T) {
	for slots, want := range map[int64]metrics.Grade{
		0: metrics.Valid, 1000: metrics.Valid, 1001: metrics.Limited, 1333: metrics.Limited, 1334: metrics.Invalid, 1e6: metrics.Invalid,
	} {
		s := sound()
		s.Run.Concurrency = slots
		s.Lateness.SlotsLostShare = new(0.0)
		v := Judge(s)
		expect.Equal(t, v.Measurement, want, "%d slots: %v", slots, said(v))
		s.Window = new(metrics.Window) // a part of a run has but some of its requests
		expect.Equal(t, Judge(s).Measurement, metrics.Valid, "%d slots", slots)
	}
	for _, c := range []struct {
		jobs, cutOff int64
		prepared     *metrics.Preparation
		want         metrics.Grade
	}{
		{10, 0, nil, metrics.Valid},
		{9, 0, nil, metrics.Limited},
		{9, 9, nil, metrics.Limited},
		{7, 0, nil, metrics.Invalid},
		{7, 0, new(metrics.Preparation), metrics.Invalid},
		{7, 1, new(metrics.Preparation), metrics.Valid},
	} {
		s := sound()
		s.Run.Lanes = 10
		s.Preparation = c.prepared
		s.Jobs = &metrics.Jobs{Jobs: c.jobs, CutOff: c.cutOff}
		v := Judge(s)
		expect.Equal(t, v.Measurement, c.want, "%+v: %v", c, said(v))
	}
}
