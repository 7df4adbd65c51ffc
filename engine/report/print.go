package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/scrape"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// PrintOptions is how a summary is printed. The zero value is 80 columns
// without colour.
type PrintOptions struct {
	Width  int            // columns of the terminal; 0 = 80
	Colour bool           // ANSI colours
	Dir    string         // where the results are; "" prints no such line
	Page   string         // where the HTML page is; "" = there is none
	Steps  []metrics.Step // the run by time, of all targets; nil = unknown
}

// Print writes the summary for people: the verdict first, then what became of
// the requests, the latencies, and how the client itself fared. Lines are at
// most 100 columns, and fit into 80.
func Print(w io.Writer, s *metrics.Summary, o PrintOptions) error {
	p := newPage(o)
	p.verdict(s)
	p.run(s)
	p.requests(s)
	p.latencies(s)
	p.totals(s)
	p.targets(s)
	if s.Routing != nil {
		s.Routing.Print(&p.Page)
	}
	p.notes(s)
	_, err := w.Write(p.Bytes())
	return err
}

const labelWidth = 16

// page prints a summary.
type page struct {
	format.Page
	o      PrintOptions
	digits int // significant, of a latency
	column int // width of a latency's column
}

func newPage(o PrintOptions) *page {
	p := &page{Page: format.NewPage(o.Width, labelWidth), o: o, digits: 3, column: 9}
	if p.Width >= labelWidth+7*11 {
		p.digits, p.column = 4, 11
	}
	return p
}

// paint puts an ANSI style around text, if there is colour.
func (o *PrintOptions) paint(style, text string) string {
	if !o.Colour || text == "" {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

// shorten returns s with its middle left out where it is longer than n.
func shorten(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	tail := (n - 1) / 2
	return string(r[:n-1-tail]) + "…" + string(r[len(r)-tail:])
}

// aligned prints ns with its unit two columns wide, so that columns of
// numbers align.
func aligned(ns float64, digits int) string {
	text := format.Duration(ns, digits)
	if strings.HasSuffix(text, " s") {
		text += " "
	}
	return text
}

// known prints a value and what it is, or "" where there is none.
func known(print func(float64) string, v *float64, what string) string {
	if v == nil {
		return ""
	}
	return print(*v) + " " + what
}

// spread prints some of a distribution in units of unitNS, what before the first; nothing where there is none.
func spread(what string, q *stats.Percentiles, unitNS float64, names ...string) (parts []string) {
	if q == nil {
		return nil
	}
	at := map[string]float64{"p50": q.P50, "p99": q.P99, "max": q.Max}
	for _, name := range names {
		parts = append(parts, what+name+" "+format.Duration(at[name]*unitNS, 3))
		what = ""
	}
	return parts
}

func hits(ratio *float64, what string) string {
	if ratio == nil {
		return what + " unknown"
	}
	return format.Percent(*ratio) + " " + what
}

func (p *page) verdict(s *metrics.Summary) {
	word := p.o.paint("1;32", "VALID")
	if !s.Verdict.Valid {
		word = p.o.paint("1;31", "INVALID")
	}
	if s.Run.Partial {
		word += " (partial run)"
	}
	p.Painted(word)
	for _, reason := range s.Verdict.Reasons {
		p.Sentence("  - ", reason.String())
	}
	p.Line("")
}

func (p *page) run(s *metrics.Summary) {
	pace := s.Run.Pace
	if (pace == "" || pace == metrics.TraceTime) && s.Run.Scale > 0 {
		pace = "scale " + strconv.FormatFloat(s.Run.Scale, 'g', -1, 64)
	}
	load := ""
	if s.Amplify != nil {
		load = fmt.Sprintf("%g times the load", s.Amplify.Factor)
	}
	p.Field("trace", shorten(s.Workload.Trace, p.Width-labelWidth), s.Workload.Format, pace, load)
	if len(s.Run.Targets) == 1 {
		p.Field("target", s.Run.Targets[0])
	}
	started := ""
	if !s.Run.StartedAt.IsZero() {
		started = s.Run.StartedAt.UTC().Format("2006-01-02 15:04:05 UTC")
	}
	p.Field("run", started, format.Seconds(s.Run.DurationS))
}

// requests prints what failed, was sent twice, waited or was written in parts.
func (p *page) requests(s *metrics.Summary) {
	r := s.Requests
	p.Field("requests", format.Counted(r.Planned, "planned"), format.Counted(r.Sent, "sent"),
		format.Counted(r.OK, "ok"), format.Counted(r.Failed, "failed"), format.Counted(r.Resent, "resent"), format.Some(r.Unwritten, "not on disk"))
	p.Field("failed", outcomes(r.ByOutcome)...)
	c := s.Connections
	wait := ""
	if c.MaxWaitMS > 0 {
		wait = "longest wait " + format.Duration(c.MaxWaitMS*1e6, 3)
	}
	if c != (metrics.Connections{}) {
		p.Field("connections", format.Counted(c.Dialled, "dialled"), format.Counted(c.NotReady, "not ready"), wait,
			format.Some(c.ClosedIdle, "closed by the server"))
	}
	if s.Writes != (metrics.Writes{}) {
		p.Field("first writes", format.Counted(s.Writes.Whole, "whole"), format.Counted(s.Writes.Partial, "partial"))
	}
	if c := s.Cap; c != nil {
		held := spread("", c.HeldMS, 1e6, "p50", "p99", "max")
		p.Field("cap", append([]string{format.Counted(c.InFlight, "in flight"), format.Counted(c.Held, "held back")}, held...)...)
	}
	if t := s.Turns; t != nil {
		p.Field("turns", slices.Concat(
			[]string{t.Sessions, format.Counted(t.FollowUps, "follow-up")},
			[]string{format.Counted(t.Overtaking, "overlapped the previous turn")},
			spread("by ", t.OvertakingMS, 1e6, "p50", "max"), spread("later by ", t.LaterMS, 1e6, "p50", "p99"))...)
	}
	if h := s.History; h != nil {
		turns := []string{
			format.Counted(h.Live, "turns with all answers live"), format.Some(h.Partly, "with some"), format.Some(h.Recorded, "as recorded"),
		}
		p.Field("history", append(turns, spread("made in ", h.MakeUS, 1e3, "p50", "p99")...)...)
	}
	if b := s.BuildAhead; b != nil {
		lead := ""
		if b.LeastLeadMS != nil {
			lead = "least lead " + format.Duration(*b.LeastLeadMS*1e6, 3)
		}
		p.Field("built ahead", format.Bytes(b.WindowBytes)+" at a time", lead, format.Counted(b.Late, "late"))
	}
	p.Line("")
}

// outcomes lists what became of the requests that failed, the most frequent first.
func outcomes(by map[string]int64) (parts []string) {
	for _, name := range slices.SortedFunc(maps.Keys(by), func(a, b string) int {
		return cmp.Or(cmp.Compare(by[b], by[a]), cmp.Compare(a, b))
	}) {
		if by[name] > 0 && name != record.OK.String() {
			parts = append(parts, format.Counted(by[name], name))
		}
	}
	return parts
}

// latency is a distribution whose unit is unitNS nanoseconds.
type latency struct {
	label    string
	q        *stats.Percentiles
	unitNS   float64
	optional bool // if it is absent, its line is, too
}

func latencies(s *metrics.Summary) []latency {
	return []latency{
		{"drift", s.DriftUS, 1e3, false},
		{"wire drift", s.WireDriftUS, 1e3, true},
		{"upload", s.UploadMS, 1e6, true},
		{"receive lag", s.Client.ReceiveLagUS, 1e3, true},
		{"TTFT", s.TTFTMS, 1e6, false},
		{"TTFT planned", s.TTFTPlannedMS, 1e6, false},
		{"TPOT", s.TPOTMS, 1e6, false},
		{"ITL", s.ITLMS, 1e6, false},
		{"E2E", s.E2EMS, 1e6, false},
		{"E2E planned", s.E2EPlannedMS, 1e6, false},
	}
}

func (p *page) latencies(s *metrics.Summary) {
	p.Row("", labelWidth, []int{p.column}, "p50", "p90", "p95", "p99", "p99.9", "max", "mean")
	for _, l := range latencies(s) {
		if l.q == nil {
			if !l.optional {
				p.Line(format.Left("  "+l.label, labelWidth) + "  no samples")
			}
			continue
		}
		var cells []string
		for _, v := range []float64{l.q.P50, l.q.P90, l.q.P95, l.q.P99, l.q.P999, l.q.Max, l.q.Mean} {
			cells = append(cells, aligned(v*l.unitNS, p.digits))
		}
		p.Row("  "+l.label, labelWidth, []int{p.column}, cells...)
	}
	p.Line("")
}

func (p *page) totals(s *metrics.Summary) {
	t := s.Throughput
	p.Field("throughput", format.Rate(t.RequestsPerS)+" requests/s", format.Rate(t.InputTokensPerS)+" input tok/s",
		format.Rate(t.OutputTokensPerS)+" output tok/s")
	p.goodput(s.Goodput)
	c := s.PrefixCache
	what := "hits"
	if c.CountedTokens != nil {
		what += " by the " + c.HitsFrom
	}
	p.Field("prefix cache", hits(cmp.Or(c.HitRatio, c.ReportedHitRatio), what), ideal(c), unreported(c))
	p.shortfall(c.Shortfall, s.Tokens.Prompt)
	if g := s.Gateway; g != nil {
		parts := []string{known(format.Percent, g.Share, "of TTFT")}
		for _, part := range spread("", g.OwnMS, 1e6, "p50") {
			parts = append(parts, part+" its own")
		}
		for _, part := range spread("", g.UpstreamMS, 1e6, "p50") {
			parts = append(parts, part+" until the server's head")
		}
		p.Field("gateway", parts...)
	}
	p.servers(s)
	p.client(s)
	p.Field("workload", shorten(s.Workload.Fingerprint, p.Width-labelWidth))
	p.Field("results", p.o.Dir)
}

// ideal prints the expected hits, or their bounds where only these are known.
func ideal(c metrics.PrefixCache) string {
	if r := c.ExpectedRange; r != nil {
		return format.Percent(r[0]) + " to " + format.Percent(r[1]) + " ideal"
	}
	return hits(c.ExpectedHitRatio, "ideal")
}

// unreported prints how many requests the hits leave out that the ideal counts; "" for none, and where all hits are unknown.
func unreported(c metrics.PrefixCache) string {
	if cmp.Or(c.HitRatio, c.ReportedHitRatio) == nil || c.UnreportedRequests == 0 {
		return ""
	}
	return format.Many(c.UnreportedRequests, "request") + " never reported"
}

// shortfall prints why the servers hit less than the ideal, as shares of all prompt tokens; nothing where they did not.
func (p *page) shortfall(s *metrics.Shortfall, prompt int64) {
	if s == nil || s.Tokens == 0 || prompt == 0 {
		return
	}
	const leastPercent = 0.01 // of what is printed; less is printed as less
	share := func(tokens int64, what string) string {
		percent := 100 * float64(tokens) / float64(prompt)
		switch {
		case tokens == 0:
			return ""
		case percent < leastPercent:
			return fmt.Sprintf("<%g %% %s", leastPercent, what)
		}
		return fmt.Sprintf("%.2f %% %s", percent, what)
	}
	p.Field("below ideal", share(s.Tokens, "in all:"), share(s.InPrefillTokens, "still in prefill"), share(s.ElsewhereTokens, "at another instance"), share(s.EvictedTokens, "evicted"),
		share(s.CacheOffTokens, "with caching off"), share(s.NotReportedTokens, "never reported"), share(s.UnexplainedTokens, "unexplained"))
}

// client prints what the load generator itself took; nothing if unknown.
func (p *page) client(s *metrics.Summary) {
	c := s.Client
	if c == (metrics.Client{}) {
		return
	}
	realtime := "no real-time priority"
	if c.Realtime {
		realtime = "real-time priority"
	}
	p.Field("client", format.Seconds(c.CPUS)+" CPU on "+format.Many(int64(s.Run.Host.CPUs), "core"), format.Bytes(c.MaxRSSBytes)+" memory", realtime, senders(&c), stamps(c.Stamps))
	p.Field("", "loaded in "+format.Seconds(c.LoadS), "built in "+format.Seconds(c.PrebuildS), format.Bytes(c.WireBytes)+" of requests")
}

// senders describes the sending threads, unless it is one thread of the client.
func senders(c *metrics.Client) string {
	switch {
	case c.Senders > 1 && c.SenderProcess:
		return fmt.Sprintf("sent by %d threads in a process of their own", c.Senders)
	case c.Senders > 1:
		return fmt.Sprintf("sent by %d threads", c.Senders)
	case c.SenderProcess:
		return "sent by a process of its own"
	}
	return ""
}

// stamps describes whose clock stamped what was received; "" if unknown.
func stamps(s *metrics.Stamps) string {
	switch {
	case s == nil:
		return ""
	case s.Received:
		return "kernel timestamps"
	default:
		return "no kernel timestamps"
	}
}

func (p *page) notes(s *metrics.Summary) {
	if len(s.Notes) == 0 {
		return
	}
	p.Line("")
	for _, note := range s.Notes {
		p.Sentence("  note: ", note)
	}
}

const (
	maxTargets   = 32 // rows; the summary has them all
	targetColumn = 10
)

// targets prints a row for each of several instances.
func (p *page) targets(s *metrics.Summary) {
	if len(s.Targets) > 1 {
		var rows, good [][]string
		for i := range s.Targets {
			t := &s.Targets[i]
			cells := latencyCells(t.Requests, t.Failed, t.TTFTMS, cmp.Or(t.ReportedHitRatio, t.CountedHitRatio))
			rows = append(rows, append([]string{t.URL}, cells...))
			good = append(good, append([]string{t.URL}, goodputCells(t)...))
		}
		p.table(rows, append([]string{"target"}, latencyHead()...)...)
		if s.Goodput != nil {
			p.table(good, "target", "good", "good/s", "share")
		}
	}
	if s.Instances != nil {
		p.breakdown("instance", s.Instances)
	}
	if s.Endpoints != nil && len(s.Endpoints.Parts) > len(s.Targets) {
		p.breakdown("address", s.Endpoints)
	}
}

// breakdown prints a row for each part.
func (p *page) breakdown(what string, b *metrics.Breakdown) {
	var rows [][]string
	for i := range b.Parts {
		part := &b.Parts[i]
		cells := latencyCells(part.Requests, part.Failed, part.TTFTMS, part.ReportedHitRatio)
		rows = append(rows, append([]string{part.Name, format.Percent(part.Share)}, cells...))
	}
	p.table(rows, append([]string{what, "share"}, latencyHead()...)...)
}

// table prints rows, whose names are shortened.
func (p *page) table(rows [][]string, head ...string) {
	shown := rows[:min(len(rows), maxTargets)]
	for _, row := range shown {
		row[0] = shorten(row[0], p.Width-(len(head)-1)*targetColumn-3)
	}
	p.Line("")
	p.Table(targetColumn, head, shown)
	if more := len(rows) - len(shown); more > 0 {
		p.Line(fmt.Sprintf("  … and %d more in %s", more, SummaryName))
	}
}

func latencyHead() []string { return []string{"requests", "failed", "TTFT p50", "TTFT p99", "hit"} }

func latencyCells(requests, failed int64, ttftMS *stats.Percentiles, hitRatio *float64) []string {
	p50, p99, hit := "–   ", "–   ", "–  "
	if ttftMS != nil {
		p50, p99 = aligned(ttftMS.P50*1e6, 3), aligned(ttftMS.P99*1e6, 3)
	}
	if hitRatio != nil {
		hit = format.Percent(*hitRatio)
	}
	return []string{format.Count(requests), format.Count(failed), p50, p99, hit}
}

// servers prints what the servers reported, beside what we measured; nothing if none was read.
func (p *page) servers(s *metrics.Summary) {
	if s.Servers == nil || s.Servers.All.Alternates {
		return
	}
	all := &s.Servers.All
	p.Field("servers", gauge("running", all.Running, plain), gauge("waiting", all.Waiting, plain),
		known(func(v float64) string { return "in flight " + plain(v) }, s.InFlight, "mean"),
		gauge("KV use", all.KVUsage, format.Percent))
	hit := ""
	if all.PrefixHitRatio != nil {
		hit = hits(all.PrefixHitRatio, "hits counted")
		if s.PrefixCache.ReportedHitRatio != nil {
			hit += ", " + format.Percent(*s.PrefixCache.ReportedHitRatio) + " reported"
		}
	}
	p.Field("", hit, known(whole, all.Preemptions, "preempted"),
		known(whole, all.GenerationTokens, "tokens made"), format.Some(s.Tokens.Completion, "received"))
}

func gauge(what string, g *scrape.Gauge, print func(float64) string) string {
	if g == nil {
		return ""
	}
	return fmt.Sprintf("%s %s mean, %s max", what, print(g.Mean), print(g.Max))
}

func whole(v float64) string { return format.Count(int64(v)) }

// plain prints a mean of requests with three digits, and whole ones without a point.
func plain(v float64) string {
	if v == math.Trunc(v) {
		return format.Count(int64(v))
	}
	return format.Number(v, 3)
}

// goodput prints the requests that met the SLOs, and how often each was
// missed; nothing without SLOs.
func (p *page) goodput(g *metrics.Goodput) {
	if g == nil {
		return
	}
	p.Field("goodput", format.Rate(g.RequestsPerS)+" requests/s", format.Counted(g.Requests, "good"),
		known(format.Percent, g.Share, "of the planned"))
	var missed []string
	for _, l := range metrics.Latencies() {
		if ms, ok := g.SLO[l.Name+"_ms"]; ok {
			slo := l.Label + " ≤ " + strconv.FormatFloat(ms, 'f', -1, 64) + " ms"
			if n := g.Unmeasured[l.Name]; n > 0 {
				slo += " (" + format.Counted(n, "have none") + ")"
			}
			missed = append(missed, format.Counted(g.Missed[l.Name], slo))
		}
	}
	p.Field("missed", append(missed, format.Some(g.Failed, "failed"))...)
}

func goodputCells(t *metrics.Target) []string {
	g := t.Goodput
	if g == nil || g.Share == nil {
		return []string{"–", "–", "–  "}
	}
	return []string{format.Count(g.Requests), format.Rate(g.RequestsPerS), format.Percent(*g.Share)}
}
