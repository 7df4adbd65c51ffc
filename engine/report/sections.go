package report

import (
	"cmp"
	"fmt"
	"sort"
	"strconv"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/metrics/human"
)

func (p *page) verdict(s *metrics.Summary) {
	word := p.paint("1;32", "VALID")
	if !s.Verdict.Valid {
		word = p.paint("1;31", "INVALID")
	}
	if s.Run.Partial {
		word += " (partial run)"
	}
	p.Painted(word)
	for _, reason := range s.Verdict.Reasons {
		p.Sentence("  - ", reason)
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
	p.Field("run", started, seconds(s.Run.DurationS))
}

// requests confesses: what failed, was sent twice, waited or was cut in two.
func (p *page) requests(s *metrics.Summary) {
	r := s.Requests
	p.Field("requests", count(r.Planned, "planned"), count(r.Sent, "sent"), count(r.OK, "ok"), count(r.Failed, "failed"),
		count(r.Resent, "resent"), some(r.Unwritten, "not on disk"))
	p.Field("failed", outcomes(r.ByOutcome)...)
	c := s.Connections
	wait := ""
	if c.MaxWaitMS > 0 {
		wait = "longest wait " + human.Duration(c.MaxWaitMS*1e6, 3)
	}
	if c != (metrics.Connections{}) {
		p.Field("connections", count(c.Dialled, "dialled"), count(c.NotReady, "not ready"), wait, some(c.ClosedIdle, "closed by the server"))
	}
	if s.Writes != (metrics.Writes{}) {
		p.Field("first writes", count(s.Writes.Whole, "whole"), count(s.Writes.Partial, "partial"))
	}
	p.held(s.Cap)
	p.turns(s.Turns)
	p.history(s.History)
	p.buildAhead(s.BuildAhead)
	p.Line("")
}

// held prints what a cap on the requests in flight did; nothing without one.
func (p *page) held(c *metrics.Cap) {
	if c == nil {
		return
	}
	parts := []string{human.Count(c.InFlight) + " in flight", count(c.Held, "held back")}
	if c.HeldMS != nil {
		parts = append(parts, "p50 "+human.Duration(c.HeldMS.P50*1e6, 3), "p99 "+human.Duration(c.HeldMS.P99*1e6, 3), "max "+human.Duration(c.HeldMS.Max*1e6, 3))
	}
	p.Field("cap", parts...)
}

// turns prints whether conversations were kept in order; nothing where there are none.
func (p *page) turns(t *metrics.Turns) {
	if t == nil {
		return
	}
	parts := []string{t.Sessions, human.Count(t.FollowUps) + " follow-up", human.Count(t.Overtaking) + " before the turn before had ended"}
	if t.OvertakingMS != nil {
		parts = append(parts, "by p50 "+human.Duration(t.OvertakingMS.P50*1e6, 3), "max "+human.Duration(t.OvertakingMS.Max*1e6, 3))
	}
	if t.LaterMS != nil {
		parts = append(parts, "later by p50 "+human.Duration(t.LaterMS.P50*1e6, 3), "p99 "+human.Duration(t.LaterMS.P99*1e6, 3))
	}
	p.Field("turns", parts...)
}

// history prints with what follow-up turns were sent; nothing if as recorded.
func (p *page) history(h *metrics.History) {
	if h == nil {
		return
	}
	parts := []string{human.Count(h.Live) + " turns with all answers live", some(h.Partly, "with some"), some(h.Recorded, "as recorded")}
	if h.MakeUS != nil {
		parts = append(parts, "made in p50 "+human.Duration(h.MakeUS.P50*1e3, 3), "p99 "+human.Duration(h.MakeUS.P99*1e3, 3))
	}
	p.Field("history", parts...)
}

// buildAhead prints how requests were built during the run; nothing if before.
func (p *page) buildAhead(b *metrics.BuildAhead) {
	if b == nil {
		return
	}
	lead := ""
	if b.LeastLeadMS != nil {
		lead = "least lead " + human.Duration(*b.LeastLeadMS*1e6, 3)
	}
	p.Field("built ahead", human.Bytes(b.WindowBytes)+" at a time", lead, count(b.Late, "late"))
}

// outcomes lists what became of the requests that failed, the most frequent
// first.
func outcomes(by map[string]int64) []string {
	var names []string
	for name, n := range by {
		if n > 0 && name != record.OK.String() {
			names = append(names, name)
		}
	}
	sort.Slice(names, func(i, j int) bool {
		a, b := names[i], names[j]
		return by[a] > by[b] || by[a] == by[b] && a < b
	})
	for i, name := range names {
		names[i] = count(by[name], name)
	}
	return names
}

func (p *page) latencies(s *metrics.Summary) {
	head := human.Right("", labelWidth)
	for _, name := range []string{"p50", "p90", "p95", "p99", "p99.9", "max", "mean"} {
		head += human.Right(name, p.column)
	}
	p.Line(head)
	p.row("drift", s.DriftUS, 1e3)
	if s.WireDriftUS != nil {
		p.row("wire drift", s.WireDriftUS, 1e3)
	}
	if s.UploadMS != nil {
		p.row("upload", s.UploadMS, 1e6)
	}
	if s.Client.ReceiveLagUS != nil {
		p.row("receive lag", s.Client.ReceiveLagUS, 1e3)
	}
	p.row("TTFT", s.TTFTMS, 1e6)
	p.row("TTFT planned", s.TTFTPlannedMS, 1e6)
	p.row("TPOT", s.TPOTMS, 1e6)
	p.row("ITL", s.ITLMS, 1e6)
	p.row("E2E", s.E2EMS, 1e6)
	p.row("E2E planned", s.E2EPlannedMS, 1e6)
	p.Line("")
}

// row prints one distribution whose unit is unitNS nanoseconds.
func (p *page) row(label string, q *metrics.Percentiles, unitNS float64) {
	line := human.Left("  "+label, labelWidth)
	if q == nil {
		p.Line(line + "  no samples")
		return
	}
	for _, v := range []float64{q.P50, q.P90, q.P95, q.P99, q.P999, q.Max, q.Mean} {
		line += human.Right(aligned(v*unitNS, p.digits), p.column)
	}
	p.Line(line)
}

func (p *page) totals(s *metrics.Summary) {
	t := s.Throughput
	p.Field("throughput", human.Rate(t.RequestsPerS)+" requests/s", human.Rate(t.InputTokensPerS)+" input tok/s",
		human.Rate(t.OutputTokensPerS)+" output tok/s")
	p.goodput(s.Goodput)
	c := s.PrefixCache
	what := "hits"
	if c.CountedTokens != nil {
		what += " by the " + c.HitsFrom
	}
	p.Field("prefix cache", hits(cmp.Or(c.HitRatio, c.ReportedHitRatio), what), ideal(c), unreported(c))
	p.shortfall(c.Shortfall, s.Tokens.Prompt)
	p.gateway(s.Gateway)
	p.servers(s)
	p.client(s)
	p.Field("workload", shorten(s.Workload.Fingerprint, p.Width-labelWidth))
	p.Field("results", p.o.Dir)
}

// ideal prints the expected hits, or their bounds where only these are known.
func ideal(c metrics.PrefixCache) string {
	if r := c.ExpectedRange; r != nil {
		return human.Percent(r[0]) + " to " + human.Percent(r[1]) + " ideal"
	}
	return hits(c.ExpectedHitRatio, "ideal")
}

// unreported prints how many requests the hits leave out that the ideal counts; "" for none, and where all hits are unknown.
func unreported(c metrics.PrefixCache) string {
	if cmp.Or(c.HitRatio, c.ReportedHitRatio) == nil || c.UnreportedRequests == 0 {
		return ""
	}
	return human.Many(c.UnreportedRequests, "request") + " never reported"
}

// shortfall prints why the servers hit less than the ideal, as shares of all prompt tokens; nothing where they did not.
func (p *page) shortfall(s *metrics.Shortfall, prompt int64) {
	if s == nil || s.Tokens == 0 || prompt == 0 {
		return
	}
	const leastPercent = 0.01 // printed; less is said to be less
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

// gateway prints the shares of TTFT of a gateway and of the servers behind it; nothing where none told.
func (p *page) gateway(g *metrics.Gateway) {
	if g == nil {
		return
	}
	part := func(q *metrics.Percentiles, what string) string {
		if q == nil {
			return ""
		}
		return "p50 " + human.Duration(q.P50*1e6, 3) + " " + what
	}
	share := ""
	if g.Share != nil {
		share = human.Percent(*g.Share) + " of TTFT"
	}
	p.Field("gateway", share, part(g.OwnMS, "its own"), part(g.UpstreamMS, "until the server's head"))
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
	p.Field("client", seconds(c.CPUS)+" CPU on "+human.Many(int64(s.Run.Host.CPUs), "core"), human.Bytes(c.MaxRSSBytes)+" memory", realtime, senders(&c), stamps(c.Stamps))
	p.Field("", "loaded in "+seconds(c.LoadS), "built in "+seconds(c.PrebuildS), human.Bytes(c.WireBytes)+" of requests")
}

// senders says who sent, where that is not one thread of the client.
func senders(c *metrics.Client) string {
	switch {
	case c.Lanes > 1 && c.LaneProcess:
		return fmt.Sprintf("sent by %d threads in a process of their own", c.Lanes)
	case c.Lanes > 1:
		return fmt.Sprintf("sent by %d threads", c.Lanes)
	case c.LaneProcess:
		return "sent by a process of its own"
	}
	return ""
}

// stamps says whose clock stamped what came; "" if unknown.
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
		var rows []tableRow
		for i := range s.Targets {
			t := &s.Targets[i]
			rows = append(rows, tableRow{t.URL, latencyCells(t.Requests, t.Failed, t.TTFTMS, cmp.Or(t.ReportedHitRatio, t.CountedHitRatio))})
		}
		p.table("target", rows, latencyHead()...)
		if s.Goodput != nil {
			for i := range rows {
				rows[i].cells = goodputCells(&s.Targets[i])
			}
			p.table("target", rows, "good", "good/s", "share")
		}
	}
	if s.Instances != nil {
		p.breakdown("instance", s.Instances)
	}
	if s.Peers != nil && len(s.Peers.Parts) > len(s.Targets) {
		p.breakdown("address", s.Peers)
	}
}

// breakdown prints a row for each part.
func (p *page) breakdown(what string, b *metrics.Breakdown) {
	var rows []tableRow
	for i := range b.Parts {
		part := &b.Parts[i]
		cells := latencyCells(part.Requests, part.Failed, part.TTFTMS, part.ReportedHitRatio)
		rows = append(rows, tableRow{part.Name, append([]string{human.Percent(part.Share)}, cells...)})
	}
	p.table(what, rows, append([]string{"share"}, latencyHead()...)...)
}

// tableRow is one row of a table: a name and what is known of it.
type tableRow struct {
	name  string
	cells []string
}

func (p *page) table(what string, rows []tableRow, head ...string) {
	var shown [][]string
	for _, row := range rows[:min(len(rows), maxTargets)] {
		name := shorten(row.name, p.Width-len(head)*targetColumn-3)
		shown = append(shown, append([]string{name}, row.cells...))
	}
	p.Line("")
	p.Table(targetColumn, append([]string{what}, head...), shown)
	if more := len(rows) - len(shown); more > 0 {
		p.Line(fmt.Sprintf("  … and %d more in %s", more, SummaryName))
	}
}

func latencyHead() []string { return []string{"requests", "failed", "TTFT p50", "TTFT p99", "hit"} }

func latencyCells(requests, failed int64, ttftMS *metrics.Percentiles, hitRatio *float64) []string {
	p50, p99, hit := "–   ", "–   ", "–  "
	if ttftMS != nil {
		p50, p99 = aligned(ttftMS.P50*1e6, 3), aligned(ttftMS.P99*1e6, 3)
	}
	if hitRatio != nil {
		hit = human.Percent(*hitRatio)
	}
	return []string{human.Count(requests), human.Count(failed), p50, p99, hit}
}
