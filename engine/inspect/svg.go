package inspect

import (
	"fmt"
	"math"
	"slices"

	"github.com/fastreplay/fastreplay/engine/metrics/human"
	"github.com/fastreplay/fastreplay/engine/svg"
)

func timelineSVG(r *Report) string {
	a := &r.Arrivals
	if a.Timeline == nil {
		return ""
	}
	most := float64(max(1, slices.Max(a.Timeline)))
	d := svg.New()
	d.Scale(func(share float64) string { return human.Short(share * most) })
	n := float64(len(a.Timeline))
	for i, c := range a.Timeline {
		d.Bar("bar", float64(i)/n, float64(i+1)/n, float64(c)/most, fmt.Sprintf("from %s: %s rows in %s", duration(float64(i)*a.BinS), count(c), duration(a.BinS)))
	}
	d.Below(0, "start", "0")
	d.Below(1, "end", duration(a.SpanS))
	return d.Close()
}

func histogramSVG(bins []Bin, edge func(float64) string, name func(Bin) string) string {
	if len(bins) == 0 {
		return ""
	}
	most := float64(mostOf(bins))
	d := svg.New()
	d.Scale(func(share float64) string { return human.Short(share * most) })
	n := float64(len(bins))
	for i, b := range bins {
		d.Bar("bar", float64(i)/n, float64(i+1)/n, float64(b.Count)/most, name(b)+": "+count(b.Count))
		if every := (len(bins) + 7) / 8; i%every == 0 {
			text := edge(b.From)
			if b.To == timeEdges()[1] {
				text = "at once"
			}
			d.Below(float64(i)/n, "start", text)
		}
	}
	return d.Close()
}

func curveSVG(r *Report) string {
	if r.Cache == nil || len(r.Cache.Curve) < 2 {
		return ""
	}
	points := r.Cache.Curve
	low, high := math.Log10(float64(points[0].Tokens)), math.Log10(float64(points[len(points)-1].Tokens))
	most := math.Max(0.1, math.Ceil(r.Cache.Infinite.Tokens*10)/10)
	d := svg.New()
	d.Scale(func(share float64) string { return fixed(100*share*most, 0) + " %" })
	at := func(log float64) float64 { return (log - low) / math.Max(1e-9, high-low) }
	for decade := math.Ceil(low); decade <= high; decade++ {
		x := at(decade)
		d.Add(`<line class="grid" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, svg.X(x), svg.X(x), svg.Y(1), svg.Y(0))
		d.Below(x, "middle", human.Short(math.Pow(10, decade)))
	}
	for _, line := range []struct {
		class string
		of    func(Capacity) float64
	}{{"first", func(c Capacity) float64 { return c.TokenRatio }}, {"second", func(c Capacity) float64 { return c.TailFirstTokens }}} {
		var curve [][2]float64
		for _, p := range points {
			curve = append(curve, [2]float64{at(math.Log10(float64(p.Tokens))), line.of(p) / most})
		}
		d.Line(line.class, curve)
	}
	return d.Close()
}
