package report

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/engine/chart"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/route"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// HTML writes the results in dir, whose summary is s, as one page that needs nothing else: no other file, no network. Numbers are
// those of the summary. Pictures are made of the records and of the servers' samples, so a killed run has them, too. If
// there are no records, the page has no pictures.
func HTML(w io.Writer, dir string, s *metrics.Summary) error {
	p, err := picturesOf(dir, s)
	if err != nil && !errors.Is(err, ErrNoResults) {
		return err
	}
	d := chart.Document{Title: titleOf(dir, s), Under: under(s)}
	d.Sections = append(d.Sections, verdictSection(s), chart.Section{
		Title: "Latencies", Tables: []chart.Table{latencyTable(s)},
		Note: "Latencies are of ok requests, counted from the moment of sending; drift is how late requests left.",
	})
	further := slices.Concat([]chart.Section{failureSection(s)}, p.sections(s), []chart.Section{cacheSection(s), flagSection(s)})
	for _, section := range further {
		if len(section.Graphs)+len(section.Tables)+len(section.Facts) > 0 {
			d.Sections = append(d.Sections, section)
		}
	}
	return d.Write(w)
}

// titleOf distinguishes a run from others: what was sent, where to, and when.
func titleOf(dir string, s *metrics.Summary) string {
	title := filepath.Base(cmp.Or(s.Workload.Trace, dir))
	if n := len(s.Run.Targets); n == 1 {
		title += " → " + shortURL(s.Run.Targets[0])
	} else if n > 1 {
		title += " → " + format.Many(int64(n), "server")
	}
	if !s.Run.StartedAt.IsZero() {
		title += " · " + s.Run.StartedAt.UTC().Format("2006-01-02 15:04:05 UTC")
	}
	return title
}

func shortURL(url string) string { return strings.TrimPrefix(url, "http://") }

func under(s *metrics.Summary) (out []string) {
	pace := s.Run.Pace
	if pace == metrics.TraceTime {
		pace = fmt.Sprintf("trace time × %g", s.Run.Scale)
	}
	load := ""
	if s.Amplify != nil {
		load = fmt.Sprintf("%g times the load", s.Amplify.Factor)
	}
	host := s.Run.Host.Name
	if s.Run.Host.CPUs > 0 {
		host += ", " + format.Many(int64(s.Run.Host.CPUs), "core")
	}
	for _, text := range []string{
		s.Run.Model, s.Run.API, s.Workload.Format, pace, load, format.Seconds(s.Run.DurationS), "fastreplay " + s.Run.Version, "from " + host,
	} {
		if text != "" {
			out = append(out, text)
		}
	}
	return out
}

// verdictSection is what one reads first.
func verdictSection(s *metrics.Summary) chart.Section {
	v := &s.Verdict
	finding := chart.Finding{Grade: chart.Bad, Word: strings.ToUpper(string(cmp.Or(v.Measurement, metrics.Invalid)))}
	switch {
	case s.Run.Demo && v.Valid:
		finding.Grade, finding.Word = chart.Good, finding.Word+" · demo against a mock server"
	case v.Measurement == metrics.Valid:
		finding.Grade = chart.Good
	case v.Measurement == metrics.Limited:
		finding.Grade = chart.Warn
	}
	if s.Run.Partial {
		finding.Word += " (partial run)"
	}
	for _, r := range v.Reasons {
		finding.Lines = append(finding.Lines, r.What)
		for _, line := range [][2]string{{"why: ", r.Why}, {"do: ", r.Do}} {
			if line[1] != "" {
				finding.Lines = append(finding.Lines, line[0]+line[1])
			}
		}
	}
	out := chart.Section{Findings: []chart.Finding{finding}, Facts: factsOf(s)}
	if missed := v.Missed(); len(v.Objectives) > 0 {
		wanted := chart.Finding{Grade: chart.Good, Word: "Objectives met"}
		if missed > 0 {
			wanted.Grade, wanted.Word = chart.Bad, fmt.Sprintf("%d of %s missed", missed, format.Many(int64(len(v.Objectives)), "objective"))
		}
		for i := range v.Objectives {
			wanted.Lines = append(wanted.Lines, objectiveLine(&v.Objectives[i]))
		}
		out.Findings = append(out.Findings, wanted)
	}
	if len(s.Notes) > 0 {
		out.Findings = append(out.Findings, chart.Finding{Lines: s.Notes})
	}
	return out
}

func objectiveLine(o *metrics.Objective) string {
	mark := "✗ "
	if o.Met {
		mark = "✓ "
	}
	return mark + o.Text + ": " + o.Words()
}

// factsOf are numbers that have no distribution.
func factsOf(s *metrics.Summary) (facts [][2]string) {
	add := func(name, value string) {
		if value != "" {
			facts = append(facts, [2]string{name, value})
		}
	}
	percent := func(v *float64) string {
		if v == nil {
			return ""
		}
		return format.Percent(*v)
	}
	r := &s.Requests
	add("requests", format.Count(r.Planned))
	add("ok", format.Count(r.OK))
	add("failed", format.Count(r.Failed))
	add("sent again", format.Some(r.Resent, "requests"))
	add("run", format.Seconds(s.Run.DurationS))
	add("ok requests/s", format.Rate(s.Throughput.RequestsPerS))
	add("input tokens/s", format.Rate(s.Throughput.InputTokensPerS))
	add("output tokens/s", format.Rate(s.Throughput.OutputTokensPerS))
	if s.InFlight != nil {
		add("in flight, mean", plainNumber(*s.InFlight))
	}
	if g := s.Goodput; g != nil {
		add("good requests", format.Count(g.Requests))
		add("goodput", percent(g.Share))
		add("good requests/s", format.Rate(g.RequestsPerS))
		for _, name := range slices.Sorted(maps.Keys(g.SLO)) {
			bound := strings.TrimSuffix(name, "_ms")
			add("missed "+bound+" ≤ "+format.Duration(g.SLO[name]*1e6, 3), format.Count(g.Missed[bound]))
		}
	}
	c := &s.PrefixCache
	add("prefix hits", percent(cmp.Or(c.HitRatio, c.ReportedHitRatio)))
	add("ideal prefix hits", percent(c.ExpectedHitRatio))
	if s.Servers != nil {
		all := &s.Servers.All
		add("prefix hits, as servers count", percent(all.PrefixHitRatio))
		if all.Waiting != nil {
			add("waiting in servers, max", plainNumber(all.Waiting.Max))
		}
		if all.KVUsage != nil {
			add("KV cache use, max", format.Percent(all.KVUsage.Max))
		}
		if all.Preemptions != nil {
			add("preemptions", format.Count(int64(*all.Preemptions)))
		}
	}
	add("CPU taken by the host", percent(s.Client.StolenShare))
	return facts
}

// plainNumber prints a mean with three digits, and whole numbers without a point.
func plainNumber(v float64) string {
	if v == math.Trunc(v) {
		return format.Count(int64(v))
	}
	return format.Number(v, 3)
}

// percentile is a column of the table of latencies.
type percentile struct {
	name, key string  // on the page, and in Unsafe
	quantile  float64 // 1 and 0 for what needs no number of samples
	of        func(*stats.Percentiles) float64
}

func percentiles() []percentile {
	return []percentile{
		{"p50", "p50", 0.5, func(p *stats.Percentiles) float64 { return p.P50 }},
		{"p90", "p90", 0.9, func(p *stats.Percentiles) float64 { return p.P90 }},
		{"p95", "p95", 0.95, func(p *stats.Percentiles) float64 { return p.P95 }},
		{"p99", "p99", 0.99, func(p *stats.Percentiles) float64 { return p.P99 }},
		{"p99.9", "p999", 0.999, func(p *stats.Percentiles) float64 { return p.P999 }},
		{"max", "max", 0, func(p *stats.Percentiles) float64 { return p.Max }},
		{"mean", "mean", 0, func(p *stats.Percentiles) float64 { return p.Mean }},
	}
}

// latencyTable is the distributions of the summary. Latencies from the planned time stand in it if they differ.
func latencyTable(s *metrics.Summary) chart.Table {
	t := chart.Table{Head: []string{"", "values"}}
	for _, p := range percentiles() {
		t.Head = append(t.Head, p.name)
	}
	for _, l := range []struct {
		name, key string
		q, twin   *stats.Percentiles // twin: what it must differ from
		unitNS    float64
	}{
		{"drift", "drift", s.DriftUS, nil, 1e3},
		{"TTFT", "ttft", s.TTFTMS, nil, 1e6},
		{"TTFT from the planned time", "ttft_planned", s.TTFTPlannedMS, s.TTFTMS, 1e6},
		{"TPOT", "tpot", s.TPOTMS, nil, 1e6},
		{"ITL", "itl", s.ITLMS, nil, 1e6},
		{"E2E", "e2e", s.E2EMS, nil, 1e6},
		{"E2E from the planned time", "e2e_planned", s.E2EPlannedMS, s.E2EMS, 1e6},
	} {
		if l.q == nil || l.twin != nil && !differ(l.q, l.twin) {
			continue
		}
		row := chart.Texts(l.name, format.Count(l.q.Count))
		for _, p := range percentiles() {
			row = append(row, percentileCell(l.key, p, l.q, l.unitNS, s.Verdict.Unsafe))
		}
		t.Rows = append(t.Rows, row)
	}
	if slices.ContainsFunc(slices.Concat(t.Rows...), func(c chart.Cell) bool { return c.Mark != "" }) {
		t.Note = "~ too few values, or moved by the client's lateness: point at the number for why."
	}
	return t
}

// differ reports whether any percentile differs by more than 5 %.
func differ(a, b *stats.Percentiles) bool {
	return slices.ContainsFunc(percentiles(), func(p percentile) bool { return math.Abs(p.of(a)-p.of(b)) > 0.05*math.Abs(p.of(b)) })
}

// percentileCell marks a percentile that says little.
func percentileCell(metric string, p percentile, q *stats.Percentiles, unitNS float64, unsafe []metrics.Unsafe) chart.Cell {
	c := chart.Cell{Text: format.Duration(p.of(q)*unitNS, 4)}
	if p.quantile > 0 && !stats.EnoughSamples(q.Count, p.quantile) {
		c = chart.Cell{Text: "~" + c.Text, Mark: chart.Warn, Hint: format.Many(q.Count, "value") + ": too few for " + p.name}
	}
	for _, u := range unsafe {
		if u.Metric == metric && u.Percentile == p.key {
			c.Text, c.Mark = "~"+strings.TrimPrefix(c.Text, "~"), chart.Warn
			c.Hint = "the client's lateness may have moved it by " + format.Duration(u.EffectMS*1e6, 3)
		}
	}
	return c
}

// failureSection has failures by kind, and outages.
func failureSection(s *metrics.Summary) chart.Section {
	out := chart.Section{Title: "Failures"}
	if len(s.Requests.Failures) > 0 {
		t := chart.Table{Head: []string{"outcome", "phase", "status", "requests", "of planned", "example"}}
		for _, f := range s.Requests.Failures {
			status := "–"
			if f.Status > 0 {
				status = fmt.Sprint(f.Status)
			}
			share := format.Percent(float64(f.Count) / float64(max(1, s.Requests.Planned)))
			t.Rows = append(t.Rows, chart.Texts(f.Outcome, f.Phase, status, format.Count(f.Count), share, shorten(f.Example, 120)))
		}
		out.Tables = append(out.Tables, t)
	}
	if len(s.Outages) > 0 {
		t := chart.Table{Title: "Outages", Head: []string{"target", "from", "to", "requests", "failed", "outcome"}}
		for i := range s.Outages {
			o := &s.Outages[i]
			to := "the end"
			if o.ToS != nil {
				to = format.Seconds(*o.ToS)
			}
			t.Rows = append(t.Rows, chart.Texts(cmp.Or(o.Address, shortURL(o.Target)), format.Seconds(o.FromS), to,
				format.Count(o.Requests), format.Count(o.Failed), o.Outcome))
		}
		out.Tables = append(out.Tables, t)
	}
	return out
}

// targetTables has a row for each target, instance and address, and one for all.
func targetTables(s *metrics.Summary) (out []chart.Table) {
	head := []string{"", "requests", "failed", "TTFT p50", "TTFT p99", "TPOT p50", "E2E p99", "prefix hits"}
	at := func(q *stats.Percentiles, p99 bool) string {
		switch {
		case q == nil:
			return "–"
		case p99:
			return format.Duration(q.P99*1e6, 4)
		}
		return format.Duration(q.P50*1e6, 4)
	}
	row := func(name string, requests, failed int64, ttft, tpot, e2e *stats.Percentiles, hits *float64) []chart.Cell {
		hit := "–"
		if hits != nil {
			hit = format.Percent(*hits)
		}
		return chart.Texts(name, format.Count(requests), format.Count(failed),
			at(ttft, false), at(ttft, true), at(tpot, false), at(e2e, true), hit)
	}
	all := row("all", s.Requests.Planned, s.Requests.Failed, s.TTFTMS, s.TPOTMS, s.E2EMS, s.PrefixCache.ReportedHitRatio)
	if len(s.Targets) > 1 {
		t := chart.Table{Title: "Targets", Head: head, Rows: [][]chart.Cell{all}}
		for i := range s.Targets {
			of := &s.Targets[i]
			t.Rows = append(t.Rows, row(shortURL(of.URL), of.Requests, of.Failed, of.TTFTMS, of.TPOTMS, of.E2EMS,
				cmp.Or(of.ReportedHitRatio, of.CountedHitRatio)))
		}
		out = append(out, t)
	}
	for title, b := range map[string]*metrics.Breakdown{"Instances": s.Instances, "Addresses": s.Endpoints} {
		if b == nil || len(b.Parts) <= 1 || title == "Addresses" && len(b.Parts) <= len(s.Targets) {
			continue
		}
		t := chart.Table{Title: title, Head: head, Rows: [][]chart.Cell{all}}
		for i := range b.Parts {
			of := &b.Parts[i]
			t.Rows = append(t.Rows, row(of.Name, of.Requests, of.Failed, of.TTFTMS, of.TPOTMS, of.E2EMS, of.ReportedHitRatio))
		}
		out = append(out, t)
	}
	slices.SortStableFunc(out, func(a, b chart.Table) int { return -cmp.Compare(a.Title, b.Title) })
	return out
}

// cacheSection has why hits were missed, and what other routers would have hit.
func cacheSection(s *metrics.Summary) chart.Section {
	out := chart.Section{Title: "Prefix cache and routing"}
	if f := s.PrefixCache.Shortfall; f != nil && f.Tokens > 0 && s.Tokens.Prompt > 0 {
		t := chart.Table{Title: "Below the ideal hits", Head: []string{"cause", "tokens", "of all prompt tokens"}}
		for _, c := range []struct {
			name   string
			tokens int64
		}{
			{"in all", f.Tokens}, {"the earlier request was still in prefill", f.InPrefillTokens},
			{"at another instance", f.ElsewhereTokens}, {"evicted", f.EvictedTokens},
			{"caching is off", f.CacheOffTokens}, {"never reported", f.NotReportedTokens}, {"unexplained", f.UnexplainedTokens},
		} {
			if c.tokens > 0 {
				t.Rows = append(t.Rows, chart.Texts(c.name, format.Count(c.tokens), format.Percent(float64(c.tokens)/float64(s.Tokens.Prompt))))
			}
		}
		out.Tables = append(out.Tables, t)
	}
	if o := s.Routing; o != nil {
		t := chart.Table{
			Title: "Hits by who routes", Note: o.Definition,
			Head: []string{"router", "hits", "largest share", "variation of requests", "variation of tokens"},
		}
		routers := o.Routers
		if o.Actual != nil {
			routers = append([]route.Routed{*o.Actual}, routers...)
		}
		for _, r := range routers {
			t.Rows = append(t.Rows, chart.Texts(r.Router, format.Percent(r.HitRatio), format.Percent(r.LargestShare),
				format.Fixed(r.RequestsCV, 3), format.Fixed(r.TokensCV, 3)))
		}
		out.Tables = append(out.Tables, t)
	}
	return out
}

// flagSection has what made the run, so that it can be repeated.
func flagSection(s *metrics.Summary) chart.Section {
	t := chart.Table{Head: []string{"flag", "value"}}
	for _, name := range slices.Sorted(maps.Keys(s.Run.Options)) {
		t.Rows = append(t.Rows, chart.Texts("--"+name, fmt.Sprint(s.Run.Options[name])))
	}
	out := chart.Section{Title: "Flags and workload", Folded: true}
	if len(t.Rows) > 0 {
		out.Tables = []chart.Table{t}
	}
	for _, fact := range [][2]string{
		{"trace", s.Workload.Trace}, {"workload", s.Workload.Fingerprint}, {"rows", format.Count(s.Workload.Rows)}, {"machine", s.Run.Host.CPU},
		{"kernel", s.Run.Host.Kernel}, {"client CPU", format.Seconds(s.Client.CPUS)}, {"client memory", format.Bytes(s.Client.MaxRSSBytes)},
	} {
		if fact[1] != "" {
			out.Facts = append(out.Facts, fact)
		}
	}
	return out
}
