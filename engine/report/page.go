package report

import "github.com/fastreplay/fastreplay/engine/format"

const labelWidth = 16

// page prints a summary.
type page struct {
	format.Page
	o      PrintOptions
	digits int // significant, of a latency
	column int // width of a latency's column
}

func newPage(o PrintOptions) *page {
	p := &page{Page: format.NewPage(o.Width, labelWidth), o: o, digits: 3, column: 9}
	if p.Width >= labelWidth+7*11 {
		p.digits, p.column = 4, 11
	}
	return p
}

// paint puts an ANSI style around text, if there is colour.
func (p *page) paint(style, text string) string {
	if !p.o.Colour {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

// shorten returns s with its middle left out where it is longer than n.
func shorten(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	tail := (n - 1) / 2
	return string(r[:n-1-tail]) + "…" + string(r[len(r)-tail:])
}
