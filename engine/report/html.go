package report

import (
	"fmt"
	"io"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/chart"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

const pageStyle = `.numbers { width: auto; min-width: 20rem }
.numbers th { width: auto }
`

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
	title := s.Workload.Trace
	if title == "" {
		title = dir
	}
	p := chart.NewPage(title, pageStyle)
	verdict := "INVALID"
	if s.Verdict.Valid {
		verdict = "VALID"
	}
	p.Add("<div class=\"finding%s\"><b>%s</b>%s</div>\n", chart.If(!s.Verdict.Valid, " refusal"), verdict, chart.If(s.Run.Partial, " (partial run)"))
	for _, reason := range s.Verdict.Reasons {
		p.Add("<div class=\"finding refusal\">%s</div>\n", reason)
	}
	for _, note := range s.Notes {
		p.Add("<div class=\"finding\">%s</div>\n", note)
	}
	p.Add("\n<div class=\"scroll\"><table class=\"numbers\"><tbody>\n")
	for _, n := range htmlNumbers(s) {
		p.Add("<tr><th>%s</th><td>%s</td></tr>\n", n[0], n[1])
	}
	p.Add("</tbody></table></div>\n")
	p.Plots(append(stepPlots(steps), samplePlots(samples)...))
	return p.Write(w)
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
