package report

import (
	"fmt"

	"github.com/fastreplay/fastreplay/engine/chart"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/scrape"
)

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
			title += ", " + count(failed, "failed")
		}
		d.Bar("bar", i, len(steps), float64(s.Requests), title)
		if failed > 0 {
			d.Bar("bar bad", i, len(steps), float64(failed), title)
		}
	}
	d.Ends(seconds(steps[len(steps)-1].ToS))
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
	d.Ends(seconds(endS))
	return d.Figure(name, first.name, second.name)
}

// samplePlots draws what the servers said of themselves, of each page on the same scale. Where a server did not answer is a gap.
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
	queue, kv := chart.Plot{Title: "Requests in the servers, as they say"}, chart.Plot{Title: "KV cache in use, as they say"}
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
