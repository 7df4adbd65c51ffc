package format

import (
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	minWidth = 80  // narrower terminals wrap; the tables need this much
	maxWidth = 100 // longer lines are hard to read

	// Gap stands between the parts of a field.
	Gap = "   "
)

// Page gathers the lines of a page for a terminal. One goroutine uses it.
type Page struct {
	Width int // columns
	label int
	out   []byte
}

// NewPage makes a page for a terminal of so many columns (0 = 80), whose fields have labels of so many columns. Lines
// have at most 100 columns, and fit into 80.
func NewPage(width, label int) Page {
	return Page{Width: min(max(width, minWidth), maxWidth), label: label}
}

// Bytes returns what was printed, valid until more is.
func (p *Page) Bytes() []byte { return p.out }

// Line ends a line; trailing spaces are not printed, and text is shown as Visible has it.
func (p *Page) Line(text string) { p.Painted(Visible(text)) }

// Painted is Line for text with escape sequences of ours, and with nothing that came from outside.
func (p *Page) Painted(text string) {
	p.out = append(append(p.out, strings.TrimRight(text, " ")...), '\n')
}

// Field prints a label and its parts, wrapped between parts. Empty parts are
// left out; without any, nothing is printed.
func (p *Page) Field(label string, parts ...string) {
	p.Wrap(Left("  "+label, p.label), strings.Repeat(" ", p.label), Gap, parts)
}

// Sentence prints text behind a mark, wrapped between words.
func (p *Page) Sentence(mark, text string) {
	p.Wrap(mark, strings.Repeat(" ", Columns(mark)), " ", Words(text))
}

// Words are the words of a text, a number together with its unit.
func Words(text string) (words []string) {
	for _, word := range strings.Fields(text) {
		if last := len(words) - 1; last >= 0 && strings.ContainsAny(words[last][len(words[last])-1:], "0123456789") && slices.Contains(units, strings.TrimRight(word, ".,;:)]")) {
			words[last] += " " + word
			continue
		}
		words = append(words, word)
	}
	return words
}

var units = []string{"%", "×", "ns", "µs", "ms", "s", "min", "h", "B", "kB", "MB", "GB", "GiB"}

// Row prints a label and cells to the right of columns of these widths, the last for all further ones.
func (p *Page) Row(label string, width int, columns []int, cells ...string) {
	line := Left(label, width)
	for i, cell := range cells {
		line += Right(cell, columns[min(i, len(columns)-1)])
	}
	p.Line(line)
}

// Table prints a head and rows: the first cell of each to the left, the others to the right of columns that wide.
func (p *Page) Table(column int, head []string, rows [][]string) {
	for _, cells := range append([][]string{head}, rows...) {
		p.Row("  "+cells[0], p.Width-column*(len(cells)-1), []int{column}, cells[1:]...)
	}
}

// Wrap prints first and the parts, and starts a new line behind indent where the
// next part would not fit.
func (p *Page) Wrap(first, indent, between string, parts []string) {
	line, fresh := first, true
	for _, part := range parts {
		if part == "" {
			continue
		}
		if !fresh && Columns(line)+Columns(between)+Columns(part) > p.Width {
			p.Line(line)
			line, fresh = indent, true
		}
		if !fresh {
			line += between
		}
		line += part
		fresh = false
	}
	if !fresh {
		p.Line(line)
	}
}

// Left aligns s within n columns.
func Left(s string, n int) string { return s + strings.Repeat(" ", max(0, n-Columns(s))) }

// Right aligns s within n columns.
func Right(s string, n int) string { return strings.Repeat(" ", max(0, n-Columns(s))) + s }

// Columns is the width of s on a terminal; all that is printed here has one
// column for each character.
func Columns(s string) int { return utf8.RuneCountInString(s) }
