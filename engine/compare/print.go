package compare

import (
	"io"
	"math"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/engine/format"
)

// PrintOptions say how a result is printed.
type PrintOptions struct {
	Width  int    // columns of the terminal; 0 = it is none, and nothing bounds the lines
	Colour bool   // with escape sequences
	Full   bool   // all metrics, explanations and notes
	Page   string // where the HTML page is; "" = there is none
}

// Columns of the table.
const (
	labelWidth, valueWidth, changeWidth, intervalWidth, floorWidth = 20, 9, 9, 15, 8
	screenLines                                                    = 23 // all of 80x24 but the prompt
	leastSaid                                                      = 8  // lines for the head of the table, and for all below it
)

// Print writes a result for people: who is compared, the metrics, what changed and what explains it. On a terminal it takes one screen,
// and says how many lines have no room. All text from outside is shown as format.Visible has it.
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
	room := math.MaxInt
	if o.Width > 0 && !o.Full {
		room = screenLines
	}
	shown, left := r.shown(o.Full, room-lines(p)-leastSaid)
	rows(&p, shown, o.Colour)
	p.Line("")
	end := format.NewPage(o.Width, 0)
	if o.Page != "" {
		end.Line("page  " + o.Page)
	}
	sentences(&p, r.said(o.Full), left, room-lines(p)-lines(end))
	_, err := w.Write(append(p.Bytes(), end.Bytes()...))
	return err
}

// pairing says what is compared with what.
func pairing(r *Result) string {
	text := "distributions of " + format.Many(r.Requests, "request") + " without pairs"
	if r.Paired {
		text = format.Many(r.Requests, "request") + " in pairs"
	}
	floor := "noise floor estimated"
	switch pairs := strings.Count(r.FloorFrom, ", ") + 1; {
	case r.FloorFrom == "estimated":
	case pairs > 1:
		floor = "noise floor from " + format.Many(int64(pairs), "pair") + " of runs of a side"
	default:
		floor = "noise floor from " + r.FloorFrom
	}
	by, _, _ := strings.Cut(r.ClusteredBy, ", or")
	return text + "; " + format.Count(r.Clusters) + " clusters, by " + by + "; " + floor
}

// rows prints metrics, each on a line.
func rows(p *format.Page, shown []*Metric, colour bool) {
	columns := []int{valueWidth, valueWidth, changeWidth, intervalWidth, floorWidth}
	p.Row("", labelWidth, columns, "A", "B", "change", "95 % interval", "floor")
	for _, m := range shown {
		row := format.Left("  "+Label(m.Name), labelWidth)
		for i, cell := range m.cells() {
			row += format.Right(cell, columns[i])
		}
		p.Painted(row + "  " + painted(m.Verdict, colour))
	}
}

// shown are the main metrics that a side has, or all. If there is less than room for them, some without a change are left out:
// percentiles first, but not what pairs say.
func (r *Result) shown(full bool, room int) (shown []*Metric, left int) {
	for i := range r.Metrics {
		if m := &r.Metrics[i]; full || m.Main && (m.A != nil || m.Change != nil) {
			shown = append(shown, m)
		}
	}
	for _, latencies := range []bool{true, false} {
		for i := len(shown) - 1; i >= 0 && len(shown) > room; i-- {
			if m := shown[i]; m.Verdict == Same && strings.Contains(m.Name, ".") == latencies && !strings.HasSuffix(m.Name, ".paired") {
				shown, left = slices.Delete(shown, i, i+1), left+1
			}
		}
	}
	return shown, left
}

// cells are a metric's values as people read them.
func (m *Metric) cells() []string {
	cells := []string{m.value(m.A), m.value(m.B), "-", "-", "-"}
	if m.Change != nil {
		cells[2] = m.signed(*m.Change)
	}
	if m.Low != nil {
		cells[3] = m.ends(false)
	}
	if m.Floor != nil {
		cells[4] = m.amount(*m.Floor)
	}
	for i := range cells {
		cells[i] = strings.Replace(cells[i], " points", " pp", 1)
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

// said are the sentences about what changed, what explains it, and the notes. Unless all are wanted, there is one of each latency: that of
// its pairs, if these changed.
func (r *Result) said(full bool) (said []string) {
	of := map[string]int{} // by latency, the place of its sentence
	for i := range r.Metrics {
		m := &r.Metrics[i]
		family, kind, _ := strings.Cut(m.Name, ".")
		at, again := of[family]
		switch changed := m.Verdict == Worse || m.Verdict == Better; {
		case full:
			said = append(said, m.Sentence)
		case !m.Main || !changed || again && kind != "paired":
		case again:
			said[at] = m.Sentence
		default:
			of[family], said = len(said), append(said, m.Sentence)
		}
	}
	if len(said) == 0 {
		said = append(said, "no change is beyond its interval and the noise floor")
	}
	for _, c := range r.Explained {
		said = append(said, c.Words)
	}
	for _, note := range r.Notes {
		said = append(said, "note: "+note)
	}
	return said
}

// sentences prints what is said, as far as there is room for its lines. So many lines are left out before.
func sentences(p *format.Page, said []string, left, room int) {
	for i, text := range said {
		one := format.NewPage(p.Width, 0)
		one.Sentence("- ", text)
		if room -= lines(one); room < 0 || room == 0 && left+len(said)-1-i > 0 {
			left += len(said) - i
			break
		}
		p.Sentence("- ", text)
	}
	if left > 0 {
		p.Line("- and " + format.Many(int64(left), "further line") + ": --full")
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

// Label is what people call a metric, as short as the table has room for: TTFT p95 for ttft.p95.
func Label(name string) string {
	return strings.NewReplacer("ttft", "TTFT", "tpot", "TPOT", "itl", "ITL", "e2e", "E2E", ".paired", " pairs", "_per_s", "/s", "_", " ", ".", " ").Replace(name)
}
