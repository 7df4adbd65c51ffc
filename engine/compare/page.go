package compare

import (
	"io"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/engine/chart"
	"github.com/fastreplay/fastreplay/engine/format"
)

// HTML writes comparisons as one page that needs nothing else: no other file, no network. What a terminal says comes
// first, then the changes as a picture and as a table, and what explains them.
func HTML(w io.Writer, results []*Result) error {
	d := chart.Document{}
	for i, r := range results {
		title := r.B.Name + " against " + r.A.Name
		said := chart.Finding{Lines: r.said(false)}
		if i == 0 {
			side := func(id Identity) string {
				return strings.Join(id.Dirs, ", ") + " (" + id.Verdict + ")"
			}
			d.Title = title
			d.Under = []string{pairing(r), "A: " + side(r.A), "B: " + side(r.B)}
		}
		if len(results) == 1 {
			title = ""
		}
		for _, verdict := range []string{Differs, Better, Worse} { // the last one that a metric has decides
			if slices.ContainsFunc(r.Metrics, func(m Metric) bool {
				return m.Main && m.Verdict == verdict
			}) {
				said.Grade = grades()[verdict]
			}
		}
		changes := chart.Section{
			Title:  "Changes",
			Graphs: forest(r),
			Tables: []chart.Table{metricTable(r)},
			Note: "A change is of B against A: relative, or in percentage points (pp) for shares. Its interval " +
				"holds the true change in 95 % of repetitions: that of the servers if a side has several runs, else " +
				"that of these two runs. The floor is how far two runs of one side differ.",
		}
		for _, c := range r.Explained {
			if len(c.Groups) > 0 {
				changes.Tables = append(changes.Tables, c.table())
			}
		}
		d.Sections = append(d.Sections, chart.Section{
			Title:    title,
			Findings: []chart.Finding{said},
		}, changes)
	}
	return d.Write(w)
}

func grades() map[string]string {
	return map[string]string{
		Worse:   chart.Bad,
		Better:  chart.Good,
		Differs: chart.Warn,
	}
}

func metricTable(r *Result) chart.Table {
	t := chart.Table{Head: []string{"", "A", "B", "change", "95 % interval", "floor", ""}}
	for _, m := range r.Metrics {
		row := chart.Texts(append([]string{Label(m.Name)}, m.cells()...)...)
		t.Rows = append(t.Rows, append(row, chart.Cell{
			Text: m.Verdict,
			Mark: grades()[m.Verdict],
			Hint: m.Sentence,
		}))
	}
	return t
}

// table has the groups of requests that account for a change.
func (c *Culprits) table() chart.Table {
	t := chart.Table{
		Title: Label(c.Metric) + " by " + c.By,
		Head:  []string{c.By, "requests", "share of the change", "A", "B"},
		Note: "The share of a group is its part of the whole change; below 0 it changed the other way. A and B " +
			"are means of the group.",
	}
	for _, g := range c.Groups {
		t.Rows = append(t.Rows, chart.Texts(g.Name, format.Count(g.Requests), format.Percent(g.Share),
			format.Milliseconds(g.A), format.Milliseconds(g.B)))
	}
	return t
}

// forest draws the interval of each main metric over its floor. The axis has room for all that changed, and for twice
// as much as half of the intervals take; what is wider is cut off.
func forest(r *Result) []chart.Graph {
	g := chart.Graph{
		Title: "Change of B against A, with its 95 % interval over the noise floor", Wide: true,
		X: chart.Axis{Unit: "ratio"},
		// their places are their colours
		Kinds: []string{"noise floor", "change", Same, Differs, Worse, Better, Unclear},
	}
	drawn := slices.DeleteFunc(slices.Clone(r.Metrics), func(m Metric) bool {
		return !m.Main || m.Low == nil
	})
	if len(drawn) == 0 {
		return nil
	}
	changed := 0.001
	all := []float64(nil)
	for _, m := range drawn {
		all = append(all, max(-*m.Low, *m.High))
		if m.changed() {
			changed = max(changed, all[len(all)-1])
		}
	}
	slices.Sort(all)
	width := max(1.1*changed, 2*all[len(all)/2])
	g.X.From = new(-width)
	g.X.To = new(width)
	for _, m := range drawn {
		lane := []chart.Piece{
			{
				From: *m.Low,
				To:   *m.High,
				Kind: slices.Index(g.Kinds, m.Verdict),
				Text: m.Sentence,
			},
			// a point, as wide as it can be seen
			{
				From: *m.Change - width/500,
				To:   *m.Change + width/500,
				Kind: 1,
				Text: m.Sentence,
			},
		}
		if m.Floor != nil {
			lane = slices.Insert(lane, 0, chart.Piece{
				From: -*m.Floor,
				To:   *m.Floor,
			})
		}
		name := Label(m.Name)
		if m.Unit == "share" {
			name += " (pp)"
		}
		g.Rows = append(g.Rows, name)
		g.Lanes = append(g.Lanes, lane)
	}
	return []chart.Graph{g}
}
