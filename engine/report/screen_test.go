package report

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/engine/chart"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/route"
	"github.com/fastreplay/fastreplay/engine/scrape"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// counted gives the percentiles of a run their number of values.
func counted(s *metrics.Summary, n int64) *metrics.Summary {
	for _, q := range []*stats.Percentiles{s.DriftUS, s.TTFTMS, s.TPOTMS, s.ITLMS, s.E2EMS} {
		if q != nil {
			q.Count = n
		}
	}
	return s
}

func screenRun() *metrics.Summary {
	s := counted(normalRun(), 12031)
	s.Run.Model, s.Run.API = "Qwen/Qwen3-8B", "completions"
	s.Client.StolenS, s.Client.StolenShare = p(0.47), p(0.004)
	s.Servers = &metrics.Servers{Servers: scrape.Servers{All: scrape.Server{
		Waiting: &scrape.Gauge{Mean: 0.2, Max: 7}, KVUsage: &scrape.Gauge{Mean: 0.2, Max: 0.61}, Counts: scrape.Counts{Preemptions: p(3.0)}}}}
	return s
}

func invalid(s *metrics.Summary, reasons ...metrics.Reason) *metrics.Summary {
	s.Verdict = metrics.Verdict{Measurement: metrics.Invalid, Reasons: reasons}
	return s
}

// screens are runs of all kinds.
func screens() map[string]*metrics.Summary {
	limited := screenRun()
	limited.Verdict = metrics.Verdict{Measurement: metrics.Limited, Valid: true, Unsafe: []metrics.Unsafe{{Metric: "ttft", Percentile: "p99", ValueMS: 999.6, EffectMS: 90}},
		Reasons: []metrics.Reason{{Code: "drift", Grade: metrics.Limited, What: "TTFT p99 may be up to 90 ms too high; p50 to p95 are safe",
			Why: "the host took 0.68 s of CPU time: 32 of 12,031 requests left more than 5 ms late", Do: "use cores of its own, or accept it with --max-drift 90ms"}}}
	wrong := invalid(screenRun(), metrics.Reason{Code: "prompts", Grade: metrics.Invalid, What: "the server counted other prompt tokens than were sent in 12,031 of 12,031 requests",
		Why: "its chat template is not constant, or its tokenizer splits our words", Do: "give the model's own with --tokenizer"},
		metrics.Reason{Code: "warm", Grade: metrics.Invalid, What: "warm"})
	failures := screenRun()
	failures.Requests.OK, failures.Requests.Failed, failures.Requests.Failures = 11_700, 331, []metrics.Failure{
		{Outcome: "http_error", Phase: metrics.PhaseHeaders, Status: 503, Count: 300, Example: "injected \x1b[31mfault: and many more words that nobody can read"},
		{Outcome: "reset", Phase: metrics.PhaseStream, Count: 20, Example: "read: connection reset by peer"},
		{Outcome: "connect_error", Phase: metrics.PhaseConnect, Count: 7, Example: "connection refused"},
		{Outcome: "timeout", Phase: metrics.PhaseHeaders, Count: 3}, {Outcome: "truncated", Phase: metrics.PhaseStream, Count: 1},
	}
	missed := screenRun()
	missed.Goodput = &metrics.Goodput{SLO: map[string]float64{"ttft_ms": 500, "tpot_ms": 10.25}, Requests: 3214, Share: p(0.26714), Missed: map[string]int64{"ttft": 91, "tpot": 1220}}
	missed.Verdict.Objectives = []metrics.Objective{
		{Text: "tpot.p99<20ms", Metric: "tpot.p99", Value: p(11.2), Limit: 20, Met: true}, {Text: "ttft.p99<500ms", Metric: "ttft.p99", Value: p(999.6), Limit: 500},
		{Text: "error_rate<=1%", Metric: "error_rate", Value: p(0.03), Limit: 0.01}, {Text: "itl.p99<1ms", Metric: "itl.p99", Limit: 1},
	}
	demo := counted(screenRun(), 240)
	demo.Run.Demo, demo.Workload.Trace, demo.Requests.Planned = true, "results/x/demo.jsonl", 240
	demo = invalid(demo, metrics.Reason{Code: "drift", Grade: metrics.Invalid, What: "late"})
	partial := partialRun()
	partial.Requests.Failures, partial.Workload.LeftOut = []metrics.Failure{}, 0
	one := counted(screenRun(), 1)
	one.Requests = metrics.Requests{Planned: 1, Sent: 1, OK: 1}
	one.TPOTMS, one.ITLMS, one.Servers = nil, nil, nil
	nothing := failedRun()
	nothing.Requests.Failures = []metrics.Failure{{Outcome: "connect_error", Phase: metrics.PhaseConnect, Count: 12031, Example: "connection refused"}}
	bad := invalid(missed32(), wrong.Verdict.Reasons...)
	bad.Verdict.Objectives, bad.Goodput, bad.Requests = missed.Verdict.Objectives, missed.Goodput, failures.Requests
	return map[string]*metrics.Summary{
		"agents": agentsRun(), "lanes": lanesRun(), "valid": screenRun(), "limited": limited, "invalid": wrong, "failures": failures, "missed": missed, "targets": missed32(), "demo": demo,
		"interrupted": partial, "one": one, "nothing": nothing, "everything": bad,
	}
}

// agentsRun is a run of jobs, of which some failed.
func agentsRun() *metrics.Summary {
	s := screenRun()
	at := func(v float64) *stats.Percentiles {
		return &stats.Percentiles{P50: v, P75: 1.5 * v, P90: 2 * v, P95: 2 * v, P99: 3 * v, P999: 3 * v, Max: 3 * v, Mean: v, Count: 739}
	}
	s.PrefixCache.Recorded = &metrics.RecordedHits{Requests: 12031, RecordedHitRatio: p(0.857)}
	s.Turns = &metrics.Turns{FollowUps: 11_900, Overtaking: 12, LaterMS: &stats.Percentiles{Max: 37_500}}
	s.Jobs = &metrics.Jobs{Jobs: 739, Finished: 736, WithFailures: 2, CutOff: 1, PerH: p(51.2), CompletionS: at(3591), RecordedS: at(2900), Ratio: at(1.24),
		WaitsS: at(2226.4), PathRequests: at(31), Depths: []metrics.Part{
			{Name: "0", Requests: 11_400, OK: 11_400, PartLatencies: metrics.PartLatencies{TTFTMS: at(340), E2EMS: at(7340)}, ReportedHitRatio: p(0.961)},
			{Name: "1", Requests: 600, OK: 598, Failed: 2, PartLatencies: metrics.PartLatencies{TTFTMS: at(120), E2EMS: at(2340)}, ReportedHitRatio: p(0.61)}, {Name: "2", Requests: 31},
		}}
	s.NTPOTMS, s.Intervals = at(20), append(s.Intervals, metrics.Interval{Metric: "ntpot", P75: &[2]float64{29, 32}})
	s.Interactivity = &metrics.Interactivity{P75: 1000.0 / 30, P90: 25, P75Interval: &[2]float64{1000.0 / 32, 1000.0 / 29}, Users: 32, PerUser: p(2185.2)}
	return s
}

// lanesRun is one in lanes, on 8 GPUs.
func lanesRun() *metrics.Summary {
	s := agentsRun()
	s.ByGPU(8)
	s.Turns = &metrics.Turns{Sessions: "lanes=32", FollowUps: 11_900}
	s.Run.Lanes = 32
	s.Jobs.Recycled, s.Amplify = 707, nil
	s.IdleCuts = &metrics.IdleCuts{System: 3, SystemS: 14.5, Trees: 71, TreesS: 40_320}
	s.Cost = &metrics.Cost{PerHour: 12, PerMOutput: p(0.0477), PerMInput: p(0.00136), PerMTokens: p(0.00132), PerRequest: p(0.0000163), PerJob: p(0.000267)}
	return s
}

// missed32 is a run at 32 targets, two of which stand out.
func missed32() *metrics.Summary {
	s := screenRun()
	s.Run.Targets, s.Targets = nil, nil
	for i := range 32 {
		s.Run.Targets = append(s.Run.Targets, fmt.Sprintf("http://gpu%d:8000", i))
		s.Targets = append(s.Targets, metrics.Target{URL: s.Run.Targets[i], Requests: int64(370 + i), TargetLatencies: metrics.TargetLatencies{TTFTMS: &stats.Percentiles{P99: 900 + float64(i), Count: 1000}}, ReportedHitRatio: p(0.36)})
	}
	s.Targets[7].Failed, s.Targets[9].TTFTMS.P99 = 31, 9000
	s.Routing = &route.Oracle{OneCacheRatio: 0.5884, Routers: []route.Routed{{Router: route.PrefixName, HitRatio: 0.587}}, Actual: &route.Routed{Router: route.ActualName, HitRatio: 0.413}}
	return s
}

// someSteps are a run by time that gets slower.
func someSteps() (steps []metrics.Step) {
	for i := range 100 {
		s := metrics.Step{FromS: float64(i), ToS: float64(i + 1), StepLatencies: metrics.StepLatencies{TTFTP99: p(float64(i)), TPOTP99: p(50.0)}}
		if i > 50 && i < 60 {
			s.TPOTP99 = nil
		}
		steps = append(steps, s)
	}
	return steps
}

// TestScreen compares with testdata/screen-*.txt. To accept new ones, run it with -update, and look at them.
func TestScreen(t *testing.T) {
	for name, s := range screens() {
		for _, width := range []int{60, 80, 100} {
			var got bytes.Buffer
			must.Do(t, Screen(&got, s, PrintOptions{Width: width, Dir: "results/2026-01-02T150405Z", Page: "results/2026-01-02T150405Z/report.html", Steps: someSteps()}))
			file := filepath.Join("testdata", fmt.Sprintf("screen-%s-%d.txt", name, width))
			if *update {
				must.Do(t, os.WriteFile(file, got.Bytes(), 0o644))
			}
			if want := must.Have(os.ReadFile(file))(t); got.String() != string(want) {
				t.Errorf("%s:\ngot\n%s\nwant\n%s", file, got.String(), want)
			}
		}
	}
}

// TestScreenOfShards: the screen says how far clocks of shards were apart, or that nobody knows.
func TestScreenOfShards(t *testing.T) {
	s := screenRun()
	for shards, want := range map[int]string{1: "shards       1\n", 2: "shards       2   clocks not compared\n", 3: "shards       3   clocks up to 60.0 µs apart\n"} {
		s.Shards = make([]metrics.Shard, shards)
		if shards == 3 {
			s.Shards[2].ClockUS = p(-60.0)
		}
		var got bytes.Buffer
		must.Do(t, Screen(&got, s, PrintOptions{Width: 80}))
		expect.Contains(t, got.String(), want)
	}
}

// TestScreenFits: at any width of a terminal and for any run there are at most 20 lines, none is too long, and nothing
// from outside obeys.
func TestScreenFits(t *testing.T) {
	for name, s := range screens() {
		evil := strings.Repeat("long\x1b]0;x\a\x9b", 30) + "\n"
		s.Workload.Trace, s.Run.Model, s.Run.Pace, s.Run.API = evil, evil, evil, evil
		for i := range s.Verdict.Reasons {
			r := &s.Verdict.Reasons[i]
			r.What, r.Why, r.Do = r.What+strings.Repeat(" words", 60)+evil, evil, evil
		}
		for i := range s.Verdict.Objectives {
			s.Verdict.Objectives[i].Text += evil
		}
		for _, width := range widths() {
			var plain, colour bytes.Buffer
			o := PrintOptions{Width: width, Dir: "results/x", Page: "results/x/report.html", Steps: someSteps()}
			must.Do(t, Screen(&plain, s, o))
			o.Colour = true
			must.Do(t, Screen(&colour, s, o))
			lines := strings.Split(strings.TrimSuffix(plain.String(), "\n"), "\n")
			if len(lines) > 20 {
				t.Fatalf("%s at %d: %d lines\n%s", name, width, len(lines), plain.String())
			}
			most := min(max(width, 60), 100)
			for _, line := range lines {
				if n := utf8.RuneCountInString(line); n > most || strings.HasSuffix(line, " ") || strings.ContainsAny(line, "\x1b\a") || !utf8.ValidString(line) {
					t.Fatalf("%s at %d: %d columns: %q", name, width, n, line)
				}
			}
			sameWords(t, &plain, &colour)
		}
	}
}

// TestScreenKeepsFailures: on a terminal failures are never dropped without a count, and elsewhere nothing is left out
// or cut.
func TestScreenKeepsFailures(t *testing.T) {
	s := screens()["everything"]
	s.Requests.Failed, s.Requests.Stopped = 331, 0
	s.Outages = []metrics.Outage{{Target: "http://a:1", FromS: 2.5, Requests: 300, Failed: 300, Outcome: "http_error", Error: "busy"}}
	s.Run.DurationS, s.UnderLoad = 126, metrics.UnderLoad{UntilS: 6, Waiting: 15, Throughput: metrics.Throughput{RequestsPerS: 191}}
	for _, width := range []int{0, 60, 80, 100} {
		var out bytes.Buffer
		must.Do(t, Screen(&out, s, PrintOptions{Width: width, Dir: "results/x", Page: "results/x/report.html", Steps: someSteps()}))
		text := strings.Join(strings.Fields(out.String()), " ")
		want := []string{"331 of 12,031 failed", "120 s more waiting for 15 requests", "191/s", "300 × HTTP 503", "FAILED http://a:1 failed from 2.50 s on (300 of 300 requests"}
		if width == 0 {
			want = append(want, "20 × reset in the stream", `7 × connect error "connection refused"`, "3 × timeout", "1 × truncated", "again")
			if strings.Contains(text, " …") || strings.Contains(text, "more: --full") || strings.Contains(text, " more)") {
				t.Errorf("something is left out of a file:\n%s", out.String())
			}
		} else if !strings.Contains(text, "1 × truncated") && !regexp.MustCompile(`and [1-4] more: --full`).MatchString(text) || !strings.Contains(text, " more)") {
			t.Errorf("at %d failures are dropped, or lines without a count:\n%s", width, out.String())
		}
		for _, want := range want {
			expect.Contains(t, text, want, width, "columns")
		}
	}
}

// TestTallScreen: a terminal with more lines than 24 gets them: nothing is left out if there is room.
func TestTallScreen(t *testing.T) {
	for name, s := range screens() {
		lines := map[int]int{}
		for _, height := range []int{0, 10, 24, 30, 200} {
			var b strings.Builder
			must.Do(t, Screen(&b, s, PrintOptions{Width: 80, Height: height, Dir: "r", Page: "r/report.html", Steps: someSteps()}))
			lines[height] = strings.Count(b.String(), "\n")
			if most := max(20, height-4); lines[height] > most || height == 200 && regexp.MustCompile(`\d+ lines? more`).MatchString(b.String()) {
				t.Errorf("%s at %d lines:\n%s", name, height, b.String())
			}
		}
		if lines[10] != lines[24] || lines[0] != lines[24] || lines[30] < lines[24] || lines[200] < lines[30] {
			t.Errorf("%s: lines by height %v", name, lines)
		}
	}
}

// TestQuietScreen: a quiet one has the verdict and what failed, objectives and where the results are.
func TestQuietScreen(t *testing.T) {
	for name, s := range screens() {
		var full, quiet strings.Builder
		must.Do(t, errors.Join(Screen(&full, s, PrintOptions{Dir: "r", Page: "r/report.html"}), Screen(&quiet, s, PrintOptions{Dir: "r", Page: "r/report.html", Quiet: true})))
		first, _, _ := strings.Cut(full.String(), "\n")
		text := quiet.String()
		if !strings.HasPrefix(text, first) || !strings.Contains(text, "r/report.html") || regexp.MustCompile(`(?m)TTFT  |^ *(why|do|more|again|machine) `).MatchString(text) || strings.Count(text, "\n") > 11 {
			t.Errorf("%s:\n%s", name, text)
		}
	}
}

// TestUnjudgedFailures: a run in which requests failed, and whose exit code is 0 or 4 all the same, says so, and how to
// make them count.
func TestUnjudgedFailures(t *testing.T) {
	run := func(grade metrics.Grade, failed int64, objectives ...metrics.Objective) *metrics.Summary {
		s := counted(normalRun(), 600)
		s.Requests.Failed, s.Requests.OK = failed, 600-failed
		s.Verdict = metrics.Verdict{Measurement: grade, Valid: grade != metrics.Invalid, Objectives: objectives}
		return s
	}
	demo, stopped := run(metrics.Valid, 119), run(metrics.Valid, 119)
	demo.Run.Demo, stopped.Run.Partial = true, true
	for i, c := range []struct {
		s    *metrics.Summary
		says string
	}{
		{run(metrics.Valid, 119), "exit 0"},
		{run(metrics.Limited, 119), "exit 0"},
		{run(metrics.Limited, 119, metrics.Objective{Metric: "ttft.p95", Met: true}), "exit 0"},
		{run(metrics.Valid, 0), ""},
		{run(metrics.Invalid, 119), ""}, // exit code 1
		{run(metrics.Valid, 119, metrics.Objective{Metric: "ttft.p95"}), ""},
		{run(metrics.Valid, 119, metrics.Objective{Metric: "error_rate", Met: true}), ""},
		{run(metrics.Valid, 119, metrics.Objective{Metric: "goodput", Met: true}), ""},
		{run(metrics.Valid, 119, metrics.Objective{Metric: "ttft.p95", Doubt: "failures"}), "exit 4"},
		{demo, ""}, {stopped, ""},
	} {
		for _, quiet := range []bool{false, true} {
			var b strings.Builder
			must.Do(t, Screen(&b, c.s, PrintOptions{Quiet: quiet}))
			said := regexp.MustCompile(`(?m)^exit \d`).FindString(b.String())
			expect.Equal(t, said, c.says, "%d, quiet %t:\n%s", i, quiet, b.String())
			expect.Equal(t, strings.Contains(b.String(), "--max-error-rate"), c.says != "", "%d, quiet %t", i, quiet)
		}
	}
}

// TestFewRequests: a verdict over a handful of requests says in its line that they are few, in the terminal and on the
// page.
func TestFewRequests(t *testing.T) {
	for n, want := range map[int64]string{1: "VALID   over 1 request only", 11: "VALID   over 11 requests only", 99: "VALID   over 99 requests only", 100: "VALID   "} {
		s := counted(normalRun(), n)
		s.Requests.Planned, s.Requests.OK = n, n
		var b strings.Builder
		must.Do(t, Screen(&b, s, PrintOptions{}))
		first, _, _ := strings.Cut(b.String(), "\n")
		if !strings.HasPrefix(first, want) || n >= 100 && strings.Contains(first, "only") {
			t.Errorf("%d requests: %q, want %q", n, first, want)
		}
		word := verdictSection(s, chart.Finding{}).Findings[0].Word
		expect.Equal(t, strings.HasPrefix(word, "Only "), (n < 100), "%d requests: the page says %q", n, word)
	}
}

// TestUndecided: an objective that too few values tell is neither green nor red, and no failure goes unjudged beside it.
func TestUndecided(t *testing.T) {
	s := &metrics.Summary{Verdict: metrics.Verdict{Valid: true, Objectives: []metrics.Objective{
		{Text: "a", Metric: "itl.p50", Value: new(1.0), Met: true}, {Text: "b", Metric: "ttft.p99", Value: new(2.0), Needed: 662, TooFew: true},
	}}}
	if got := objectiveLines(&s.Verdict); !slices.Equal(got, []string{"? b (unknown: ~2.000 ms of too few values, 662 would tell)", "✓ a (1.000 ms)"}) {
		t.Errorf("%q", got)
	}
	var out strings.Builder
	if err := Screen(&out, s, PrintOptions{}); err != nil || !strings.Contains(out.String(), "UNDECIDED") || strings.Contains(out.String(), "MISSED") {
		t.Error(err, out.String())
	}
}

// TestScreenTellsUntil: whether a percentile is known as well as was wanted is on the screen, and not in a note alone.
func TestScreenTellsUntil(t *testing.T) {
	for want, until := range map[string]metrics.Until{
		"ttft.p90 is known within ±1 % of the server as it was meanwhile": {Within: 0.05, PlusMinus: 0.01, Reached: true},
		"not ±5 % it may need about 400 request":                          {Within: 0.05, PlusMinus: 0.1},
		"ttft.p90 is not known":                                           {PlusMinus: -1, Unknown: stats.Dependent},
	} {
		until.Metric, until.Requests = "ttft.p90", 100
		s := screens()["one"]
		s.Until = &until
		var out bytes.Buffer
		must.Do(t, Screen(&out, s, PrintOptions{Width: 80}))
		expect.Contains(t, strings.Join(strings.Fields(out.String()), " "), want)
	}
}

// TestFewOfAPart: percentiles of a part have the mark of too few values, as those of the run have.
func TestFewOfAPart(t *testing.T) {
	for count, want := range map[int64]string{1: "TTFT p50 ~24.2 ms, p99 ~97.0 ms", 149: "TTFT p50 24.2 ms, p99 ~97.0 ms", 662: "TTFT p50 24.2 ms, p99 97.0 ms"} {
		part := metrics.Part{PartLatencies: metrics.PartLatencies{TTFTMS: &stats.Percentiles{P50: 24.2, P99: 97, Count: count}}}
		expect.Equal(t, ttftOf(part), want, "%d values", count)
	}
}

// TestStandOut: a target does not stand out by values or failures that chance explains.
func TestStandOut(t *testing.T) {
	part := func(name string, count, failed int64, p50, p99 float64) metrics.Part {
		return metrics.Part{Name: name, Requests: count + failed, Failed: failed, PartLatencies: metrics.PartLatencies{
			TTFTMS: &stats.Percentiles{P50: p50, P90: p50, P99: p99, Count: count},
		}}
	}
	for what, c := range map[string]struct {
		last metrics.Part
		tail string
		want bool
	}{
		"as the others":          {part("x", 1000, 20, 20, 40), "p99", false},
		"slow at p99":            {part("x", 1000, 20, 20, 90), "p99", true},
		"one slow of few":        {part("x", 100, 2, 20, 900), "p90", false},
		"slow, though of few":    {part("x", 100, 2, 90, 900), "p90", true},
		"hardly any value":       {part("x", 5, 0, 90, 900), "", false},
		"one failure of one":     {part("x", 0, 1, 0, 0), "", false},
		"all of several failed":  {part("x", 20, 20, 20, 40), "p50", true},
		"twice as many, of many": {part("x", 1000, 90, 20, 40), "p99", true},
	} {
		parts := []metrics.Part{c.last}
		for range 5 {
			parts = append(parts, part("other", 1000, 20, 20, 40))
		}
		tail := tailOf(parts)
		tails := []float64{20, 20, 20, 20, 20}
		if tail.key == "p99" {
			tails = []float64{40, 40, 40, 40, 40}
		}
		if tail.key == "" {
			tails = nil
		}
		out := standOut(parts, tail, tails)
		if tail.key != c.tail || (len(out) > 0) != c.want || c.want && out[0].Name != "x" {
			t.Errorf("%s: by %q stand out %+v", what, tail.key, out)
		}
	}
}
