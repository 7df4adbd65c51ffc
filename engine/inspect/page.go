package inspect

import (
	"io"

	"github.com/fastreplay/fastreplay/engine/format"
)

const labelWidth = 18

// Print writes the reports for people: one as a page, several side by side and then the plots of each. Width is that of
// the terminal in columns, 0 = 80; lines have at most 100 columns, and fit into 80.
func Print(w io.Writer, reports []*Report, width int) error {
	p := &page{format.NewPage(width, labelWidth)}
	if len(reports) == 1 {
		p.single(reports[0])
	} else {
		p.sideBySide(reports)
		for _, r := range reports {
			p.Line("")
			p.Line(shorten(r.Trace, p.Width))
			p.plots(r)
		}
	}
	for _, r := range reports {
		if !r.Replayable {
			p.Line("")
			p.Sentence("", "A replay would refuse "+r.Trace+".")
		}
	}
	_, err := w.Write(p.Bytes())
	return err
}

// page prints reports.
type page struct{ format.Page }

// row prints a label and cells to the right of columns of these widths, the last for all further ones.
func (p *page) row(label string, width int, columns []int, cells ...string) {
	line := format.Left(label, width)
	for i, cell := range cells {
		line += format.Right(cell, columns[min(i, len(columns)-1)])
	}
	p.Line(line)
}

// beside prints two blocks of lines next to each other.
func (p *page) beside(a, b []string) {
	half := p.Width / 2
	for i := range max(len(a), len(b)) {
		var l, r string
		if i < len(a) {
			l = a[i]
		}
		if i < len(b) {
			r = b[i]
		}
		p.Line(format.Left(l, half) + r)
	}
}

// shorten returns s with its beginning left out where it is longer than n: the end of a path tells more.
func shorten(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return "…" + string(r[len(r)-n+1:])
}
