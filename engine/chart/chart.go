// Package chart draws numbers: of blocks for a terminal, and as SVG for our HTML pages, whose style and frame it has. It
// draws axes and has no notion of what they mean.
//
// A Drawing belongs to one goroutine.
package chart

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Plot is one kind of picture, of everybody that has it. It is shown if there is one.
type Plot struct {
	Title   string // "" where all kinds stand together
	Figures []Figure
}

// Figure is a picture with its title and what its lines are; none for bars.
type Figure struct {
	Title string
	Keys  []string
	SVG   HTML
}

// The size of a picture and of the room that it leaves for axes, in its own units.
const (
	width, height   = 480, 200
	left, right     = 52, 14
	top, bottom     = 10, 24
	inside, upright = width - left - right, height - top - bottom
)

// Drawing gathers the elements of a picture.
type Drawing struct {
	strings.Builder
	most float64
}

// New begins a picture whose upright axis goes from 0 to most, with lines and labels at 0, a half and the whole of it.
func New(most float64, label func(value float64) string) *Drawing {
	d := &Drawing{most: most}
	d.add(`<svg viewBox="0 0 %d %d" role="img">`, width, height)
	for _, share := range []float64{0, 0.5, 1} {
		d.add(`<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>`, left, width-right, y(share), y(share))
		d.add(`<text x="%d" y="%.1f" text-anchor="end">%s</text>`, left-6, y(share)+4, label(share*most))
	}
	return d
}

// Figure ends the picture.
func (d *Drawing) Figure(title string, keys ...string) Figure {
	return Figure{title, keys, HTML(d.String() + `</svg>`)}
}

// add appends an element, formatted as by fmt.
func (d *Drawing) add(format string, args ...any) { fmt.Fprintf(d, format, args...) }

// x is where a share 0..1 of the level axis lies.
func x(share float64) float64 { return left + share*inside }

// y is where a share 0..1 of the upright axis lies.
func y(share float64) float64 { return top + (1-share)*upright }

// Below writes a label under a share 0..1 of the level axis. Its anchor is one of SVG's. Text must be safe in HTML, here and in Bar.
func (d *Drawing) Below(share float64, anchor, text string) {
	d.add(`<text x="%.1f" y="%d" text-anchor="%s">%s</text>`, x(share), height-6, anchor, text)
}

// Ends labels a level axis from 0 to end.
func (d *Drawing) Ends(end string) {
	d.Below(0, "start", "0")
	d.Below(1, "end", end)
}

// Mark draws an upright line at a share of the level axis, with a label below.
func (d *Drawing) Mark(share float64, text string) {
	d.add(`<line class="grid" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, x(share), x(share), y(1), y(0))
	d.Below(share, "middle", text)
}

// Bar draws bar i of n side by side, of a style's class, with a title for whoever points at it.
func (d *Drawing) Bar(class string, i, n int, value float64, title string) {
	from, to := x(float64(i)/float64(n)), x(float64(i+1)/float64(n))
	d.add(`<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f"><title>%s</title></rect>`,
		class, from+0.5, y(value/d.most), max(0.5, to-from-1), y(0)-y(value/d.most), title)
}

// Line draws a line through n points, each a share of the level axis and a value. Where there is no value is a gap; a point between two
// gaps is drawn as a short line, which can be seen.
func (d *Drawing) Line(class string, n int, point func(i int) (share float64, value *float64)) {
	const half = 0.006
	var points [][2]float64 // since the last gap, in shares
	for i := range n + 1 {
		if i < n {
			if share, value := point(i); value != nil {
				points = append(points, [2]float64{share, *value / d.most})
				continue
			}
		}
		if len(points) == 1 {
			alone := points[0]
			points = [][2]float64{{alone[0] - half, alone[1]}, {alone[0] + half, alone[1]}}
		}
		if len(points) > 0 {
			d.add(`<polyline class="%s" points="`, class)
			for _, p := range points {
				d.add("%.1f,%.1f ", x(p[0]), y(p[1]))
			}
			d.add(`"/>`)
		}
		points = nil
	}
}

// Bar draws a share 0..1 of so many cells of a terminal, in eighths of a cell; anything above 0 is seen.
func Bar(share float64, cells int) string {
	n := eighths(share, cells)
	return strings.Repeat("█", n/8) + strings.TrimSpace(string([]rune(" ▏▎▍▌▋▊▉")[n%8]))
}

// Skyline draws counts as columns of that many lines of a terminal, the highest first.
func Skyline(counts []int64, lines int) []string {
	most := max(1, slices.Max(counts))
	drawn := make([]string, lines)
	for line := range drawn {
		for _, count := range counts {
			n := eighths(float64(count)/float64(most), lines) - 8*(lines-1-line)
			drawn[line] += string([]rune(" ▁▂▃▄▅▆▇█")[min(8, max(0, n))])
		}
	}
	return drawn
}

// eighths of so many cells are a share of them; at least one for anything above 0.
func eighths(share float64, cells int) int {
	n := int(math.Round(share * float64(8*cells)))
	if share > 0 {
		n = max(1, n)
	}
	return n
}
