package report

import (
	"fmt"
	"html/template"

	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/metrics/human"
	"github.com/fastreplay/fastreplay/engine/scrape"
	"github.com/fastreplay/fastreplay/engine/svg"
)

// track is the steps of one target or instance.
type track struct {
	name  string
	steps []metrics.Step
}

// tracks takes the steps of a run apart.
func tracks(steps []metrics.Step) (out []track) {
	for i := range steps {
		name := steps[i].Target + steps[i].Instance
		if i == 0 || steps[i].FromS == 0 {
			out = append(out, track{name: name})
		}
		last := &out[len(out)-1]
		last.steps = append(last.steps, steps[i])
	}
	return out
}

// stepPlots draws requests and TTFT by time, of each target and instance on the same scale.
func stepPlots(steps []metrics.Step) []htmlPlot {
	most, slowest := 1.0, 0.0
	for i := range steps {
		most = max(most, float64(steps[i].Requests))
		if v := steps[i].TTFTP99; v != nil {
			slowest = max(slowest, *v)
		}
	}
	sent, ttft := htmlPlot{Title: "Requests by the time of sending, failed ones in red"}, htmlPlot{Title: "TTFT", First: "p50", Second: "p99"}
	for _, t := range tracks(steps) {
		sent.Figures = append(sent.Figures, htmlFigure{t.name, requestsSVG(t.steps, most)})
		if slowest > 0 {
			ttft.Figures = append(ttft.Figures, htmlFigure{t.name, ttftSVG(t.steps, slowest)})
		}
	}
	if slowest == 0 {
		return []htmlPlot{sent}
	}
	return []htmlPlot{sent, ttft}
}

// orZero is a time, of which 0 needs no unit.
func orZero(ns float64) string {
	if ns == 0 {
		return "0"
	}
	return human.Duration(ns, 3)
}

// timeAxis labels the level axis of a run that ends then.
func timeAxis(d *svg.Drawing, endS float64) {
	d.Below(0, "start", "0")
	d.Below(1, "end", seconds(endS))
}

func requestsSVG(steps []metrics.Step, most float64) template.HTML {
	d := svg.New()
	d.Scale(func(share float64) string { return plain(share * most) })
	n := float64(len(steps))
	for i := range steps {
		s := &steps[i]
		from, to := float64(i)/n, float64(i+1)/n
		if s.Requests == 0 {
			continue
		}
		title := fmt.Sprintf("from %s: %s", orZero(s.FromS*1e9), human.Many(s.Requests, "request"))
		failed := s.Requests - s.OK
		if failed > 0 {
			title += ", " + count(failed, "failed")
		}
		d.Bar("bar", from, to, float64(s.Requests)/most, title)
		if failed > 0 {
			d.Bar("bar bad", from, to, float64(failed)/most, title)
		}
	}
	timeAxis(d, steps[len(steps)-1].ToS)
	return template.HTML(d.Close())
}

func ttftSVG(steps []metrics.Step, slowestMS float64) template.HTML {
	d := svg.New()
	d.Scale(func(share float64) string { return orZero(share * slowestMS * 1e6) })
	at := func(i int) float64 { return (float64(i) + 0.5) / float64(len(steps)) }
	drawSeries(d, "first", len(steps), at, slowestMS, func(i int) *float64 { return steps[i].TTFTP50 })
	drawSeries(d, "second", len(steps), at, slowestMS, func(i int) *float64 { return steps[i].TTFTP99 })
	timeAxis(d, steps[len(steps)-1].ToS)
	return template.HTML(d.Close())
}

// drawSeries draws n values, as shares of most, at shares of the level axis; where there is no value is a gap.
func drawSeries(d *svg.Drawing, class string, n int, at func(int) float64, most float64, value func(int) *float64) {
	var points [][2]float64
	for i := range n {
		if v := value(i); v != nil {
			points = append(points, [2]float64{at(i), *v / most})
			continue
		}
		drawLine(d, class, points)
		points = nil
	}
	drawLine(d, class, points)
}

// drawLine draws a line; of a single point a short one, which can be seen.
func drawLine(d *svg.Drawing, class string, points [][2]float64) {
	const half = 0.006
	if len(points) == 1 {
		x, y := points[0][0], points[0][1]
		points = [][2]float64{{x - half, y}, {x + half, y}}
	}
	d.Line(class, points)
}

// samplePlots draws what the servers said of themselves, of each page on the same scale.
func samplePlots(samples []scrape.Sample) []htmlPlot {
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
	if len(names) == 0 {
		return nil
	}
	queue, kv := htmlPlot{Title: "Requests in the servers, as they say", First: "running", Second: "waiting"}, htmlPlot{Title: "KV cache in use, as they say", First: "mean", Second: "the fullest engine"}
	for _, name := range names {
		queue.Figures = append(queue.Figures, htmlFigure{name, samplesSVG(of[name], endNS, most, plain,
			func(m *scrape.Sample) *float64 { return m.Running }, func(m *scrape.Sample) *float64 { return m.Waiting })})
		if used {
			kv.Figures = append(kv.Figures, htmlFigure{name, samplesSVG(of[name], endNS, 1, human.Percent,
				func(m *scrape.Sample) *float64 { return m.KVUsage }, func(m *scrape.Sample) *float64 { return m.MostKVUsage })})
		}
	}
	if !used {
		return []htmlPlot{queue}
	}
	return []htmlPlot{queue, kv}
}

// samplesSVG draws two quantities; where a server did not answer is a gap.
func samplesSVG(samples []scrape.Sample, endNS int64, most float64, label func(float64) string, first, second func(*scrape.Sample) *float64) template.HTML {
	d := svg.New()
	d.Scale(func(share float64) string { return label(share * most) })
	at := func(i int) float64 { return float64(max(0, samples[i].AtNS)) / float64(endNS) }
	drawSeries(d, "first", len(samples), at, most, func(i int) *float64 { return first(&samples[i]) })
	drawSeries(d, "second", len(samples), at, most, func(i int) *float64 { return second(&samples[i]) })
	timeAxis(d, float64(endNS)/1e9)
	return template.HTML(d.Close())
}
