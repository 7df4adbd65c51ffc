package compare

import (
	"cmp"
	"io"
	"math"
	"slices"
	"strings"

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
	d := chart.Document{}
	for _, p := range pairs {
		r, title := p.Result, p.Result.B.Name+" against "+p.Result.A.Name
		if d.Title == "" {
			side := func(id Identity) string { return strings.Join(id.Dirs, ", ") + " (" + id.Verdict + ")" }
			d.Title, d.Under = title, []string{pairing(r), "A: " + side(r.A), "B: " + side(r.B)}
		}
		if len(pairs) == 1 {
			title = ""
		}
		m := match(p.A, p.B, r.Paired)
		d.Sections = append(d.Sections, chart.Section{Title: title, Findings: findings(r)}, chart.Section{
			Title: "Changes", Graphs: forest(r), Tables: []chart.Table{metricTable(r)},
			Note: "A change is of B against A: relative, or in percentage points (pp) for shares. Its interval holds the true change in 95 % of repetitions. The floor is how far two runs without any change differ.",
		})
		for _, s := range []chart.Section{explained(r), {
			Title: "Pairs by time", Graphs: byTime(m),
			Note: "Each dot is a request: how much its value in B differs from that in A, by its planned time. The line is the median of so many, one after another. The axis leaves out the 0.5 % of requests at either end.",
		}, {Title: "Distributions", Graphs: distributions(m), Note: "Of requests that ended ok" + strings.Repeat(" in both", int(b2i(r.Paired))) + "."}} {
			if len(s.Graphs)+len(s.Findings) > 0 {
				d.Sections = append(d.Sections, s)
			}
		}
	}
	return d.Write(w)
}

// findings are what one reads first: how many metrics changed, and the sentence about each.
func findings(r *Result) (out []chart.Finding) {
	for _, group := range []struct{ verdict, grade, word string }{
		{Worse, chart.Bad, "worse"}, {Better, chart.Good, "better"}, {InFloor, chart.Warn, "changed by no more than the noise floor"},
		{Same, chart.Plain, "without a change that can be told from 0"}, {Unknown, chart.Plain, "not known"},
	} {
		var lines []string
		for i := range r.Metrics {
			if m := &r.Metrics[i]; m.Main && m.Verdict == group.verdict {
				lines = append(lines, m.Sentence)
			}
		}
		if len(lines) > 0 {
			out = append(out, chart.Finding{Grade: group.grade, Word: format.Many(int64(len(lines)), "metric") + " " + group.word, Lines: lines})
		}
	}
	if len(r.Notes) > 0 {
		out = append(out, chart.Finding{Grade: chart.Plain, Word: "Notes", Lines: r.Notes})
	}
	return out
}

func metricTable(r *Result) chart.Table {
	t := chart.Table{Head: []string{"", "A", "B", "change", "95 % interval", "floor", ""}}
	grades := map[string]string{Worse: chart.Bad, Better: chart.Good, InFloor: chart.Warn}
	for i := range r.Metrics {
		m := &r.Metrics[i]
		row := chart.Texts(append([]string{Label(m.Name)}, m.cells()...)...)
		t.Rows = append(t.Rows, append(row, chart.Cell{Text: m.Verdict, Mark: grades[m.Verdict], Hint: m.Sentence}))
	}
	return t
}

// forest draws the interval of each main metric over its floor.
func forest(r *Result) []chart.Graph {
	g := chart.Graph{
		Title: "Change of B against A, with its 95 % interval over the noise floor", Wide: true, X: chart.Axis{Unit: "ratio"},
		Kinds: []string{"noise floor", "change", Same, InFloor, Worse, Better, Unknown}, // their places are their colours
	}
	reach := 0.001
	for i := range r.Metrics {
		m := &r.Metrics[i]
		if !m.Main || m.Low == nil {
			continue
		}
		floor := 0.0
		if m.Floor != nil {
			floor = *m.Floor
		}
		name := Label(m.Name)
		if m.Unit == "share" {
			name += " (pp)"
		}
		g.Rows = append(g.Rows, name)
		g.Lanes = append(g.Lanes, []chart.Piece{{From: -floor, To: floor}, {From: *m.Low, To: *m.High, Kind: slices.Index(g.Kinds, m.Verdict), Text: m.Sentence},
			{From: *m.Change, To: *m.Change, Kind: 1, Text: m.Sentence}})
		reach = max(reach, floor, math.Abs(*m.Low), math.Abs(*m.High))
	}
	if len(g.Rows) == 0 {
		return nil
	}
	width := 1.05 * reach
	for _, lane := range g.Lanes { // a change is a point; it is drawn as wide as it can be seen
		lane[2].From, lane[2].To = lane[2].From-width/500, lane[2].To+width/500
	}
	g.X.From, g.X.To = new(-width), new(width)
	return []chart.Graph{g}
}

// explained are the groups of requests that account for the changes.
func explained(r *Result) chart.Section {
	s := chart.Section{Title: "What explains it", Note: "The share of a group is its part of the whole change; below 0 it changed the other way. A and B are means of the group."}
	for _, c := range r.Explained {
		s.Findings = append(s.Findings, chart.Finding{Lines: []string{c.Words}})
		t := chart.Table{Title: Label(c.Metric) + " by " + c.By, Head: []string{c.By, "requests", "share of the change", "A", "B"}}
		of := &Metric{Unit: "ms"} // latencies alone are explained
		for _, g := range c.Groups {
			t.Rows = append(t.Rows, chart.Texts(g.Name, format.Count(g.Requests), format.Percent(g.Share), of.value(&g.A), of.value(&g.B)))
		}
		if len(t.Rows) > 0 {
			s.Tables = append(s.Tables, t)
		}
	}
	return s
}

const (
	mostDots  = 3000 // of a picture
	timeParts = 60   // of a run at most, each with a median
	partDots  = 15   // in each of them at least
)

// byTime draws each pair's change by its planned time. Of many pairs some are drawn, the same from each part of the run.
func byTime(m *matched) (out []chart.Graph) {
	if !m.paired {
		return nil
	}
	for _, latency := range latencies()[:mainLatencies] {
		type dot struct{ at, change float64 }
		var dots []dot
		var all []float64 // changes
		for _, i := range m.good[0] {
			a, b := latency.ns(m.rows[0][i].record()), latency.ns(m.rows[1][i].record())
			if a > 0 && b > 0 {
				dots = append(dots, dot{float64(m.rows[0][i].at()) / 1e9, float64(b)/float64(a) - 1})
				all = append(all, dots[len(dots)-1].change)
			}
		}
		n := len(dots)
		if n < 2 {
			continue
		}
		slices.SortStableFunc(dots, func(x, y dot) int { return cmp.Compare(x.at, y.at) })
		slices.Sort(all)
		low, high := min(0, all[n/200]), max(0, all[n-1-n/200])
		pad := max(0.001, (high-low)/20)
		every, part := (n+mostDots-1)/mostDots, max(partDots, (n+timeParts-1)/timeParts)
		g := chart.Graph{
			Title: "Change of " + latency.label + ", a request each", Sync: "pairs", X: chart.Axis{Label: "planned", Unit: "s"},
			Y:      chart.Axis{Unit: "ratio", From: new(low - pad), To: new(high + pad)},
			Series: []chart.Series{{Name: "median of " + format.Many(int64(part), "request"), Bad: true}, {Name: "a request", Style: chart.Dots}},
		}
		for i, d := range dots {
			median, one := math.NaN(), math.NaN()
			if first := i - i%part; i == (first+min(first+part, n))/2 {
				around := slices.Clone(dots[first:min(first+part, n)])
				slices.SortFunc(around, func(x, y dot) int { return cmp.Compare(x.change, y.change) })
				median = around[(len(around)-1)/2].change
			}
			if i%every == 0 {
				one = d.change
			}
			if math.IsNaN(median) && math.IsNaN(one) {
				continue
			}
			g.At, g.Series[0].Values, g.Series[1].Values = append(g.At, d.at), append(g.Series[0].Values, median), append(g.Series[1].Values, one)
		}
		out = append(out, g)
	}
	return out
}

// distributions draws both sides' latencies.
func distributions(m *matched) (out []chart.Graph) {
	for _, latency := range latencies()[:mainLatencies] {
		samples := []chart.Sample{{Name: "A"}, {Name: "B"}}
		for side := range samples {
			s := &samples[side]
			for _, i := range m.good[side] {
				if v := ms(latency.ns(m.rows[side][i].record())); finite(v) {
					s.At, s.Counts = append(s.At, v), append(s.Counts, 1)
				}
			}
			slices.Sort(s.At)
		}
		out = append(out, chart.Distributions(latency.label, "ms", false, samples)...)
	}
	return out
}
