// Package svg draws the plots of our HTML pages, and has the style that these share. It knows shares of axes, not what they mean.
//
// A Drawing belongs to one goroutine.
package svg

import (
	_ "embed"
	"fmt"
	"html/template"
	"strings"
)

//go:embed style.css
var style string

// Style is the style sheet that all pages share.
func Style() template.CSS { return template.CSS(style) }

// The size of a picture and of the room that it leaves for axes, in its own units.
const (
	width, height   = 480, 200
	left, right     = 52, 14
	top, bottom     = 10, 24
	inside, upright = width - left - right, height - top - bottom
)

// Drawing gathers the elements of a picture.
type Drawing struct{ strings.Builder }

// Add appends an element, formatted as by fmt.
func (d *Drawing) Add(format string, args ...any) { fmt.Fprintf(d, format, args...) }

// New begins a picture.
func New() *Drawing {
	d := &Drawing{}
	d.Add(`<svg viewBox="0 0 %d %d" role="img">`, width, height)
	return d
}

// Close ends the picture and returns it.
func (d *Drawing) Close() string {
	d.WriteString(`</svg>`)
	return d.String()
}

// X is where a share 0..1 of the level axis lies.
func X(share float64) float64 { return left + share*inside }

// Y is where a share 0..1 of the upright axis lies.
func Y(share float64) float64 { return top + (1-share)*upright }

// Scale draws lines and labels at 0, a half and the whole of the upright axis.
func (d *Drawing) Scale(label func(share float64) string) {
	for _, share := range []float64{0, 0.5, 1} {
		d.Add(`<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>`, left, width-right, Y(share), Y(share))
		d.Add(`<text x="%d" y="%.1f" text-anchor="end">%s</text>`, left-6, Y(share)+4, label(share))
	}
}

// Below writes a label under the level axis.
func (d *Drawing) Below(share float64, anchor, text string) {
	d.Add(`<text x="%.1f" y="%d" text-anchor="%s">%s</text>`, X(share), height-6, anchor, text)
}

// Bar draws a bar from one share of the level axis to another, of a style's class, with a title for whoever points at it. Text in it
// must be safe in HTML.
func (d *Drawing) Bar(class string, from, to, height float64, title string) {
	d.Add(`<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f"><title>%s</title></rect>`,
		class, X(from)+0.5, Y(height), max(0.5, X(to)-X(from)-1), Y(0)-Y(height), title)
}

// Line draws a line through points, each two shares of the axes.
func (d *Drawing) Line(class string, points [][2]float64) {
	if len(points) == 0 {
		return
	}
	d.Add(`<polyline class="%s" points="`, class)
	for _, p := range points {
		d.Add("%.1f,%.1f ", X(p[0]), Y(p[1]))
	}
	d.Add(`"/>`)
}
