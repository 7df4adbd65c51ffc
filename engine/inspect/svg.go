package inspect

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// The size of a picture and of the room that it leaves for axes, in its own units.
const (
	svgWidth, svgHeight   = 480, 200
	svgLeft, svgRight     = 52, 14
	svgTop, svgBottom     = 10, 24
	svgInside, svgUpright = svgWidth - svgLeft - svgRight, svgHeight - svgTop - svgBottom
)

// drawing gathers the elements of a picture.
type drawing struct{ strings.Builder }

func (d *drawing) add(format string, args ...any) { fmt.Fprintf(d, format, args...) }

func newDrawing() *drawing {
	d := &drawing{}
	d.add(`<svg viewBox="0 0 %d %d" role="img">`, svgWidth, svgHeight)
	return d
}

func (d *drawing) close() string {
	d.WriteString(`</svg>`)
	return d.String()
}

// x and y place shares 0..1 of the inside.
func svgX(share float64) float64 { return svgLeft + share*svgInside }
func svgY(share float64) float64 { return svgTop + (1-share)*svgUpright }

// scale draws lines and labels at 0, a half and the whole of the upright axis.
func (d *drawing) scale(label func(share float64) string) {
	for _, share := range []float64{0, 0.5, 1} {
		d.add(`<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>`, svgLeft, svgWidth-svgRight, svgY(share), svgY(share))
		d.add(`<text x="%d" y="%.1f" text-anchor="end">%s</text>`, svgLeft-6, svgY(share)+4, label(share))
	}
}

// below writes a label under the level axis.
func (d *drawing) below(share float64, anchor, text string) {
	d.add(`<text x="%.1f" y="%d" text-anchor="%s">%s</text>`, svgX(share), svgHeight-6, anchor, text)
}

func (d *drawing) bar(from, to, height float64, title string) {
	d.add(`<rect class="bar" x="%.1f" y="%.1f" width="%.1f" height="%.1f"><title>%s</title></rect>`,
		svgX(from)+0.5, svgY(height), max(0.5, svgX(to)-svgX(from)-1), svgY(0)-svgY(height), title)
}

func timelineSVG(r *Report) string {
	a := &r.Arrivals
	if a.Timeline == nil {
		return ""
	}
	most := float64(max(1, slices.Max(a.Timeline)))
	d := newDrawing()
	d.scale(func(share float64) string { return short(share * most) })
	n := float64(len(a.Timeline))
	for i, c := range a.Timeline {
		d.bar(float64(i)/n, float64(i+1)/n, float64(c)/most, fmt.Sprintf("from %s: %s rows in %s", duration(float64(i)*a.BinS), count(c), duration(a.BinS)))
	}
	d.below(0, "start", "0")
	d.below(1, "end", duration(a.SpanS))
	return d.close()
}

func histogramSVG(bins []Bin, edge func(float64) string, name func(Bin) string) string {
	if len(bins) == 0 {
		return ""
	}
	most := float64(mostOf(bins))
	d := newDrawing()
	d.scale(func(share float64) string { return short(share * most) })
	n := float64(len(bins))
	for i, b := range bins {
		d.bar(float64(i)/n, float64(i+1)/n, float64(b.Count)/most, name(b)+": "+count(b.Count))
		if every := (len(bins) + 7) / 8; i%every == 0 {
			text := edge(b.From)
			if b.To == timeEdges()[1] {
				text = "at once"
			}
			d.below(float64(i)/n, "start", text)
		}
	}
	return d.close()
}

func curveSVG(r *Report) string {
	if r.Cache == nil || len(r.Cache.Curve) < 2 {
		return ""
	}
	points := r.Cache.Curve
	low, high := math.Log10(float64(points[0].Tokens)), math.Log10(float64(points[len(points)-1].Tokens))
	most := math.Max(0.1, math.Ceil(r.Cache.Infinite.Tokens*10)/10)
	d := newDrawing()
	d.scale(func(share float64) string { return fixed(100*share*most, 0) + " %" })
	at := func(tokens int64) float64 { return (math.Log10(float64(tokens)) - low) / math.Max(1e-9, high-low) }
	for decade := math.Ceil(low); decade <= high; decade++ {
		x := (decade - low) / math.Max(1e-9, high-low)
		d.add(`<line class="grid" x1="%.1f" x2="%.1f" y1="%d" y2="%.1f"/>`, svgX(x), svgX(x), svgTop, svgY(0))
		d.below(x, "middle", short(math.Pow(10, decade)))
	}
	for _, line := range []struct {
		class string
		of    func(Capacity) float64
	}{{"first", func(c Capacity) float64 { return c.TokenRatio }}, {"second", func(c Capacity) float64 { return c.TailFirstTokens }}} {
		d.add(`<polyline class="%s" points="`, line.class)
		for _, p := range points {
			d.add("%.1f,%.1f ", svgX(at(p.Tokens)), svgY(line.of(p)/most))
		}
		d.add(`"/>`)
	}
	return d.close()
}
