package collect

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/stats"
)

func mustObject(t *testing.T, raw []byte) (m map[string]json.RawMessage) {
	t.Helper()
	must.Do(t, json.Unmarshal(raw, &m))
	return m
}

func TestSummaryRoundTrip(t *testing.T) {
	c := collect(workload(2, 300, 2), urls(2))
	s := c.Summary(metrics.Summary{
		Requests: metrics.Requests{Planned: 300}, Run: metrics.Run{DurationS: 2, StartedAt: time.Unix(1e9, 123456789).UTC(), Options: map[string]any{"scale": 2.0}},
		Limits: metrics.DefaultLimits(),
	}, Probed{})
	var again metrics.Summary
	must.Do(t, json.Unmarshal([]byte(dump(s)), &again))
	equal(t, "round trip", &again, s)
	expect.Contains(t, dump(s), `"started_at": "2001-09-09T01:46:40.123456789Z"`, "started_at is not RFC 3339 in UTC")
}

// TestSummaryOfDisaster: when everything failed there still is a summary,
// with null where there is no number.
func TestSummaryOfDisaster(t *testing.T) {
	c := NewCollector(urls(1))
	var r record.Record
	for i := range int64(20) {
		r.Clear()
		r.Row, r.PlannedNS, r.InputTokens, r.OutputTokens, r.Outcome = i, i*1000, 10, 10, record.ConnectError
		if i >= 10 { // even with instants, a failure enters no latency
			r.SentNS, r.FirstTokenNS, r.LastTokenNS, r.Outcome = r.PlannedNS+5, r.PlannedNS+100, r.PlannedNS+900, record.Reset
			r.CompletionTokens, r.CachedTokens, r.PromptTokens = 5, 5, 10
		}
		c.Add(&r, 0)
	}
	s := c.Summary(metrics.Summary{Requests: metrics.Requests{Planned: 20}, Run: metrics.Run{DurationS: 1}, Limits: metrics.DefaultLimits()}, Probed{})
	if s.Verdict.Valid || len(s.Verdict.Reasons) != 1 || !strings.HasPrefix(s.Verdict.Reasons[0].What, "none of 20 requests succeeded") {
		t.Errorf("verdict %+v", s.Verdict)
	}
	top := mustObject(t, []byte(dump(s)))
	for _, key := range []string{"ttft_ms", "ttft_planned_ms", "tpot_ms", "itl_ms", "e2e_ms", "e2e_planned_ms"} {
		expect.Equal(t, string(top[key]), "null", key)
	}
	want := stats.Percentiles{P50: 0.005, P75: 0.005, P90: 0.005, P95: 0.005, P99: 0.005, P999: 0.005, Max: 0.005, Mean: 0.005, Count: 10}
	equal(t, "drift", s.DriftUS, &want)
	equal(t, "prefix cache", s.PrefixCache, metrics.PrefixCache{})
	equal(t, "tokens", s.Tokens, metrics.Tokens{})
	equal(t, "throughput", s.Throughput, metrics.Throughput{})
	if s.Requests.Failed != 20 || s.Requests.Sent != 10 || s.Requests.ByOutcome["connect_error"] != 10 || s.Requests.ByOutcome["reset"] != 10 {
		t.Errorf("requests %+v", s.Requests)
	}
}

// TestSummaryOfNothing: a run that planned nothing has a summary too.
func TestSummaryOfNothing(t *testing.T) {
	s := NewCollector(nil).Summary(metrics.Summary{}, Probed{})
	text := dump(s)
	for _, want := range []string{`"valid": true`, `"reasons": []`, `"targets": []`, `"notes": []`, `"drift_us": null`, `"per_chunk": null`} {
		expect.Contains(t, text, want)
	}
}

// TestHitsOfAnswersWithoutUsage: what came without any usage is unknown, and a usage without the detail is a 0.
func TestHitsOfAnswersWithoutUsage(t *testing.T) {
	c := NewCollector(urls(1))
	hit, zero, untold := answered(), answered(), answered()
	hit.CachedTokens, zero.CachedTokens = 160, record.None
	untold.CachedTokens, untold.PromptTokens, untold.TokensFrom = record.None, record.None, record.TokensFromChunks
	for i, r := range []*record.Record{hit, zero, untold} {
		r.Row, r.Instance = int64(i), "a"
		c.Add(r, 0)
	}
	s := planned(c, 3)
	for name, got := range map[string]*float64{"run": s.PrefixCache.ReportedHitRatio, "target": s.Targets[0].ReportedHitRatio, "instance": s.Instances.Parts[0].ReportedHitRatio} {
		expect.Equal(t, *got, 160.0/1000, "%s: the answer without usage must not dilute the reported hit ratio", name)
	}
	if got := *s.PrefixCache.ExpectedHitRatio; got != 0.8 || s.PrefixCache.UnreportedRequests != 1 {
		t.Errorf("expected hit ratio %v, %d unreported; want 0.8 of all requests, and 1", got, s.PrefixCache.UnreportedRequests)
	}
	if !strings.Contains(strings.Join(s.Notes, "\n"), "sent no usage in 1 request: their hits are unknown") {
		t.Errorf("notes %q", s.Notes)
	}
}

// TestStampsInSummary: what the kernel stamped is counted, and a clock that was set is noted.
func TestStampsInSummary(t *testing.T) {
	r := record.Record{}
	r.Clear()
	r.Outcome, r.PlannedNS, r.SentNS, r.DepartedNS, r.AckedNS = record.OK, 1000, 3000, 6000, 5_003_000
	c := NewCollector(urls(1))
	c.Add(&r, 0)
	for _, tt := range []struct {
		stamps *metrics.Stamps
		note   string
	}{
		{nil, ""}, {&metrics.Stamps{}, ""}, {&metrics.Stamps{Received: true, Reads: 9, Unstamped: 3}, ""},
		{&metrics.Stamps{Received: true, ClockSteps: 1, StepMS: -1500, Dropped: 12},
			"the wall clock was set 1 time during the run (by -1.50 s at most): 12 kernel timestamps around it were not used, and the reader's clock gave those times"},
	} {
		s := c.Summary(metrics.Summary{Requests: metrics.Requests{Planned: 1}, Limits: metrics.DefaultLimits(), Client: metrics.Client{Stamps: tt.stamps}}, Probed{})
		if s.WireDriftUS == nil || s.WireDriftUS.Max != 5 || s.UploadMS == nil || s.UploadMS.Max != 5 {
			t.Errorf("wire drift %+v, upload %+v; want 5 µs and 5 ms", s.WireDriftUS, s.UploadMS)
		}
		got := ""
		for _, note := range s.Notes {
			if strings.Contains(note, "wall clock") {
				got = note
			}
		}
		expect.Equal(t, got, tt.note, "%+v: note", tt.stamps)
	}
}

func TestSummaryKeepsWhatItIsGiven(t *testing.T) {
	c := NewCollector(urls(1))
	for _, wait := range []int64{record.None, 0, 7_500_000, 1_000} {
		r := answered()
		r.ConnWaitNS = wait
		c.Add(r, 0)
	}
	info := metrics.Summary{
		Requests: metrics.Requests{Planned: 4, Unwritten: 2}, Limits: metrics.Limits{MaxDriftNS: 1e6, MaxReceiveLagNS: 2e6, MaxErrorRate: new(0.5), AllowWarm: true},
		Run:         metrics.Run{Scale: 3, Version: "v", Targets: []string{"x"}, Host: metrics.Host{CPUs: 8}},
		Workload:    metrics.Workload{Trace: "t", Rows: 5, Fingerprint: "sha256:00"},
		Connections: metrics.Connections{Dialled: 9, ClosedIdle: 1}, Writes: metrics.Writes{Whole: 3, Partial: 1},
		Client: metrics.Client{Senders: 1, WireBytes: 77}, Verdict: metrics.Verdict{Reasons: []metrics.Reason{{Code: "further", Grade: metrics.Invalid, What: "a reason"}}},
	}
	s := c.Summary(info, Probed{})
	info.Run.AnsweredS = s.Run.AnsweredS // is counted
	equal(t, "run", s.Run, info.Run)
	equal(t, "workload", s.Workload, info.Workload)
	equal(t, "limits", s.Limits, info.Limits)
	equal(t, "writes", s.Writes, info.Writes)
	equal(t, "connections", s.Connections, metrics.Connections{Dialled: 9, ClosedIdle: 1, MaxWaitMS: 7.5})
	equal(t, "client", s.Client, info.Client)
	equal(t, "verdict", said(s.Verdict), []string{"2 records could not be written to disk, though this summary counts them: make room and run again", "a reason"})
	if s.Requests.Unwritten != 2 || s.Schema != 2 {
		t.Errorf("unwritten %d, schema %d", s.Requests.Unwritten, s.Schema)
	}
}

func TestSummaryAgainstOracle(t *testing.T) {
	const targets = 3
	all := workload(77, 4000, targets)
	c := collect(all, urls(targets))
	limits := metrics.DefaultLimits()
	limits.MaxDriftNS = 1000
	s := c.Summary(metrics.Summary{Requests: metrics.Requests{Planned: 4000}, Run: metrics.Run{DurationS: 8}, Limits: limits}, Probed{})

	var sent, ok, resent, early, late, prompt, completion, fromUsage, fromChunks, fewer, mismatch, short, long, atOnce, emptyFirst int64
	var usageTokens, chunks, expected, reported, reportingPrompt, longTokens, above, aboveRequests, unreported, whole int64
	byOutcome := map[string]int64{}
	for _, m := range all {
		r := m.r
		byOutcome[r.Outcome.String()]++
		if r.SentNS != record.None {
			sent++
			if r.SentNS < r.PlannedNS {
				early++
			}
			late += btoi(r.SentNS-r.PlannedNS > 1000)
		}
		resent += min(1, r.Resent)
		if r.Outcome != record.OK {
			continue
		}
		ok++
		tokens := r.PromptTokens
		if tokens == record.None {
			tokens = r.InputTokens
		} else if tokens != r.InputTokens {
			mismatch++
		}
		prompt += tokens
		completion += r.CompletionTokens
		whole += btoi(r.FirstTokenNS == record.None)
		atOnce += btoi(r.FirstTokenNS != record.None && r.Chunks == 1 && r.CompletionTokens > 1)
		if r.TokensFrom == record.TokensFromUsage {
			fromUsage++
			if first := r.FirstTokenNS - r.SentNS; r.FirstTokenNS != record.None && r.CompletionTokens > 1 && r.Chunks > r.CompletionTokens {
				each := (r.LastTokenNS - r.FirstTokenNS) / (r.CompletionTokens - 1)
				emptyFirst += btoi(each > 2*first && each > max(1e6, first/20))
			}
			short += btoi(r.CompletionTokens < r.OutputTokens)
			long += btoi(r.CompletionTokens > r.OutputTokens)
			longTokens += max(0, r.CompletionTokens-r.OutputTokens)
			if r.Chunks > 0 {
				usageTokens += r.CompletionTokens
				chunks += r.Chunks
			}
		} else {
			fromChunks++
			fewer += btoi(r.CompletionTokens < r.OutputTokens)
		}
		expected += r.ExpectedCachedTokens
		if m.target == targets-1 || r.TokensFrom == record.TokensFromChunks && r.CachedTokens == record.None {
			unreported++
		} else {
			reportingPrompt += tokens
		}
		if r.CachedTokens != record.None {
			reported += r.CachedTokens
			if d := r.CachedTokens - r.MostCachedTokens; d > 0 {
				above += d
				aboveRequests++
			}
		}
	}
	perChunk := float64(usageTokens) / float64(chunks)
	expectedRatio, reportedRatio := float64(expected)/float64(prompt), float64(reported)/float64(reportingPrompt)
	equal(t, "requests", s.Requests, metrics.Requests{Planned: 4000, Sent: sent, OK: ok, Failed: 4000 - ok, Resent: resent, Early: early, Late: late, ByOutcome: byOutcome, Failures: s.Requests.Failures})
	equal(t, "tokens", s.Tokens, metrics.Tokens{Prompt: prompt, Completion: completion, FromUsage: fromUsage, FromChunks: fromChunks, FewerChunks: fewer,
		PerChunk: &perChunk, PromptMismatches: mismatch, CutShort: short, OverLong: long, OverLongTokens: longTokens, AtOnce: atOnce, EmptyFirst: emptyFirst, Whole: whole})
	equal(t, "prefix cache", s.PrefixCache, metrics.PrefixCache{ExpectedHitRatio: &expectedRatio, ReportedHitRatio: &reportedRatio, HitRatio: &reportedRatio, HitsFrom: "responses",
		ExpectedTokens: &expected, ReportedTokens: &reported, UnreportedRequests: unreported, AboveIdealTokens: above, AboveIdealRequests: aboveRequests})
	equal(t, "throughput", s.Throughput, metrics.Throughput{RequestsPerS: float64(ok) / 8, InputTokensPerS: float64(prompt) / 8, OutputTokensPerS: float64(completion) / 8})
	if early == 0 || late == 0 || late == sent || mismatch == 0 || short == 0 || long == 0 || fromChunks == 0 || fewer == 0 || above == 0 || len(byOutcome) != record.Outcomes {
		t.Fatal("the workload does not cover everything")
	}

	var requests, okSum int64
	for i, target := range s.Targets {
		requests += target.Requests
		okSum += target.OK
		if target.URL != c.urls[i] || target.OK+target.Failed != target.Requests {
			t.Errorf("target %d does not add up: %+v", i, target)
		}
		expect.Equal(t, target.ReportedHitRatio == nil, i == targets-1, "target %d has no reported ratio", i)
	}
	if requests != 4000-byOutcome["not_sent"] || okSum != ok {
		t.Errorf("targets have %d requests, %d ok; want %d, %d", requests, okSum, 4000-byOutcome["not_sent"], ok)
	}
}

func btoi(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func equal(t *testing.T, name string, got, want any) {
	t.Helper()
	expect.Equal(t, dump(got), dump(want), name)
}

func TestSummaryMayBeTakenAgain(t *testing.T) {
	c := collect(workload(5, 500, 2), urls(2))
	info := metrics.Summary{Requests: metrics.Requests{Planned: 500}, Run: metrics.Run{DurationS: 3}, Limits: metrics.DefaultLimits()}
	equal(t, "second summary", c.Summary(info, Probed{}), c.Summary(info, Probed{}))
}

// TestUnderLoad: requests that hang after all others do not count as load, those that a dead server refuses do.
func TestUnderLoad(t *testing.T) {
	const s = int64(1e9)
	ok, until := 2., 3.005
	hung := sentAt(2*s, record.Timeout, 0)
	for name, c := range map[string]struct {
		more []*record.Record
		want metrics.UnderLoad
		over float64
	}{
		"all ok":  {nil, metrics.UnderLoad{UntilS: until, Waiting: 0, Throughput: metrics.Throughput{RequestsPerS: ok / until, InputTokensPerS: 0, OutputTokensPerS: 0}}, until},
		"hung":    {[]*record.Record{hung, hung}, metrics.UnderLoad{UntilS: until, Waiting: 2, Throughput: metrics.Throughput{RequestsPerS: ok / until, InputTokensPerS: 0, OutputTokensPerS: 0}}, 122},
		"refused": {[]*record.Record{sentAt(9*s, record.ConnectError, 0)}, metrics.UnderLoad{UntilS: 9, Waiting: 1, Throughput: metrics.Throughput{RequestsPerS: ok / 9, InputTokensPerS: 0, OutputTokensPerS: 0}}, 9.001},
		"stopped": {[]*record.Record{sentAt(9*s, record.NotSent, 0)}, metrics.UnderLoad{UntilS: until, Waiting: 0, Throughput: metrics.Throughput{RequestsPerS: ok / until, InputTokensPerS: 0, OutputTokensPerS: 0}}, until},
	} {
		meter := NewCollector([]string{"http://a:1"})
		for _, r := range append([]*record.Record{sentAt(0, record.OK, s), sentAt(s, record.OK, 2*s)}, c.more...) {
			if r.Outcome == record.NotSent {
				r.SentNS = record.None
			}
			meter.Add(r, 0)
		}
		got := meter.Summary(metrics.Summary{Run: metrics.Run{DurationS: c.over}}, Probed{})
		got.UnderLoad.InputTokensPerS, got.UnderLoad.OutputTokensPerS = 0, 0
		equal(t, name, got.UnderLoad, c.want)
		equal(t, name, got.Throughput.RequestsPerS, ok/c.over)
	}
}

// TestExpectedRange: where the exact ideal is hidden, its bounds are added up, and the ratio's place stays empty.
func TestExpectedRange(t *testing.T) {
	c := NewCollector([]string{"http://a:1"})
	for _, bounds := range [][2]int64{{0, 16}, {400, 416}, {64, 64}} {
		r := answered()
		r.ExpectedCachedTokens, r.LeastCachedTokens, r.MostCachedTokens = record.None, bounds[0], bounds[1]
		c.Add(r, 0)
	}
	got := planned(c, 0).PrefixCache
	if got.ExpectedHitRatio != nil || got.ExpectedTokens != nil || got.Shortfall != nil {
		t.Errorf("something exact is claimed: %s", dump(got))
	}
	if want := [2]float64{464. / 1500, 496. / 1500}; got.ExpectedRange == nil || *got.ExpectedRange != want {
		t.Errorf("range %v, want %v", got.ExpectedRange, want)
	}
	r := answered()
	c.Add(r, 0)
	if got := planned(c, 0).PrefixCache; got.ExpectedRange != nil || *got.ExpectedTokens != 400 {
		t.Errorf("with something exact: %s", dump(got))
	}
}
