package chart

import (
	"cmp"
	"fmt"
	"html"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/engine/format"
)

// The size of a picture, and the edges of what is drawn in it.
const (
	pictureWidth  = 960
	pictureHeight = 540
	plotLeft      = 90
	plotRight     = 900
	plotTop       = 60
	plotBottom    = 450
)

// pictureColours are c0 to c5 of page.css, in light.
var pictureColours = []string{"#3b6fd4", "#d9822b", "#2a8a67", "#8e4ec6", "#c2298a", "#7a6f5d"}

// scale places the values of an axis between two edges of a picture.
type scale struct {
	axis        Axis
	from, to    float64 // values, of which from < to
	least, most float64 // their pixels
}

// fit makes a scale of an axis that has room for the values.
func fit(axis Axis, values []float64, fromZero bool, least, most float64) *scale {
	known := slices.DeleteFunc(slices.Clone(values), func(v float64) bool {
		return math.IsNaN(v) || math.IsInf(v, 0) || axis.Log && v <= 0
	})
	s := &scale{axis: axis, from: 1, to: 10, least: least, most: most}
	if len(known) > 0 {
		s.from = slices.Min(known)
		s.to = slices.Max(known)
	}
	if fromZero && !axis.Log {
		s.from = min(0, s.from)
		s.to = 1.06 * s.to
	}
	if axis.From != nil && !(axis.Log && *axis.From <= 0) {
		s.from = *axis.From
	}
	if axis.To != nil {
		s.to = *axis.To
	}
	if s.to <= s.from {
		s.to = s.from + max(1, s.from)
	}
	return s
}

// at is the place of a value; NaN if it has none.
func (s *scale) at(v float64) float64 {
	share := (v - s.from) / (s.to - s.from)
	if s.axis.Log {
		share = math.Log(v/s.from) / math.Log(s.to/s.from)
	}
	if math.IsInf(share, 0) {
		return math.NaN()
	}
	return s.least + share*(s.most-s.least)
}

// ticks are round values: on a logarithmic axis 1, 2 and 5 of each decade, or decades alone.
func (s *scale) ticks() (out []float64) {
	if !s.axis.Log {
		step := math.Pow(10, math.Floor(math.Log10((s.to-s.from)/4)))
		for _, times := range []float64{5, 2} {
			if (s.to-s.from)/(times*step) >= 4 {
				step *= times
				break
			}
		}
		for v := math.Ceil(s.from/step) * step; v <= s.to; v += step {
			out = append(out, v)
		}
		return out
	}
	factors := []float64{1, 2, 5}
	if s.to > 1e3*s.from {
		factors = factors[:1]
	}
	for decade := math.Floor(math.Log10(s.from)); decade <= math.Log10(s.to); decade++ {
		for _, factor := range factors {
			if v := factor * math.Pow(10, decade); v >= s.from && v <= s.to {
				out = append(out, v)
			}
		}
	}
	return out
}

// show prints a value in the unit of the axis.
func (a *Axis) show(v float64) string {
	switch {
	case math.Abs(v) < 1e-12:
		return "0"
	case a.Unit == "s":
		return format.Number(v, 3) + " s"
	case a.Unit == "ms":
		return format.Duration(v*1e6, 3)
	case a.Unit == "ratio":
		return format.Percent(v)
	}
	return format.Number(v, 3)
}

// picture is an SVG that is being written.
type picture struct{ strings.Builder }

func (p *picture) text(x, y float64, anchor, style, text string) {
	fmt.Fprintf(p, `<text x="%.1f" y="%.1f" text-anchor="%s" %s>%s</text>`+"\n",
		x, y, anchor, style, html.EscapeString(strings.ToValidUTF8(format.Visible(text), "")))
}

func (p *picture) box(left, top, right, bottom float64, fill string) {
	fmt.Fprintf(p, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n",
		left, top, max(0, right-left), max(0, bottom-top), fill)
}

// SVG writes a graph of series as a picture for a slide, on white. Graphs of rows are for pages alone.
func (g *Graph) SVG(w io.Writer) error {
	var values []float64
	drawn := slices.Clone(g.Series)
	for i := len(drawn) - 2; g.Stacked && i >= 0; i-- {
		drawn[i].Values = slices.Clone(drawn[i].Values)
		for k := range drawn[i].Values {
			drawn[i].Values[k] += drawn[i+1].Values[k]
		}
	}
	for _, s := range drawn {
		if !s.Share || len(g.Series) == 1 {
			values = append(append(append(values, s.Values...), s.Low...), s.High...)
		}
	}
	x := fit(g.X, g.At, false, plotLeft, plotRight)
	y := fit(g.Y, values, true, plotBottom, plotTop)
	share := fit(Axis{Unit: "ratio", From: new(0.0), To: new(1.0)}, nil, true, plotBottom, plotTop)
	p := &picture{}
	fmt.Fprintf(p, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %[2]d" width="%[1]d" height="%[2]d" `+
		`font-family="system-ui, sans-serif" font-size="15">`+"\n", pictureWidth, pictureHeight)
	p.box(0, 0, pictureWidth, pictureHeight, "#fff")
	p.text(24, 34, "start", `font-size="21" font-weight="600"`, g.Title)
	for _, span := range g.Spans {
		from := x.at(max(span.From, x.from))
		to := x.at(min(span.To, x.to))
		if span.Kind == 2 {
			to = from + 2
		}
		p.box(from, plotTop, to, plotBottom, []string{"#fdecea", "#e2e5e9", "#1c2024"}[span.Kind%3])
		p.text(from+5, plotTop+14, "start", `font-size="13"`, cmp.Or(span.Name, span.Text))
	}
	const quiet = `fill="#60646c"`
	for _, v := range x.ticks() {
		p.box(x.at(v), plotTop, x.at(v)+1, plotBottom, "#e2e5e9")
		p.text(x.at(v), plotBottom+20, "middle", quiet, g.X.show(v))
	}
	for _, v := range y.ticks() {
		p.box(plotLeft, y.at(v), plotRight, y.at(v)+1, "#e2e5e9")
		p.text(plotLeft-8, y.at(v)+5, "end", quiet, g.Y.show(v))
	}
	left := float64(plotLeft)
	for i, s := range drawn {
		colour := pictureColours[i%len(pictureColours)]
		switch {
		case s.Bad:
			colour = "#b3261e"
		case s.Style == Dashed:
			colour = "#1c2024"
		}
		on := y
		if s.Share && len(g.Series) > 1 {
			on = share
			for _, v := range share.ticks() {
				p.text(plotRight+8, share.at(v)+5, "start", quiet, share.axis.show(v))
			}
		}
		p.series(&s, g, x, on, colour)
		p.box(left, plotBottom+52, left+13, plotBottom+65, colour)
		p.text(left+20, plotBottom+64, "start", "", s.Name)
		left += 50 + 8*float64(len(s.Name))
	}
	if g.X.Label != "between" {
		p.text(plotRight, plotBottom+42, "end", quiet, g.X.Label)
	}
	_, err := io.WriteString(w, p.String()+"</svg>\n")
	return err
}

// series draws a line, bars or dots.
func (p *picture) series(s *Series, g *Graph, x, y *scale, colour string) {
	var path strings.Builder
	move := "M"
	half := 0.45 * (plotRight - plotLeft) / float64(max(1, len(g.At)))
	for i, v := range s.Values {
		left := x.at(g.At[i])
		top := y.at(v)
		if math.IsNaN(left+top) || left < plotLeft-1 || left > plotRight+1 {
			if s.Gaps {
				move = "M"
			}
			continue
		}
		if i < len(s.Low) && !math.IsNaN(y.at(s.Low[i])+y.at(s.High[i])) {
			p.box(left-1, y.at(s.High[i]), left+1, y.at(s.Low[i]), colour)
		}
		if s.Style == Dots || s.Style == Points {
			radius := 2 + 2*min(1, 64/len(g.At)) // of many dots 2 pixels
			fmt.Fprintf(p, `<circle cx="%.1f" cy="%.1f" r="%d" fill="%s"/>`+"\n", left, top, radius, colour)
		}
		if i < len(s.Names) {
			p.text(left+7, top-7, "start", `font-size="13" fill="#60646c"`, s.Names[i])
		}
		if s.Style == Bars {
			p.box(left-half, top, left+half, plotBottom, colour)
		}
		fmt.Fprintf(&path, "%s%.1f %.1f", move, left, top)
		move = "L"
	}
	style := `stroke-width="2"`
	switch s.Style {
	case Bars, Dots:
		return
	case Behind:
		style = `stroke-width="7" stroke-opacity="0.33"`
	case Dashed:
		style += ` stroke-dasharray="9 6"`
	}
	fmt.Fprintf(p, `<path d="%s" fill="none" stroke="%s" %s/>`+"\n", path.String(), colour, style)
}
