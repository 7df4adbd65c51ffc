package report

import (
	_ "embed"
	"fmt"
	"io"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/chart"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

//go:embed page.html
var pageTemplate string

// htmlPage is what the template shows.
type htmlPage struct {
	Title   string
	Valid   bool
	Partial bool
	Reasons []string
	Notes   []string
	Numbers [][2]string // label and value
	Plots   []chart.Plot
}

// HTML writes the results in dir, whose summary is s, as one page that needs nothing else: no scripts, no fonts, no network.
// What is drawn by time is made of the records and of the servers' samples, so a killed run has it, too.
func HTML(w io.Writer, dir string, s *metrics.Summary) error {
	steps, err := timeline(dir, s)
	if err != nil {
		return err
	}
	samples, err := readSamples(dir)
	if err != nil {
		return err
	}
	p := htmlPage{
		Title: s.Workload.Trace, Valid: s.Verdict.Valid, Partial: s.Run.Partial, Reasons: s.Verdict.Reasons, Notes: s.Notes,
		Numbers: htmlNumbers(s), Plots: append(stepPlots(steps), samplePlots(samples)...),
	}
	if p.Title == "" {
		p.Title = dir
	}
	return chart.Page(pageTemplate).Execute(w, p)
}

// timeline makes the steps of time from the records, as the run did.
func timeline(dir string, s *metrics.Summary) ([]metrics.Step, error) {
	var urls []string
	for _, t := range s.Targets {
		urls = append(urls, t.URL)
	}
	c, _, err := collect(dir, urls, nil, func(*record.Record) {})
	if err != nil {
		return nil, fmt.Errorf("what is drawn by time is made of the records: %w", err)
	}
	return c.ByTime(), nil
}

// htmlNumbers are what the page says in figures; the rest is on the terminal and in summary.json.
func htmlNumbers(s *metrics.Summary) [][2]string {
	r := s.Requests
	out := [][2]string{
		{"run", seconds(s.Run.DurationS)},
		{"requests", format.Count(r.Planned)}, {"ok", format.Count(r.OK)}, {"failed", format.Count(r.Failed)},
		{"requests/s", format.Rate(s.Throughput.RequestsPerS)}, {"output tokens/s", format.Rate(s.Throughput.OutputTokensPerS)},
	}
	for _, l := range latencies(s) {
		if l.q != nil && l.html {
			p50, p99 := format.Duration(l.q.P50*l.unitNS, 3), format.Duration(l.q.P99*l.unitNS, 3)
			out = append(out, [2]string{l.label + " p50, p99", p50 + ", " + p99})
		}
	}
	if v := s.PrefixCache.ReportedHitRatio; v != nil {
		out = append(out, [2]string{"prefix hits, as reported", format.Percent(*v)})
	}
	if s.Servers != nil {
		if v := s.Servers.All.PrefixHitRatio; v != nil {
			out = append(out, [2]string{"prefix hits, as the servers count", format.Percent(*v)})
		}
		if v := s.Servers.All.Preemptions; v != nil {
			out = append(out, [2]string{"preemptions", format.Count(int64(*v))})
		}
	}
	return out
}
