package compare

import (
	"bytes"
	"encoding/json"
	"flag"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/chart"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

var update = flag.Bool("update", false, "rewrite testdata")

// metric makes one with all its values.
func metric(name, unit string, a, b, change, low, high, floor float64, verdict string) Metric {
	return Metric{Name: name, Unit: unit, A: &a, B: &b, Change: &change, Low: &low, High: &high, Floor: &floor, Verdict: verdict, Main: true,
		Sentence: "B's " + Label(name) + " is " + verdict}
}

// made is a result of all kinds of metrics, as wide as they get, with names that a terminal must not obey.
func made() *Result {
	paired := metric("ttft.paired", "ms", 0, 0, 0.012, 0.011, 0.014, 0.006, Worse)
	paired.A, paired.B = nil, nil
	r := &Result{
		Schema: Schema, Paired: true, Requests: 12031, Scope: ScopeServers, Margin: sameWithin,
		A: Identity{Name: "results/2026-01-02T150405Z\x1b[2J", Dirs: []string{"1", "2", "3"}, Verdict: "VALID"}, B: Identity{Name: strings.Repeat("results/long/", 9) + "end", Dirs: []string{"1", "2", "3"}, Verdict: "INVALID"},
		Metrics: []Metric{
			metric("ttft.p50", "ms", 999.6, 1234.5, 0.235, 0.21, 0.26, 0.011, Worse),
			metric("ttft.p95", "ms", 61234, 61834, 0.0098, 0.0011, 0.018, 0.02, Unclear),
			metric("ttft.p99", "ms", 0.61234, 1618340, 26428.6, -0.24, 38070, 472.72, Unclear), paired,
			metric("tpot.p50", "ms", 10.01, 9.01, -0.0999, -0.12, -0.08, 0.006, Better),
			metric("tpot.p95", "ms", 10.01, 10.02, 0.001, -0.001, 0.003, 0.006, Same), metric("tpot.p99", "ms", 10.01, 10.02, 0.001, -0.001, 0.003, 0.006, Same),
			metric("tpot.paired", "ms", 10.01, 10.02, 0.001, -0.001, 0.003, 0.006, Same),
			metric("e2e.p50", "ms", 10.01, 10.02, 0.001, -0.001, 0.003, 0.006, Same), metric("e2e.p95", "ms", 10.01, 10.02, 0.001, -0.001, 0.003, 0.006, Same),
			metric("prefix_hits", "share", 0.5747, 0.5, -0.0747, -0.09, -0.06, 0.0006, Worse), metric("error_rate", "share", 0, 0.01234, 0.01234, 0, 0.02, 0, Same),
			{Name: "goodput", Unit: "share", Verdict: Unknown, Sentence: "goodput: one side or both lack it", Main: true},
			metric("output_tokens_per_s", "rate", 69925.9, 2387.4, 96, 97, 98, 0.01, Worse),
			{Name: "itl.p99", Unit: "ms", Verdict: Unknown, Sentence: "ITL p99 has no interval"},
		},
		Explained: []Culprits{{Metric: "ttft.paired", By: "uncached tokens", Words: "82 % of TTFT's change is in requests of 4,096 uncached tokens and more", Groups: []Group{
			{"below 4,096", 9000, 0.2, 100, 101}, {"4,096 and more", 3031, 0.82, 400, 444}, {"none", 1, -0.02, 1, 0}}}},
		Notes: []string{"B has a run whose measurement is INVALID: its own report says why"},
	}
	return r
}

// TestScreen: one screen of 80x24, all in a file, all metrics with --full.
func TestScreen(t *testing.T) {
	for name, o := range map[string]PrintOptions{
		"screen": {Width: 80, Colour: true}, "file": {}, "full": {Width: 80, Full: true},
	} {
		var out bytes.Buffer
		must.Do(t, Print(&out, made(), o))
		golden := filepath.Join("testdata", name+".txt")
		if *update {
			must.Do(t, os.WriteFile(golden, out.Bytes(), 0o644))
		}
		if want, err := os.ReadFile(golden); err != nil || out.String() != string(want) {
			t.Errorf("%s: %v, got\n%s", name, err, out.String())
		}
		plain := regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(out.String(), "")
		expect.Lacks(t, plain, "\x1b", "%s obeys a name", name)
		for _, row := range regexp.MustCompile(`(?m)^  (TTFT|TPOT|output) .*$`).FindAllString(plain, -1) {
			for _, end := range []int{18, 27, 36, 45, 63} { // cells begin with a space
				if cells := []rune(row); cells[end] != ' ' || cells[62] == ' ' || cells[64] == ' ' {
					t.Errorf("%s: cells touch at column %d, or end elsewhere: %q", name, end, row)
				}
			}
		}
		for line := range strings.Lines(plain) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
				t.Errorf("%s: %d columns: %s", name, n, line)
			}
		}
		if n := strings.Count(plain, "\n"); name == "screen" && n > screenLines {
			t.Errorf("%d lines on a screen", n)
		}
		if got, want := strings.Contains(out.String(), "\x1b["), o.Colour; got != want {
			t.Errorf("%s has colours: %v", name, got)
		}
	}
}

// TestMarkdown: the table of the screen, what becomes of gates, and what changed.
func TestMarkdown(t *testing.T) {
	var b bytes.Buffer
	must.Do(t, Markdown(&b, made(), []Gate{gateOf(t, "ttft.p50:+5%")}))
	for _, want := range []string{
		"\n| TTFT p50 | 1.00 s | 1.23 s | +23.5 % | \\[21.0, 26.0] % | worse |\n",
		"\n- **FAILED** ttft.p50:+5%: +23.5 % \\[21.0, 26.0], worse\n", "\n- note: B has a run whose measurement is INVALID",
	} {
		expect.Contains(t, b.String(), want, b.String())
	}
	for _, bad := range []string{"ITL", "\x1b"} {
		if strings.Contains(b.String(), bad) {
			t.Errorf("%q in\n%s", bad, b.String())
		}
	}
}

// TestNothingChanged: only what is the same within a margin is said to be the same. Of all else it is said how far the
// first latency that is known may differ, and never more or less than its interval has.
func TestNothingChanged(t *testing.T) {
	of := func(name, verdict string, low, high float64) Metric {
		return metric(name, "ms", 1, 1, 0, low, high, 0.1, verdict)
	}
	without := of("ttft.paired", Unknown, 0, 0)
	without.Low, without.High = nil, nil
	near, far, same := of("ttft.paired", Unclear, -0.1, 0.02), of("tpot.paired", Unknown, -0.2, 45), of("e2e.paired", Same, -0.001, 0.001)
	for says, all := range map[string][]Metric{
		"A and B are the same, within 1 %":                                                               {same},
		"no difference between A and B is sure; a typical TTFT may differ by up to 10.0 %":               {of("ttft.p50", Unclear, -0.5, 0.1), near, same},
		"no difference between A and B is sure; a typical TPOT may differ by an unknown amount":          {without, far},
		"A and B are the same, within 1 %, in 2 of 3 numbers; a typical TTFT may differ by up to 10.0 %": {near, same, of("e2e.p50", Same, -0.001, 0.001)},
		"12 requests in these runs do not tell whether B differs from A":                                 {without},
	} {
		r := &Result{Paired: true, Metrics: all, Requests: 12, Margin: sameWithin}
		var out bytes.Buffer
		must.Do(t, Print(&out, r, PrintOptions{Width: 200}))
		expect.Contains(t, out.String(), "- "+says+"\n", out.String())
	}
}

// TestWords: each verdict says why, and fits beside the table.
func TestWords(t *testing.T) {
	r := compared(t, noisySide(t, 12, 1, 1), noisySide(t, 12, 2, 1))
	word := func(r *Result, name string) string { return named(r.Metrics, name).word() }
	expect.Equal(t, word(r, "ttft.p50"), "too few requests")
	if m := find(t, r, "ttft.p95"); m.Main { // it is the largest of twelve
		t.Errorf("%+v", m)
	}
	equal := compared(t, noisySide(t, 400, 1, 1), noisySide(t, 400, 2, 1))
	expect.Equal(t, word(equal, "ttft.paired"), "may be chance")
	slower := compared(t, noisySide(t, 400, 1, 1), noisySide(t, 400, 2, 3))
	expect.Equal(t, word(slower, "ttft.paired"), "worse (one run)")
	for _, r := range []*Result{r, equal, slower} {
		for i := range r.Metrics {
			if word := r.Metrics[i].word(); utf8.RuneCountInString(word) > 16 {
				t.Errorf("%q has more than 16 columns", word)
			}
		}
	}
}

// TestTitles: the title begins with failures, sure or not, and with a load that was too high. Then it has what changed
// most as a ratio, whichever way it went, and what may have. Of what survived nothing is called a gain. It is a sentence
// of at most 20 words. The truth is that of the made servers.
func TestTitles(t *testing.T) {
	failing := func(seed uint64, every int, ttft float64) func(i int) served {
		of := noisy(seed, ttft)
		return func(i int) served {
			s := of(i)
			if every > 0 && i*7%400%every == 0 {
				s.outcome = record.HTTPError
			}
			return s
		}
	}
	queue := func(i int) served { // it serves four requests in five, and the others wait
		return served{ttft: 100 + 25*float64(i), tpot: 20, cached: 500}
	}
	sides := func(serve func(seed uint64) func(i int) served) (all []*Side) {
		dirs := []string{}
		for seed := range uint64(3) {
			dirs = append(dirs, write(t, 400, nil, serve(seed)))
		}
		return []*Side{side(t, dirs[0]), side(t, dirs...)}
	}
	sound := sides(func(seed uint64) func(i int) served { return failing(10+seed, 0, 1) })
	equal := sides(func(seed uint64) func(i int) served { return failing(20+seed, 0, 1) })
	tenth := sides(func(seed uint64) func(i int) served { return failing(30+seed, 10, 1) })
	other := sides(func(seed uint64) func(i int) served { return failing(40+seed, 10, 1) })
	slow := sides(func(seed uint64) func(i int) served { return failing(50+seed, 10, 2) })
	fast := sides(func(seed uint64) func(i int) served { return failing(60+seed, 10, 0.5) })
	flooded := sides(func(uint64) func(i int) served { return queue })
	calm := sides(func(uint64) func(i int) served {
		return func(int) served { return served{ttft: 100, tpot: 20, cached: 500} }
	})
	failedFast := sides(func(seed uint64) func(i int) served { return failing(70+seed, 10, 0.5) })
	for name, c := range map[string]struct {
		a, b []*Side
		want [2]string // of one run a side, and of three
	}{
		"a tie":         {sound, equal, [2]string{`^(No difference between A and B is sure; a typical TTFT may differ by up to [\d.]+ %|A and B are the same, within 1 %)$`, `^(No difference between A and B is sure; a typical TTFT may differ by up to [\d.]+ %|A and B are the same, within 1 %)$`}},
		"B fails":       {sound, tenth, [2]string{`^B failed 40 of 400 requests \(10 %\), A none; B was worse: output tokens/s −[\d.]+ %; one run a side$`, `^B failed 120 of 1,200 requests \(10 %\), A none; B is worse: output tokens/s −[\d.]+ %$`}},
		"A fails":       {tenth, sound, [2]string{`^B failed none of 400 requests, A 40 \(10 %\); B was better: output tokens/s \+`, `^B failed none of 1,200 requests, A 120 \(10 %\); B is better: output tokens/s \+`}},
		"both fail":     {tenth, other, [2]string{`^B failed 40 of 400 requests \(10 %\), A 40 \(10 %\), no difference$`, `^B failed 120 of 1,200 requests \(10 %\), A 120 \(10 %\), no difference$`}},
		"B fails, slow": {sound, slow, [2]string{`^B failed 40 of 400 requests \(10 %\), A none; B was slower: TTFT \+(9|10)\d %`, `^B failed 120 of 1,200 requests \(10 %\), A none; B is slower: TTFT \+(9|10)\d %`}},
		"B fails, fast": {sound, fast, [2]string{`^B failed 40 of 400 requests \(10 %\), A none; TTFT −[\d.]+ % is of the requests that survived$`, `^B failed 120 of 1,200 requests \(10 %\), A none; TTFT −[\d.]+ % is of the requests that survived$`}},
		"both, B slow":  {tenth, slow, [2]string{`^B failed 40 of 400 .*, no difference; B was slower: TTFT \+(9|10)\d %`, `^B failed 120 of 1,200 .*, no difference; B is slower: TTFT \+(9|10)\d %`}},
		"a queue":       {calm, flooded, [2]string{`^B was overloaded; B was perhaps slower: TTFT 50\.9 ×, E2E \+453 %$`, `^B was overloaded; B is slower: TTFT 50\.9 ×, E2E \+453 %`}},
		"no queue":      {flooded, calm, [2]string{`^A was overloaded; B was perhaps faster: TTFT −98(\.0)? %, E2E −8[12](\.\d)? %`, `^A was overloaded; B is faster: TTFT −98(\.0)? %, E2E −8[12](\.\d)? %`}},
		"not a gain":    {flooded, failedFast, [2]string{`^B failed 40 of 400 requests \(10 %\), A none; A was overloaded; TTFT −[\d.]+ % is of the requests that survived$`, `^B failed 120 of 1,200 requests \(10 %\), A none; A was overloaded; `}},
	} {
		for i, want := range c.want {
			got := strings.ReplaceAll(compared(t, c.a[i], c.b[i]).title("B"), "\u00a0", " ")
			if words := len(regexp.MustCompile(`\S*[\pL\d]\S*`).FindAllString(got, -1)); words > 20 || !regexp.MustCompile(want).MatchString(got) {
				t.Errorf("%s, %d runs a side: %q, want %s", name, 1+2*i, got, want)
			}
		}
	}
}

// TestFailuresOfFew: of few requests the counts are said first, and that they tell nothing; latencies of those that
// survived are no gain. The doubt of one pair of runs is said once, and rows say which way they went.
func TestFailuresOfFew(t *testing.T) {
	of := func(n, every int, ttft float64) *Side {
		return side(t, write(t, n, nil, func(i int) (s served) {
			if s = noisy(uint64(n), ttft)(i); every > 0 && i%every == 0 {
				s.outcome = record.HTTPError
			}
			return s
		}))
	}
	few := compared(t, of(12, 0, 1), of(12, 4, 0.5))
	expect.Equal(t, few.title("B"), "B failed 3 of 12 requests (25\u00a0%), A none, which may be chance")
	for name, want := range map[string]string{"A": "A none, which may be chance; A had an outage", "B": "A none; B had an outage"} {
		sides := map[string]*Side{"A": of(12, 0, 1), "B": of(12, 4, 0.5)}
		sides[name].runs[0].summary.Outages = []metrics.Outage{{Target: "http://a:1", Failed: 3}}
		expect.Equal(t, compared(t, sides["A"], sides["B"]).title("B"), "B failed 3 of 12 requests (25\u00a0%), "+want)
	}
	facts, _ := few.said(false)
	expect.Contains(t, facts[0], "B failed 3 of 12 requests (25 %), A none; ")
	expect.Lacks(t, strings.Join(facts, " "), "− ", "changes")
	many := compared(t, of(400, 0, 1), of(400, 4, 0.5))
	facts, doubts := many.said(false)
	expect.Contains(t, doubts[0], "B failed more, so that the answers it gave came sooner is no gain: TTFT −", "doubts")
	expect.Equal(t, strings.Count(strings.Join(facts, "\n"), "these runs"), 0, facts)
	for _, f := range many.findings() { // one run a side is neither red nor green
		expect.Equal(t, f.Grade, chart.Warn, f.Word)
	}
	for _, row := range many.table(many.bySize()).Rows {
		latency := regexp.MustCompile("TTFT|E2E").MatchString(row[0].Text)
		if last := row[len(row)-1]; last.Text == Differs || latency && last.Mark != chart.Quiet || row[0].Text == "error rate" && (last.Text != "worse (one run)" || last.Mark != chart.Warn) {
			t.Errorf("%+v", row)
		}
	}
	drawn := forest(many.bySize())[0]
	for _, lane := range drawn.Lanes[1:3] {
		expect.Equal(t, drawn.Kinds[lane[0].Kind], "sooner, but fewer were answered")
	}
}

// TestOtherWorkloads: that nothing can be told stands first, in the title, and in the colour of failures.
func TestOtherWorkloads(t *testing.T) {
	a, b := noisySide(t, 400, 1, 1), side(t, write(t, 400, func(s *metrics.Summary) { s.Workload.Fingerprint = "sha256:2" }, noisy(2, 9)))
	r := must.Have(Compare(a, b, true))(t)
	facts, _ := r.said(false)
	expect.Contains(t, facts[0], "the workloads differ, so")
	expect.List(t, r.table(r.Metrics).Head, []string{"", "A", "B"})
	var out bytes.Buffer
	must.Do(t, HTML(&out, []*Result{r}))
	for _, want := range []string{`"title":"A and B replayed different workloads, so nothing here compares their servers"`, `"grade":"bad","word":"Different workloads: nothing below compares the servers"`} {
		expect.Contains(t, out.String(), want, "the page")
	}
}

// TestSpread: what is spread over all requests is said once of all latencies.
func TestSpread(t *testing.T) {
	all := []Culprits{{Metric: "ttft.paired", Words: "a"}, {Metric: "tpot.p50", Groups: []Group{{}}, Words: "b"}, {Metric: "e2e.p95", Words: "c"}}
	expect.List(t, explained(all), []string{"b", "the change of TTFT, E2E is spread over all requests: no group has more than its part"})
}

// page is that of a comparison of two made runs, and what is in it.
func page(t *testing.T) (text string, d chart.Document, r *Result) {
	t.Helper()
	r = compared(t, noisySide(t, 400, 1, 100), noisySide(t, 400, 2, 120))
	r.Explained, r.Notes = append(r.Explained, made().Explained...), []string{"<img src=x onerror=alert(1)>"}
	var out bytes.Buffer
	must.Do(t, HTML(&out, []*Result{r, r}))
	_, data, _ := strings.Cut(out.String(), `id="data">`)
	data, _, _ = strings.Cut(data, "</script>")
	must.Do(t, json.Unmarshal([]byte(data), &d))
	return out.String(), d, r
}

// TestPage: all metrics, the forest of those that have intervals.
func TestPage(t *testing.T) {
	_, d, r := page(t)
	changes := d.Sections[1]
	expect.Equal(t, len(d.Sections[2].Tables[0].Rows), len(r.Metrics))
	drawn, at, bySize := changes.Graphs[0], 0, r.bySize()
	for i := range bySize {
		m := &bySize[i]
		if sure := i == 0 || bySize[i-1].changed() && math.Abs(*bySize[i-1].Change) >= math.Abs(*m.Change); m.changed() && !sure {
			t.Errorf("%s stands below a smaller or an unsure change", m.Name)
		}
		if m.Low == nil {
			continue
		}
		lane := drawn.Lanes[at]
		interval, point := lane[len(lane)-2], lane[len(lane)-1]
		if interval.From != *m.Low || interval.To != *m.High || math.Abs((point.From+point.To)/2-*m.Change) > 1e-9 ||
			(m.changed() && *drawn.X.To < *m.High) {
			t.Errorf("%s is drawn as %+v", m.Name, lane)
		}
		at++
	}
	if at != len(drawn.Rows) || at == 0 {
		t.Errorf("%d rows, want %d", len(drawn.Rows), at)
	}
	if !strings.HasPrefix(d.Title, "B was slower: ") || !strings.HasSuffix(bySize[0].Name, "paired") {
		t.Errorf("the title is %q, and the first metric %s", d.Title, bySize[0].Name)
	}
	absurd := 1e51 // if most intervals are, the changes themselves are still seen
	for i := range bySize {
		bySize[i].High, bySize[i].Verdict = &absurd, Unclear
	}
	if to := *forest(bySize)[0].X.To; to > 100 {
		t.Errorf("the axis goes to %v", to)
	}
}

// TestPageInBrowser: the browser draws all graphs, shows hostile texts as texts, and finds no fault.
func TestPageInBrowser(t *testing.T) {
	browser, err := exec.LookPath("chromium")
	if err != nil || testing.Short() {
		t.Skip("needs chromium, and is left out of -short")
	}
	text, d, _ := page(t)
	graphs := 0
	for _, s := range d.Sections {
		graphs += len(s.Graphs)
	}
	name := filepath.Join(t.TempDir(), "compare.html")
	must.Do(t, os.WriteFile(name, []byte(text), 0o644))
	c := exec.CommandContext(t.Context(), browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--user-data-dir="+t.TempDir(), "--dump-dom", "file://"+name)
	var said bytes.Buffer
	c.Stderr = &said
	dom, err := c.Output()
	if err != nil || strings.Contains(said.String(), "CONSOLE") {
		t.Errorf("%v; the browser's console:\n%s", err, said.String())
	}
	expect.Equal(t, strings.Count(string(dom), "<canvas"), graphs)
	expect.Lacks(t, string(dom), "<img", "a hostile text became an element")
}
