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
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/collect"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/report"
)

// served is how a made server takes a request.
type served struct {
	ttft, tpot float64 // ms
	reasons    float64 // ms from the first token to the first one of the answer
	outcome    record.Outcome
	cached     int64
	model      string
	lacks      int64 // tokens of its answer
}

// write makes a directory of results: n requests of conversations of four, one each 100 ms, that a server takes as
// serve says.
func write(t *testing.T, n int, change func(*metrics.Summary), serve func(i int) served) string {
	t.Helper()
	dir := t.TempDir()
	c := collect.NewCollector([]string{"http://a:1"})
	w := must.Have(report.NewWriter(dir, report.WriterOptions{}))(t)
	for i := range n {
		s := serve(i)
		var r record.Record
		r.Clear()
		r.Row, r.RequestID, r.Session, r.Target, r.Outcome = int64(i), fmt.Sprintf("%s-%09d", filepath.Base(dir), i), int64(i%(n/4)), "http://a:1", s.outcome
		r.PlannedNS, r.InputTokens, r.OutputTokens = int64(i)*1e8, int64(1000+i*7919%500), 51
		if s.outcome != record.NotSent {
			r.SentNS, r.DoneNS = r.PlannedNS+1000, r.PlannedNS+2000
		}
		if s.outcome == record.OK {
			r.PromptTokens, r.CachedTokens, r.CompletionTokens, r.TokensFrom, r.Chunks = r.InputTokens, s.cached, 51-s.lacks, record.TokensFromUsage, 51-s.lacks
			r.AnswerModel = s.model
			r.FirstTokenNS = r.SentNS + int64(s.ttft*1e6)
			r.FirstOutputNS = r.FirstTokenNS + int64(s.reasons*1e6)
			r.LastTokenNS = r.FirstTokenNS + (50-s.lacks)*int64(s.tpot*1e6)
			r.DoneNS = r.LastTokenNS
		}
		c.Add(&r, 0)
		w.Append(&r)
	}
	must.Have(w.Close())(t)
	info := metrics.Summary{Requests: metrics.Requests{Planned: int64(n)}, Limits: metrics.DefaultLimits()}
	info.Run.StartedAt = time.Unix(1e9, 0) // as all others: no side is run behind the other
	info.Run.DurationS, info.Run.Targets, info.Run.Options = float64(n)/10+5, []string{"http://a:1"}, map[string]any{"seed": 1.0}
	info.Workload.Fingerprint, info.Workload.Trace, info.Workload.Requests = "sha256:1", "day.jsonl", int64(n)
	if change != nil {
		change(&info)
	}
	must.Do(t, report.WriteSummary(dir, c.Summary(info, collect.Probed{})))
	return dir
}

func side(t *testing.T, dirs ...string) *Side {
	t.Helper()
	return must.Have(ReadSide(nil, dirs...))(t)
}

// noisySide is a side of one run of so many requests at a noisy server, without changes of its summary.
func noisySide(t *testing.T, n int, seed uint64, ttft float64) *Side {
	t.Helper()
	return side(t, write(t, n, nil, noisy(seed, ttft)))
}

// addRecords adds a run of so many records, each of which fill makes of one without anything.
func (s *Side) addRecords(t *testing.T, dir string, summary *metrics.Summary, n int, fill func(i int, r *record.Record)) {
	t.Helper()
	must.Do(t, s.Add(dir, summary, func(yield func(*record.Record, error) bool) {
		for i := range n {
			var r record.Record
			r.Clear()
			fill(i, &r)
			if !yield(&r, nil) {
				return
			}
		}
	}))
}

func find(t *testing.T, r *Result, name string) Metric {
	t.Helper()
	i := slices.IndexFunc(r.Metrics, func(m Metric) bool { return m.Name == name })
	if i < 0 {
		t.Fatalf("no %s", name)
	}
	return r.Metrics[i]
}

func gateOf(t *testing.T, text string) Gate {
	t.Helper()
	return must.Have(ParseGate(text))(t)
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
	return must.Have(Compare(a, b, false))(t)
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
	plain, short, long := run(1, 0), run(1, 10), run(3, 20)
	for _, m := range compared(t, plain, run(3, 0)).Metrics {
		if strings.HasPrefix(m.Name, "ttfo") && m.Main {
			t.Errorf("%s is on the screen, and nothing was reasoned", m.Name)
		}
	}
	r := compared(t, short, long)
	for name, verdict := range map[string]string{"ttft.paired": Unclear, "ttfo.paired": Differs} {
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
	slos := must.Have(metrics.ParseSLOs("ttft:200ms"))(t)
	a := must.Have(ReadSide(slos, write(t, 1200, nil, noisy(7, 1))))(t)
	b := must.Have(ReadSide(slos, write(t, 1200, nil, noisy(8, 1.1))))(t)
	r := compared(t, a, b)
	if m := find(t, r, "ttft.paired"); m.Verdict != Differs || math.Abs(*m.Change-0.1) > 0.02 || !(*m.Low < 0.1 && 0.1 < *m.High) ||
		!strings.HasPrefix(m.Sentence, "B's TTFT, request by request, was ") {
		t.Errorf("%+v", m)
	}
	if m := find(t, r, "tpot.paired"); m.Verdict != Unclear || !strings.HasPrefix(m.Sentence, "no difference seen: TPOT, request by request, [−") {
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
	if r.Requests != 1200 || !r.Paired || len(r.Notes) > 0 || r.Scope != ScopePair {
		t.Errorf("%+v", r)
	}
}

// TestStoppedAndFailed: what one side lacks is left out and said, and failures of one side count as such.
func TestStoppedAndFailed(t *testing.T) {
	a := noisySide(t, 400, 1, 1)
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
	if m := find(t, r, "error_rate"); r.Requests != 290 || *m.A != 0 || *m.B != 10.0/300 || m.Verdict != Differs || !strings.Contains(m.Sentence, "3.3 points higher") {
		t.Errorf("%d requests, %+v", r.Requests, m)
	}
	if m := find(t, r, "requests_per_s"); math.Abs(*m.A-300/30.0) > 0.5 { // A counts until B was stopped
		t.Errorf("%+v", m)
	}
	if m := find(t, r, "ttft.p99"); m.Verdict != Unknown || m.Low != nil || !strings.Contains(m.Sentence, "too few requests") {
		t.Errorf("%+v", m)
	}
	notes := strings.Join(r.Notes, "\n")
	if !strings.Contains(notes, "10 requests failed in B alone") || !strings.Contains(notes, "100 requests were not answered in all runs") {
		t.Errorf("%q", notes)
	}
}

// TestLastRequest: how long the last request of a run takes is no change of its throughput.
func TestLastRequest(t *testing.T) {
	last := func(s *metrics.Summary) { s.Run.DurationS += 0.01 }
	r := compared(t, noisySide(t, 400, 1, 1), side(t, write(t, 400, last, noisy(1, 1))))
	if m := find(t, r, "requests_per_s"); m.Verdict != Unclear || *m.Change != 0 || *m.Low >= 0 || *m.High <= 0 || *m.High > 0.003 { // of one request
		t.Errorf("%+v", m)
	}
}

// TestRuns: a change that runs of one server show as well is unclear, one that is larger is found, and what runs of both
// sides have alike is the same. One pair decides no gate, and runs that are given twice are refused.
func TestRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing in it runs beside another")
	}
	made := map[float64]*Side{}
	for seed, ttft := range []float64{0.99, 1, 1.01, 1.05, 1.06, 1.07, 1.08} {
		made[ttft] = side(t, write(t, 400, nil, noisy(uint64(seed), ttft)))
	}
	of := func(ttfts ...float64) *Side {
		s := new(Side)
		for _, ttft := range ttfts {
			s.runs = append(s.runs, made[ttft].runs...)
		}
		return s
	}
	gate := gateOf(t, "ttft.paired:+3%")
	base, slower := of(0.99, 1, 1.01), of(1.06, 1.07, 1.08)
	for _, c := range []struct {
		a, b    *Side
		verdict string
		answer  Answer
	}{
		{of(1), of(1.07), Differs, Undecided},
		{base, slower, Worse, Failed},
		{slower, base, Better, Passed},
		{of(0.99, 1.08), of(1, 1.07), Unclear, Undecided},
		{of(0.99, 1.08), of(1.07), Unclear, Undecided},
		{of(0.99, 1.01), of(1.05, 1.08), Worse, Undecided},
		{slower, of(0.99), Differs, Undecided}, // nobody knows how far runs of B differ
	} {
		r := compared(t, c.a, c.b)
		m := find(t, r, "ttft.paired")
		if m.Verdict != c.verdict || (m.Floor == nil) != (len(c.a.runs)+len(c.b.runs) == 2) {
			t.Errorf("%+v, want %s", m, c.verdict)
		}
		if answer, words := r.Judge(gate); answer != c.answer {
			t.Errorf("%s: %s, want %s", words, answer, c.answer)
		}
		if m := find(t, r, "error_rate"); r.Scope == ScopeServers && (m.Verdict != Same || !strings.Contains(m.Sentence, "is the same within 1.0 points")) {
			t.Errorf("%+v", m)
		}
	}
	link := filepath.Join(t.TempDir(), "link")
	must.Do(t, os.Symlink(made[1].runs[0].dir, link))
	for _, a := range []*Side{of(1, 1.01), of(1), side(t, link)} {
		expect.Refused(Compare(a, of(1), false))(t, "are the same run")
	}
	other := write(t, 400, func(s *metrics.Summary) { s.Workload.Fingerprint, s.Run.Options["scale"] = "sha256:2", 2.0 }, noisy(3, 1))
	if _, err := ReadSide(nil, base.runs[0].dir, other); err == nil || !strings.Contains(err.Error(), "--scale: not given and 2") || strings.Contains(err.Error(), "--anyway") {
		t.Error(err)
	}
}

// TestLateClient: an interval is wider by what lateness of the client may have moved in either side.
func TestLateClient(t *testing.T) {
	quiet, late := noisySide(t, 1200, 1, 1), noisySide(t, 1200, 2, 1.3)
	before := compared(t, quiet, late)
	late.runs[0].summary.Verdict.Unsafe = []metrics.Unsafe{{Metric: "ttft", Percentile: "p95", EffectMS: 1e6}, {Metric: "ttft", Percentile: "p50", EffectMS: 0.01}}
	for _, sides := range [][2]*Side{{quiet, late}, {late, quiet}} {
		r := compared(t, sides[0], sides[1])
		p95, pairs := find(t, r, "ttft.p95"), find(t, r, "ttft.paired")
		if p95.Low != nil || p95.Verdict != Unknown || !strings.Contains(p95.Sentence, "lateness of the client may have made all of it") {
			t.Errorf("%+v", p95)
		}
		if pairs.Verdict != Differs || !pairs.Client {
			t.Errorf("%+v", pairs)
		}
	}
	widened := find(t, compared(t, quiet, late), "ttft.p50")
	if was := find(t, before, "ttft.p50"); math.Abs(math.Log1p(*widened.High)-math.Log1p(*was.High)+math.Log1p(-0.01 / *was.B)) > 1e-6 || was.Client {
		t.Errorf("%+v\n%+v", was, widened)
	}
}

func TestGates(t *testing.T) {
	for text, want := range map[string]Gate{
		"ttft.p99:+5%": {"ttft.p99:+5%", "", "ttft.p99", 0.05, false}, "output_tokens_per_s:-3%": {"output_tokens_per_s:-3%", "", "output_tokens_per_s", -0.03, true},
		"error-rate:0.5%": {"error-rate:0.5%", "", "error_rate", 0.005, false},
	} {
		if got, err := ParseGate(text); err != nil || got != want {
			t.Errorf("%s: %+v %v", text, got, err)
		}
	}
	if _, err := ParseGate("goodput"); err == nil || err.Error() != `"goodput" has no limit; want one, such as goodput:-5%` {
		t.Error(err)
	}
	if _, err := ParseGate("ttft.p99:+5"); err == nil || err.Error() != `"ttft.p99:+5" has no % behind its limit; want ttft.p99:+5%` {
		t.Error(err)
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
	change := func(name string, low, high float64) Metric {
		middle := (low + high) / 2
		return Metric{Name: name, Change: &middle, Low: &low, High: &high, Verdict: Worse}
	}
	pair := &Result{Scope: ScopePair, Metrics: []Metric{{Name: "ttft.p99", Sentence: "there are too few requests for an interval: 662 would do"}}}
	if answer, words := pair.Judge(gateOf(t, "ttft.p99:+5%")); answer != Undecided || !strings.HasSuffix(words, "3 runs a side would tell") {
		t.Errorf("a pair of few requests: %s, %q", answer, words)
	}
	three := Identity{Dirs: []string{"1", "2", "3"}}
	r := &Result{Scope: ScopeServers, A: three, B: three, Metrics: []Metric{
		change("ttft.p99", 0.06, 0.08), change("goodput", -0.02, -0.01), change("tpot.p99", -0.02, 0.02), {Name: "e2e.p99", Verdict: Unknown, Sentence: "unknown"},
	}}
	for text, want := range map[string]Answer{
		"ttft.p99:+5%": Failed, "ttft.p99:+6.5%": Undecided, "ttft.p99:+8%": Passed, "goodput:-0.5%": Failed, "goodput:-1.4%": Undecided, "goodput:-2.5%": Passed,
		"tpot.p99:+5%": Passed, "tpot.p99:+0%": Undecided, "e2e.p99:+50%": Undecided,
	} {
		g, err := ParseGate(text)
		if answer, words := r.Judge(g); err != nil || answer != want || !strings.HasPrefix(words, text+": ") {
			t.Errorf("%s: %v, %s, want %s: %s", text, err, answer, want, words)
		}
	}
	// whoever sheds load has good latencies: a side that failed more passes no limit by them, nor does the other fail one
	for _, c := range []struct {
		failed float64 // more in B
		text   string
		answer Answer
	}{
		{0.5, "tpot.p99:+5%", Undecided}, {-0.5, "tpot.p99:+5%", Passed},
		{0.005, "tpot.p99:+5%", Undecided}, {0.0049, "tpot.p99:+5%", Passed},
		{0.25, "ttft.mean:+5%", Undecided}, {0.24, "ttft.mean:+5%", Passed},
		{0.5, "ttft.p99:+5%", Failed}, {-0.5, "ttft.p99:+5%", Undecided},
		{0.5, "goodput:-0.5%", Failed}, {0.5, "goodput:-2.5%", Passed}, {0.5, "error_rate:+60%", Passed},
	} {
		shed := *r
		shed.Metrics = slices.Concat(r.Metrics, []Metric{change("error_rate", c.failed, c.failed), change("ttft.mean", -0.02, 0.02)})
		if answer, words := shed.Judge(gateOf(t, c.text)); answer != c.answer || strings.Contains(words, "a load that both sides carry would tell; error_rate has a limit of its own") != (answer == Undecided) {
			t.Errorf("%v more failed: %s %s, want %s", c.failed, answer, words, c.answer)
		}
	}
	two := Identity{Dirs: []string{"1", "2"}}
	for want, r := range map[string]*Result{
		"; 3 runs a side would tell more": {Scope: ScopeServers, A: three, B: two, Metrics: r.Metrics},
		"; runs by turns (":               {Scope: ScopeServers, A: three, B: three, Metrics: r.Metrics, separate: true},
		"; --cold differs, so caches":     {Scope: ScopeServers, A: three, B: three, Metrics: r.Metrics, unlikeCaches: "--cold"},
	} {
		g := gateOf(t, "ttft.p99:+6.5%")
		if answer, words := r.Judge(g); answer != Undecided || !strings.Contains(words, want) || strings.Contains(words, "pair") {
			t.Errorf("%s %s, want %q", answer, words, want)
		}
	}
	for text, want := range map[string]string{"ttft.p99:+6.5%": "about 5 more pairs of runs", "tpot.p99:+0%": "over 50 more pairs of runs", "e2e.p99:+50%": "unknown"} {
		g := gateOf(t, text)
		if _, words := r.Judge(g); !strings.Contains(words, want) {
			t.Errorf("%s, want %q", words, want)
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
		"uncached tokens": func(i int) float64 { return 1 + 0.5*b2f((i*7%5 == 0 && i*7919%500 > 250)) },
		"input length":    func(i int) float64 { return 1 + 0.5*b2f((i*7919%500 > 400)) },
		"time":            func(i int) float64 { return 1 + 0.5*b2f((i > 400)) },
	} {
		runs := 1
		if by == "time" { // one pair does not tell what changes meanwhile
			runs = 3
		}
		var dirs [2][]string
		for seed := range uint64(runs) {
			dirs[0] = append(dirs[0], write(t, 1000, nil, serve(3*seed+1, none)))
			dirs[1] = append(dirs[1], write(t, 1000, nil, serve(3*seed+2, slower)))
		}
		r := compared(t, side(t, dirs[0]...), side(t, dirs[1]...))
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
	r := compared(t, noisySide(t, 1200, 1, 1), noisySide(t, 1200, 2, 50))
	m := find(t, r, "ttft.paired")
	factors := regexp.MustCompile(`^(49|50|51)(\.\d)? × A's \[4\d(\.\d)?, 5\d(\.\d)?\]$`)
	_, said, _ := strings.Cut(m.Sentence, "B's TTFT, request by request, was ")
	if !factors.MatchString(said) || m.Verdict != Differs || !strings.HasSuffix(m.cells()[2], " ×") {
		t.Errorf("%q, %q", m.Sentence, m.cells())
	}
	if _, words := r.Judge(Gate{Text: "ttft.paired:+5%", Metric: "ttft.paired", Limit: 0.05}); strings.Contains(words, "1,000") || !strings.Contains(words, " × [") {
		t.Errorf("%q", words)
	}
}

// TestEndWithoutBound: an end that requests leave open is said to be open, not printed as a number that nobody measured.
func TestEndWithoutBound(t *testing.T) {
	change, low, high := 95.9, -1.0, 3.14e178
	m := Metric{Change: &change, Low: &low, High: &high}
	expect.Equal(t, m.ends(), "[unbounded]")
	expect.Equal(t, m.cells()[3], "[unbounded]")
}

// TestDifferentTraces: all that follows from another trace is left out.
func TestDifferentTraces(t *testing.T) {
	a, b := noisySide(t, 100, 1, 1), side(t, write(t, 100, func(s *metrics.Summary) {
		w := &s.Workload
		w.Fingerprint, w.Trace, w.Rows, w.Requests, w.InputTokens, s.Run.Options["seed"] = "sha256:2", "azure.csv", 1, 7, 99, 2.0
	}, noisy(1, 1)))
	_, err := Compare(a, b, false)
	if err == nil || !regexp.MustCompile(`\(traces: [^;]* with [\d,]+ rows?, and azure\.csv with 1 row\); replay the same one`).MatchString(err.Error()) {
		t.Errorf("%v", err)
	}
}

func TestDifferentWorkloads(t *testing.T) {
	a := noisySide(t, 100, 1, 1)
	b := side(t, write(t, 100, func(s *metrics.Summary) {
		s.Workload.Fingerprint, s.Run.Options["seed"] = "sha256:2", 2.0
	}, noisy(1, 1)))
	expect.Refused(Compare(a, b, false))(t, " were sent different workloads (--seed: 1 and 2); ")
	r, err := Compare(a, b, true)
	if err != nil || r.Paired || find(t, r, "ttft.paired").Change != nil || *find(t, r, "ttft.p50").Change != 0 || find(t, r, "ttft.p50").Verdict != Unknown {
		t.Fatalf("%v %+v", err, r)
	}
	failing := side(t, write(t, 100, func(s *metrics.Summary) { s.Workload.Fingerprint = "sha256:2" }, func(i int) served {
		s := noisy(1, 5)(i)
		if i%4 == 0 {
			s.outcome = record.HTTPError
		}
		return s
	}))
	facts, doubts := must.Have(Compare(a, failing, true))(t).said(false)
	expect.Equal(t, len(facts), 1, "%q", facts) // the reason
	expect.Equal(t, len(doubts), 0, "%q", doubts)
	must.Do(t, os.Remove(filepath.Join(a.runs[0].dir, report.RequestsName)))
	expect.Refused(ReadSide(nil, a.runs[0].dir))(t, "requests.jsonl")
}

// TestSeedsOfPairs: the runs of a side may differ in their seeds, if both sides have the same ones.
func TestSeedsOfPairs(t *testing.T) {
	ofSeeds := func(seeds ...string) *Side {
		var dirs []string
		for _, seed := range seeds {
			dirs = append(dirs, write(t, 100, func(s *metrics.Summary) {
				s.Workload.Fingerprint, s.Run.Options["seed"] = "sha256:"+seed, seed
				if seed == "" { // a run of seed 1 that was killed
					s.Workload.Fingerprint, s.Run.Options["seed"] = "", "1"
				}
			}, noisy(1, 1)))
		}
		return side(t, dirs...)
	}
	for _, c := range []struct {
		a, b []string
		same bool
	}{
		{[]string{"1", "2"}, []string{"1", "2"}, true},
		{[]string{"1", "2"}, []string{"2", "1"}, true},
		{[]string{"1", "2"}, []string{"1", "3"}, false},
		{[]string{"1", "2"}, []string{"3", "4"}, false},
		{[]string{"1", "1"}, []string{"2", "2"}, false},
		{[]string{"1", "2", "2"}, []string{"1", "2", "1"}, false},
		{[]string{"1", "2"}, []string{"1"}, false},
		{[]string{"1", "1"}, []string{"1"}, true},
		{[]string{"1", ""}, []string{"1", "1"}, true},
		{[]string{"", ""}, []string{"1", "1"}, true},
	} {
		r, err := Compare(ofSeeds(c.a...), ofSeeds(c.b...), false)
		if (err == nil) != c.same || c.same && !r.Paired || !c.same && !strings.Contains(err.Error(), "--seed") {
			t.Errorf("%v and %v: %v", c.a, c.b, err)
		}
	}
}

// TestKilled: of a run that was killed, what it wrote is compared, also without a fingerprint.
func TestKilled(t *testing.T) {
	a, dir := noisySide(t, 400, 1, 1), write(t, 400, nil, noisy(1, 1))
	must.Do(t, os.Remove(filepath.Join(dir, report.SummaryName)))
	plan := &report.Plan{Workload: a.runs[0].summary.Workload, Run: a.runs[0].summary.Run}
	plan.Workload.Fingerprint = ""
	must.Do(t, report.WritePlan(dir, plan))
	name := filepath.Join(dir, report.RequestsName)
	size := must.Have(os.Stat(name))(t).Size()
	must.Do(t, os.Truncate(name, size*3/4))
	r := compared(t, a, side(t, dir))
	if m := find(t, r, "ttft.paired"); r.Requests < 280 || r.Requests > 320 || *m.Change != 0 || m.Verdict != Unclear || r.B.Verdict != "INVALID" {
		t.Errorf("%d requests, %+v, %s", r.Requests, m, r.B.Verdict)
	}
	if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, "no fingerprint") || !strings.Contains(notes, "whose measurement is INVALID") {
		t.Errorf("%q", notes)
	}
}

// TestAtOnce: requests that are all planned at once, and have no conversations, are cut by their order, and few have no
// interval. Goodput is by the SLOs of the first run.
func TestAtOnce(t *testing.T) {
	for n, verdict := range map[int]string{400: Differs, 3: Unknown} {
		var sides [2]*Side
		for k, ttft := range []int64{100, 120} {
			sides[k] = new(Side)
			summary := &metrics.Summary{Run: metrics.Run{DurationS: 1, Targets: []string{fmt.Sprint("http://", k)}}, Workload: metrics.Workload{Fingerprint: "sha256:1"}}
			if k == 0 {
				summary.Goodput = &metrics.Goodput{SLO: map[string]float64{"ttft_ms": 110}}
			} else {
				sides[k].SLOs = sides[0].SLOs
			}
			sides[k].addRecords(t, fmt.Sprint("dir", k), summary, n, func(i int, r *record.Record) {
				r.RequestID, r.PlannedNS, r.SentNS, r.Outcome = fmt.Sprintf("r-%d", i), 0, 0, record.OK
				r.FirstTokenNS = ttft*1e6 + int64((i*7919+k*31)%100)*1e4
				r.LastTokenNS, r.DoneNS = r.FirstTokenNS, r.FirstTokenNS
			})
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
		var p pairs
		differences := make([]float64, n)
		for i := range n {
			p.a, p.b = append(p.a, &row{index: int64(i)}), append(p.b, &row{})
			differences[i] = 1
		}
		print := func(v float64) string { return fmt.Sprint(v) }
		g := group("place", "", true, p.a, print, func(r *row) float64 { return float64(r.index) })
		all := g.list(p, metrics.TTFT, differences, float64(n))
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

// TestRecorded: a trace's record is compared with a run of it, row by row. Rows without a record are left out, and what
// the record lacks is unknown.
func TestRecorded(t *testing.T) {
	b := noisySide(t, 400, 1, 1)
	tr := &trace.Trace{}
	for i := range 400 {
		took := int64(2e8)
		if i >= 300 {
			took = -2
		}
		tr.Row, tr.InputTokens, tr.OutputTokens = append(tr.Row, int32(i)), append(tr.InputTokens, 1000), append(tr.OutputTokens, 51)
		tr.TTFTNS, tr.TookNS, tr.Cached = append(tr.TTFTNS, took/2), append(tr.TookNS, took), append(tr.Cached, 250)
	}
	a := must.Have(Recorded(tr, b))(t)
	r := compared(t, a, b)
	for name, want := range map[string]float64{"ttft.p50": 100, "e2e.p50": 200, "tpot.p50": 2, "prefix_hits": 0.25} {
		if m := find(t, r, name); m.A == nil || math.Abs(*m.A-want) > 1e-9 || m.Change == nil {
			t.Errorf("%s: %+v, want %v", name, m, want)
		}
	}
	for _, name := range []string{"output_tokens_per_s", "error_rate", "goodput"} {
		if m := find(t, r, name); m.Verdict != Unknown || m.Change != nil || name == "output_tokens_per_s" && m.A != nil {
			t.Errorf("%+v", m)
		}
	}
	// nothing is known of what failed that day
	if m := find(t, r, "error_rate"); m.A != nil || m.B == nil || *m.B != 0 || strings.Contains(m.Sentence, "0 %") {
		t.Errorf("%+v", m)
	}
	if r.Requests != 300 || r.Scope != ScopePair || r.A.Verdict != "RECORDED" || r.A.Name != "the record in day.jsonl" || !r.Paired {
		t.Errorf("%d requests, %+v", r.Requests, r.A)
	}
	twice := side(t, write(t, 400, nil, noisy(1, 1)), write(t, 400, nil, noisy(2, 1)))
	burst := noisySide(t, 400, 1, 1)
	for i, row := range burst.runs[0].rows {
		row.ms[metrics.TTFT] *= float64(1 + 4*(i/100%2))
	}
	for i, b := range []*Side{b, burst, noisySide(t, 60, 1, 1), twice} { // a day comes once, whatever is said of it
		r := compared(t, must.Have(Recorded(tr, b))(t), b)
		_, words := r.Judge(gateOf(t, "ttft.p50:+5%"))
		var out strings.Builder
		must.Do(t, Print(&out, r, PrintOptions{Width: 200, Full: true}))
		for _, said := range []string{words, out.String()} {
			expect.Lacks(t, said, "a side", "%d", i)
			expect.Contains(t, said, "record", "%d", i)
		}
	}
	tr.TTFTNS, tr.TookNS = nil, nil
	expect.Refused(Recorded(tr, b))(t, "has no times of its own")
}

// TestRateOfNothingYet: a run whose answers all end after the other run's end has no rate of 0 until then.
func TestRateOfNothingYet(t *testing.T) {
	longer := func(s *metrics.Summary) { s.Run.DurationS = 90 }
	slow := write(t, 200, longer, func(int) served { return served{ttft: 6e4, tpot: 20} })
	r := compared(t, side(t, slow), noisySide(t, 200, 1, 1))
	for _, name := range []string{"requests_per_s", "output_tokens_per_s"} {
		if m := find(t, r, name); m.Verdict != Unknown || m.A != nil {
			t.Errorf("%+v", m)
		}
	}
}

// TestMixedSides: a side that has runs of several servers is named, since a directory may be on the wrong side.
func TestMixedSides(t *testing.T) {
	of := func(url string, seed uint64) string {
		return write(t, 200, func(s *metrics.Summary) { s.Run.Targets = []string{url} }, noisy(seed, 1))
	}
	a := side(t, of("http://a:1", 1), of("http://a:1", 2))
	for url, noted := range map[string]bool{"http://b:1": false, "http://a:1": true} {
		b := side(t, of("http://b:1", 3), of(url, 4))
		notes := strings.Join(compared(t, a, b).Notes, "\n")
		if strings.Contains(notes, "the runs of B went to different servers, http://b:1 and http://a:1") != noted || strings.Contains(notes, "the runs of A") {
			t.Errorf("B also %s: %s", url, notes)
		}
	}
	several := func(i int) served { return served{ttft: 100, tpot: 10, model: fmt.Sprint(i / 150)} }
	b := side(t, write(t, 200, nil, noisy(5, 1)), write(t, 200, nil, several))
	const want = "B has a run in which answers name several models, so its numbers mix them"
	if notes := compared(t, a, b).Notes; !slices.Contains(notes, want) {
		t.Errorf("%q, want %q", notes, want)
	}
	other := func(s *metrics.Summary) {
		s.Notes, s.NoteCodes = []string{`9 answers named "m"`}, []string{"other_model"}
	}
	notes := compared(t, a, side(t, write(t, 200, nil, noisy(6, 1)), write(t, 200, other, noisy(7, 1)))).Notes
	expect.Equal(t, slices.Contains(notes, `B has a run in which 9 answers named "m"`), true, "%q", notes)
}

// TestFlagsThatMayBeTheChange: a side on a warm cache is no better server, so the flag that left it warm is named.
func TestFlagsThatMayBeTheChange(t *testing.T) {
	of := func(flag string, value any) *Side {
		return side(t, write(t, 200, func(s *metrics.Summary) { s.Run.Options[flag] = value }, noisy(1, 1)))
	}
	for flag, other := range map[string]any{"cold": "off", "warmup": 9.0, "route": "prefix", "quiet": true} {
		r := compared(t, of("json", true), of(flag, other))
		expect.Equal(t, r.unlikeCaches != "", flag == "cold" || flag == "warmup", "%s", flag)
		notes := strings.Join(r.Notes, "\n")
		named := strings.Contains(notes, fmt.Sprintf("--%s is not given in ", flag)) &&
			strings.Contains(notes, fmt.Sprintf("and %v in ", other))
		expect.Equal(t, named, flag != "quiet", "%s: %s", flag, notes)
		if notes = strings.Join(compared(t, of(flag, other), of(flag, other)).Notes, "\n"); strings.Contains(notes, "may be what changed") {
			t.Error(notes)
		}
	}
}

// TestGoodputOfNobody: a bound of a class that no run has would be kept by all.
func TestGoodputOfNobody(t *testing.T) {
	bound := must.Have(metrics.ParseSLOs("class=nobody ttft:1"))(t)
	a := must.Have(ReadSide(bound, write(t, 100, nil, noisy(1, 1))))(t)
	b := must.Have(ReadSide(bound, write(t, 100, nil, noisy(2, 1))))(t)
	expect.Refused(Compare(a, b, false))(t, `--goodput "class=nobody ttft": no request of any run is of that class`)
}

// TestNoTPOT: answers that came at once have no TPOT, so that no gate on it is decided.
func TestNoTPOT(t *testing.T) {
	of := func(tpot float64) *Side {
		return side(t, write(t, 200, nil, func(int) served { return served{ttft: 100, tpot: tpot} }))
	}
	gate := gateOf(t, "tpot.p50:+5%")
	for _, tpots := range [][2]float64{{0, 20}, {20, 0}, {0, 0}} {
		r := compared(t, of(tpots[0]), of(tpots[1]))
		m := find(t, r, "tpot.p50")
		if m.Verdict != Unknown || m.Change != nil || !strings.Contains(m.Sentence, "lack") {
			t.Errorf("%v: %+v", tpots, m)
		}
		if answer, words := r.Judge(gate); answer != Undecided || !strings.Contains(words, "lack") {
			t.Errorf("%v: %s %s", tpots, answer, words)
		}
	}
}

// TestWholeAnswers: what has no first token is compared by what is left, and the result says why.
func TestWholeAnswers(t *testing.T) {
	sides := []*Side{noisySide(t, 400, 1, 1), noisySide(t, 400, 2, 1)}
	const words = "the answers of a side came whole, not as streams, so there is no TTFT, TPOT or ITL to compare"
	expect.Lacks(t, strings.Join(compared(t, sides[0], sides[1]).Notes, "\n"), words)
	for _, side := range sides {
		for _, row := range side.runs[0].rows {
			row.ms[metrics.TTFT] = math.NaN()
		}
	}
	r := compared(t, sides[0], sides[1])
	expect.Contains(t, strings.Join(r.Notes, "\n"), words)
	expect.Equal(t, find(t, r, "e2e.paired").Change != nil, true)
}

// TestEmptyFirst: a side whose first chunks may be no tokens is noted, and decides no gate that they shift, nor one of
// goodput by a bound on what they shift.
func TestEmptyFirst(t *testing.T) {
	of := func(seed uint64) *Side {
		return sideOfRuns(t, seed, seed+10, seed+20, seed+30)
	}
	a, b := of(1), of(2)
	for bounds, want := range map[string]Answer{"ttft:100s": Undecided, "e2e:100s tpot:100s": Undecided, "e2e:100s": Passed} {
		of := func(seed uint64) *Side {
			bounded := sideOfRuns(t, seed, seed+10, seed+20)
			return must.Have(ReadSide(must.Have(metrics.ParseSLOs(bounds))(t), bounded.runs[0].dir, bounded.runs[1].dir, bounded.runs[2].dir))(t)
		}
		r := compared(t, of(1), of(2))
		gate := gateOf(t, "goodput:-5%")
		if answer, words := r.Judge(gate); answer != Passed {
			t.Errorf("%s without: %s", bounds, words)
		}
		r.shift = &metrics.Reason{Code: metrics.EmptyFirst}
		if answer, words := r.Judge(gate); answer != want {
			t.Errorf("%s: %s", bounds, words)
		}
	}
	empty := metrics.Reason{Code: metrics.EmptyFirst, Grade: metrics.Limited, What: "TTFT and TTFO may be too short, and TPOT too long"}
	b.runs[3].summary.Verdict.Reasons = []metrics.Reason{empty}
	for text, want := range map[string]Answer{
		"ttft.p50:+90%": Undecided, "ttft_planned.p50:+90%": Undecided, "tpot.p50:+90%": Undecided, "e2e.p50:+90%": Passed, "error_rate:+5%": Passed,
	} {
		gate := gateOf(t, text)
		for name, r := range map[string]*Result{"B": compared(t, a, b), "A": compared(t, b, a)} {
			answer, words := r.Judge(gate)
			if answer != want || want == Undecided && !strings.Contains(words, empty.What) {
				t.Errorf("%s: %s: %s", name, answer, words)
			}
			expect.Contains(t, strings.Join(r.Notes, "\n"), name+" has a run in which "+empty.What)
		}
		r := compared(t, a, of(3))
		if answer, words := r.Judge(gate); answer != Passed {
			t.Errorf("without: %s", words)
		}
	}
}

// TestOtherLengths: shorter answers are no faster server, so what depends on their length decides no gate.
func TestOtherLengths(t *testing.T) {
	a := sideOfRuns(t, 1, 11, 21)
	for lacks, want := range map[int64]Answer{0: Passed, 20: Undecided} {
		var dirs []string
		for _, seed := range []uint64{2, 12, 22} {
			as := noisy(seed, 1)
			dirs = append(dirs, write(t, 200, nil, func(i int) served {
				s := as(i)
				s.lacks = lacks
				return s
			}))
		}
		r := compared(t, a, side(t, dirs...))
		expect.Equal(t, strings.Contains(r.title("B"), " output tokens −39"), want == Undecided, r.title("B"))
		expect.Lacks(t, r.title("B"), "E2E", "the title")
		for text, want := range map[string]Answer{
			"e2e.p50:+90%": want, "e2e_planned.mean:+90%": want, "ntpot.p50:+90%": want, "tpot.p50:+90%": Passed, "ttft.p50:+90%": Passed,
		} {
			answer, words := r.Judge(gateOf(t, text))
			expect.Equal(t, answer, want, words)
			expect.Equal(t, strings.Contains(words, "length of answers, in tokens, is 39"), want == Undecided, words)
		}
	}
}

func sideOfRuns(t *testing.T, seeds ...uint64) *Side {
	var dirs []string
	for _, seed := range seeds {
		dirs = append(dirs, write(t, 200, nil, noisy(seed, 1)))
	}
	return side(t, dirs...)
}
