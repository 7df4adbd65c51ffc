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
	fewestLines  = 20 // that Screen may have on any terminal
	otherLines   = 4  // of a terminal: the command and the next prompt, each perhaps wrapped
	leastWidth   = 60 // columns; narrower terminals wrap
	mostWidth    = 100
	screenLabel  = 15 // columns of a label, the two before it included
	screenIndent = 9  // columns in front of a sentence
)

// How soon lines are left out if the screen has too many: those of the largest number first, of equal ones the last.
const (
	always = iota // the verdict, requests, failures, latencies, and at the end reasons with remedies
	first         // what the user asked for, what marks mean, and where the results are
	second        // what the servers and this machine did, and why
	third         // further words about these
	blank
)

// The styles of text, as ANSI parameters.
const (
	bold   = "1"
	dim    = "2"
	red    = "1;31"
	green  = "1;32"
	yellow = "1;33"
	cyan   = "36"
)

// screen gathers the lines of the one screen that shows a run.
type screen struct {
	*metrics.Summary
	PrintOptions
	columns int
	lines   []screenLine
	filler  *format.Filler // of the summary's values
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
	filler, err := format.NewFiller(s)
	if err != nil {
		return err
	}
	filler.Printers["figure"] = figure
	columns := cmp.Or(o.Width, 80)
	p := &screen{
		Summary:      s,
		PrintOptions: o,
		columns:      min(max(columns, leastWidth), mostWidth),
		filler:       filler,
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
	var b strings.Builder
	for _, line := range p.lines {
		b.WriteString(strings.TrimRight(line.text, " ") + "\n")
	}
	_, err = io.WriteString(w, strings.TrimRight(b.String(), "\n")+"\n")
	return err
}

// numbers adds all that stands between the verdict and where the results are.
func (p *screen) numbers() {
	p.add(blank, "")
	p.requests()
	p.prefixCache()
	p.steady()
	p.users()
	p.jobs()
	p.add(blank, "")
	p.latencies()
	p.add(blank, "")
	p.goodput()
	p.objectives()
	p.actions()
	p.targets()
	p.owners()
	p.phases()
	p.routing()
	p.shards()
	if !DemoWorked(p.Summary) { // which says it at its end
		p.client()
	}
	p.add(blank, "")
}

// bounded reports whether there is a terminal, the lines of which are limited.
func (p *screen) bounded() bool {
	return p.Width > 0 && !p.whole
}

// shorten leaves lines out, and counts them where it says how to see them.
func (p *screen) shorten() {
	if !p.bounded() {
		return
	}
	left := 0
	for len(p.lines) > max(fewestLines, p.Height-otherLines) {
		last := 0
		for i, line := range p.lines {
			if line.rank >= p.lines[last].rank {
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
	}
	for i := range p.lines {
		before, _, found := strings.Cut(p.lines[i].text, " --full")
		if found && left > 0 && strings.Contains(before, "fastreplay report") {
			p.lines[i].text = before + " --full (" + format.Many(left, "line") + " more)"
		}
	}
}

// add adds a line, in which what came from outside is Visible already. A blank line follows no other.
func (p *screen) add(rank int, text string) {
	n := len(p.lines)
	if text != "" || n > 0 && p.lines[n-1].text != "" {
		p.lines = append(p.lines, screenLine{text: text, rank: rank})
	}
}

// field adds a label and its parts, on a terminal in at most so many lines. Parts that do not fit there are left out,
// and counted.
func (p *screen) field(rank, most int, label string, parts ...string) {
	parts = format.Present(parts...)
	for i, part := range parts {
		parts[i] = p.fitted(format.Visible(part), p.columns-screenLabel)
	}
	lines := p.fill(parts, 0, most, func(parts []string) []string {
		return p.filled(format.Visible(label), parts)
	})
	for i, line := range lines {
		if i > 0 && rank > first {
			rank = third
		}
		label = p.paint(dim, line[:screenLabel])
		line = line[screenLabel:]
		line = strings.ReplaceAll(line, "✓", p.paint(green, "✓"))
		line = strings.ReplaceAll(line, "✗", p.paint(red, "✗"))
		p.add(rank, label+line)
	}
}

// values is field for parts with " | " between them and gaps for values of the summary (format.Filler). A part of which
// a value is missing is left out.
func (p *screen) values(rank, most int, label, parts string) {
	texts := strings.Split(parts, " | ")
	for i, text := range texts {
		texts[i] = p.filler.Fill(text)
	}
	p.field(rank, most, label, texts...)
}

// filled are the lines that parts fill.
func (p *screen) filled(label string, parts []string) []string {
	head := format.Left("  "+label, screenLabel)
	indent := strings.Repeat(" ", screenLabel)
	return format.Wrap(p.columns, head, indent, format.Gap, parts)
}

// sentence adds text behind a word, on a terminal in at most so many lines. Clauses that do not fit there are left
// out, and counted.
func (p *screen) sentence(rank, most int, word, text, style string) {
	if text == "" {
		return
	}
	columns := p.columns - screenIndent
	clauses := strings.Split(text, "; ")
	lines := p.fill(clauses, 1, most, func(clauses []string) []string {
		words := format.Words(strings.Join(clauses, "; "))
		return format.Wrap(columns, "", "", " ", words)
	})
	if p.bounded() && len(lines) > most {
		lines = lines[:most]
		lines[most-1] += " …"
	}
	indent := strings.Repeat(" ", screenIndent)
	gap := max(1, screenIndent-format.Columns(word))
	lead := p.paint(style, word) + indent[:gap]
	for i, line := range lines {
		line = p.fitted(format.Visible(line), columns)
		p.lines = append(p.lines, screenLine{
			text: lead + line,
			rank: rank,
			goes: i > 0,
		})
		lead = indent
	}
}

// fill returns the lines that parts fill, on a terminal at most so many. Parts at the end that do not fit there are
// counted instead, but for the first of them that must stay.
func (p *screen) fill(parts []string, least, most int, wrap func(parts []string) []string) []string {
	lines := wrap(parts)
	for n := len(parts) - 1; n >= least && p.bounded() && len(lines) > most; n-- {
		more := fmt.Sprintf("and %d more: --full", len(parts)-n)
		fewer := append(slices.Clone(parts[:n]), more)
		lines = wrap(fewer)
	}
	return lines
}

// fitted leaves out words at the end that a terminal has no room for.
func (p *screen) fitted(text string, columns int) string {
	r := []rune(text)
	if len(r) <= columns || !p.bounded() {
		return text
	}
	head := string(r[:max(0, columns-2)])
	space := strings.LastIndexByte(head, ' ')
	if space > len(head)/2 {
		head = head[:space]
	}
	return head + " …"
}

// head adds the verdict, how many requests failed, what was replayed, to whom and how long. Parts that have no room
// are left out.
func (p *screen) head() {
	word, style := Word(p.Summary)
	if p.Run.Partial {
		word += " (partial)"
	}
	said := cmp.Or(p.Failed(), few(p.Summary))
	if said == "" && overloaded(p.Summary) {
		said = "load too high"
	}
	if style == green && said != "" { // it is of the measurement alone
		style = bold
	}
	painted := said
	if p.Requests.Failed > 0 {
		painted = p.paint(red, said)
	}
	lead := p.paint(style, word) + format.Gap
	if said != "" {
		lead += painted + format.Gap
		word += format.Gap + said
	}
	tail := format.Gap + p.Length()
	room := p.columns - format.Columns(word+format.Gap+tail)
	p.add(always, lead+p.replayed(room)+tail)
}

// replayed says what was replayed, and to whom, in so many columns.
func (p *screen) replayed(room int) string {
	parts := title(p.Summary)
	parts[0] = shorten(parts[0], max(12, room-format.Columns(parts[1]+parts[2])))
	for _, more := range []string{path.Base(p.Run.Model), p.Run.API} {
		parts = append(parts, format.Gap+format.Visible(more))
	}
	text := ""
	for _, part := range parts {
		empty := strings.Trim(part, " .") == ""
		fits := format.Columns(text+part) <= room
		if fits && !empty {
			text += part
		}
	}
	return text
}

// fewRequests is how many requests no verdict can be proud of: below it a p99 is the maximum.
const fewRequests = 100

// few says over how few requests a verdict is; "" if they are enough, or if the words on failures say it.
func few(s *metrics.Summary) string {
	n := s.Requests.OK
	if n == 0 || n >= fewRequests || s.Requests.Failed > 0 {
		return ""
	}
	return "over " + format.Requests(n) + " only"
}

// Title says what a run replays, how, and where it goes; as the trace and the servers are called.
func Title(s *metrics.Summary) string {
	return strings.Join(title(s), "")
}

func title(s *metrics.Summary) []string {
	load := filepath.Base(s.Workload.Trace)
	switch {
	case s.Workload.Trace == "":
		load = "unknown trace"
	case strings.HasPrefix(s.Workload.Trace, "gen:"):
		load = "made trace"
	}
	return []string{
		format.Visible(load),
		format.Visible(paceOf(s)),
		format.Visible(" → " + whither(s)),
	}
}

// paceOf says how a run's times differ from those of its trace. Examples are " ×2, load ×3", ", closed loop of 8" and
// ", 8 lanes ×2".
func paceOf(s *metrics.Summary) string {
	pace := ""
	if s.Run.Pace != "" && s.Run.Pace != metrics.TraceTime {
		pace = ", " + s.Run.Pace
	}
	scale := cmp.Or(s.Run.Scale, 1)
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
	n := len(s.Run.Targets)
	switch {
	case s.Run.Demo:
		return "embedded mock"
	case n == 1:
		return shortURL(s.Run.Targets[0])
	case n == 0:
		return "unknown server"
	}
	return format.Many(n, "target")
}

// requests adds what became of the requests, and how those failed that did.
func (p *screen) requests() {
	r := &p.Requests
	sent := ""
	if r.Planned < p.Workload.Requests { // what a killed run left
		sent = "{requests.planned count} of {workload.requests count} recorded"
	} else if r.Sent < r.Planned {
		sent = "{requests.sent count} of {requests.planned count} sent"
	}
	rates := "throughput"
	waited := ""
	load := p.UnderLoad
	if load.UntilS > 0 {
		rates = "under_load"
		more := p.Run.DurationS - load.UntilS
		if more > 0.05*load.UntilS && load.Waiting > 0 {
			waited = format.Seconds(more) + " more waiting for {under_load.waiting many request}"
		}
	}
	notSent := r.ByOutcome[record.NotSent.String()]
	p.values(always, 3, "requests", strings.Join([]string{
		sent,
		"{requests.ok count} ok",
		"{requests.failed count} failed",
		format.Some(notSent-p.Workload.LeftOut, "not sent"),
		"{workload.left_out_requests some} left out",
		"{requests.by_outcome.cancelled some} cancelled",
		"{requests.resent some} sent again",
		"{" + rates + ".requests_per_s rate}/s",
		"{" + rates + ".output_tokens_per_s rate} output tok/s",
		waited,
	}, " | "))
	if r.Failed > 0 {
		failed := format.Counted(r.Failed, "failed")
		painted := p.paint(red, failed)
		for i := 1; i < len(p.lines); i++ {
			line := &p.lines[i]
			line.text = strings.Replace(line.text, failed, painted, 1)
		}
	}
	for _, example := range []int{math.MaxInt, 30, 0} {
		var kinds []string
		for _, f := range r.Failures {
			kinds = append(kinds, p.failure(f, example))
		}
		fits := !p.bounded() || len(p.filled("", kinds)) <= 2
		if fits || example == 0 {
			p.field(always, 2, "failed", kinds...)
			break
		}
	}
}

// failure describes requests that failed alike: 3 × HTTP 503 "busy". The example has at most so many columns; 0
// leaves it out.
func (p *screen) failure(f metrics.Failure, example int) string {
	how := strings.ReplaceAll(f.Outcome, "_", " ")
	if f.Outcome == record.HTTPError.String() {
		how = fmt.Sprint("HTTP ", f.Status)
	} else if f.Phase == metrics.PhaseStream {
		how += " in the stream"
	}
	text := format.Count(f.Count) + " × " + how
	if f.Example != "" && example > 0 {
		room := p.columns - screenLabel - format.Columns(text) - 3
		said := p.fitted(f.Example, min(example, room))
		text += " " + strconv.Quote(said)
	}
	return text
}

// prefixCache adds the hits beside the ideal, and what the servers reported of their queues.
func (p *screen) prefixCache() {
	c := p.PrefixCache
	hits := ""
	switch {
	case c.HitRatio != nil:
		hits = "{prefix_cache.hit_ratio percent}"
	case c.ReportedHitRatio != nil:
		hits = "{prefix_cache.reported_hit_ratio percent}"
	case c.ExpectedHitRatio != nil || c.ExpectedRange != nil:
		hits = "not reported"
	}
	routed := ""
	if hits != "" {
		hits += " | " + ideal(c)
		if p.Routing != nil {
			hits += " as placed"
			routed = " | {routing.one_cache_hit_ratio percent} in one cache"
			someFailed := p.Requests.OK < p.Requests.Planned
			if someFailed && p.Routing.Requests != p.Requests.OK { // of shards, or of an earlier version
				routed += ", if all are ok"
			}
		}
	}
	servers := " | queue max {server_metrics.all.waiting.max figure}" +
		" | {server_metrics.all.preemptions figure} preempted" +
		" | KV max {server_metrics.all.kv_usage.max percent}"
	if p.Servers != nil && p.Servers.All.Alternates {
		servers = ""
	}
	p.values(second, 2, "prefix hits",
		hits+" | {prefix_cache.recorded.recorded_hit_ratio percent} recorded"+routed+servers)
	tiers := "{prefix_cache.tiers.device_tokens short} device | {prefix_cache.tiers.host_tokens short} host | " +
		"{prefix_cache.tiers.external_tokens short} external tok | " +
		"{prefix_cache.tiers.external_tokens_per_s short} external tok/s | " +
		"{prefix_cache.tiers.host_bytes_per_s short} host B/s | " +
		"{prefix_cache.tiers.external_bytes_per_s short} external B/s"
	if s := p.Servers; s != nil && c.Tiers == nil && stats.OrZero(s.All.HostHits)+stats.OrZero(s.All.ExternalHits) > 0 {
		tiers = "{server_metrics.all.host_hits short} host | {server_metrics.all.external_hits short} external tok"
	}
	p.values(second, 1, "by tier", tiers)
}

// ideal prints the expected hits, or their bounds where only these are known.
func ideal(c metrics.PrefixCache) string {
	r := c.ExpectedRange
	if r != nil {
		least := format.Percent(r[0])
		return least + " to " + format.Percent(r[1]) + " ideal"
	}
	return cmp.Or(known(format.Percent, c.ExpectedHitRatio, "ideal"), "ideal unknown")
}

// steady adds why a part of the run was taken, and what answers cost in money and energy.
func (p *screen) steady() {
	p.values(first, 2, "steady", "{window.in_flight_min three} to {window.in_flight_max three} in flight | "+
		"within {window.band_share percent} of the median {window.in_flight_median three}")
	p.values(first, 2, "cost", "{cost.per_1m_output_tokens three} per 1M output tok | "+
		"{cost.per_1m_input_tokens three} input | {cost.per_1m_tokens three} both | "+
		"{cost.per_request three} a request | {cost.per_job three} a job | "+
		"{cost.price_per_hour plain} an hour for all servers")
	if p.Energy != nil {
		p.values(first, 1, "energy", "{energy.j_per_token three} J/token | "+
			"{energy.j_per_output_token three} J/output token | {energy.j_per_request three} J/request | "+
			"{energy.j_per_job three} J/job | {server_metrics.all.power_w.mean three} W")
	}
}

// users adds how fast users get output, if there are agents or conversations, and what a GPU makes.
func (p *screen) users() {
	var parts []string
	if i := p.Interactivity; i != nil && p.Jobs != nil {
		l := shownLatency{key: "ntpot", q: p.NTPOTMS, unitNS: 1e6}
		numbers := l.numbers(p.Summary)
		p75 := numbers[1]
		p90 := numbers[2]
		parts = append(parts,
			"interactivity p75 "+p75.mark+three(i.P75),
			"p90 "+p90.mark+three(i.P90),
			known(three, i.PerUser, "a user"))
	}
	if p.PerGPU != nil {
		parts = append(parts, three(p.PerGPU.OutputTokensPerS)+" a GPU")
	}
	p.field(first, 2, "output tok/s", parts...)
}

// latencies adds a row for each latency: percentiles and their p99 by time.
func (p *screen) latencies() {
	const label = 9
	const column = 10
	names := []string{"p50", "p90", "p99", "max"}
	if agentsOf(p.Summary) != nil {
		names = []string{"p50", "p75", "p90", "p99", "max"}
	}
	rows := shownLatencies(p.Summary, metrics.OnScreen)
	if len(rows) == 0 {
		p.field(always, 1, "latencies", "none: no request ended ok")
		return
	}
	head := format.Left("", label)
	for _, name := range names {
		head += format.Right(name, column)
	}
	byTime := map[string]string{}
	room := p.columns - label - len(names)*column - 2
	steps := slices.Clone(p.Steps)
	if w := p.Window; w != nil {
		steps = slices.DeleteFunc(steps, func(t metrics.Step) bool {
			return middleS(&t) < w.FromS || middleS(&t) > w.ToS
		})
	}
	if len(steps) > 0 && room >= 8 {
		byTime = p99ByTime(steps, min(room, 24))
		title := "  p99 by time"
		if room < len("p99 by time") {
			title = "  by time"
		}
		head += title
	}
	p.add(always, p.paint(dim, head))
	fewest := int64(math.MaxInt64) // values of a latency that has too few
	var tooFew, varies, moved string
	var intervals []string // of each latency that of its highest percentile
	for _, l := range rows {
		known := ""
		line := format.Left("  "+l.label, label)
		for _, n := range l.numbers(p.Summary) {
			if !slices.Contains(names, n.name) {
				continue
			}
			text := n.mark + format.Duration(n.ns, 3)
			if strings.HasSuffix(text, " s") {
				text += " " // units of two columns, so that numbers align
			}
			line += format.Right(text, column)
			if n.interval != "" {
				known = l.label + " " + n.name + " " + n.interval
			}
			switch n.mark {
			case markFew:
				if l.depends(p.Summary) {
					varies = "~ values vary over the run"
				} else {
					fewest = min(fewest, l.q.Count)
					tooFew = "~ too few values (" + format.Count(fewest) + "): no interval"
				}
			case markMoved:
				moved = "! moved by this client's lateness"
			}
		}
		p.add(always, line+"  "+p.paint(cyan, byTime[l.key]))
		intervals = append(intervals, known)
	}
	p.field(first, 1, "", tooFew, varies, moved)
	p.field(second, 2, "95 % within", intervals...)
	var trends []string
	for i := range p.Trends {
		trends = append(trends, p.Trends[i].Short())
	}
	p.field(first, 2, "over time", trends...)
}

// p99ByTime draws the largest p99 of each latency in each of n equal parts of a run.
func p99ByTime(steps []metrics.Step, n int) map[string]string {
	from := math.Inf(1)
	end := 0.0
	for _, s := range steps {
		from = min(from, s.FromS)
		end = max(end, s.ToS)
	}
	drawn := map[string]string{}
	for k, l := range metrics.Latencies() {
		if l.Shown != metrics.OnScreen {
			continue
		}
		highest := make([]int64, n)
		for _, s := range steps {
			ms := s.Percentile(k, 990)
			if ms == nil {
				continue
			}
			middle := (s.FromS + s.ToS) / 2
			share := (middle - from) / (end - from)
			part := min(n-1, int(share*float64(n)))
			highest[part] = max(highest[part], int64(*ms*1e6))
		}
		drawn[l.Key] = strings.TrimRight(chart.Skyline(highest, 1)[0], " ")
	}
	return drawn
}

func (p *screen) goodput() {
	g := p.Goodput
	if g == nil {
		return
	}
	good := format.Count(g.Requests) + " of " + format.Counted(p.Requests.Planned-p.Workload.LeftOut, "good")
	if g.Share != nil {
		good += " (" + format.Percent(*g.Share) + ")"
	}
	parts := []string{good}
	bounds := map[int][]string{} // by latency
	for _, o := range SLOsOf(p.Summary) {
		ms := strconv.FormatFloat(float64(o.LimitNS)/1e6, 'f', -1, 64)
		bounds[o.Latency] = append(bounds[o.Latency], ms)
	}
	for i, l := range metrics.Latencies() {
		if bounds[i] == nil {
			continue
		}
		none := g.Unmeasured[l.Key]
		if missed := g.Missed[l.Key] - none; missed > 0 {
			parts = append(parts, format.Count(missed)+" × "+l.Label+" > "+strings.Join(bounds[i], " or ")+" ms")
		}
		if none > 0 {
			parts = append(parts, format.Count(none)+" without "+l.Label)
		}
	}
	if !slices.ContainsFunc(SLOsOf(p.Summary), func(o metrics.SLO) bool { return o.Field == "" }) {
		parts = append(parts, "requests without a bound need only be ok")
	}
	p.field(first, 2, "goodput", parts...)
}

// objectives adds what the user wanted.
func (p *screen) objectives() {
	p.field(first, 3, "objectives", objectiveLines(&p.Verdict)...)
	u := p.Until
	if u != nil {
		p.field(first, 3, "until", u.Finding()...)
	}
}

// targets adds a line about several targets or instances, and one for each of those that stand out.
func (p *screen) targets() {
	what := "targets"
	var parts []metrics.Part
	for _, t := range p.Targets {
		parts = append(parts, metrics.Part{
			Name:             shortURL(t.URL),
			Requests:         t.Requests,
			Failed:           t.Failed,
			ReportedHitRatio: cmp.Or(t.ReportedHitRatio, t.CountedHitRatio),
			PartLatencies:    metrics.PartLatencies{TTFTMS: t.TTFTMS},
		})
	}
	if p.Instances != nil && len(p.Instances.Parts) > len(parts) {
		what = "instances"
		parts = p.Instances.Parts
	}
	if len(parts) < 2 {
		return
	}
	var requests []int64
	for _, t := range parts {
		requests = append(requests, t.Requests)
	}
	slices.Sort(requests)
	tail := tailOf(parts)
	var tails []float64 // of TTFT, ms
	for _, t := range parts {
		if t.TTFTMS != nil && tail.key != "" {
			tails = append(tails, tail.of(t.TTFTMS))
		}
	}
	slices.Sort(tails)
	each := format.Requests(requests[len(requests)-1])
	if requests[0] < requests[len(requests)-1] {
		each = format.Count(requests[0]) + " to " + each
	}
	spread := ""
	if len(tails) > 0 {
		least := format.Milliseconds(tails[0])
		spread = "TTFT " + tail.key + " " + least + " to " + format.Milliseconds(tails[len(tails)-1])
	}
	p.field(second, 2, what, fmt.Sprintf("%d with %s each", len(parts), each), spread)
	for _, t := range standOut(parts, tail, tails) {
		slow := ""
		if t.TTFTMS != nil && tail.key != "" {
			slow = "TTFT " + tail.key + " " + format.Milliseconds(tail.of(t.TTFTMS))
		}
		p.field(third, 1, "",
			"! "+shorten(format.Visible(t.Name), 30),
			format.Some(t.Failed, "failed"),
			slow,
			known(format.Percent, t.ReportedHitRatio, "hits"))
	}
}

// actions says of each action whether it landed, and what it cost.
func (p *screen) actions() {
	for i := range p.Actions {
		a := &p.Actions[i]
		text := format.Seconds(a.BeganS()) + " " + shorten(format.Visible(a.Run), 40) + ": " + a.Finding()
		p.sentence(first, 4, "action", strings.Join(append([]string{text}, a.CostWords()...), "; "), "")
	}
}

// phases adds a line for each instance that prefilled, and for each that decoded, where they are not the same.
func (p *screen) phases() {
	if p.Prefills == nil {
		return
	}
	p.parts("prefill", p.Prefills.Parts)
	if p.Instances != nil {
		p.parts("decode", p.Instances.Parts)
	}
}

// mostOwners is how many lines the screen has for each way to tell owners apart; the page has all.
const mostOwners = 4

// owners adds a line for each class, tenant, model and priority.
func (p *screen) owners() {
	for field, by := range p.Owners.Each {
		p.parts(field, by.Parts)
	}
}

// parts adds a line for each of some parts, those with the most requests first.
func (p *screen) parts(field string, parts []metrics.Part) {
	moved := ""
	if slices.ContainsFunc(p.Verdict.Unsafe, func(u metrics.Unsafe) bool { return u.Metric == "ttft" }) {
		moved = markMoved // whose requests were late is not known
	}
	parts = slices.Clone(parts)
	slices.SortStableFunc(parts, func(x, y metrics.Part) int { return cmp.Compare(y.Requests, x.Requests) })
	for _, part := range parts[:min(len(parts), mostOwners)] {
		ttft := ttftOf(part)
		gapText := ""
		if ttft != "" {
			ttft = moved + ttft
		}
		if gap := part.SecondGapMS; gap != nil {
			gapText = "2nd token +" + format.Milliseconds(gap.P50)
		}
		p.field(second, 2, field,
			shorten(format.Visible(part.Name), 16),
			format.Requests(part.Requests),
			format.Some(part.Failed, "failed"),
			ttft,
			gapText,
			known(format.Milliseconds, part.KVTransferMS, "a KV transfer"),
			known(format.Percent, part.ReportedHitRatio, "hits"))
	}
	if more := len(parts) - mostOwners; more > 0 {
		p.field(second, 1, field, fmt.Sprintf("%d more, in the report", more))
	}
}

// tail is a percentile by which parts are told apart.
type tail struct {
	key string // "" if all have too few values
	of  func(*stats.Percentiles) float64
}

// tailOf is the highest percentile of which all parts have enough values, up to p99.
func tailOf(parts []metrics.Part) (highest tail) {
	for _, t := range []struct {
		tail
		quantile float64
	}{
		{tail{"p50", func(p *stats.Percentiles) float64 { return p.P50 }}, 0.5},
		{tail{"p90", func(p *stats.Percentiles) float64 { return p.P90 }}, 0.9},
		{tail{"p99", func(p *stats.Percentiles) float64 { return p.P99 }}, 0.99},
	} {
		few := func(part metrics.Part) bool {
			return part.TTFTMS != nil && !stats.EnoughSamples(part.TTFTMS.Count, t.quantile)
		}
		if !slices.ContainsFunc(parts, few) {
			highest = t.tail
		}
	}
	return highest
}

// byChance is how likely a part may fail as often by chance as one that stands out.
const byChance = 0.01

// standOut returns at most three parts, the worst first. They failed more than twice as often as all do, and more often
// than by chance. Or their tail is above twice the median of tails, which are sorted.
func standOut(parts []metrics.Part, tail tail, tails []float64) []metrics.Part {
	share := func(failed, requests int64) float64 {
		return float64(failed) / float64(max(1, requests))
	}
	var requests, failed int64
	for _, t := range parts {
		requests += t.Requests
		failed += t.Failed
	}
	usual := share(failed, requests)
	usualTail := math.Inf(1)
	if len(tails) > 1 {
		usualTail = tails[(len(tails)-1)/2]
	}
	score := func(t metrics.Part) (v float64) {
		failing := share(t.Failed, t.Requests)
		if (failing > 2*usual || failing > 0.5) && stats.AtMost(t.Requests-t.Failed, t.Requests, 1-usual) < byChance {
			v = 1000 * failing
		}
		if t.TTFTMS != nil && len(tails) > 1 && tail.of(t.TTFTMS) > 2*usualTail {
			v += tail.of(t.TTFTMS) / usualTail
		}
		return v
	}
	out := slices.DeleteFunc(slices.Clone(parts), func(t metrics.Part) bool {
		return score(t) == 0
	})
	slices.SortStableFunc(out, func(a, b metrics.Part) int {
		return cmp.Compare(score(b), score(a))
	})
	return out[:min(3, len(out))]
}

// routing adds the routers that would have had more hits. Those that overload an instance come last.
func (p *screen) routing() {
	r := p.Routing
	if r == nil || r.Actual == nil {
		return
	}
	var even, uneven []string
	for _, o := range r.Routers {
		text := r.Label(o.Router) + " " + format.Percent(o.HitRatio)
		switch {
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
	lost := p.Lateness.SlotsLostShare
	if lost != nil {
		p.field(second, 1, "closed loop", "its slots were empty for "+tenths(*lost)+" of the time")
	} else if p.DriftUS != nil {
		label := "late"
		meaning := "see --full"
		reasons := p.Verdict.Reasons
		switch {
		case len(reasons) > 0 && ofMachine(reasons[0]):
			meaning = "see below"
		case len(p.Verdict.Unsafe) > 0:
			meaning = "may have moved what has a !"
		case !slices.ContainsFunc(reasons, ofMachine):
			label = "on time"
			meaning = "latencies need no correction"
		}
		p.field(second, 2, label, lateness(p.Summary), meaning)
	}
	p.field(second, 2, "machine", machineWords(p.Summary)...)
}

// shards says how alike the machines were that sent the load together.
func (p *screen) shards() {
	if len(p.Shards) == 0 {
		return
	}
	states := map[string]int{}
	var drift, clock []float64 // µs
	for i, k := range p.Shards {
		states[k.State]++
		if k.DriftP99US != nil {
			drift = append(drift, *k.DriftP99US)
		}
		if k.ClockUS != nil && i > 0 {
			clock = append(clock, math.Abs(*k.ClockUS))
		}
	}
	words := []string{
		format.Count(len(p.Shards)),
		format.Some(states[metrics.ShardEnded], metrics.ShardEnded),
		format.Some(states[metrics.ShardMissing], metrics.ShardMissing),
	}
	if len(drift) > 0 {
		least := format.Microseconds(slices.Min(drift))
		most := format.Microseconds(slices.Max(drift))
		words = append(words, "p99 "+least+" to "+most+" late")
	}
	switch {
	case len(clock) > 0:
		words = append(words, "clocks up to "+format.Microseconds(slices.Max(clock))+" apart")
	case len(p.Shards) > 1:
		words = append(words, "clocks not compared")
	}
	p.field(second, 1, "shards", words...)
}

// machineWords says what the machine took from the client; nothing if unknown.
func machineWords(s *metrics.Summary) (lost []string) {
	share := s.Client.Machine.StolenShare
	if share != nil {
		lost = append(lost, "its host took "+tenths(*share)+" of the CPU time")
	}
	if s.ThrottledShare() > 0.01 { // less does not reach the 99th percentile
		stopped := format.Seconds(*s.Client.Machine.ThrottledS)
		lost = append(lost, "a CPU limit stopped it for "+stopped)
	}
	if lost == nil && s.Client.CPUS > 0 {
		lost = append(lost, "the system does not report what it lost")
	}
	l := s.Client.LocalServers
	if l != nil && !s.Run.Demo {
		where := "a server is on it, too: "
		if l.Processes == "" { // the address is, but something may forward what comes there
			where = "a server may be on it, too: "
		}
		waited := "how long it waited for a core is unknown"
		if l.WaitedS != nil && l.Unknown == "" {
			share := " (" + format.PercentTo(waitedShare(s), 2) + " of the run)"
			waited = "it waited at least " + format.Seconds(*l.WaitedS) + " for a core" + share
		}
		lost = append(lost, where+waited)
	}
	return lost
}

// starved is the share of a run above which a server that waits for a core answers late. Of runs of 5 to 6 s on two
// busy cores (2026-11-28), one whose mock waited 0.8 s had the TTFT p99 that it should. That of one with 1.6 s was ten
// times as long.
const starved = 0.2

// waitedShare is for which share of a run servers on this machine waited for a core, all their threads together. It is
// 0 if that is unknown.
func waitedShare(s *metrics.Summary) float64 {
	l := s.Client.LocalServers
	if l == nil || l.WaitedS == nil || s.Run.DurationS == 0 {
		return 0
	}
	return *l.WaitedS / s.Run.DurationS
}

// tenths prints a sampled share with the digits that it deserves: tenths of a percent.
func tenths(share float64) string {
	return format.Percent(float64(int(share*1000+0.5)) / 1000)
}

// files adds where the results are and what can be done next.
func (p *screen) files() {
	if p.Dir == "" {
		return
	}
	dir := format.Visible(p.Dir)
	line := func(rank int, label, text string) {
		if format.Columns(text) > p.columns-screenLabel { // what is cut cannot be opened
			p.add(rank, "  "+text)
		} else {
			p.field(rank, 1, label, text)
		}
	}
	if p.Page != "" {
		line(always, "report", format.Visible(p.Page))
	} else {
		line(always, "results", dir)
	}
	if p.Quiet {
		return
	}
	if !p.whole {
		more := "fastreplay report"
		if filepath.Dir(p.Dir) != DefaultRoot {
			more += " " + dir
		}
		w := p.Window
		if w != nil {
			from := time.Duration(w.FromS * 1e9)
			to := time.Duration(w.ToS * 1e9)
			more += fmt.Sprintf(" --from %v --to %v", from, to)
		}
		more += " --full"
		n := len(p.Notes)
		if n > 0 {
			more += " (" + format.Many(n, "note") + ")"
		}
		line(always, "more", more)
	}
	if !p.Run.Demo {
		again := "fastreplay "
		if p.Workload.Trace == "stdin" { // the trace is to be piped once more
			again += "- "
		}
		line(third, "again", again+"--config "+filepath.Join(dir, PlanName))
	}
}

// reasons adds why a measurement is not valid and what to do, or that a demo worked.
func (p *screen) reasons() {
	if DemoWorked(p.Summary) {
		if !p.Quiet {
			p.sentence(always, 3, "machine", punctuality(p.Summary), "")
		}
		p.add(always, p.paint(green, "DEMO OK")+format.Gap+"next: fastreplay FILE --url HOST:8000")
		return
	}
	p.sentence(always, 2, "FAILED", p.FailedWhere(), red)
	if p.unjudged() {
		exit := "exit 0"
		if p.Verdict.Undecided() > 0 {
			exit = "exit 4"
		}
		p.sentence(always, 2, exit, "no objective about failures was given: --max-error-rate 0.01 sets one", bold)
	}
	if reasons := p.Verdict.Reasons; len(reasons) > 0 {
		word, style := Word(p.Summary)
		what := reasons[0].What
		if n := len(reasons) - 1; n > 0 {
			what += "; " + format.Many(n, "further reason") + ": --full"
		}
		p.sentence(always, 2, word, what, style)
		if !p.Quiet {
			p.sentence(second, 3, "why", reasons[0].Why, bold)
			p.sentence(always, 2, "do", reasons[0].Do, bold)
		}
	}
	all := format.Many(len(p.Verdict.Objectives), "objective")
	if n := p.Verdict.Missed(); n > 0 {
		p.sentence(always, 1, "MISSED", fmt.Sprintf("%d of %s", n, all), red)
	}
	if n := p.Verdict.Undecided(); n > 0 {
		p.sentence(always, 1, "UNDECIDED", fmt.Sprintf("%d of %s", n, all), yellow)
	}
}

// unjudged reports whether requests failed, no objective is about that, and none is missed.
func (p *screen) unjudged() bool {
	v := &p.Verdict
	if p.Requests.Failed == 0 || p.Run.Partial {
		return false
	}
	if !v.Valid || v.Missed() > 0 {
		return false
	}
	for _, o := range v.Objectives {
		if o.Metric == "error_rate" || o.Metric == "goodput" {
			return false
		}
	}
	return true
}

// DemoWorked reports whether a run against our own mock did what it should. A machine that is not punctual is no
// fault of a demo: punctuality says it. Wrong prompts, lost records or an interrupt are.
func DemoWorked(s *metrics.Summary) bool {
	for _, r := range s.Verdict.Reasons {
		if r.Grade == metrics.Invalid && !ofMachine(r) {
			return false
		}
	}
	return s.Run.Demo && !s.Run.Partial
}

// ofMachine reports whether the client's machine was the reason, and not what was sent or answered.
func ofMachine(r metrics.Reason) bool {
	return r.Code.Traits().Machine
}

// punctuality says how late this machine was, what it lost, and whether it could measure a real server.
func punctuality(s *metrics.Summary) string {
	if s.DriftUS == nil {
		return ""
	}
	late := lateness(s)
	lost := s.Client.StolenShare
	if lost != nil {
		late += ", " + tenths(*lost) + " of CPU time lost to its host"
	}
	unsafe := map[string]bool{} // percentiles
	for _, u := range s.Verdict.Unsafe {
		unsafe[u.Percentile] = true
	}
	says := "p99 of a real server can be measured here"
	switch {
	case s.Verdict.Measurement == metrics.Invalid || unsafe["p50"]:
		says = "no real server can be measured like this"
	case unsafe["p90"] || unsafe["p95"]:
		says = "p50 of a real server can be measured here, p99 not"
	case s.Verdict.Measurement == metrics.Limited:
		says = "p50 to p95 of a real server can be measured here, p99 not"
	case !stats.EnoughSamples(s.DriftUS.Count, 0.99):
		says = "fine so far, but p99 needs more requests to be judged"
	}
	if waitedShare(s) > starved {
		waited := format.Seconds(*s.Client.LocalServers.WaitedS)
		says += "; the mock waited " + waited + " for a core, so it answered late"
	}
	return late + ": " + says
}

// lateness says how late requests left and, if that moved latencies, how late answers were read.
func lateness(s *metrics.Summary) string {
	sent := format.Microseconds(max(0, s.DriftUS.P99))
	lateReading := func(r metrics.Reason) bool { return r.Code == metrics.LateReading }
	read := s.Client.ReceiveLagUS
	if read != nil && slices.ContainsFunc(s.Verdict.Reasons, lateReading) {
		return "p99 sent " + sent + " late, read " + format.Microseconds(read.P99) + " late"
	}
	return "p99 " + sent + " late, max " + format.Microseconds(max(0, s.DriftUS.Max))
}

// known prints a value and what it is, or "" where there is none.
func known(print func(float64) string, v *float64, what string) string {
	if v == nil {
		return ""
	}
	return print(*v) + " " + what
}

// ttftOf prints how long the requests of a part waited for their first token, with the mark of too few values. It is ""
// if that is unknown.
func ttftOf(part metrics.Part) string {
	if part.TTFTMS == nil {
		return ""
	}
	known := func(quantile, ms float64) string {
		if !stats.EnoughSamples(part.TTFTMS.Count, quantile) {
			return markFew + format.Milliseconds(ms)
		}
		return format.Milliseconds(ms)
	}
	return "TTFT p50 " + known(0.5, part.TTFTMS.P50) + ", p99 " + known(0.99, part.TTFTMS.P99)
}

// three prints three significant digits.
func three(v float64) string {
	return format.Number(v, 3)
}

// figure is three without a point in whole numbers.
func figure(v float64) string {
	if v == math.Trunc(v) {
		return format.Count(int64(v))
	}
	return three(v)
}
