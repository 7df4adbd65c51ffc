package compare

import (
	"cmp"
	"io"
	"math"
	"strings"

	"github.com/fastreplay/fastreplay/engine/format"
)

// PrintOptions say how a result is printed.
type PrintOptions struct {
	Width  int    // columns of the terminal; 0 = it is none, and nothing bounds the lines
	Colour bool   // with escape sequences
	Full   bool   // all metrics, explanations and notes
	Page   string // where the HTML page is; "" = there is none
	Lines  int    // of the screen, if Width is above 0 and Full is not set; 0 = 23, all of 80x24 but the prompt
}

// Columns of the table.
const (
	labelWidth, valueWidth, changeWidth, intervalWidth, floorWidth = 18, 10, 9, 17, 8
	screenLines                                                    = 23
)

// Print writes a result for people: who is compared, the metrics, what changed and what explains it. On a terminal it takes one screen,
// and says how many sentences have no room. All text from outside is shown as format.Visible has it.
func Print(w io.Writer, r *Result, o PrintOptions) error {
	p := format.NewPage(o.Width, 4)
	for _, side := range []struct {
		name string
		of   Identity
	}{{"A", r.A}, {"B", r.B}} {
		p.Line(side.name + "  " + fitted(side.of.Name, p.Width-16) + "  " + side.of.Verdict)
	}
	p.Sentence("   ", pairing(r))
	p.Line("")
	rows(&p, r, o)
	p.Line("")
	end := format.NewPage(o.Width, 0)
	if o.Page != "" {
		end.Line("page  " + o.Page)
	}
	room := math.MaxInt
	if o.Width > 0 && !o.Full {
		room = cmp.Or(o.Lines, screenLines) - lines(p) - lines(end)
	}
	sentences(&p, r, o.Full, room)
	_, err := w.Write(append(p.Bytes(), end.Bytes()...))
	return err
}

// pairing says what is compared with what.
func pairing(r *Result) string {
	text := "distributions of " + format.Many(r.Requests, "request") + " without pairs"
	if r.Paired {
		text = format.Many(r.Requests, "request") + " in pairs"
	}
	floor := "noise floor " + r.FloorFrom
	if r.FloorFrom != "estimated" {
		floor = "noise floor from " + r.FloorFrom
	}
	return text + "; " + format.Count(r.Clusters) + " clusters, by " + r.ClusteredBy + "; " + floor
}

// rows prints the main metrics, or all.
func rows(p *format.Page, r *Result, o PrintOptions) {
	columns := []int{valueWidth, valueWidth, changeWidth, intervalWidth, floorWidth}
	p.Row("", labelWidth, columns, "A", "B", "change", "95 % interval", "floor")
	for i := range r.Metrics {
		if m := &r.Metrics[i]; m.Main || o.Full {
			row := format.Left("  "+Label(m.Name), labelWidth)
			for i, cell := range m.cells() {
				row += format.Right(cell, columns[i])
			}
			p.Painted(row + "  " + painted(m.Verdict, o.Colour))
		}
	}
}

// cells are a metric's values as people read them.
func (m *Metric) cells() []string {
	cells := []string{m.value(m.A), m.value(m.B), "-", cmp.Or(m.Interval(), "-"), "-"}
	if m.Change != nil {
		cells[2] = m.signed(*m.Change)
	}
	if m.Floor != nil {
		cells[4] = m.amount(*m.Floor)
	}
	return cells
}

// value prints a value of a metric with its unit; "-" if there is none.
func (m *Metric) value(v *float64) string {
	switch {
	case v == nil || math.IsNaN(*v):
		return "-"
	case m.Unit == "ms":
		return format.Duration(*v*1e6, 3)
	case m.Unit == "share":
		return format.Percent(*v)
	}
	return format.Number(*v, 4)
}

// painted colours a verdict.
func painted(verdict string, colour bool) string {
	code := map[string]string{Worse: "1;31", Better: "1;32", InFloor: "33", Same: "2", Unknown: "2"}[verdict]
	if !colour || code == "" {
		return verdict
	}
	return "\x1b[" + code + "m" + verdict + "\x1b[0m"
}

// sentences prints what changed, what explains it, and notes, as far as there is room for their lines.
func sentences(p *format.Page, r *Result, full bool, room int) {
	var said []string
	for i := range r.Metrics {
		if m := &r.Metrics[i]; full || m.Main && (m.Verdict == Worse || m.Verdict == Better) {
			said = append(said, m.Sentence)
		}
	}
	if len(said) == 0 {
		said = append(said, "No change is beyond its interval and the noise floor.")
	}
	for _, c := range r.Explained {
		said = append(said, c.Words)
	}
	for _, note := range r.Notes {
		said = append(said, "note: "+note)
	}
	for i, text := range said {
		try := format.NewPage(p.Width, 0)
		try.Sentence("- ", text)
		left := room - lines(try)
		if left < 0 || left == 0 && i < len(said)-1 {
			p.Line("- and " + format.Many(int64(len(said)-i), "further sentence") + ": --full")
			return
		}
		room = left
		p.Sentence("- ", text)
	}
}

// lines is how many lines a page has.
func lines(p format.Page) int { return strings.Count(string(p.Bytes()), "\n") }

// fitted shortens a text at its front, since the end of a path or URL distinguishes it.
func fitted(text string, columns int) string {
	text = format.Visible(text)
	if runes := []rune(text); len(runes) > columns {
		return "..." + string(runes[len(runes)-columns+3:])
	}
	return text
}

// Label is what people call a metric: TTFT p95 for ttft.p95.
func Label(name string) string {
	first, rest, _ := strings.Cut(name, ".")
	for _, latency := range []string{"ttft", "tpot", "itl", "e2e"} {
		if rest2, ok := strings.CutPrefix(first, latency); ok {
			first = strings.ToUpper(latency) + rest2
		}
	}
	if first == "under_load" {
		first, rest = rest, "under load"
	}
	first = strings.TrimSuffix(strings.ReplaceAll(strings.ReplaceAll(first, "_per_s", "/s"), "_", " "), " ")
	return strings.TrimSpace(first + " " + rest)
}
