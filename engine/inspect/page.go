package inspect

import (
	"io"
	"strings"
	"unicode/utf8"
)

const (
	minWidth   = 80  // narrower terminals wrap; the tables need this much
	maxWidth   = 100 // longer lines are hard to read
	labelWidth = 18
	gap        = "   " // between the parts of a field
)

// Print writes the reports for people: one as a page, several side by side and then the plots of each. Width is that of
// the terminal in columns, 0 = 80; lines have at most 100 columns, and fit into 80.
func Print(w io.Writer, reports []*Report, width int) error {
	p := &page{width: min(max(width, minWidth), maxWidth)}
	if len(reports) == 1 {
		p.single(reports[0])
	} else {
		p.sideBySide(reports)
		for _, r := range reports {
			p.line("")
			p.line(shorten(r.Trace, p.width))
			p.plots(r)
		}
	}
	for _, r := range reports {
		if !r.Replayable {
			p.line("")
			p.sentence("", "A replay would refuse "+r.Trace+".")
		}
	}
	_, err := w.Write(p.out)
	return err
}

// page gathers printed lines.
type page struct {
	width int
	out   []byte
}

// line ends a line; trailing spaces are not printed.
func (p *page) line(text string) {
	p.out = append(append(p.out, strings.TrimRight(text, " ")...), '\n')
}

// field prints a label and its parts, wrapped between parts. Empty parts are left out; without any, nothing is printed.
func (p *page) field(label string, parts ...string) {
	p.wrap(left("  "+label, labelWidth), strings.Repeat(" ", labelWidth), gap, parts)
}

// sentence prints text behind a mark, wrapped between words.
func (p *page) sentence(mark, text string) {
	p.wrap(mark, strings.Repeat(" ", columns(mark)), " ", strings.Fields(text))
}

// wrap prints first and the parts, and starts a new line behind indent where the next part would not fit.
func (p *page) wrap(first, indent, between string, parts []string) {
	line, fresh := first, true
	for _, part := range parts {
		if part == "" {
			continue
		}
		if !fresh && columns(line)+columns(between)+columns(part) > p.width {
			p.line(line)
			line, fresh = indent, true
		}
		if !fresh {
			line += between
		}
		line += part
		fresh = false
	}
	if !fresh {
		p.line(line)
	}
}

// beside prints two blocks of lines next to each other.
func (p *page) beside(a, b []string) {
	half := p.width / 2
	for i := range max(len(a), len(b)) {
		var l, r string
		if i < len(a) {
			l = a[i]
		}
		if i < len(b) {
			r = b[i]
		}
		p.line(left(l, half) + r)
	}
}

// left and right align s within n columns.
func left(s string, n int) string  { return s + strings.Repeat(" ", max(0, n-columns(s))) }
func right(s string, n int) string { return strings.Repeat(" ", max(0, n-columns(s))) + s }

// columns is the width of s on a terminal; all that is printed here has one column for each character.
func columns(s string) int { return utf8.RuneCountInString(s) }

// shorten returns s with its beginning left out where it is longer than n: the end of a path tells more.
func shorten(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return "…" + string(r[len(r)-n+1:])
}
