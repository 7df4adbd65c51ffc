package report

import (
	"fmt"
	"io"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/chart"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/scrape"
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
		p.Add("<div class=\"finding refusal\">%s</div>\n", reason.String())
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
	var steps []metrics.Step
	t := c.Timeline()
	for own := range t.Targets() {
		steps = append(steps, own...)
	}
	for own := range t.Instances() {
		steps = append(steps, own...)
	}
	return steps, nil
}

// htmlNumbers are the numbers of the page; the rest is on the terminal and in summary.json.
func htmlNumbers(s *metrics.Summary) [][2]string {
	r := s.Requests
	out := [][2]string{
		{"run", format.Seconds(s.Run.DurationS)},
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

// stepPlots draws requests and TTFT by time, of each target and instance on the same scale.
func stepPlots(steps []metrics.Step) []chart.Plot {
	most, slowest := 1.0, 0.0
	for i := range steps {
		most = max(most, float64(steps[i].Requests))
		if v := steps[i].TTFTP99; v != nil {
			slowest = max(slowest, *v)
		}
	}
	sent, ttft := chart.Plot{Title: "Requests by the time of sending, failed ones in red"}, chart.Plot{Title: "TTFT"}
	for from, to := 0, 0; from < len(steps); from = to {
		for to = from + 1; to < len(steps) && steps[to].FromS != 0; { // the steps of one target or instance
			to++
		}
		name, own := steps[from].Target+steps[from].Instance, steps[from:to]
		sent.Figures = append(sent.Figures, requestBars(name, own, most))
		if slowest > 0 {
			at := func(i int) float64 { return (float64(i) + 0.5) / float64(len(own)) }
			label := func(ms float64) string { return orZero(ms * 1e6) }
			ttft.Figures = append(ttft.Figures, lines(name, len(own), at, own[len(own)-1].ToS, slowest, label,
				line{"p50", func(i int) *float64 { return own[i].TTFTP50 }}, line{"p99", func(i int) *float64 { return own[i].TTFTP99 }}))
		}
	}
	return []chart.Plot{sent, ttft}
}

// orZero is a time, of which 0 needs no unit.
func orZero(ns float64) string {
	if ns == 0 {
		return "0"
	}
	return format.Duration(ns, 3)
}

func requestBars(name string, steps []metrics.Step, most float64) chart.Figure {
	d := chart.New(most, plain)
	for i := range steps {
		s := &steps[i]
		if s.Requests == 0 {
			continue
		}
		title := fmt.Sprintf("from %s: %s", orZero(s.FromS*1e9), format.Many(s.Requests, "request"))
		failed := s.Requests - s.OK
		if failed > 0 {
			title += ", " + format.Counted(failed, "failed")
		}
		d.Bar("bar", i, len(steps), float64(s.Requests), title)
		if failed > 0 {
			d.Bar("bar bad", i, len(steps), float64(failed), title)
		}
	}
	d.Ends(format.Seconds(steps[len(steps)-1].ToS))
	return d.Figure(name)
}

// line is a quantity by time. Where it has no value is a gap.
type line struct {
	name  string
	value func(i int) *float64
}

// lines draws two quantities of n moments, which lie at shares of a time that ends at endS.
func lines(name string, n int, at func(i int) float64, endS, most float64, label func(float64) string, first, second line) chart.Figure {
	d := chart.New(most, label)
	d.Line("first", n, func(i int) (float64, *float64) { return at(i), first.value(i) })
	d.Line("second", n, func(i int) (float64, *float64) { return at(i), second.value(i) })
	d.Ends(format.Seconds(endS))
	return d.Figure(name, first.name, second.name)
}

// samplePlots draws what the servers reported, each page on the same scale. If a server did not answer, there is a gap.
func samplePlots(samples []scrape.Sample) []chart.Plot {
	var names []string
	of := map[string][]scrape.Sample{}
	endNS, most := int64(1), 1.0
	used := false
	for _, m := range samples {
		if of[m.URL] == nil {
			names = append(names, m.URL)
		}
		of[m.URL] = append(of[m.URL], m)
		endNS = max(endNS, m.AtNS)
		for _, v := range []*float64{m.Running, m.Waiting} {
			if v != nil {
				most = max(most, *v)
			}
		}
		used = used || m.KVUsage != nil
	}
	queue := chart.Plot{Title: "Requests in the servers, by their own metrics"}
	kv := chart.Plot{Title: "KV cache in use, by their own metrics"}
	for _, name := range names {
		own, endS := of[name], float64(endNS)/1e9
		at := func(i int) float64 { return float64(max(0, own[i].AtNS)) / float64(endNS) }
		queue.Figures = append(queue.Figures, lines(name, len(own), at, endS, most, plain,
			line{"running", func(i int) *float64 { return own[i].Running }}, line{"waiting", func(i int) *float64 { return own[i].Waiting }}))
		if used {
			kv.Figures = append(kv.Figures, lines(name, len(own), at, endS, 1, format.Percent,
				line{"mean", func(i int) *float64 { return own[i].KVUsage }},
				line{"the fullest engine", func(i int) *float64 { return own[i].MostKVUsage }}))
		}
	}
	return []chart.Plot{queue, kv}
}
