package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/engine/collect"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/scrape"
	"github.com/fastreplay/fastreplay/engine/stats"
	"github.com/fastreplay/fastreplay/engine/verdict"
)

var update = flag.Bool("update", false, "rewrite testdata")

func p[T any](v T) *T { return &v }

// percentiles are p50, p75, p90, p95, p99, p99.9, the maximum and the mean.
func percentiles(p50, p75, p90, p95, p99, p999, most, mean float64) *stats.Percentiles {
	return &stats.Percentiles{P50: p50, P75: p75, P90: p90, P95: p95, P99: p99, P999: p999, Max: most, Mean: mean}
}

func normalRun() *metrics.Summary {
	return &metrics.Summary{
		Schema: metrics.Schema, Verdict: metrics.Verdict{Measurement: metrics.Valid, Valid: true, Reasons: []metrics.Reason{}},
		Run: metrics.Run{StartedAt: time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC), DurationS: 58.949, Scale: 60,
			Targets: []string{"http://127.0.0.1:8000"}, Version: "0.1.0", Host: metrics.Host{CPUs: 2}},
		Workload: metrics.Workload{Trace: "traces/mooncake-conversation.jsonl.zst", Format: "mooncake", Rows: 12031, Requests: 12031,
			InputTokens: 144793823, OutputTokens: 4122061, BlockTokens: 512, Fingerprint: "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"},
		Requests: metrics.Requests{Planned: 12031, Sent: 12031, OK: 12031, Resent: 3, ByOutcome: map[string]int64{"ok": 12031, "reset": 0}},
		RunLatencies: metrics.RunLatencies{
			DriftUS:       percentiles(0.412, 1.361, 2.31, 3.07, 12.4, 19.1, 35.77, 0.981),
			TTFTMS:        percentiles(51.2, 85.8, 120.4, 180.1, 999.6, 1234.5, 61234.5, 98.76),
			TTFTPlannedMS: percentiles(51.2, 85.8, 120.4, 180.1, 999.6, 1234.5, 61234.5, 98.76),
			TPOTMS:        percentiles(10.01, 10.11, 10.2, 10.3, 11.2, 12.9, 14.21, 10.02),
			ITLMS:         percentiles(10, 10.1, 10.2, 10.9, 13.2, 22.9, 34.21, 10.02),
			E2EMS:         percentiles(3420, 4770, 6120, 8003, 12000, 19012, 61234, 3512),
			E2EPlannedMS:  percentiles(3420, 4770, 6120, 8003, 12000, 19012, 61234, 3512),
		},
		Throughput: metrics.Throughput{RequestsPerS: 204.09, InputTokensPerS: 2456255.1, OutputTokensPerS: 69925.9},
		Tokens:     metrics.Tokens{Prompt: 144793823, Completion: 4122061, FromUsage: 12031, PerChunk: p(1.0)},
		PrefixCache: metrics.PrefixCache{ExpectedHitRatio: p(0.3736), ReportedHitRatio: p(0.3641), ExpectedTokens: p(int64(54094972)),
			ReportedTokens: p(int64(52719431)),
			Shortfall:      &metrics.Shortfall{Tokens: 1375541, InPrefillTokens: 900000, EvictedTokens: 470000, UnexplainedTokens: 5541}},
		Connections: metrics.Connections{Dialled: 1412, ClosedIdle: 3},
		Writes:      metrics.Writes{Whole: 12000, Partial: 31},
		Targets:     []metrics.Target{{URL: "http://127.0.0.1:8000", Requests: 12031, OK: 12031}},
		Client: metrics.Client{CPUS: 41.2, MaxRSSBytes: 1_240_000_000, GCCycles: 2, Senders: 1, SenderProcess: true, Realtime: true, SpinUS: 100, LoadS: 1.9, PrebuildS: 3.4,
			WireBytes: 870_000_000, Stamps: &metrics.Stamps{Received: true, Reads: 4_200_000}, ReceiveLagUS: percentiles(21, 41, 61, 84, 210, 1200, 1900, 30.5)},
		Limits: metrics.DefaultLimits(), Notes: []string{},
	}
}

func failedRun() *metrics.Summary {
	s := normalRun()
	s.Run.DurationS, s.Client.CPUS = 30.2, 11.7
	s.Requests = metrics.Requests{Planned: 12031, Sent: 11931, Failed: 12031, Late: 211, ByOutcome: map[string]int64{
		"ok": 0, "http_error": 11000, "reset": 900, "timeout": 13, "truncated": 9, "bad_response": 5, "stream_error": 4, "connect_error": 60, "not_sent": 40}}
	s.TTFTMS, s.TTFTPlannedMS, s.TPOTMS, s.ITLMS, s.E2EMS, s.E2EPlannedMS = nil, nil, nil, nil, nil, nil
	s.Throughput, s.Tokens, s.PrefixCache = metrics.Throughput{}, metrics.Tokens{}, metrics.PrefixCache{}
	s.Client.ReceiveLagUS, s.Client.Stamps = nil, &metrics.Stamps{}
	s.Client.Realtime = false
	s.Client.StolenS, s.Client.StolenShare, s.Client.StolenWorst = p(12.3), p(0.1043), p(0.388)
	s.Client.ThrottledS, s.Client.RunQueueS, s.Client.SenderRunQueueS = p(0.0), p(41.7), p(0.912)
	s.Connections = metrics.Connections{Dialled: 12000, NotReady: 60, MaxWaitMS: 5000, ClosedIdle: 11}
	s.DriftUS = percentiles(12.3, 412.1, 812, 3_400, 8_123, 50_000, 1_212_000, 812.7)
	s.Verdict = verdict.Judge(s)
	return s
}

func partialRun() *metrics.Summary {
	s := normalRun()
	s.Run.Partial = true
	s.Client.Stamps.Sent = true
	s.WireDriftUS = percentiles(5.41, 6.805, 8.2, 9.9, 31.7, 60.2, 88.1, 6.02)
	s.UploadMS = percentiles(0.078, 0.1545, 0.231, 1.71, 14.04, 40.3, 43.1, 0.572)
	s.Requests = metrics.Requests{Planned: 12031, Sent: 4012, OK: 3990, Failed: 8041, Resent: 1, ByOutcome: map[string]int64{"ok": 3990, "cancelled": 22, "not_sent": 8019}}
	s.Run.Targets = []string{"http://10.0.0.1:8000", "http://10.0.0.2:8000", "https://a-very-long-name.of-a-cluster.example.com:30443/v1"}
	first := *s.TTFTMS
	first.Count = 1330
	s.Targets = []metrics.Target{
		{URL: s.Run.Targets[0], Requests: 1337, OK: 1330, Failed: 7, TargetLatencies: metrics.TargetLatencies{TTFTMS: &first}, ReportedHitRatio: p(0.3741)},
		{URL: s.Run.Targets[1], Requests: 1337, OK: 1337, TargetLatencies: metrics.TargetLatencies{TTFTMS: &stats.Percentiles{P50: 1204, P99: 61020, Count: 1337}}},
		{URL: s.Run.Targets[2], Requests: 1338, Failed: 1338},
	}
	s.PrefixCache = metrics.PrefixCache{ExpectedRange: &[2]float64{0.3611, 0.3752}, ReportedHitRatio: p(0.3641), UnreportedRequests: 1337}
	s.Goodput = &metrics.Goodput{SLO: map[string]float64{"ttft_ms": 500, "tpot_ms": 10.25, "e2e_planned_ms": 20000}, Requests: 3214, RequestsPerS: 54.52, Share: p(0.26714),
		Missed: map[string]int64{"ttft": 91, "tpot": 1220, "e2e_planned": 0}, Unmeasured: map[string]int64{"ttft": 0, "tpot": 37, "e2e_planned": 0}, Failed: 8041}
	s.Targets[0].Goodput = &metrics.Goodput{Requests: 1301, RequestsPerS: 22.07, Share: p(0.97307), Failed: 7}
	s.Targets[1].Goodput = &metrics.Goodput{Requests: 0, Share: p(0.0)}
	s.Targets[2].Goodput = &metrics.Goodput{Failed: 1338}
	s.Notes = []string{"a chunk has 2.00 tokens on average: ITL is per chunk, TPOT per token",
		"http://10.0.0.2:8000 reports no cached tokens, so its hits are unknown: vLLM needs --enable-prompt-tokens-details, SGLang --enable-cache-report"}
	s.Verdict = verdict.Judge(s)
	return s
}

// TestPrint compares with testdata/*.txt. To accept new pages, run
// go test ./engine/report -run TestPrint -update, and look at them.
func TestPrint(t *testing.T) {
	for name, s := range map[string]*metrics.Summary{"normal": normalRun(), "failed": failedRun(), "partial": partialRun(), "empty": collect.NewCollector(nil).Summary(metrics.Summary{}, collect.Probed{})} {
		for _, width := range []int{80} {
			var got bytes.Buffer
			must.Do(t, Print(&got, s, PrintOptions{Width: width, Dir: "results/2026-01-02T150405Z"}))
			file := filepath.Join("testdata", fmt.Sprintf("%s-%d.txt", name, width))
			if *update {
				must.Do(t, os.WriteFile(file, got.Bytes(), 0o644))
			}
			want := must.Have(os.ReadFile(file))(t)
			expect.Equal(t, got.String(), string(want), file)
		}
	}
}

// widths are those of terminals. Pages of less than 60 columns are as wide as of 60, and those of more than 100 as of 100.
func widths() (all []int) {
	for width := 59; width <= 101; width++ {
		all = append(all, width)
	}
	return append(all, 1, 200)
}

// sameWords: colour changes nothing but the colour.
func sameWords(t *testing.T, plain, colour *bytes.Buffer) {
	t.Helper()
	ansi := regexp.MustCompile("\x1b\\[[0-9;]*m")
	must.Equal(t, ansi.ReplaceAllString(colour.String(), ""), plain.String(), "without its colours")
	must.Equal(t, colour.Len() > plain.Len(), true, "there is colour")
}

// TestPrintFits: at no width is a line longer than the page, or ends in a
// space; colour changes nothing but the colour.
func TestPrintFits(t *testing.T) {
	for name, s := range map[string]*metrics.Summary{"normal": normalRun(), "failed": failedRun(), "partial": partialRun()} {
		s.Workload.Trace = strings.Repeat("long/", 50) + "trace.jsonl"
		for _, width := range widths() {
			var plain, colour bytes.Buffer
			must.Do(t, errors.Join(Print(&plain, s, PrintOptions{Width: width}), Print(&colour, s, PrintOptions{Width: width, Colour: true})))
			for _, line := range strings.Split(plain.String(), "\n") {
				if n := utf8.RuneCountInString(line); n > min(max(width, 80), 100) || strings.HasSuffix(line, " ") {
					t.Fatalf("%s at %d: %d columns: %q", name, width, n, line)
				}
			}
			sameWords(t, &plain, &colour)
		}
	}
}

func TestPrintOfManyTargets(t *testing.T) {
	s := normalRun()
	s.Targets = make([]metrics.Target, 40)
	var b bytes.Buffer
	must.Do(t, Print(&b, s, PrintOptions{}))
	expect.Contains(t, b.String(), "\n  … and 8 more in summary.json\n")
}

// TestPrintIsWhole: each key of summary.json that has a value stands on the page, whichever fields a summary has.
func TestPrintIsWhole(t *testing.T) {
	s := partialRun()
	s.Servers = &metrics.Servers{Servers: scrape.Servers{All: scrape.Server{Running: &scrape.Gauge{Mean: 61.83, Max: 77}, Counts: scrape.Counts{Preemptions: p(3.0)}}}}
	s.Client.StolenByTime = &stats.Shares{StepS: 1, Shares: []float64{0.25, 0.5}}
	s.Run.Options = map[string]any{"url": []string{"http://a", "http://b"}, "rate": 3.5}
	var out bytes.Buffer
	must.Do(t, Print(&out, s, PrintOptions{}))
	words := strings.FieldsFunc(out.String(), func(r rune) bool { return strings.ContainsRune(" \n.,:", r) })
	var all map[string]any
	must.Do(t, json.Unmarshal(must.Have(json.Marshal(s))(t), &all))
	keys := 0
	var check func(key string, v any)
	check = func(key string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, v := range v {
				check(key, v)
			}
		case []any:
			for _, v := range v {
				check(key, v)
			}
		default:
			if keys++; v != nil && v != "" && key != "from_histogram" && !slices.Contains(words, key) {
				t.Errorf("no %q, which is %v", key, v)
			}
		}
	}
	check("", all)
	if keys < 200 {
		t.Errorf("%d keys", keys)
	}
	for _, want := range []string{"all.running.mean 61.83  ", "25 % 50 %\n", "options.rate 3.500", "\n  e2e_ms             3,420   4,770   6,120  8,003  12,000  19,012  61,234\n",
		"max_rss_bytes 1.24 GB", "expected_hit_ratio_range\n  36.1 % 37.5 %\n", "\n  - a chunk has 2.00"} {
		expect.Contains(t, out.String(), want)
	}
}
