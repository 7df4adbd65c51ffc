package compare

import (
	"io"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/engine/chart"
	"github.com/fastreplay/fastreplay/engine/format"
)

// HTML writes comparisons as one page that needs nothing else: no other file, no network. Judgements come first, then the changes as a
// picture and as a table, and what explains them.
func HTML(w io.Writer, results []*Result) error {
	d := chart.Document{}
	for i, r := range results {
		title := r.B.Name + " against " + r.A.Name
		if i == 0 {
			side := func(id Identity) string { return strings.Join(id.Dirs, ", ") + " (" + id.Verdict + ")" }
			d.Title, d.Under = title, []string{pairing(r), "A: " + side(r.A), "B: " + side(r.B)}
		}
		if len(results) == 1 {
			title = ""
		}
		d.Sections = append(d.Sections, chart.Section{Title: title, Findings: findings(r)}, chart.Section{
			Title: "Changes", Graphs: forest(r), Tables: []chart.Table{metricTable(r)},
			Note: "A change is of B against A: relative, or in percentage points (pp) for shares. Its interval holds the true change in 95 % of repetitions. The floor is how far two runs without any change differ.",
		})
		if len(r.Explained) > 0 {
			d.Sections = append(d.Sections, explained(r))
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

// forest draws the interval of each main metric over its floor. The axis has room for all that changed, and for twice as much as half of the
// intervals take. What is wider is cut off, and the row has its numbers.
func forest(r *Result) []chart.Graph {
	g := chart.Graph{
		Title: "Change of B against A, with its 95 % interval over the noise floor", Wide: true, X: chart.Axis{Unit: "ratio"},
		Kinds: []string{"noise floor", "change", Same, InFloor, Worse, Better, Unknown}, // their places are their colours
	}
	changed, all := 0.001, []float64{0}
	for _, m := range r.Metrics {
		if m.Main && m.Low != nil {
			all = append(all, max(-*m.Low, *m.High))
			if m.Verdict == Worse || m.Verdict == Better {
				changed = max(changed, all[len(all)-1])
			}
		}
	}
	slices.Sort(all)
	width := max(1.1*changed, 2*all[len(all)/2])
	for i := range r.Metrics {
		m := &r.Metrics[i]
		if !m.Main || m.Low == nil {
			continue
		}
		name, lane := Label(m.Name), []chart.Piece(nil)
		if m.Unit == "share" {
			name += " (pp)"
		}
		if -*m.Low > width || *m.High > width {
			name += " " + m.ends()
		}
		if m.Floor != nil {
			if lane = append(lane, chart.Piece{From: -*m.Floor, To: *m.Floor}); *m.Floor > width {
				name += " (floor " + m.amount(*m.Floor, false) + ")"
			}
		}
		g.Rows = append(g.Rows, name)
		g.Lanes = append(g.Lanes, append(lane, chart.Piece{From: *m.Low, To: *m.High, Kind: slices.Index(g.Kinds, m.Verdict), Text: m.Sentence},
			chart.Piece{From: *m.Change - width/500, To: *m.Change + width/500, Kind: 1, Text: m.Sentence})) // a point, as wide as it can be seen
	}
	if g.X.From, g.X.To = new(-width), new(width); len(g.Rows) == 0 {
		return nil
	}
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
