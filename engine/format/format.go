// Package format prints numbers for people (grouped digits, units that fit,
// ratios as percent), and the pages of a terminal that hold them.
//
// It owns no meaning, only form; files for machines do not use it. Functions
// are pure and may be called from anywhere. A Page belongs to one goroutine.
//
// The package is not an API: any release may change it.
package format

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// integer is what is counted.
type integer interface{ ~int | ~int32 | ~int64 }

// Count prints n with commas between thousands.
func Count[N integer](n N) string {
	return group(strconv.FormatInt(int64(n), 10))
}

// Many prints n and a noun in the right number: "1 request", "12 requests".
func Many[N integer](n N, noun string) string {
	stem, y := strings.CutSuffix(noun, "y")
	switch {
	case n == 1:
	case y && !strings.ContainsAny(stem[len(stem)-1:], "aeou"): // bodies, but days
		noun = stem + "ies"
	default:
		noun += "s"
	}
	return Counted(n, noun)
}

// Requests prints how many requests.
func Requests[N integer](n N) string { return Many(n, "request") }

// Counted prints n and what it counts: "12 ok".
func Counted[N integer](n N, what string) string {
	return Count(n) + " " + what
}

// Some is Counted, or "" for none.
func Some[N integer](n N, what string) string {
	if n == 0 {
		return ""
	}
	return Counted(n, what)
}

// Present leaves empty parts out.
func Present(parts ...string) []string {
	return slices.DeleteFunc(parts, func(part string) bool { return part == "" })
}

// Seconds prints s seconds in the unit that fits, with three significant digits.
func Seconds(s float64) string {
	if s == 0 {
		return "0 s"
	}
	return Duration(s*1e9, 3)
}

// Milliseconds prints ms as Seconds prints s, and 0 as "0 ns".
func Milliseconds(ms float64) string { return Duration(ms*1e6, 3) }

// Microseconds is Milliseconds of µs.
func Microseconds(us float64) string { return Duration(us*1e3, 3) }

// Span prints seconds in the unit that fits: milliseconds up to days.
func Span(s float64) string {
	const minute, hour, day = 60, 3600, 86400
	switch abs := math.Abs(s); {
	case abs < 119.5:
		return Seconds(s)
	case abs < 99.5*minute:
		return Number(s/minute, 3) + " min"
	case abs < 47.5*hour:
		return Number(s/hour, 3) + " h"
	default:
		return Number(s/day, 3) + " d"
	}
}

// Percent prints a ratio of 0..1 with up to three significant digits. From 90 % on, where the rest counts, it has four.
func Percent(ratio float64) string {
	digits := 3
	if math.Abs(ratio) >= 0.9 {
		digits = 4
	}
	return PercentTo(ratio, digits)
}

// PercentTo prints a ratio of 0..1 with up to that many significant digits.
func PercentTo(ratio float64, digits int) string {
	text := strconv.FormatFloat(round(100*ratio, digits), 'f', -1, 64)
	return group(text) + " %"
}

// Share prints a ratio as percent with two decimals, so that columns align.
func Share(ratio float64) string { return Fixed(100*ratio, 2) + " %" }

// Fixed prints v with that many decimals.
func Fixed(v float64, decimals int) string {
	return group(strconv.FormatFloat(v, 'f', decimals, 64))
}

// Duration prints ns in the unit that fits: "412 ns", "51.2 ms". It has that many significant digits (at least 3), but
// no fractions of a nanosecond.
func Duration[N integer | ~float64](of N, digits int) string {
	ns := float64(of)
	switch abs := math.Abs(ns); {
	case math.Round(abs) < 1e3:
		return Fixed(ns, 0) + " ns"
	case round(abs/1e3, digits) < 1e3:
		return Number(ns/1e3, digits) + " µs"
	case round(abs/1e6, digits) < 1e3:
		return Number(ns/1e6, digits) + " ms"
	default:
		return Number(ns/1e9, digits) + " s"
	}
}

// Number prints v with that many significant digits, and always all digits
// before the point.
func Number(v float64, digits int) string {
	v = round(v, digits)
	before := 1 // digits before the point; 0 and less count zeros behind it
	if v != 0 {
		power := math.Floor(math.Log10(math.Abs(v)))
		before = int(power) + 1
	}
	return Fixed(v, max(0, digits-before))
}

// Short prints a whole number in three digits: 950, 30k, 1.5M.
func Short(v float64) string {
	v = round(v, 3)
	unit := ""
	switch {
	case v >= 1e9:
		v /= 1e9
		unit = "G"
	case v >= 1e6:
		v /= 1e6
		unit = "M"
	case v >= 1e3:
		v /= 1e3
		unit = "k"
	}
	return strconv.FormatFloat(v, 'g', 3, 64) + unit
}

// Rate prints v per second: whole from 100 on, three significant digits below.
func Rate(v float64) string {
	if math.Abs(v) >= 99.95 {
		return Fixed(v, 0)
	}
	return Number(v, 3)
}

// Bytes prints n in decimal units with three significant digits: "1.24 GB".
func Bytes[N integer](n N) string {
	v := float64(n)
	unit := "B"
	for _, next := range []string{"kB", "MB", "GB", "TB", "PB"} {
		if round(math.Abs(v), 3) < 1000 {
			break
		}
		v = v / 1000
		unit = next
	}
	if unit == "B" {
		return Count(n) + " B"
	}
	return Number(v, 3) + " " + unit
}

// maxQuoted bounds a quoted message, in characters.
const maxQuoted = 200

// Quote makes a server's message safe and short enough to print.
func Quote(text string) string {
	if r := []rune(text); len(r) > maxQuoted {
		text = string(r[:maxQuoted]) + "…"
	}
	return strconv.QuoteToGraphic(text)
}

// round returns v rounded to that many significant digits.
func round(v float64, digits int) float64 {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return v
	}
	text := strconv.FormatFloat(v, 'e', digits-1, 64)
	r, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic("BUG: format: " + err.Error())
	}
	return r
}

// group puts commas between thousands of a decimal number.
func group(s string) string {
	whole, frac, hasFrac := strings.Cut(s, ".")
	sign := ""
	if strings.HasPrefix(whole, "-") {
		sign = "-"
		whole = whole[1:]
	}
	if len(whole) > 0 && whole[0] >= '0' && whole[0] <= '9' { // not Inf, NaN
		for i := len(whole) - 3; i > 0; i -= 3 {
			whole = whole[:i] + "," + whole[i:]
		}
	}
	if hasFrac {
		whole += "." + frac
	}
	return sign + whole
}

// Visible returns text in which everything that a terminal would obey or hide is written as \n, \x1b or \u202e. That is
// control characters, marks of writing direction, bytes that are not UTF-8, and the like. If there is none, it
// allocates nothing.
func Visible(text string) string {
	var out []byte
	from := 0 // text before it is in out
	for i, c := range text {
		size := utf8.RuneLen(c)
		if c == utf8.RuneError {
			_, size = utf8.DecodeRuneInString(text[i:])
		}
		broken := c == utf8.RuneError && size == 1
		if unicode.IsGraphic(c) && !broken {
			continue
		}
		quoted := strconv.QuoteToASCII(text[i : i+size])
		out = append(out, text[from:i]+strings.Trim(quoted, `"`)...)
		from = i + size
	}
	if out == nil {
		return text
	}
	return string(append(out, text[from:]...))
}

// VisibleJSON is Visible for JSON, which means the same afterwards: in its strings such characters become \u and four
// digits.
func VisibleJSON(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for _, c := range string(text) {
		if c == '\n' || unicode.IsGraphic(c) {
			out = utf8.AppendRune(out, c)
			continue
		}
		for _, unit := range utf16.Encode([]rune{c}) {
			out = fmt.Appendf(out, `\u%04x`, unit)
		}
	}
	return out
}

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
	width = max(width, minWidth)
	return Page{Width: min(width, maxWidth), label: label}
}

// Bytes returns what was printed, valid until more is.
func (p *Page) Bytes() []byte { return p.out }

// Line ends a line; trailing spaces are not printed, and text is shown as Visible has it.
func (p *Page) Line(text string) {
	p.Painted(Visible(text))
}

// Painted is Line for text with escape sequences of ours, and with nothing that came from outside.
func (p *Page) Painted(text string) {
	p.out = append(p.out, strings.TrimRight(text, " ")+"\n"...)
}

// Field prints a label and its parts, wrapped between parts. Empty parts are
// left out; without any, nothing is printed.
func (p *Page) Field(label string, parts ...string) {
	head := Left("  "+label, p.label)
	p.Wrap(head, strings.Repeat(" ", p.label), Gap, parts)
}

// Sentence prints text behind a mark, wrapped between words.
func (p *Page) Sentence(mark, text string) {
	indent := strings.Repeat(" ", Columns(mark))
	p.Wrap(mark, indent, " ", Words(text))
}

// Words are the words of a text, a number together with its unit.
func Words(text string) (words []string) {
	afterNumber := false
	for _, word := range strings.Fields(text) {
		bare := strings.TrimRight(word, ".,;:)]")
		if afterNumber && slices.Contains(units, bare) {
			words[len(words)-1] += " " + word
		} else {
			words = append(words, word)
		}
		last := word[len(word)-1]
		afterNumber = last >= '0' && last <= '9'
	}
	return words
}

// Fill fills lines of at most width columns; a longer word has a line of its own.
func Fill(text string, width int) []string {
	return Wrap(width, "", "", " ", Words(text))
}

var units = []string{"%", "×", "ns", "µs", "ms", "s", "min", "h", "B", "kB", "MB", "GB", "GiB"}

// Row prints a label and cells to the right of columns of these widths, the last for all further ones.
func (p *Page) Row(label string, width int, columns []int, cells ...string) {
	line := Left(label, width)
	for i, cell := range cells {
		column := columns[min(i, len(columns)-1)]
		line += Right(cell, column)
	}
	p.Line(line)
}

// Table prints a head and rows: the first cell of each to the left, the others to the right of columns that wide.
func (p *Page) Table(column int, head []string, rows [][]string) {
	label := p.Width - column*(len(head)-1)
	all := append([][]string{head}, rows...)
	for _, cells := range all {
		p.Row("  "+cells[0], label, []int{column}, cells[1:]...)
	}
}

// Wrap prints the lines of the function Wrap.
func (p *Page) Wrap(first, indent, between string, parts []string) {
	for _, line := range Wrap(p.Width, first, indent, between, parts) {
		p.Line(line)
	}
}

// Wrap returns lines of at most width columns: first and the parts, and a new line behind indent where the next part
// would not fit. Empty parts are left out; without any, there are no lines.
func Wrap(width int, first, indent, between string, parts []string) (lines []string) {
	line := first
	fresh := true
	for _, part := range Present(slices.Clone(parts)...) {
		if !fresh && Columns(line+between+part) > width {
			lines = append(lines, line)
			line = indent
			fresh = true
		}
		if !fresh {
			line += between
		}
		line += part
		fresh = false
	}
	if !fresh {
		lines = append(lines, line)
	}
	return lines
}

// Left aligns s within n columns.
func Left(s string, n int) string {
	return s + strings.Repeat(" ", max(0, n-Columns(s)))
}

// Right aligns s within n columns.
func Right(s string, n int) string {
	return strings.Repeat(" ", max(0, n-Columns(s))) + s
}

// Columns is the width of s on a terminal.
func Columns(s string) int { return uniseg.StringWidth(s) }

// Cut returns s, or of a wider one the beginning and "…" in n columns, between what people see as characters.
func Cut(s string, n int) string {
	if Columns(s) <= n {
		return s
	}
	beginning := ""
	state := -1
	for {
		cluster, rest, columns, next := uniseg.FirstGraphemeClusterInString(s, state)
		if n -= columns; n < 1 {
			return beginning + "…"
		}
		beginning += cluster
		s = rest
		state = next
	}
}

// Capitalised is a text that begins with a capital letter, if it begins with a letter of ASCII.
func Capitalised(text string) string {
	first := min(1, len(text))
	return strings.ToUpper(text[:first]) + text[first:]
}

// mostWords is how many words a title has: as many as one reads at a glance. Signs and units are none.
const mostWords = 20

// Title is a sentence of clauses, the most important first. Those that would make it too long are left out. A number
// and its sign stay in one line.
func Title(clauses ...string) string {
	words := func(text string) (n int) {
		for _, word := range strings.Fields(text) {
			unit := strings.Trim(word, "smµ%×≤(),;:") == ""
			if !unit {
				n++
			}
		}
		return n
	}
	title := ""
	for _, clause := range Present(clauses...) {
		longer := strings.TrimPrefix(title+"; "+clause, "; ")
		if title == "" || words(longer) <= mostWords {
			title = longer
		}
	}
	oneLine := strings.NewReplacer(" %", "\u00a0%", " ×", "\u00a0×", " ms", "\u00a0ms", " ≤ ", "\u00a0≤\u00a0")
	return oneLine.Replace(title)
}
