package compare

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// PrintOptions say how a result is printed.
type PrintOptions struct {
	Width  int  // columns of the terminal; 0 = it is none
	Height int  // lines of the terminal; 0 = unknown
	Colour bool // with escape sequences
	Full   bool // all metrics
}

// Columns of the table. A cell leaves the first column free, so that cells stay apart.
const (
	labelWidth    = 18
	valueWidth    = 9
	changeWidth   = 9
	intervalWidth = 18
	screenLines   = 22 // all of 80x24 …
	otherLines    = 2  // … but the page and the prompt
)

// Print writes a result for people: who is compared, the metrics, what changed and what explains it. On a
// terminal it takes one screen, unless all is asked for. All text from outside is shown as format.Visible has it.
func Print(w io.Writer, r *Result, o PrintOptions) error {
	p := format.NewPage(o.Width, 0)
	for _, side := range []struct{ mark, name, verdict string }{
		{"A  ", r.A.Name, r.A.Verdict},
		{"B  ", r.B.Name, r.B.Verdict},
	} {
		name := []rune(format.Visible(side.name))
		if most := p.Width - 16; len(name) > most { // the end of a path or URL distinguishes it
			name = append([]rune("..."), name[len(name)-most+3:]...)
		}
		p.Line(side.mark + string(name) + "  " + side.verdict)
	}
	p.Sentence("   ", pairing(r))
	columns := []int{valueWidth, valueWidth, changeWidth, intervalWidth}
	p.Row("", labelWidth, columns, "A", "B", "change", "95 % interval")
	for _, m := range r.Metrics {
		if o.Full || m.shown() {
			p.Painted(m.row(Label(m.Name), columns, o.Colour))
		}
	}
	for i, part := range r.Owners {
		switch {
		case o.Full:
			p.Line(format.Visible(part.Owner) + ", " + format.Requests(part.Requests))
			for _, m := range part.Metrics {
				if m.shown() {
					p.Painted(m.row(Label(m.Name), columns, o.Colour))
				}
			}
		case i == 0:
			p.Line(Label(costed) + " by owner")
			fallthrough
		case i < mostShown:
			p.Painted(named(part.Metrics, costed).row(format.Visible(part.Owner), columns, o.Colour))
		}
	}
	p.Line("")
	facts, doubts := r.said(o.Full)
	for _, text := range slices.Concat(facts, doubts) {
		p.Sentence("- ", text)
	}
	lines := strings.SplitAfter(string(p.Bytes()), "\n")
	most := max(screenLines, o.Height-otherLines)
	if o.Width > 0 && !o.Full && len(lines) > most {
		lines = append(lines[:most-1], "- and more: --full\n")
	}
	_, err := io.WriteString(w, strings.Join(lines, ""))
	return err
}

// mostShown is how many owners one screen shows; --full has all.
const mostShown = 4

// shown reports whether a metric is on one screen.
func (m *Metric) shown() bool { return m.Main && (m.Change != nil || m.B != nil) }

// row is a metric's line of a table.
func (m *Metric) row(label string, columns []int, coloured bool) string {
	row := format.Left("  "+label, labelWidth)
	for i, cell := range m.cells() {
		row += format.Right(cell, columns[i])
	}
	if !coloured {
		return row + " " + m.word()
	}
	code := map[string]string{
		Worse:   "1;31",
		Better:  "1;32",
		Differs: "33",
		Same:    "2",
		Unclear: "2",
		Unknown: "2",
	}[m.Verdict]
	return row + " \x1b[" + code + "m" + m.word() + "\x1b[0m"
}

// Markdown writes a result for the summary of a pull request: the metrics, what becomes of gates, and what changed.
// Text from outside is shown as format.Markdown has it.
func Markdown(w io.Writer, r *Result, gates []Gate) error {
	var rows [][]string
	for _, m := range r.Metrics {
		if m.shown() {
			rows = append(rows, append(append([]string{Label(m.Name)}, m.cells()...), m.word()))
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "### B against A\n\nA is %s (%s), B is %s (%s): %s\n\n",
		format.Markdown(r.A.Name), r.A.Verdict, format.Markdown(r.B.Name), r.B.Verdict, format.Markdown(pairing(r)))
	b.WriteString(format.MarkdownTable([]string{"", "A", "B", "change", "95 % interval", ""}, rows) + "\n")
	for _, gate := range gates {
		answer, words := r.Judge(gate)
		fmt.Fprintf(&b, "- **%s** %s\n", answer, format.Markdown(words))
	}
	facts, doubts := r.said(false)
	for _, text := range slices.Concat(facts, doubts) {
		b.WriteString("- " + format.Markdown(text) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// pairing says what is compared with what, and what the intervals hold for.
func pairing(r *Result) string {
	text := format.Requests(r.Requests)
	if each := r.counted[0] / int64(max(1, len(r.A.Dirs))); r.Paired && r.Requests < each {
		text = format.Count(r.Requests) + " of " + format.Requests(each) + ", which ended ok in all runs,"
	}
	switch r.Scope {
	case ScopeNone:
		return "distributions of " + text + " without pairs"
	case ScopePair:
		if r.ofRecord() {
			return text + " of the record and of " + format.Many(len(r.B.Dirs), "run") + ", which tell how these " +
				"differ from that day, and no other"
		}
		if len(r.A.Dirs)+len(r.B.Dirs) > 2 {
			return fmt.Sprintf("%s in %d and %d runs; the single run is taken to vary as the others do: 3 runs a side "+
				"would tell", text, len(r.A.Dirs), len(r.B.Dirs))
		}
		return text + " in one pair of runs; others may differ: give 3 runs a side"
	}
	return fmt.Sprintf("%s in %d and %d runs; intervals are by runs; same is within ±%g %%",
		text, len(r.A.Dirs), len(r.B.Dirs), 100*r.Margin)
}

// cells are a metric's values as people read them.
func (m *Metric) cells() []string {
	cells := []string{m.value(m.A), m.value(m.B), "–", "–"}
	if m.Change != nil {
		cells[2] = m.change()
	}
	if m.Low != nil {
		unit := " " + m.sign(m.times())
		cells[3] = strings.Replace(m.ends()+unit, "[unbounded]"+unit, "[unbounded]", 1)
	}
	for i := range cells {
		cells[i] = strings.Replace(cells[i], " points", " pp", 1)
	}
	return cells
}

// value prints a value of a metric with its unit; "-" if there is none.
func (m *Metric) value(v *float64) string {
	switch {
	case v == nil:
		return "–"
	case m.Unit == "ms":
		return format.Milliseconds(*v)
	case m.Unit == "share":
		return format.Percent(*v)
	}
	return format.Number(*v, 4)
}

// telling are the metrics that tell what changed. Latencies that gained where more failed are none: they are spared.
func (r *Result) telling() (told, spared []*Metric) { return r.largest((*Metric).changed) }

// unsure are large changes that are not sure. Latencies that gained where more failed are those of what survived.
func (r *Result) unsure() (seen, survived []*Metric) { return r.largest((*Metric).seen) }

// largest are metrics of a kind, the largest change first, one of each latency: that of pairs, or else the first
// percentile.
func (r *Result) largest(is func(*Metric) bool) (others, spared []*Metric) {
	var all []*Metric
	about := "" // the latency that the last of them is of
	for i := range r.Metrics {
		m := &r.Metrics[i]
		latency, kind, _ := strings.Cut(m.Name, ".")
		switch {
		case !m.Main || !is(m) || latency == about && kind != "paired",
			r.lengthens(m.Name) && otherLengths(r.Metrics) != "":
			continue
		case latency == about:
			all = all[:len(all)-1]
		}
		all = append(all, m)
		about = latency
	}
	slices.SortStableFunc(all, func(a, b *Metric) int { return larger(*a, *b) })
	for _, m := range all {
		if m.ofSurvivors(r.Metrics) {
			spared = append(spared, m)
		} else {
			others = append(others, m)
		}
	}
	return others, spared
}

// ofSurvivors reports whether a latency gained where B failed more: it is that of fewer requests, on a server with less
// to do.
func (m *Metric) ofSurvivors(all []Metric) bool {
	return m.Unit == "ms" && m.gained && moreFailed(all) > sameWithin
}

// failures says how many requests failed in both sides; "" if none did, or it is not known. name is that of side B.
func (r *Result) failures(name string) string {
	if r.failed == [2]int64{} {
		return ""
	}
	of := func(side int, noun string) string {
		if r.failed[side] == 0 {
			return "none" + noun
		}
		share := float64(r.failed[side]) / float64(r.counted[side])
		return format.Count(r.failed[side]) + noun + " (" + format.Percent(share) + ")"
	}
	of240 := func(side int) string { return " of " + format.Requests(r.counted[side]) }
	ofA := ""
	if r.counted[0] != r.counted[1] {
		ofA = of240(0)
	}
	return name + " failed " + of(1, of240(1)) + ", A " + of(0, ofA)
}

// said are the sentences about what some requests cost others, what changed and what explains it, and about how sure
// that is. full has those of all metrics.
func (r *Result) said(full bool) (facts, doubts []string) {
	for _, part := range r.Owners {
		facts = append(facts, format.Present(part.Cost)...)
	}
	for _, acted := range r.Actions {
		facts = append(facts, acted.Words)
	}
	changed, doubts := r.changes()
	if full {
		changed = nil
		doubts = nil
		for i := range r.Metrics {
			m := &r.Metrics[i]
			changed = append(changed, m.Sentence)
			if m.Floor != nil {
				changed[i] += "; single runs of one side differ by up to " + m.amount(*m.Floor, false)
			}
		}
	}
	facts = append(append(facts, changed...), explained(r.Explained)...)
	for i, note := range r.Notes {
		if i == 0 && r.Scope == ScopeNone { // it voids all else
			facts = slices.Insert(facts, 0, note)
			continue
		}
		doubts = append(doubts, "note: "+note)
	}
	return facts, doubts
}

// changes are the sentences about failures, about what changed or may have changed, and about gains that are none. Of
// different workloads there are none.
func (r *Result) changes() (facts, doubts []string) {
	if r.Scope == ScopeNone {
		return nil, nil
	}
	told, spared := r.telling()
	if r.failed != [2]int64{} && !named(r.Metrics, errorRate).changed() {
		facts = append(facts, named(r.Metrics, errorRate).Sentence)
	}
	for _, m := range told {
		facts = append(facts, m.Sentence)
	}
	if len(facts) == 0 && r.Paired {
		facts = append(facts, r.unchanged("B"))
	}
	seen, survived := r.unsure()
	if spared = append(spared, survived...); len(spared) > 0 {
		doubts = append(doubts, "B failed more, so that the answers it gave came sooner is no gain: "+inTitles(spared))
	}
	if all := append(seen, survived...); len(all) > 0 {
		doubts = append(doubts, all[0].Sentence)
	}
	return facts, doubts
}

// explained are the words of all that was explained, those of what is spread over all requests together.
func explained(all []Culprits) (words []string) {
	var spread []string
	for _, c := range all {
		latency, _, _ := strings.Cut(Label(c.Metric), " ")
		if len(c.Groups) == 0 {
			spread = append(spread, latency)
		} else {
			words = append(words, c.Words)
		}
	}
	if len(spread) > 0 {
		words = append(words, fmt.Sprintf(spreads, strings.Join(spread, ", ")))
	}
	return words
}

// Label is what people call a metric, as short as the table has room for: TTFT p95 for ttft.p95.
func Label(name string) string {
	key, number, _ := strings.Cut(name, ".")
	l := metrics.FindLatency(key)
	if l >= 0 {
		return metrics.Latencies()[l].Label + " " + strings.Replace(number, "paired", "pairs", 1)
	}
	return strings.NewReplacer("_per_s", "/s", "_", " ", ".", " ").Replace(name)
}
