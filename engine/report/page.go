package report

import (
	"strings"
	"unicode/utf8"
)

const (
	minWidth   = 80  // narrower terminals wrap; the tables need this much
	maxWidth   = 100 // longer lines are hard to read
	labelWidth = 16
	gap        = "   " // between the parts of a field
)

// page gathers printed lines.
type page struct {
	o      PrintOptions
	width  int
	digits int // significant, of a latency
	column int // width of a latency's column
	out    []byte
}

func newPage(o PrintOptions) *page {
	p := &page{o: o, width: min(max(o.Width, minWidth), maxWidth), digits: 3, column: 9}
	if p.width >= labelWidth+7*11 {
		p.digits, p.column = 4, 11
	}
	return p
}

// line ends a line; trailing spaces are not printed.
func (p *page) line(text string) {
	p.out = append(append(p.out, strings.TrimRight(text, " ")...), '\n')
}

// field prints a label and its parts, wrapped between parts. Empty parts are
// left out; without any, nothing is printed.
func (p *page) field(label string, parts ...string) {
	p.wrap(left("  "+label, labelWidth), strings.Repeat(" ", labelWidth), gap, parts)
}

// sentence prints text behind a mark, wrapped between words.
func (p *page) sentence(mark, text string) {
	first := "  " + mark + " "
	p.wrap(first, strings.Repeat(" ", columns(first)), " ", strings.Fields(text))
}

// wrap prints first and the parts, and starts a new line behind indent where
// the next part would not fit.
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

// paint puts an ANSI style around text, if there is colour.
func (p *page) paint(style, text string) string {
	if !p.o.Colour {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

// left and right align s within n columns.
func left(s string, n int) string  { return s + strings.Repeat(" ", max(0, n-columns(s))) }
func right(s string, n int) string { return strings.Repeat(" ", max(0, n-columns(s))) + s }

// columns is the width of s on a terminal; all that is printed here has one
// column for each character.
func columns(s string) int { return utf8.RuneCountInString(s) }

// shorten returns s with its middle left out where it is longer than n.
func shorten(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	tail := (n - 1) / 2
	return string(r[:n-1-tail]) + "…" + string(r[len(r)-tail:])
}
