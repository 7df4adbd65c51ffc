package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/chart"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/stats"
)

const (
	fewestLines = 20 // that Screen may have on any terminal
	otherLines  = 4  // of a terminal: the command and the next prompt, each perhaps wrapped
	leastWidth  = 60 // columns; narrower terminals wrap
	mostWidth   = 100
	screenLabel = 15 // columns of a label, the two before it included
)

// How soon lines are left out if the screen has too many: those of the largest number first, of equal ones the last.
const (
	always = iota // the verdict, requests, failures, latencies, and at the end reasons with remedies
	first         // what the user asked for, what marks mean, and where the results are
	second        // what the servers and this machine did, and why
	third         // further words about these
	blank
)

// screen gathers the lines of the one screen that shows a run.
type screen struct {
	s     *metrics.Summary
	o     PrintOptions
	width int
	lines []screenLine
}

type screenLine struct {
	text string
	rank int
	goes bool // on with the line before
}

// Screen writes what a run found, on a terminal in at most 20 lines, or as many as it has room for. What is left out
// there is counted. Last comes what failed, why a measurement is not valid and what to do, so that this stays in
// sight. All text from outside is shown as format.Visible has it.
func Screen(w io.Writer, s *metrics.Summary, o PrintOptions) error {
	p := &screen{
		s:     s,
		o:     o,
		width: min(max(cmp.Or(o.Width, 80), leastWidth), mostWidth),
	}
	p.head()
	if o.Quiet {
		p.objectives()
	} else {
		p.numbers()
	}
	p.files()
	p.add(blank, "")
	p.reasons()
	p.shorten()
	if n := len(p.lines); p.lines[n-1].text == "" {
		p.lines = p.lines[:n-1]
	}
	var b strings.Builder
	for _, l := range p.lines {
		b.WriteString(strings.TrimRight(l.text, " ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// numbers adds all that stands between the verdict and where the results are.
func (p *screen) numbers() {
	p.add(blank, "")
	p.requests()
	p.prefixCache()
	p.steady()
	p.jobs()
	p.add(blank, "")
	p.latencies()
	p.add(blank, "")
	p.goodput()
	p.objectives()
	p.targets()
	p.routing()
	p.shards()
	if !DemoWorked(p.s) { // which says it at its end
		p.client()
	}
	p.add(blank, "")
}

// bounded reports whether there is a terminal, the lines of which are limited.
func (p *screen) bounded() bool { return p.o.Width > 0 && !p.o.whole }

// shorten leaves lines out, and counts them where it says how to see them.
func (p *screen) shorten() {
	most := max(fewestLines, p.o.Height-otherLines)
	for left := 0; p.bounded() && len(p.lines) > most; {
		last := 0
		for i := range p.lines {
			if p.lines[i].rank >= p.lines[last].rank {
				last = i
			}
		}
		from := last
		for p.lines[from].goes {
			from--
		}
		if p.lines[last].text != "" {
			left += last + 1 - from
		}
		p.lines = slices.Delete(p.lines, from, last+1)
		if more := slices.IndexFunc(p.lines, func(l screenLine) bool {
			return strings.Contains(l.text, "fastreplay report")
		}); more >= 0 && left > 0 {
			text, _, _ := strings.Cut(p.lines[more].text, " --full")
			p.lines[more].text = text + " --full (" + format.Many(left, "line") + " more)"
		}
	}
}

// add adds a line, in which what came from outside is Visible already.
func (p *screen) add(rank int, text string) {
	if n := len(p.lines); text != "" || n > 0 && p.lines[n-1].text != "" {
		p.lines = append(p.lines, screenLine{text: text, rank: rank})
	}
}

const bold, dim, red, green, yellow = "1", "2", "1;31", "1;32", "1;33"

// field adds a label and its parts, on a terminal in at most so many lines. Parts that do not fit there are left out,
// and counted.
func (p *screen) field(rank, most int, label string, parts ...string) {
	parts = format.Present(parts...)
	for i := range parts {
		parts[i] = p.fitted(format.Visible(parts[i]), p.width-screenLabel)
	}
	lines := p.filled(label, parts)
	for n := len(parts) - 1; p.bounded() && len(lines) > most; n-- {
		lines = p.filled(label, append(slices.Clone(parts[:n]), fmt.Sprintf("and %d more: --full", len(parts)-n)))
	}
	for i, line := range lines {
		if i > 0 && rank > first {
			rank = third
		}
		line = strings.TrimSuffix(line, "\n")
		rest := strings.ReplaceAll(line[screenLabel:], "✓", p.o.paint(green, "✓"))
		p.add(rank, p.o.paint(dim, line[:screenLabel])+strings.ReplaceAll(rest, "✗", p.o.paint(red, "✗")))
	}
}

// filled are the lines that parts fill.
func (p *screen) filled(label string, parts []string) []string {
	page := format.NewPage(p.width, screenLabel)
	page.Width = p.width
	page.Field(label, parts...)
	return slices.Collect(strings.Lines(string(page.Bytes())))
}

// fitted leaves out words at the end that a terminal has no room for.
func (p *screen) fitted(text string, columns int) string {
	r := []rune(text)
	if len(r) <= columns || !p.bounded() {
		return text
	}
	head := string(r[:max(0, columns-2)])
	if at := strings.LastIndexByte(head, ' '); at > len(head)/2 {
		head = head[:at]
	}
	return head + " …"
}

// head adds the verdict, how many requests failed, what was replayed, to whom and how long. Parts that have no room
// are left out.
func (p *screen) head() {
	s := p.s
	word, style := Word(s)
	if s.Run.Partial {
		word += " (partial)"
	}
	lead := p.o.paint(style, word) + format.Gap
	if text := s.Failed(); text != "" {
		word = word + format.Gap + text
		lead = lead + p.o.paint(red, text) + format.Gap
	} else if text := few(s); text != "" {
		word = word + format.Gap + text
		lead = lead + text + format.Gap
	}
	tail := format.Gap + s.Length()
	room := p.width - format.Columns(word+format.Gap+tail)
	parts, what := title(s), ""
	parts[0] = shorten(parts[0], max(12, room-format.Columns(parts[1]+parts[2])))
	for _, part := range append(parts, format.Gap+format.Visible(path.Base(s.Run.Model)),
		format.Gap+format.Visible(s.Run.API)) {
		if format.Columns(what+part) <= room && strings.Trim(part, " .") != "" {
			what += part
		}
	}
	p.add(always, lead+what+tail)
}

// fewRequests is how many requests no verdict can be proud of: below it a p99 is the maximum.
const fewRequests = 100

// few says over how few requests a verdict is; "" if they are enough, or if the words on failures say it.
func few(s *metrics.Summary) string {
	n := s.Requests.OK
	if n == 0 || n >= fewRequests || s.Requests.Failed > 0 {
		return ""
	}
	return "over " + format.Many(n, "request") + " only"
}

// Title says what a run replays, how, and where it goes; as the trace and the servers are called.
func Title(s *metrics.Summary) string { return strings.Join(title(s), "") }

func title(s *metrics.Summary) []string {
	load := filepath.Base(s.Workload.Trace)
	switch {
	case s.Workload.Trace == "":
		load = "unknown trace"
	case strings.HasPrefix(s.Workload.Trace, "gen:"):
		load = "made trace"
	}
	return []string{format.Visible(load), format.Visible(paceOf(s)), " → " + format.Visible(whither(s))}
}

// paceOf is how a run's times differ from those of its trace: " ×2, load ×3", ", closed loop of 8", or ", 8 lanes ×2".
func paceOf(s *metrics.Summary) string {
	pace := ", " + s.Run.Pace
	scale := cmp.Or(s.Run.Scale, 1)
	if s.Run.Pace == "" || s.Run.Pace == metrics.TraceTime {
		pace = ""
	}
	if pace == "" || scale != 1 {
		pace += " ×" + strconv.FormatFloat(scale, 'g', -1, 64)
	}
	if s.Amplify != nil {
		pace += fmt.Sprintf(", load ×%g", s.Amplify.Factor)
	}
	return pace
}

// Word is what the verdict on a run is called, with the ANSI style that it has.
func Word(s *metrics.Summary) (word, style string) {
	switch {
	case DemoWorked(s):
		return "DEMO", green
	case s.Verdict.Measurement == metrics.Valid:
		return "VALID", green
	case s.Verdict.Measurement == metrics.Limited:
		return "LIMITED", yellow
	}
	return "INVALID", red
}

// whither names where requests went.
func whither(s *metrics.Summary) string {
	switch n := len(s.Run.Targets); {
	case s.Run.Demo:
		return "embedded mock"
	case n == 1:
		return shortURL(s.Run.Targets[0])
	case n == 0:
		return "unknown server"
	default:
		return format.Many(n, "target")
	}
}

// requests adds what became of the requests, and how those failed that did.
func (p *screen) requests() {
	r := &p.s.Requests
	sent := ""
	switch all := p.s.Workload.Requests; {
	case r.Planned < all: // what a killed run left
		sent = format.Count(r.Planned) + " of " + format.Counted(all, "recorded")
	case r.Sent < r.Planned:
		sent = format.Count(r.Sent) + " of " + format.Counted(r.Planned, "sent")
	}
	rates, waited := p.s.Throughput, ""
	if u := p.s.UnderLoad; u.UntilS > 0 {
		rates = u.Throughput
		if more := p.s.Run.DurationS - u.UntilS; more > 0.05*u.UntilS && u.Waiting > 0 {
			waited = format.Seconds(more) + " more waiting for " + format.Many(u.Waiting, "request")
		}
	}
	failed := format.Counted(r.Failed, "failed")
	p.field(always, 3, "requests", sent, format.Counted(r.OK, "ok"), failed,
		format.Some(r.ByOutcome[record.NotSent.String()]-p.s.Workload.LeftOut, "not sent"),
		format.Some(p.s.Workload.LeftOut, "left out"),
		format.Some(r.ByOutcome[record.Cancelled.String()], "cancelled"),
		format.Some(r.Resent, "sent again"), format.Rate(rates.RequestsPerS)+"/s",
		format.Rate(rates.OutputTokensPerS)+" output tok/s", waited)
	if r.Failed > 0 {
		for i := 1; i < len(p.lines); i++ {
			p.lines[i].text = strings.Replace(p.lines[i].text, failed, p.o.paint(red, failed), 1)
		}
	}
	for _, example := range []int{math.MaxInt, 30, 0} {
		var kinds []string
		for i := range r.Failures {
			kinds = append(kinds, p.failure(&r.Failures[i], example))
		}
		if example == 0 || !p.bounded() || len(p.filled("", kinds)) <= 2 {
			p.field(always, 2, "failed", kinds...)
			break
		}
	}
}

// failure describes requests that failed alike: 3 × HTTP 503 "busy". The example has at most so many columns; 0
// leaves it out.
func (p *screen) failure(f *metrics.Failure, example int) string {
	text := format.Count(f.Count) + " × " + strings.ReplaceAll(f.Outcome, "_", " ")
	if f.Outcome == record.HTTPError.String() {
		text = fmt.Sprintf("%s × HTTP %d", format.Count(f.Count), f.Status)
	} else if f.Phase == metrics.PhaseStream {
		text += " in the stream"
	}
	if f.Example != "" && example > 0 {
		text += " " + strconv.Quote(p.fitted(f.Example, min(example, p.width-screenLabel-format.Columns(text)-3)))
	}
	return text
}

// prefixCache adds the hits beside the ideal, and what the servers reported of their queues.
func (p *screen) prefixCache() {
	c := p.s.PrefixCache
	parts := []string(nil)
	hit := cmp.Or(c.HitRatio, c.ReportedHitRatio)
	switch {
	case hit != nil:
		parts = append(parts, format.Percent(*hit), ideal(c))
	case c.ExpectedHitRatio != nil || c.ExpectedRange != nil:
		parts = append(parts, "not reported", ideal(c))
	}
	if r := c.Recorded; r != nil {
		parts = append(parts, format.Percent(*r.RecordedHitRatio)+" recorded")
	}
	if r := p.s.Routing; r != nil && parts != nil {
		parts[1] += " as placed"
		parts = append(parts, format.Percent(r.OneCacheRatio)+" in one cache")
	}
	if s := p.s.Servers; s != nil && !s.All.Alternates {
		if s.All.Waiting != nil {
			parts = append(parts, "queue max "+plain(s.All.Waiting.Max))
		}
		parts = append(parts, known(plain, s.All.Preemptions, "preempted"))
		if s.All.KVUsage != nil {
			parts = append(parts, "KV max "+format.Percent(s.All.KVUsage.Max))
		}
	}
	p.field(second, 2, "prefix hits", parts...)
}

// steady adds why a part of the run was taken, and what answers cost in money and energy.
func (p *screen) steady() {
	number := func(v float64) string { return format.Number(v, 3) }
	if w := p.s.Window; w != nil && w.Band > 0 {
		p.field(first, 2, "steady", number(w.Least)+" to "+number(w.Most)+" in flight",
			"within "+format.Percent(w.Band)+" of the median "+number(w.Level))
	}
	if c := p.s.Cost; c != nil {
		p.field(first, 2, "cost", known(number, c.PerMOutput, "per 1M output tok"),
			known(number, c.PerMInput, "input"), known(number, c.PerMTokens, "both"),
			known(number, c.PerRequest, "a request"),
			fmt.Sprint(c.PerHour)+" an hour for all servers")
	}
	if e := p.s.Energy; e != nil {
		p.field(first, 1, "energy", known(number, e.PerToken, "J/token"),
			known(number, e.PerOutput, "J/output token"), known(number, e.PerOK, "J/request"),
			number(p.s.Servers.All.PowerW.Mean)+" W")
	}
}

// latencies adds a row for each latency: percentiles and their p99 by time.
func (p *screen) latencies() {
	const label, column = 9, 10
	head := format.Left("", label)
	wide := p.width - label - 4*column - 2
	for _, name := range []string{"p50", "p90", "p99", "max"} {
		head += format.Right(name, column)
	}
	byTime := map[string]string{}
	steps := p.o.Steps
	if w := p.s.Window; w != nil {
		steps = slices.DeleteFunc(slices.Clone(steps), func(t metrics.Step) bool {
			return t.FromS+t.ToS < 2*w.FromS || t.FromS+t.ToS > 2*w.ToS
		})
	}
	if len(steps) > 0 && wide >= 8 {
		byTime = p99ByTime(steps, min(wide, 24))
		head += map[bool]string{true: "  p99 by time", false: "  by time"}[wide >= len("p99 by time")]
	}
	few, unsafe := "", "" // what marks mean
	var rows []string
	for _, l := range shownLatencies(p.s, metrics.OnScreen) {
		row := format.Left("  "+l.label, label)
		for _, v := range []struct {
			name     string
			value    float64
			quantile float64
		}{{"p50", l.q.P50, 0.5}, {"p90", l.q.P90, 0.9}, {"p99", l.q.P99, 0.99}, {"max", l.q.Max, 0}} {
			mark := ""
			if v.quantile > 0 && l.q.Count > 0 &&
				!p.s.Enough(l.key, int64(math.Round(1000*v.quantile)), l.q.Count) {
				mark = "~"
				few = "~ too few values (" + format.Count(l.q.Count) + ")"
			}
			if slices.ContainsFunc(p.s.Verdict.Unsafe, func(u metrics.Unsafe) bool {
				return u.Metric == l.key && u.Percentile == v.name
			}) {
				mark = "!"
				unsafe = "! moved by this client's lateness"
			}
			text := mark + format.Duration(v.value*l.unitNS, 3)
			if strings.HasSuffix(text, " s") {
				text += " " // units of two columns, so that numbers align
			}
			row += format.Right(text, column)
		}
		rows = append(rows, row+"  "+p.o.paint("36", byTime[l.key]))
	}
	if rows == nil {
		p.field(always, 1, "latencies", "none: no request ended ok")
		return
	}
	p.add(always, p.o.paint(dim, head))
	for _, row := range rows {
		p.add(always, row)
	}
	p.field(first, 1, "", few, unsafe)
}

// p99ByTime draws the largest p99 of each latency in each of n equal parts of a run.
func p99ByTime(steps []metrics.Step, n int) map[string]string {
	highest := map[string][]int64{}
	from := math.Inf(1)
	end := 0.0
	for i := range steps {
		from = min(from, steps[i].FromS)
		end = max(end, steps[i].ToS)
	}
	for i := range steps {
		s := &steps[i]
		at := min(n-1, int(((s.FromS+s.ToS)/2-from)/(end-from)*float64(n)))
		for k, l := range metrics.Latencies() {
			ms := s.Percentile(k, 990)
			if l.Shown != metrics.OnScreen || ms == nil {
				continue
			}
			if highest[l.Key] == nil {
				highest[l.Key] = make([]int64, n)
			}
			highest[l.Key][at] = max(highest[l.Key][at], int64(*ms*1e6))
		}
	}
	drawn := map[string]string{}
	for name, ns := range highest {
		drawn[name] = strings.TrimRight(chart.Skyline(ns, 1)[0], " ")
	}
	return drawn
}

func (p *screen) goodput() {
	g := p.s.Goodput
	if g == nil {
		return
	}
	parts := []string{format.Count(g.Requests) + " of " +
		format.Counted(p.s.Requests.Planned-p.s.Workload.LeftOut, "good")}
	if g.Share != nil {
		parts[0] += " (" + format.Percent(*g.Share) + ")"
	}
	for _, l := range metrics.Latencies() {
		if ms, bound := g.SLO[l.Key+"_ms"]; bound && g.Missed[l.Key] > 0 {
			parts = append(parts,
				format.Count(g.Missed[l.Key])+" × "+l.Label+" > "+strconv.FormatFloat(ms, 'f', -1, 64)+" ms")
		}
	}
	p.field(first, 2, "goodput", parts...)
}

// objectives adds what the user wanted.
func (p *screen) objectives() {
	p.field(first, 3, "objectives", objectiveLines(&p.s.Verdict)...)
}

// targets adds a line about several targets or instances, and one for each of those that stand out.
func (p *screen) targets() {
	var parts []metrics.Part
	what := "targets"
	for _, t := range p.s.Targets {
		hit := cmp.Or(t.ReportedHitRatio, t.CountedHitRatio)
		parts = append(parts,
			metrics.Part{
				Name:             shortURL(t.URL),
				Requests:         t.Requests,
				Failed:           t.Failed,
				ReportedHitRatio: hit,
				PartLatencies:    metrics.PartLatencies{TTFTMS: t.TTFTMS},
			})
	}
	if i := p.s.Instances; i != nil && len(i.Parts) > len(parts) {
		what, parts = "instances", i.Parts
	}
	if len(parts) < 2 {
		return
	}
	fewest := parts[0].Requests
	most := parts[0].Requests
	var tails []float64
	for _, t := range parts {
		fewest = min(fewest, t.Requests)
		most = max(most, t.Requests)
		if t.TTFTMS != nil {
			tails = append(tails, t.TTFTMS.P99)
		}
	}
	slices.Sort(tails)
	spread := ""
	if len(tails) > 0 {
		spread = "TTFT p99 " + format.Duration(tails[0]*1e6, 3) + " to " + format.Duration(tails[len(tails)-1]*1e6, 3)
	}
	each := format.Many(most, "request")
	if fewest < most {
		each = format.Count(fewest) + " to " + each
	}
	p.field(second, 2, what, fmt.Sprintf("%d with %s each", len(parts), each), spread)
	for _, t := range standOut(parts, tails) {
		tail := ""
		if t.TTFTMS != nil {
			tail = "TTFT p99 " + format.Duration(t.TTFTMS.P99*1e6, 3)
		}
		p.field(third, 1, "", "! "+shorten(format.Visible(t.Name), 30), format.Some(t.Failed, "failed"), tail,
			known(format.Percent, t.ReportedHitRatio, "hits"))
	}
}

// standOut returns at most three parts, the worst first. They failed more than twice as often as all do, or their p99
// is above twice the median of tails, which are sorted.
func standOut(parts []metrics.Part, tails []float64) []metrics.Part {
	var requests, failed int64
	for _, t := range parts {
		requests += t.Requests
		failed += t.Failed
	}
	usual := float64(failed) / float64(max(1, requests))
	score := func(t metrics.Part) (v float64) {
		if share := float64(t.Failed) / float64(max(1, t.Requests)); share > 2*usual || share > 0.5 {
			v = 1000 * share
		}
		if len(tails) > 1 && t.TTFTMS != nil &&
			t.TTFTMS.P99 > 2*tails[(len(tails)-1)/2] {
			v += t.TTFTMS.P99 / tails[(len(tails)-1)/2]
		}
		return v
	}
	out := slices.DeleteFunc(slices.Clone(parts), func(t metrics.Part) bool { return score(t) == 0 })
	slices.SortStableFunc(out, func(a, b metrics.Part) int {
		return cmp.Compare(score(b), score(a))
	})
	return out[:min(3, len(out))]
}

// routing adds the routers that would have had more hits. Those that overload an instance come last.
func (p *screen) routing() {
	r := p.s.Routing
	if r == nil || r.Actual == nil {
		return
	}
	var even, uneven []string
	for _, o := range r.Routers {
		switch text := r.Label(o.Router) + " " + format.Percent(o.HitRatio); {
		case o.HitRatio <= r.Actual.HitRatio:
		case o.LargestShare*float64(r.Instances) > 1.8:
			uneven = append(uneven, text+" ("+format.Percent(o.LargestShare)+" of requests at one)")
		default:
			even = append(even, text)
		}
	}
	p.field(second, 3, "if routed", append(even, uneven...)...)
}

// client adds how punctual this machine was.
func (p *screen) client() {
	s := p.s
	if lost := s.Lateness.SlotsLostShare; lost != nil {
		p.field(second, 1, "closed loop", "its slots were empty for "+format.Percent(round2(*lost))+" of the time")
	} else if q := s.DriftUS; q != nil {
		label := "on time"
		meaning := "latencies need no correction"
		switch v := &s.Verdict; {
		case len(v.Reasons) > 0 && ofMachine(v.Reasons[0]):
			label, meaning = "late", "see below"
		case len(v.Unsafe) > 0:
			label = "late"
			meaning = "may have moved what has a !"
		case slices.ContainsFunc(v.Reasons, ofMachine):
			label, meaning = "late", "see --full"
		}
		p.field(second, 2, label, lateness(s), meaning)
	}
	p.field(second, 1, "machine", machineWords(s))
}

// shards says how alike the machines were that sent the load together.
func (p *screen) shards() {
	of := map[string]int{}
	var drift, clock []float64 // µs
	for i := range p.s.Shards {
		k := &p.s.Shards[i]
		of[k.State]++
		if k.DriftP99US != nil {
			drift = append(drift, *k.DriftP99US*1e3)
		}
		if k.ClockUS != nil && i > 0 {
			clock = append(clock, math.Abs(*k.ClockUS)*1e3)
		}
	}
	if len(of) == 0 {
		return
	}
	words := []string{format.Count(len(p.s.Shards))}
	for _, state := range []string{metrics.ShardEnded, metrics.ShardMissing} {
		if n := of[state]; n > 0 {
			words = append(words, fmt.Sprintf("%d %s", n, state))
		}
	}
	if len(drift) > 0 {
		words = append(words,
			fmt.Sprintf("p99 %s to %s late", format.Duration(slices.Min(drift), 3),
				format.Duration(slices.Max(drift), 3)))
	}
	if len(clock) > 0 {
		words = append(words, "clocks up to "+format.Duration(slices.Max(clock), 3)+" apart")
	}
	p.field(second, 1, "shards", words...)
}

// machineWords says what the machine took from the client; "" if unknown.
func machineWords(s *metrics.Summary) string {
	m := &s.Client.Machine
	var lost []string
	if m.StolenShare != nil {
		lost = append(lost, fmt.Sprintf("its host took %s of the CPU time", format.Percent(round2(*m.StolenShare))))
	}
	if s.ThrottledShare() > 0.01 { // less does not reach the 99th percentile
		lost = append(lost, "a CPU limit stopped it for "+format.Seconds(*m.ThrottledS))
	}
	if lost == nil && s.Client.CPUS > 0 {
		lost = append(lost, "the system does not report what it lost")
	}
	if l := s.Client.LocalServers; l != nil && !s.Run.Demo {
		waited := "how long it waited for a core is unknown"
		if l.WaitedS != nil && l.Unknown == "" {
			waited = "it waited at least " + format.Seconds(*l.WaitedS) + " for a core"
		}
		where := "a server is on it, too: "
		if l.Processes == "" { // the address is, but something may forward what comes there
			where = "a server may be on it, too: "
		}
		lost = append(lost, where+waited)
	}
	return strings.Join(lost, "; ")
}

// round2 keeps of a sampled share what it deserves.
func round2(share float64) float64 { return float64(int(share*1000+0.5)) / 1000 }

// files adds where the results are and what can be done next.
func (p *screen) files() {
	if p.o.Dir == "" {
		return
	}
	dir := format.Visible(p.o.Dir)
	notes := ""
	if n := len(p.s.Notes); n > 0 {
		notes = " (" + format.Many(n, "note") + ")"
	}
	line := func(rank int, label, text string) {
		if format.Columns(text) > p.width-screenLabel { // what is cut cannot be opened
			p.add(rank, "  "+text)
		} else {
			p.field(rank, 1, label, text)
		}
	}
	if p.o.Page != "" {
		line(always, "report", format.Visible(p.o.Page))
	} else {
		line(always, "results", dir)
	}
	if p.o.Quiet {
		return
	}
	if more := "fastreplay report"; !p.o.whole {
		if filepath.Dir(p.o.Dir) != DefaultRoot {
			more += " " + dir
		}
		if w := p.s.Window; w != nil {
			more += fmt.Sprintf(" --from %v --to %v", time.Duration(w.FromS*1e9), time.Duration(w.ToS*1e9))
		}
		line(always, "more", more+" --full"+notes)
	}
	if !p.s.Run.Demo {
		again := "fastreplay "
		if p.s.Workload.Trace == "stdin" { // the trace is to be piped once more
			again += "- "
		}
		line(third, "again", again+"--config "+filepath.Join(dir, PlanName))
	}
}

// reasons adds why a measurement is not valid and what to do, or that a demo worked.
func (p *screen) reasons() {
	v := &p.s.Verdict
	if DemoWorked(p.s) {
		if !p.o.Quiet {
			p.sentence(always, 3, "machine", punctuality(p.s), "")
		}
		p.add(always, p.o.paint(green, "DEMO OK")+format.Gap+"next: fastreplay FILE --url HOST:8000")
		return
	}
	if n := v.Missed(); n > 0 {
		defer p.sentence(always, 1, "MISSED",
			fmt.Sprintf("%d of %s", n, format.Many(len(v.Objectives), "objective")), red)
	}
	p.sentence(always, 2, "FAILED", p.s.FailedWhere(), red)
	if p.unjudged() {
		p.sentence(always, 2, "exit 0", "no objective about failures was given: --max-error-rate 0.01 sets one", bold)
	}
	if len(v.Reasons) == 0 {
		return
	}
	word, style := Word(p.s)
	r := v.Reasons[0]
	more := ""
	if n := len(v.Reasons) - 1; n > 0 {
		more = "; " + format.Many(n, "further reason") + ": --full"
	}
	p.sentence(always, 2, word, r.What+more, style)
	if p.o.Quiet {
		return
	}
	p.sentence(second, 3, "why", r.Why, bold)
	p.sentence(always, 2, "do", r.Do, bold)
}

// unjudged reports whether requests failed, and the exit code is 0 since no objective is about that.
func (p *screen) unjudged() bool {
	v := &p.s.Verdict
	if p.s.Requests.Failed == 0 || p.s.Run.Partial || !v.Valid || v.Missed() > 0 {
		return false
	}
	return !slices.ContainsFunc(v.Objectives, func(o metrics.Objective) bool {
		return o.Metric == "error_rate" || o.Metric == "goodput"
	})
}

// sentence adds text behind a word, on a terminal in at most so many lines. Clauses that do not fit there are left
// out, and counted.
func (p *screen) sentence(rank, most int, word, text, style string) {
	if text == "" {
		return
	}
	const indent = 9
	page := format.NewPage(p.width, 0)
	page.Width = p.width - indent
	clauses := strings.Split(text, "; ")
	var lines []string
	for n := len(clauses); n > 0 &&
		(lines == nil || p.bounded() && len(lines) > most); n-- {
		left := ""
		if n < len(clauses) {
			left = fmt.Sprintf("; and %d more: --full", len(clauses)-n)
		}
		before := len(page.Bytes())
		page.Sentence("", strings.Join(clauses[:n], "; ")+left)
		lines = slices.Collect(strings.Lines(string(page.Bytes()[before:])))
	}
	if p.bounded() && len(lines) > most {
		lines = lines[:most]
		lines[most-1] = p.fitted(strings.TrimSuffix(lines[most-1], "\n")+" …", p.width-indent)
	}
	for i, line := range lines {
		lead := strings.Repeat(" ", indent)
		if i == 0 {
			lead = p.o.paint(style, word) + strings.Repeat(" ", max(1, indent-format.Columns(word)))
		}
		p.lines = append(p.lines,
			screenLine{lead + p.fitted(strings.TrimSuffix(line, "\n"), p.width-indent), rank, i > 0})
	}
}

// DemoWorked reports whether a run against our own mock did what it should. A machine that is not punctual is no
// fault of a demo: punctuality says it. Wrong prompts, lost records or an interrupt are.
func DemoWorked(s *metrics.Summary) bool {
	return s.Run.Demo && !s.Run.Partial &&
		!slices.ContainsFunc(s.Verdict.Reasons, func(r metrics.Reason) bool {
			return r.Grade == metrics.Invalid && !ofMachine(r)
		})
}

// ofMachine reports whether the client's machine was the reason, and not what was sent or answered.
func ofMachine(r metrics.Reason) bool {
	return r.Code.OfMachine()
}

// punctuality says how late this machine was, what it lost, and whether it could measure a real server.
func punctuality(s *metrics.Summary) string {
	if s.DriftUS == nil {
		return ""
	}
	late := lateness(s)
	if lost := s.Client.StolenShare; lost != nil {
		late += ", " + format.Percent(round2(*lost)) + " of CPU time lost to its host"
	}
	late += ": "
	unsafe := func(percentile string) bool {
		return slices.ContainsFunc(s.Verdict.Unsafe, func(u metrics.Unsafe) bool { return u.Percentile == percentile })
	}
	switch {
	case s.Verdict.Measurement == metrics.Invalid || unsafe("p50"):
		return late + "no real server can be measured like this"
	case unsafe("p90") || unsafe("p95"):
		return late + "p50 of a real server can be measured here, p99 not"
	case s.Verdict.Measurement == metrics.Limited:
		return late + "p50 to p95 of a real server can be measured here, p99 not"
	}
	if !stats.EnoughSamples(s.DriftUS.Count, 0.99) {
		return late + "fine so far, but p99 needs more requests to be judged"
	}
	return late + "p99 of a real server can be measured here"
}

// lateness says how late requests left and, if that moved latencies, how late answers were read.
func lateness(s *metrics.Summary) string {
	sent := format.Duration(max(0, s.DriftUS.P99*1e3), 3)
	most := format.Duration(max(0, s.DriftUS.Max*1e3), 3)
	if lag := s.Client.ReceiveLagUS; lag != nil &&
		slices.ContainsFunc(s.Verdict.Reasons, func(r metrics.Reason) bool { return r.Code == metrics.LateReading }) {
		return fmt.Sprintf("p99 sent %s late, read %s late", sent, format.Duration(lag.P99*1e3, 3))
	}
	return fmt.Sprintf("p99 %s late, max %s", sent, most)
}

// known prints a value and what it is, or "" where there is none.
func known(print func(float64) string, v *float64, what string) string {
	if v == nil {
		return ""
	}
	return print(*v) + " " + what
}

// ideal prints the expected hits, or their bounds where only these are known.
func ideal(c metrics.PrefixCache) string {
	if r := c.ExpectedRange; r != nil {
		return format.Percent(r[0]) + " to " + format.Percent(r[1]) + " ideal"
	}
	return cmp.Or(known(format.Percent, c.ExpectedHitRatio, "ideal"), "ideal unknown")
}

// plain prints a mean of requests with three digits, and whole ones without a point.
func plain(v float64) string {
	if v == math.Trunc(v) {
		return format.Count(int64(v))
	}
	return format.Number(v, 3)
}
