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
	"github.com/fastreplay/fastreplay/engine/stats"
)

// HTML writes the results in dir, whose summary is s, as one page that needs nothing else: no other file, no network.
// Numbers are those of the summary. Pictures are made of the records and of the servers' samples, so a killed run has
// them, too. If there are no records, the page has no pictures.
func HTML(w io.Writer, dir string, s *metrics.Summary) error {
	p, err := picturesOf(dir, s)
	if err != nil && !errors.Is(err, ErrNoResults) {
		return err
	}
	parts, err := partsOf(s)
	if err != nil {
		return err
	}
	for _, p := range parts {
		for _, row := range p.rows {
			if p.path == "routing.routers" {
				row[0] = s.Routing.Label(row[0])
			}
		}
	}
	verdict := verdictSection(s)
	verdict.Facts = factsOf(parts)
	// it distinguishes a run from others
	title := filepath.Base(cmp.Or(s.Workload.Trace, dir)) + paceOf(s) + " → " + whither(s)
	if !s.Run.StartedAt.IsZero() {
		title += " · " + s.Run.StartedAt.UTC().Format("2006-01-02 15:04:05 UTC")
	}
	host := fmt.Sprintf("from %s, %s", s.Run.Host.Name, format.Many(s.Run.Host.CPUs, "core"))
	under := format.Present(s.Run.Model, s.Run.API, s.Workload.Format, s.Length(), "fastreplay "+s.Run.Version, host)
	d := chart.Document{Title: title, Under: under, Sections: []chart.Section{verdict}}
	further := slices.Concat([]chart.Section{
		{
			Title:  "Latencies",
			Tables: []chart.Table{latencyTable(s)},
			Note: "Latencies are of ok requests, counted from the moment of sending; " +
				"drift is how late requests left.",
		},
		{Title: "Shards", Tables: tablesOf(parts, "", "shards")},
		{Title: "Failures", Tables: tablesOf(parts, "", "requests.failures", "outages")},
	}, p.sections(s, tablesOf(parts, targetColumns, "targets", "instances.parts", "endpoints.parts")), []chart.Section{
		jobSection(s, parts),
		{Title: "Prefix cache and routing", Tables: tablesOf(parts, "", "prefix_cache", "routing.routers", "routing")},
		flagSection(s), numbersSection(parts),
	})
	for _, section := range further {
		if len(section.Graphs)+len(section.Tables)+len(section.Facts) > 0 {
			d.Sections = append(d.Sections, section)
		}
	}
	return d.Write(w)
}

func shortURL(url string) string { return strings.TrimPrefix(url, "http://") }

// verdictSection is what one reads first.
func verdictSection(s *metrics.Summary) chart.Section {
	v := &s.Verdict
	finding := chart.Finding{Grade: chart.Bad, Word: strings.ToUpper(string(cmp.Or(v.Measurement, metrics.Invalid)))}
	switch {
	case s.Run.Demo && v.Valid:
		finding.Grade = chart.Good
		finding.Word += " · demo against a mock server"
	case v.Measurement == metrics.Valid:
		finding.Grade = chart.Good
	case v.Measurement == metrics.Limited:
		finding.Grade = chart.Warn
	}
	if s.Run.Partial {
		finding.Word += " (partial run)"
	}
	if text := few(s); text != "" {
		finding.Word += " · " + text
	}
	if text := s.Failed(); text != "" {
		finding.Word += " · " + text
		finding.Lines = append(finding.Lines, "failed: "+s.FailedWhere())
	}
	for _, r := range v.Reasons {
		finding.Lines = append(finding.Lines, r.What)
		for _, line := range [][2]string{{"why: ", r.Why}, {"do: ", r.Do}} {
			if line[1] != "" {
				finding.Lines = append(finding.Lines, line[0]+line[1])
			}
		}
	}
	out := chart.Section{Findings: []chart.Finding{finding}}
	if missed := v.Missed(); len(v.Objectives) > 0 {
		wanted := chart.Finding{Grade: chart.Good, Word: "Objectives met"}
		if missed > 0 {
			wanted.Grade = chart.Bad
			wanted.Word = fmt.Sprintf(
				"%d of %s missed",
				missed,
				format.Many(len(v.Objectives), "objective"),
			)
		}
		wanted.Lines = objectiveLines(v)
		out.Findings = append(out.Findings, wanted)
	}
	if len(s.Notes) > 0 {
		out.Findings = append(out.Findings, chart.Finding{Lines: s.Notes})
	}
	return out
}

// objectiveLines are what the user wanted, the missed first.
func objectiveLines(v *metrics.Verdict) []string {
	var met, missed []string
	for i := range v.Objectives {
		if o := &v.Objectives[i]; o.Met {
			met = append(met, "✓ "+o.Text+" ("+o.Words()+")")
		} else {
			missed = append(missed, "✗ "+o.Text+" ("+o.Words()+")")
		}
	}
	return append(missed, met...)
}

// firstFacts are their names for people and their keys in summary.json, at least two spaces apart. Rates are those
// under load.
const firstFacts = `requests                         requests.planned
ok                               requests.ok
failed                           requests.failed
seconds                          run.duration_s
ok requests/s                    rates.requests_per_s
input tokens/s                   rates.input_tokens_per_s
output tokens/s                  rates.output_tokens_per_s
seconds under load               rates.until_s
in flight, mean                  in_flight_mean
from second                      window.from_s
to second                        window.to_s
cost of 1M input tokens          cost.per_1m_input_tokens
cost of 1M output tokens         cost.per_1m_output_tokens
cost of 1M tokens                cost.per_1m_tokens
cost of a request                cost.per_request
J/token                          energy.j_per_token
J/output token                   energy.j_per_output_token
GPU power, W                     server_metrics.all.power_w.mean
good requests                    goodput.requests
goodput                          goodput.share
good requests/s                  goodput.requests_per_s
prefix hits                      prefix_cache.hit_ratio
prefix hits, as reported         prefix_cache.reported_hit_ratio
ideal prefix hits, as placed     prefix_cache.expected_hit_ratio
ideal, in one cache              routing.one_cache_hit_ratio
recorded prefix hits             prefix_cache.recorded.recorded_hit_ratio
jobs                             jobs.jobs
jobs finished                    jobs.finished
jobs/h                           jobs.jobs_per_h
waiting in servers, max          server_metrics.all.waiting.max
KV cache use, max                server_metrics.all.kv_usage.max
preemptions                      server_metrics.all.preemptions
CPU taken by the host            client.stolen_share
`

// factsOf are the numbers that one looks for first.
func factsOf(parts []*part) (facts [][2]string) {
	at := map[string]string{}
	for _, p := range parts {
		for _, f := range p.fields {
			at[strings.TrimPrefix(p.path+"."+f[0], ".")] = f[1]
		}
	}
	rates := "under_load."
	if v := at["under_load.until_s"]; v == "" || v == "0" { // of an earlier version
		rates = "throughput."
	}
	for line := range strings.Lines(firstFacts) {
		name, key, _ := strings.Cut(strings.TrimSpace(line), "  ")
		key = strings.Replace(strings.TrimSpace(key), "rates.", rates, 1)
		if text := at[key]; text != "" {
			facts = append(facts, [2]string{name, text})
		}
	}
	return facts
}

// targetColumns are those of targets that a page has room for.
const targetColumns = " url name requests failed share ttft_ms.p50 ttft_ms.p99 tpot_ms.p50 e2e_ms.p99 " +
	"reported_hit_ratio counted_hit_ratio goodput.share "

// tablesOf are the parts with these paths, if they are there; of the columns of rows those that are named between
// spaces, "" = all.
func tablesOf(parts []*part, columns string, paths ...string) (out []chart.Table) {
	for _, path := range paths {
		for _, p := range parts {
			if p.path != path {
				continue
			}
			rows := append([][]string{p.head}, p.rows...)
			if len(p.rows) == 0 {
				rows = [][]string{{"", ""}}
				for _, f := range p.fields {
					rows = append(rows, f[:])
				}
			}
			t := chart.Table{Title: path}
			for i, row := range rows {
				var cells []string
				for c, cell := range row {
					if columns == "" || len(p.rows) == 0 ||
						strings.Contains(columns, " "+p.head[c]+" ") {
						cells = append(cells, cell)
					}
				}
				if t.Rows = append(t.Rows, chart.Texts(cells...)); i == 0 {
					t.Head, t.Rows = cells, nil
				}
			}
			out = append(out, t)
		}
	}
	return out
}

// numbersSection is all that summary.json has.
func numbersSection(parts []*part) chart.Section {
	out := chart.Section{Title: "All of summary.json", Folded: true}
	for _, p := range parts {
		for _, f := range p.fields {
			out.Facts = append(out.Facts, [2]string{strings.TrimPrefix(p.path+"."+f[0], "."), f[1]})
		}
		if len(p.texts) > 0 {
			out.Facts = append(out.Facts, [2]string{p.path, strings.Join(p.texts, "; ")})
		}
		if len(p.rows) > 0 {
			out.Tables = append(out.Tables, tablesOf([]*part{p}, "", p.path)...)
		}
	}
	return out
}

// shownLatency is a row of a table of latencies.
type shownLatency struct {
	key, label, name string // name is longer
	q                *stats.Percentiles
	unitNS           float64
}

// shownLatencies are the latencies of s that stand at a place for people, and how long jobs took.
func shownLatencies(s *metrics.Summary, at metrics.Shown) (rows []shownLatency) {
	for i, l := range metrics.Latencies() {
		if q, unitNS := s.Latency(i); q != nil && l.Shown >= at && !s.LikeTwin(i) {
			rows = append(rows, shownLatency{l.Key, l.Label, cmp.Or(l.Long, l.Label), q, unitNS})
		}
	}
	if q := jobRow(s); q != nil {
		rows = append(rows, shownLatency{"", "JOB", "jobs", q, 1e9})
	}
	return rows
}

// latencyTable is the distributions of the summary, with marks at what says little.
func latencyTable(s *metrics.Summary) chart.Table {
	t := chart.Table{Head: []string{"", "values", "p50", "p90", "p95", "p99", "p999", "max", "mean"}}
	for _, l := range shownLatencies(s, metrics.OnPage) {
		row := chart.Texts(l.name, format.Count(l.q.Count))
		for i, v := range []float64{l.q.P50, l.q.P90, l.q.P95, l.q.P99, l.q.P999, l.q.Max, l.q.Mean} {
			c := chart.Cell{Text: format.Duration(v*l.unitNS, 4)}
			mark := "~"
			if at := []float64{0.5, 0.9, 0.95, 0.99, 0.999}; i < len(at) &&
				!s.Enough(l.key, int64(math.Round(1000*at[i])), l.q.Count) {
				c.Hint = format.Many(l.q.Count, "value") + " are too few"
			}
			for _, u := range s.Verdict.Unsafe {
				if u.Metric == l.key && u.Percentile == t.Head[2+i] {
					mark = "!"
					c.Hint = "the client's lateness may have moved it by " + format.Duration(u.EffectMS*1e6, 3)
				}
			}
			if c.Hint != "" {
				c.Text = mark + c.Text
				c.Mark = chart.Warn
				t.Note = "~ too few values; ! moved by the client's lateness: point at the number for by how much."
			}
			row = append(row, c)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// flagSection has what made the run, so that it can be repeated.
func flagSection(s *metrics.Summary) chart.Section {
	t := chart.Table{Head: []string{"flag", "value"}}
	for _, name := range slices.Sorted(maps.Keys(s.Run.Options)) {
		t.Rows = append(t.Rows, chart.Texts("--"+name, fmt.Sprint(s.Run.Options[name])))
	}
	if len(t.Rows) == 0 {
		return chart.Section{}
	}
	return chart.Section{Title: "Flags", Folded: true, Tables: []chart.Table{t}}
}

// agentsOf are the results by job of a trace of agents; nil of any other, also of one of conversations.
func agentsOf(s *metrics.Summary) *metrics.Jobs {
	if s.Jobs == nil || len(s.Jobs.Depths) == 0 {
		return nil
	}
	return s.Jobs
}

// jobRow is the completion times of jobs in s; nil if there are none.
func jobRow(s *metrics.Summary) *stats.Percentiles {
	if j := agentsOf(s); j != nil {
		return j.CompletionS
	}
	return nil
}

// jobs adds what became of jobs, where their time went, and the latencies by depth.
func (p *screen) jobs() {
	j := agentsOf(p.s)
	if j == nil {
		return
	}
	perH := ""
	ratio := ""
	overtaking := ""
	if j.PerH != nil {
		perH = format.Rate(*j.PerH) + " jobs/h"
	}
	if j.Ratio != nil {
		ratio = fmt.Sprintf(
			"p50 %s × as long as recorded, max %s ×",
			format.Number(j.Ratio.P50, 3),
			format.Number(j.Ratio.Max, 3),
		)
	}
	if t := p.s.Turns; t != nil {
		overtaking = format.Some(t.Overtaking, "overtaking")
	}
	p.field(
		first,
		2,
		"jobs",
		format.Count(j.Finished)+" of "+format.Counted(j.Jobs, "finished"),
		format.Some(j.WithFailures, "with failures"),
		format.Some(j.CutOff, "cut off"),
		perH,
		ratio,
		overtaking,
	)
	if j.CompletionS != nil && j.CompletionS.Mean > 0 {
		waits := j.WaitsS.Mean / j.CompletionS.Mean
		behind := ""
		if t := p.s.Turns; t != nil && t.LaterMS != nil && t.LaterMS.Max > 0 {
			behind = "delayed up to " + format.Duration(t.LaterMS.Max*1e6, 3)
		}
		p.field(
			second,
			1,
			"job time",
			format.Percent(1-waits)+" in requests",
			format.Percent(waits)+" between them",
			behind,
		)
	}
	for i := range j.Depths[:min(len(j.Depths), 2)] { // --full has the deeper ones
		d := &j.Depths[i]
		ttft := ""
		if q := d.TTFTMS; q != nil {
			ttft = "TTFT p50 " + format.Duration(q.P50*1e6, 3) + ", p99 " + format.Duration(q.P99*1e6, 3)
		}
		p.field(
			second,
			1,
			cmp.Or(map[string]string{"0": "main agents", "1": "sub-agents"}[d.Name], "depth "+d.Name),
			format.Many(d.OK+d.Failed, "request"),
			format.Some(d.Failed, "failed"),
			ttft,
			known(format.Percent, d.ReportedHitRatio, "hits"),
		)
	}
}

// jobSection has the results by job of the page.
func jobSection(s *metrics.Summary, parts []*part) chart.Section {
	const columns = " name requests agents state completion_s recorded_s critical_waits_s critical_requests failed " +
		"ttft_ms.p50 ttft_ms.p99 e2e_ms.p50 e2e_ms.p99 reported_hit_ratio expected_hit_ratio distribution p50 p90 " +
		"p95 p99 p999 max mean count "
	if s.Jobs == nil {
		return chart.Section{}
	}
	return chart.Section{
		Title:  "Jobs",
		Tables: tablesOf(parts, columns, "jobs", "jobs.depths", "jobs.longest", "jobs.sessions"),
		Note: "A job is a task with all requests of its agents, or a conversation if the trace has no jobs. Its " +
			"critical path leads from its last answer back to what each request waited for longest. " +
			"Distributions are over finished jobs. The longest jobs are listed, and the conversations whose " +
			"answers took longest in all.",
	}
}
