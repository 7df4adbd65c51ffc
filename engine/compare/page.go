package compare

import (
	"cmp"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/chart"
	"github.com/fastreplay/fastreplay/engine/format"
)

// Pair is a result with the sides that it is of.
type Pair struct {
	Result *Result
	A, B   *Side
}

// HTML writes comparisons as one page that needs nothing else: no other file, no network. Judgements come first, then the table, the
// changes as a picture, what explains them, pairs by time and the distributions of both sides.
func HTML(w io.Writer, pairs []Pair) error {
	d := chart.Document{Title: "Comparison"}
	for i, p := range pairs {
		title := p.Result.B.Name + " against " + p.Result.A.Name
		if i == 0 {
			d.Title = title
			d.Under = []string{pairing(p.Result), "A: " + sideWords(p.Result.A), "B: " + sideWords(p.Result.B)}
		}
		if len(pairs) == 1 {
			title = ""
		}
		d.Sections = append(d.Sections, p.sections(title)...)
	}
	return d.Write(w)
}

// sideWords says which runs a side is.
func sideWords(id Identity) string { return strings.Join(id.Dirs, ", ") + " (" + id.Verdict + ")" }

func (p *Pair) sections(title string) []chart.Section {
	r := p.Result
	out := []chart.Section{{Title: title, Findings: findings(r)}, {
		Title: "Changes", Graphs: forest(r), Tables: []chart.Table{metricTable(r)},
		Note: "A change is of B against A: relative, or in percentage points (pp) for shares. Its interval holds the true change in 95 % of repetitions. The floor is how far two runs without any change differ.",
	}}
	if len(r.Explained) > 0 {
		out = append(out, explained(r))
	}
	m := match(p.A, p.B, r.Paired)
	if graphs := byTime(m); r.Paired && len(graphs) > 0 {
		out = append(out, chart.Section{
			Title: "Pairs by time", Graphs: graphs,
			Note: "Each dot is a request: how much its value in B differs from that in A, by its planned time. The line is the median of so many, one after another. The axis leaves out the 0.5 % of requests at either end.",
		})
	}
	if graphs := distributions(m); len(graphs) > 0 {
		out = append(out, chart.Section{Title: "Distributions", Graphs: graphs, Note: "Of requests that ended ok" + map[bool]string{true: " in both", false: ""}[r.Paired] + "."})
	}
	return out
}

// findings are what one reads first: how many metrics changed, and the sentence about each.
func findings(r *Result) []chart.Finding {
	by := map[string][]string{}
	for i := range r.Metrics {
		if m := &r.Metrics[i]; m.Main {
			by[m.Verdict] = append(by[m.Verdict], m.Sentence)
		}
	}
	var out []chart.Finding
	for _, group := range []struct{ verdict, grade, word string }{
		{Worse, chart.Bad, "worse"}, {Better, chart.Good, "better"}, {InFloor, chart.Warn, "changed by no more than the noise floor"},
		{Same, chart.Plain, "without a change that can be told from 0"}, {Unknown, chart.Plain, "not known"},
	} {
		if lines := by[group.verdict]; len(lines) > 0 {
			out = append(out, chart.Finding{Grade: group.grade, Word: format.Many(int64(len(lines)), "metric") + " " + group.word, Lines: lines})
		}
	}
	if len(r.Notes) > 0 {
		out = append(out, chart.Finding{Grade: chart.Plain, Word: "Notes", Lines: r.Notes})
	}
	return out
}

// leastP is the least p value that is shown as it is.
const leastP = 0.0001

func metricTable(r *Result) chart.Table {
	t := chart.Table{Head: []string{"", "A", "B", "change", "95 % interval", "floor", "p", ""}}
	grades := map[string]string{Worse: chart.Bad, Better: chart.Good, InFloor: chart.Warn}
	for i := range r.Metrics {
		m := &r.Metrics[i]
		row := chart.Texts(append([]string{Label(m.Name)}, m.cells()...)...)
		p := "-"
		switch {
		case m.PValue == nil:
		case *m.PValue < leastP:
			p = "< " + format.Fixed(leastP, 4)
		default:
			p = format.Number(*m.PValue, 2)
		}
		t.Rows = append(t.Rows, append(row, chart.Cell{Text: p}, chart.Cell{Text: m.Verdict, Mark: grades[m.Verdict], Hint: m.Sentence}))
	}
	return t
}

// forest draws the interval of each main metric over its floor.
func forest(r *Result) []chart.Graph {
	g := chart.Graph{
		Title: "Change of B against A, with its 95 % interval over the noise floor", Wide: true, X: chart.Axis{Unit: "ratio"},
		Kinds: []string{"noise floor", "change", Same, InFloor, Worse, Better}, // their places are their colours
	}
	reach := 0.0
	for i := range r.Metrics {
		m := &r.Metrics[i]
		if !m.Main || m.Change == nil || m.Low == nil || m.High == nil {
			continue
		}
		var lane []chart.Piece
		if m.Floor != nil {
			lane = append(lane, chart.Piece{From: -*m.Floor, To: *m.Floor})
			reach = max(reach, *m.Floor)
		}
		text := m.Sentence
		lane = append(lane, chart.Piece{From: *m.Low, To: *m.High, Kind: slices.Index(g.Kinds, m.Verdict), Text: text}, chart.Piece{From: *m.Change, To: *m.Change, Kind: 1, Text: text})
		reach = max(reach, math.Abs(*m.Low), math.Abs(*m.High))
		name := Label(m.Name)
		if m.Unit == "share" {
			name += " (pp)"
		}
		g.Rows, g.Lanes = append(g.Rows, name), append(g.Lanes, lane)
	}
	if len(g.Rows) == 0 {
		return nil
	}
	width := 1.05 * max(reach, 0.001)
	for _, lane := range g.Lanes { // a change is a point; it is drawn as wide as it can be seen
		point := &lane[len(lane)-1]
		point.From, point.To = point.From-width/500, point.To+width/500
	}
	g.X.From, g.X.To = new(-width), new(width)
	return []chart.Graph{g}
}

// explained are the groups of requests that account for the changes.
func explained(r *Result) chart.Section {
	s := chart.Section{Title: "What explains it", Note: "The share of a group is its part of the whole change; below 0 it changed the other way. A and B are means of the group."}
	said := chart.Finding{}
	for _, c := range r.Explained {
		said.Lines = append(said.Lines, c.Words)
		if len(c.Groups) == 0 {
			continue
		}
		t := chart.Table{Title: Label(c.Metric) + " by " + c.By, Head: []string{c.By, "requests", "share of the change", "A", "B"}}
		of := &Metric{Unit: "ms"} // latencies alone are explained
		for _, g := range c.Groups {
			t.Rows = append(t.Rows, chart.Texts(g.Name, format.Count(g.Requests), format.Percent(g.Share), of.value(&g.A), of.value(&g.B)))
		}
		s.Tables = append(s.Tables, t)
	}
	s.Findings = []chart.Finding{said}
	return s
}

// mainLatencies are those that pictures show.
func mainLatencies() []latency {
	return slices.DeleteFunc(latencies(), func(l latency) bool { return !l.main })
}

const (
	mostDots  = 3000 // of a picture
	timeParts = 60   // of a run at most, each with a median
	partDots  = 15   // in each of them at least
)

// byTime draws each pair's change by its planned time. Of many pairs some are drawn, the same from each part of the run.
func byTime(m *matched) (out []chart.Graph) {
	for _, latency := range mainLatencies() {
		var dots []dot
		for _, i := range m.good[0] {
			a, b := latency.ns(m.rows[0][i].record()), latency.ns(m.rows[1][i].record())
			if a > 0 && b > 0 {
				dots = append(dots, dot{float64(m.rows[0][i].at()) / 1e9, float64(b)/float64(a) - 1})
			}
		}
		if len(dots) < 2 {
			continue
		}
		slices.SortStableFunc(dots, func(x, y dot) int { return cmp.Compare(x.at, y.at) })
		every := (len(dots) + mostDots - 1) / mostDots
		part := max(partDots, (len(dots)+timeParts-1)/timeParts)
		g := chart.Graph{
			Title: "Change of " + latency.label + ", a request each", Sync: "pairs", X: chart.Axis{Label: "planned", Unit: "s"}, Y: bounds(dots),
			Series: []chart.Series{{Name: "median of " + format.Many(int64(part), "request"), Bad: true}, {Name: "a request", Style: chart.Dots}},
		}
		medians, drawn := &g.Series[0].Values, &g.Series[1].Values
		for i, d := range dots {
			if first := i - i%part; i == (first+min(first+part, len(dots)))/2 {
				g.At, *medians, *drawn = append(g.At, d.at), append(*medians, median(dots[first:min(first+part, len(dots))])), append(*drawn, math.NaN())
			}
			if i%every == 0 {
				g.At, *medians, *drawn = append(g.At, d.at), append(*medians, math.NaN()), append(*drawn, d.change)
			}
		}
		out = append(out, g)
	}
	return out
}

// dot is a pair's change and its time in seconds.
type dot struct{ at, change float64 }

// changes are those of dots, in rising order.
func changes(dots []dot) (out []float64) {
	for _, d := range dots {
		out = append(out, d.change)
	}
	slices.Sort(out)
	return out
}

func median(dots []dot) float64 { return changes(dots)[(len(dots)-1)/2] }

// bounds is an axis of changes without the 0.5 % at either end, but with 0.
func bounds(dots []dot) chart.Axis {
	all := changes(dots)
	n := len(all)
	low, high := min(0, all[n/200]), max(0, all[n-1-n/200])
	pad := max(0.001, (high-low)/20)
	return chart.Axis{Unit: "ratio", From: new(low - pad), To: new(high + pad)}
}

// distributions draws both sides' latencies, and the hits of both.
func distributions(m *matched) (out []chart.Graph) {
	draw := func(title, unit string, whole bool, of func(*row) float64) {
		var samples []chart.Sample
		for side, name := range []string{"A", "B"} {
			s := chart.Sample{Name: name}
			for _, i := range m.good[side] {
				if v := of(m.rows[side][i]); !math.IsNaN(v) {
					s.At = append(s.At, v)
				}
			}
			slices.Sort(s.At)
			s.Counts = slices.Repeat([]float64{1}, len(s.At))
			samples = append(samples, s)
		}
		out = append(out, chart.Distributions(title, unit, whole, samples)...)
	}
	for _, latency := range mainLatencies() {
		draw(latency.label, "ms", false, func(r *row) float64 { return ms(latency.ns(r.record())) })
	}
	draw("Share of a prompt that the cache had", "ratio", false, func(r *row) float64 {
		if r.cached == record.None || r.prompt <= 0 {
			return math.NaN()
		}
		return float64(r.cached) / float64(r.prompt)
	})
	return out
}
