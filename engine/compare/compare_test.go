package compare

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/report"
)

// served is how a made server takes a request.
type served struct {
	ttft, tpot float64 // ms
	reasons    float64 // ms from the first token to the first one of the answer
	outcome    record.Outcome
	cached     int64
}

// write makes a directory of results: n requests of conversations of four, one each 100 ms, that a server takes as
// serve says.
func write(t *testing.T, n int, change func(*metrics.Summary), serve func(i int) served) string {
	t.Helper()
	dir := t.TempDir()
	c := metrics.NewCollector([]string{"http://a:1"})
	w, err := report.NewWriter(dir, report.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		s := serve(i)
		var r record.Record
		r.Clear()
		r.Row, r.RequestID, r.Session, r.Target, r.Outcome = int64(i), fmt.Sprintf("run-%09d", i), int64(i%(n/4)), "http://a:1", s.outcome
		r.PlannedNS, r.InputTokens, r.OutputTokens = int64(i)*1e8, int64(1000+i%500), 51
		if s.outcome != record.NotSent {
			r.SentNS, r.DoneNS = r.PlannedNS+1000, r.PlannedNS+2000
		}
		if s.outcome == record.OK {
			r.PromptTokens, r.CachedTokens, r.CompletionTokens, r.TokensFrom, r.Chunks = r.InputTokens, s.cached, 51, record.TokensFromUsage, 51
			r.FirstTokenNS = r.SentNS + int64(s.ttft*1e6)
			r.FirstOutputNS = r.FirstTokenNS + int64(s.reasons*1e6)
			r.LastTokenNS = r.FirstTokenNS + int64(50*s.tpot*1e6)
			r.DoneNS = r.LastTokenNS
		}
		c.Add(&r, 0)
		w.Append(&r)
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	info := metrics.Summary{Requests: metrics.Requests{Planned: int64(n)}, Limits: metrics.DefaultLimits()}
	info.Run.DurationS, info.Run.Targets, info.Run.Options = float64(n)/10+5, []string{"http://a:1"}, map[string]any{"seed": 1.0}
	info.Workload.Fingerprint, info.Workload.Trace, info.Workload.Requests = "sha256:1", "day.jsonl", int64(n)
	if change != nil {
		change(&info)
	}
	if err := report.WriteSummary(dir, c.Summary(info, metrics.Probed{})); err != nil {
		t.Fatal(err)
	}
	return dir
}

func side(t *testing.T, dirs ...string) *Side {
	t.Helper()
	s, err := ReadSide(nil, dirs...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func find(t *testing.T, r *Result, name string) Metric {
	t.Helper()
	i := slices.IndexFunc(r.Metrics, func(m Metric) bool { return m.Name == name })
	if i < 0 {
		t.Fatalf("no %s", name)
	}
	return r.Metrics[i]
}

// noisy is a server whose requests differ much from each other, and a little from run to run.
func noisy(seed uint64, ttft float64) func(i int) served {
	random := rand.New(rand.NewPCG(seed, 2))
	return func(i int) served {
		base := math.Exp(rand.New(rand.NewPCG(3, uint64(i))).NormFloat64())
		return served{ttft: ttft * 100 * base * math.Exp(0.1*random.NormFloat64()), tpot: 20 * math.Exp(0.1*random.NormFloat64()), cached: 500}
	}
}

func compared(t *testing.T, a, b *Side) *Result {
	t.Helper()
	r, err := Compare(a, b, false)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestReasoning: TTFO is on the screen if an answer reasons, and then longer reasoning is found in it and not in TTFT.
func TestReasoning(t *testing.T) {
	run := func(seed uint64, reasons float64) *Side {
		serve := noisy(seed, 1)
		return side(t, write(t, 1200, nil, func(i int) served {
			s := serve(i)
			s.reasons = reasons * s.tpot
			return s
		}))
	}
	plain, short, long := run(1, 0), run(1, 10), run(2, 20)
	for _, m := range compared(t, plain, run(2, 0)).Metrics {
		if strings.HasPrefix(m.Name, "ttfo") && m.Main {
			t.Errorf("%s is on the screen, and nothing was reasoned", m.Name)
		}
	}
	r := compared(t, short, long)
	for name, verdict := range map[string]string{"ttft.paired": Same, "ttfo.paired": Worse} {
		if m := find(t, r, name); !m.Main || m.Verdict != verdict {
			t.Errorf("%+v, want %s on the screen", m, verdict)
		}
	}
	if label := Label("ttfo_planned.paired"); label != "TTFO planned pairs" {
		t.Error(label)
	}
}

// TestChange: what was made 10 % slower is found, and what was not is not. The numbers are those of the requests.
func TestChange(t *testing.T) {
	slos, err := metrics.ParseSLOs("ttft:200ms")
	if err != nil {
		t.Fatal(err)
	}
	var sides [2]*Side
	for i, ttft := range []float64{1, 1.1} {
		if sides[i], err = ReadSide(slos, write(t, 1200, nil, noisy(uint64(i+1), ttft))); err != nil {
			t.Fatal(err)
		}
	}
	a, b := sides[0], sides[1]
	r := compared(t, a, b)
	if m := find(t, r, "ttft.paired"); m.Verdict != Worse || math.Abs(*m.Change-0.1) > 0.02 || !(*m.Low < 0.1 && 0.1 < *m.High) ||
		!strings.HasPrefix(m.Sentence, "B's TTFT pair by pair is ") {
		t.Errorf("%+v", m)
	}
	if m := find(t, r, "tpot.paired"); m.Verdict != Same || !strings.HasPrefix(m.Sentence, "no difference seen: TPOT pair by pair [−") {
		t.Errorf("%+v", m)
	}
	for i, run := range []*run{a.runs[0], b.runs[0]} {
		at := func(name string) float64 { return *[]*float64{find(t, r, name).A, find(t, r, name).B}[i] }
		s, good := run.summary, 0.0
		for k := range run.rows {
			good += b2f(run.rows[k].ms[metrics.TTFT] <= 200)
		}
		got := []float64{at("ttft.p95"), at("ttft.mean"), at("tpot.p50"), at("e2e.p99"), at("prefix_hits"), at("goodput"), at("requests_per_s"), at("output_tokens_per_s"), at("itl.mean")}
		want := []float64{s.TTFTMS.P95, s.TTFTMS.Mean, s.TPOTMS.P50, s.E2EMS.P99, *s.PrefixCache.HitRatio, good / 1200, s.Throughput.RequestsPerS, s.Throughput.OutputTokensPerS, s.TPOTMS.Mean}
		for k := range got {
			if math.Abs(got[k]-want[k]) > 1e-5*want[k] {
				t.Errorf("number %d: %v, want %v", k, got[k], want[k])
			}
		}
	}
	if r.Requests != 1200 || !r.Paired || len(r.Notes) > 0 || r.FloorFrom != "estimated" {
		t.Errorf("%+v", r)
	}
}

// TestStoppedAndFailed: what one side lacks is left out and said, and failures of one side count as such.
func TestStoppedAndFailed(t *testing.T) {
	a := side(t, write(t, 400, nil, noisy(1, 1)))
	b := side(t, write(t, 400, func(s *metrics.Summary) { s.Run.Partial, s.Run.DurationS = true, 30 }, func(i int) served {
		s := noisy(2, 1)(i)
		if i >= 300 {
			s.outcome = record.NotSent
		} else if i%30 == 7 {
			s.outcome = record.HTTPError
		}
		return s
	}))
	r := compared(t, a, b)
	if m := find(t, r, "error_rate"); r.Requests != 290 || *m.A != 0 || *m.B != 10.0/300 || m.Verdict != Worse || !strings.Contains(m.Sentence, "3.3 points higher") {
		t.Errorf("%d requests, %+v", r.Requests, m)
	}
	if m := find(t, r, "requests_per_s"); math.Abs(*m.A-300/30.0) > 0.5 { // A counts until B was stopped
		t.Errorf("%+v", m)
	}
	if m := find(t, r, "ttft.p99"); m.Verdict != Unknown || m.Low != nil || !strings.Contains(m.Sentence, "too few requests") {
		t.Errorf("%+v", m)
	}
	notes := strings.Join(r.Notes, "\n")
	if !strings.Contains(notes, "10 requests ended ok in A alone") || !strings.Contains(notes, "100 requests were answered in one side alone") {
		t.Errorf("%q", notes)
	}
}

// TestLastRequest: how long the last request of a run takes is no change of its throughput.
func TestLastRequest(t *testing.T) {
	last := func(s *metrics.Summary) { s.Run.DurationS += 0.01 }
	r := compared(t, side(t, write(t, 400, nil, noisy(1, 1))), side(t, write(t, 400, last, noisy(1, 1))))
	if m := find(t, r, "requests_per_s"); m.Verdict != Same || *m.Change != 0 {
		t.Errorf("%+v", m)
	}
}

// TestFloor: a change that two runs of one server show as well is in the floor, and breaks no gate.
func TestFloor(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing in it runs beside another")
	}
	a, b, drifted := side(t, write(t, 800, nil, noisy(1, 1))), side(t, write(t, 800, nil, noisy(2, 1.1))), side(t, write(t, 800, nil, noisy(3, 1.08)))
	gate, err := ParseGate("ttft.paired:+5%")
	if err != nil {
		t.Fatal(err)
	}
	without, with := compared(t, a, b), compared(t, side(t, a.runs[0].dir, drifted.runs[0].dir), b)
	if passed, words := without.Judge(gate); passed || !strings.HasPrefix(words, "ttft.paired:+5%: +") || !strings.Contains(words, "], worse; the floor is ") {
		t.Error(passed, words)
	}
	m := find(t, with, "ttft.paired")
	if m.Verdict != InFloor || math.Abs(*m.Floor-1.96*0.08) > 0.03 || !strings.Contains(m.Sentence, "but the noise floor reaches") || !strings.Contains(with.FloorFrom, drifted.runs[0].dir) {
		t.Errorf("%+v of %s", m, with.FloorFrom)
	}
	if passed, words := with.Judge(gate); !passed || !strings.Contains(words, "], in floor; the floor is ") {
		t.Error(passed, words)
	}
	other := write(t, 800, func(s *metrics.Summary) { s.Workload.Fingerprint, s.Run.Options["seed"] = "sha256:2", 2.0 }, noisy(3, 1))
	if _, err := ReadSide(nil, a.runs[0].dir, other); err == nil || !strings.Contains(err.Error(), "--seed: 1 and 2") || strings.Contains(err.Error(), "--anyway") {
		t.Error(err)
	}
	// Two runs a side halve the variance of the floor.
	noise := [][]Metric{match(a.runs, drifted.runs, true).measure()}
	if got, want := *pooled(noise, kindsOf-1, 2), *m.Floor/math.Sqrt2; math.Abs(got-want) > 1e-12 {
		t.Errorf("floor %v, want %v", got, want)
	}
	two := compared(t, side(t, a.runs[0].dir, drifted.runs[0].dir), side(t, b.runs[0].dir, b.runs[0].dir))
	if m := find(t, two, "ttft.paired"); two.Requests != 1600 || strings.Count(two.FloorFrom, b.runs[0].dir) != 2 || *m.Floor >= *find(t, with, "ttft.paired").Floor {
		t.Errorf("%d requests, floor %v of %s", two.Requests, *m.Floor, two.FloorFrom)
	}
}

// TestClientsFloor: what lateness of the client may have moved is in the floor, relative to A and of either side.
// Without a floor nothing is said to be worse.
func TestClientsFloor(t *testing.T) {
	quiet, late := side(t, write(t, 1200, nil, noisy(1, 1))), side(t, write(t, 1200, nil, noisy(2, 1.3)))
	late.runs[0].summary.Verdict.Unsafe = []metrics.Unsafe{{Metric: "ttft", Percentile: "p95", EffectMS: 1e6}, {Metric: "ttft", Percentile: "p50", EffectMS: 0.01}}
	for _, sides := range [][2]*Side{{quiet, late}, {late, quiet}} {
		r := compared(t, sides[0], sides[1])
		p50, p95, pairs := find(t, r, "ttft.p50"), find(t, r, "ttft.p95"), find(t, r, "ttft.paired")
		if math.Abs(*p95.Floor - 1e6 / *p95.A) > 1e-9 || p95.FloorFrom != "the client" || p95.Verdict != InFloor || !strings.Contains(p95.Sentence, "but the client may have moved it by >1,000 %") {
			t.Errorf("%+v", p95)
		}
		if p50.FloorFrom != "" || pairs.FloorFrom != "" || pairs.Verdict == InFloor || pairs.Verdict == Same {
			t.Errorf("%+v\n%+v", p50, pairs)
		}
	}
	r := compared(t, side(t, quiet.runs[0].dir, write(t, 100, nil, noisy(1, 1))), late)
	if m := find(t, r, "ttft.p99"); m.Floor != nil || m.Verdict != Unknown || m.Low == nil || !strings.Contains(m.Sentence, "there is no floor") {
		t.Errorf("%+v", m)
	}
}

func TestGates(t *testing.T) {
	for text, want := range map[string]Gate{
		"ttft.p99:+5%": {"ttft.p99:+5%", "ttft.p99", 0.05}, "output_tokens_per_s:-3%": {"output_tokens_per_s:-3%", "output_tokens_per_s", -0.03},
		"error-rate:0.5%": {"error-rate:0.5%", "error_rate", 0.005},
	} {
		if got, err := ParseGate(text); err != nil || got != want {
			t.Errorf("%s: %+v %v", text, got, err)
		}
	}
	for _, text := range []string{"", "ttft.p99", "ttft.p99:", "ttft.p98:+5%", "ttft.p99:5", "ttft.p99:-5%", "goodput:+1%", "itl.p99:+5%", "ttft.p99:NaN%", "ttft.p99:Inf%"} {
		if g, err := ParseGate(text); err == nil {
			t.Errorf("%q: %+v", text, g)
		}
	}
	_, err := ParseGate("ttfb:+5%") // names what is taken, and nothing else
	lists := strings.Split(strings.ReplaceAll(err.Error(), ": want ", "; or "), "; or ")[1:]
	named := 0
	for _, list := range lists {
		limit, names, _ := strings.Cut(strings.TrimPrefix(list, "METRIC"), " of ")
		for name := range strings.SplitSeq(names, ", ") {
			if _, err := ParseGate(name + limit); err != nil {
				t.Error(err)
			}
			named++
		}
	}
	if named != len(specs()) {
		t.Errorf("%d of %d metrics are named in %v", named, len(specs()), err)
	}
	change := func(name string, v float64, verdict string) Metric {
		return Metric{Name: name, Change: &v, Low: &v, High: &v, Verdict: verdict}
	}
	r := &Result{Metrics: []Metric{
		change("ttft.p99", 0.08, Worse), change("goodput", -0.02, Worse), change("tpot.p99", 0.08, Same), {Name: "e2e.p99", Verdict: Unknown, Sentence: "unknown"},
	}}
	for text, breaks := range map[string]int{
		"ttft.p99:+5%": 1, "ttft.p99:+8.1%": 0, "goodput:-1%": 1, "goodput:-2.5%": 0, "tpot.p99:+5%": 0, "e2e.p99:+50%": 1,
	} {
		g, err := ParseGate(text)
		if passed, words := r.Judge(g); err != nil || passed != (breaks == 0) || !strings.HasPrefix(words, text+": ") {
			t.Errorf("%s: %v, %t %s", text, err, passed, words)
		}
	}
}

// TestExplained: the requests that were made slower are found by what they have in common.
func TestExplained(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing in it runs at the same time as anything else")
	}
	serve := func(seed uint64, slower func(i int) float64) func(i int) served {
		random := rand.New(rand.NewPCG(seed, 2))
		return func(i int) served {
			return served{ttft: 100 * slower(i) * math.Exp(0.05*random.NormFloat64()), tpot: 20 * math.Exp(0.05*random.NormFloat64()), cached: int64(i * 7 % 5 * 100)}
		}
	}
	none := func(int) float64 { return 1 }
	for by, slower := range map[string]func(i int) float64{
		"uncached tokens": func(i int) float64 { return 1 + 0.5*b2f((i*7%5 == 0 && i%500 > 250)) },
		"input length":    func(i int) float64 { return 1 + 0.5*b2f((i%500 > 400)) },
		"time":            func(i int) float64 { return 1 + 0.5*b2f((i > 400)) },
	} {
		r := compared(t, side(t, write(t, 1000, nil, serve(1, none))), side(t, write(t, 1000, nil, serve(2, slower))))
		i := slices.IndexFunc(r.Explained, func(c Culprits) bool { return strings.HasPrefix(c.Metric, "ttft") })
		if i < 0 {
			t.Errorf("%s: %+v", by, find(t, r, "ttft.mean"))
			continue
		}
		least := 0.7
		if by == "time" { // three of five groups
			least = 0.3
		}
		if c := r.Explained[i]; c.By != by || c.Groups[0].Share < least || !strings.Contains(c.Words, "the change of TTFT is in the 20 % of requests") {
			t.Errorf("%s: %+v", by, c)
		}
	}
	r := compared(t, side(t, write(t, 1000, nil, serve(1, none))), side(t, write(t, 1000, nil, serve(2, func(int) float64 { return 1.2 }))))
	if len(r.Explained) == 0 || r.Explained[0].By != "" || !strings.Contains(r.Explained[0].Words, "spread over all requests") {
		t.Errorf("%+v", r.Explained)
	}
}

// TestManyTimes: a change that nobody thinks of in percent is a factor, and its interval, too.
func TestManyTimes(t *testing.T) {
	r := compared(t, side(t, write(t, 1200, nil, noisy(1, 1))), side(t, write(t, 1200, nil, noisy(2, 50))))
	m := find(t, r, "ttft.paired")
	factors := regexp.MustCompile(`^(49|50|51)(\.\d)? × A's \[4\d(\.\d)?, 5\d(\.\d)?\]; the floor is [\d.]+ %$`)
	_, said, _ := strings.Cut(m.Sentence, "B's TTFT pair by pair is ")
	if !factors.MatchString(said) || m.Verdict != Worse || !strings.HasSuffix(m.cells()[2], " ×") {
		t.Errorf("%q, %q", m.Sentence, m.cells())
	}
	if _, words := r.Judge(Gate{Text: "ttft.paired:+5%", Metric: "ttft.paired", Limit: 0.05}); strings.Contains(words, "1,000") || !strings.Contains(words, " × [") {
		t.Errorf("%q", words)
	}
}

// TestDifferentTraces: all that follows from another trace is left out.
func TestDifferentTraces(t *testing.T) {
	a, b := side(t, write(t, 100, nil, noisy(1, 1))), side(t, write(t, 100, func(s *metrics.Summary) {
		w := &s.Workload
		w.Fingerprint, w.Trace, w.Rows, w.Requests, w.InputTokens, s.Run.Options["seed"] = "sha256:2", "azure.csv", 1, 7, 99, 2.0
	}, noisy(1, 1)))
	_, err := Compare(a, b, false)
	if err == nil || !regexp.MustCompile(`\(traces: [^;]* with [\d,]+ rows?, and azure\.csv with 1 row\); replay the same one`).MatchString(err.Error()) {
		t.Errorf("%v", err)
	}
}

func TestDifferentWorkloads(t *testing.T) {
	a := side(t, write(t, 100, nil, noisy(1, 1)))
	b := side(t, write(t, 100, func(s *metrics.Summary) {
		s.Workload.Fingerprint, s.Run.Options["seed"] = "sha256:2", 2.0
	}, noisy(1, 1)))
	_, err := Compare(a, b, false)
	if err == nil || !strings.Contains(err.Error(), " were sent different workloads (--seed: 1 and 2); ") {
		t.Fatalf("%v", err)
	}
	r, err := Compare(a, b, true)
	if err != nil || r.Paired || find(t, r, "ttft.paired").Change != nil || *find(t, r, "ttft.p50").Change != 0 || find(t, r, "ttft.p50").Verdict != Unknown {
		t.Fatalf("%v %+v", err, r)
	}
	if err := os.Remove(filepath.Join(a.runs[0].dir, report.RequestsName)); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadSide(nil, a.runs[0].dir); err == nil || !strings.Contains(err.Error(), "requests.jsonl") {
		t.Error(err)
	}
}

// TestKilled: of a run that was killed, what it wrote is compared, also without a fingerprint.
func TestKilled(t *testing.T) {
	a, dir := side(t, write(t, 200, nil, noisy(1, 1))), write(t, 200, nil, noisy(1, 1))
	if err := os.Remove(filepath.Join(dir, report.SummaryName)); err != nil {
		t.Fatal(err)
	}
	plan := &report.Plan{Workload: a.runs[0].summary.Workload, Run: a.runs[0].summary.Run}
	plan.Workload.Fingerprint = ""
	if err := report.WritePlan(dir, plan); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, report.RequestsName)
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, text[:len(text)*3/4], 0o600); err != nil {
		t.Fatal(err)
	}
	r := compared(t, a, side(t, dir))
	if m := find(t, r, "ttft.paired"); r.Requests < 140 || r.Requests > 160 || *m.Change != 0 || m.Verdict != Same || r.B.Verdict != "INVALID" {
		t.Errorf("%d requests, %+v, %s", r.Requests, m, r.B.Verdict)
	}
	if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, "no fingerprint") || !strings.Contains(notes, "whose measurement is INVALID") {
		t.Errorf("%q", notes)
	}
}

// TestAtOnce: requests that are all planned at once, and have no conversations, are cut by their order, and few have no
// interval. Goodput is by the SLOs of the first run.
func TestAtOnce(t *testing.T) {
	for n, verdict := range map[int]string{400: Worse, 3: Unknown} {
		var sides [2]*Side
		for k, ttft := range []int64{100, 120} {
			sides[k] = new(Side)
			summary := &metrics.Summary{Run: metrics.Run{DurationS: 1, Targets: []string{fmt.Sprint("http://", k)}}, Workload: metrics.Workload{Fingerprint: "sha256:1"}}
			if k == 0 {
				summary.Goodput = &metrics.Goodput{SLO: map[string]float64{"ttft_ms": 110}}
			} else {
				sides[k].SLOs = sides[0].SLOs
			}
			err := sides[k].Add("dir", summary, func(yield func(*record.Record, error) bool) {
				for i := range n {
					var r record.Record
					r.Clear()
					r.RequestID, r.PlannedNS, r.SentNS, r.Outcome = fmt.Sprintf("r-%d", i), 0, 0, record.OK
					r.FirstTokenNS = ttft*1e6 + int64((i*7919+k*31)%100)*1e4
					r.LastTokenNS, r.DoneNS = r.FirstTokenNS, r.FirstTokenNS
					if !yield(&r, nil) {
						return
					}
				}
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		r := compared(t, sides[0], sides[1])
		if m := find(t, r, "goodput"); *m.A != 1 || *m.B != 0 || m.Verdict != verdict {
			t.Errorf("%d requests: %+v", n, m)
		}
		if m := find(t, r, "ttft.paired"); m.Verdict != verdict || r.B.Name != "http://1" {
			t.Errorf("%d requests: %+v, B is %s", n, m, r.B.Name)
		}
	}
}

// TestFifths: five groups of about as many requests, however many there are.
func TestFifths(t *testing.T) {
	for n := 10; n < 60; n++ {
		m, differences := new(matched), make([]float64, n)
		for i := range n {
			for side := range m.good {
				m.good[side] = append(m.good[side], &row{})
			}
			differences[i] = 1
		}
		g := grouping{"place", "", true, func(pair int) float64 { return float64(pair) }, func(v float64) string { return fmt.Sprint(v) }}
		all, _ := m.groups(g, metrics.TTFT, differences, float64(n))
		if len(all) != fifths {
			t.Fatalf("%d requests: %d groups: %+v", n, len(all), all)
		}
		for _, group := range all {
			if group.Requests < int64(n/fifths) || group.Requests > int64(n/fifths)+1 {
				t.Errorf("%d requests: a group of %d", n, group.Requests)
			}
		}
	}
}
