package inspect

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/engine/chart"
	"github.com/fastreplay/fastreplay/engine/format"
)

// HTML writes the reports as one page that needs nothing else: no scripts, no fonts, no network.
func HTML(w io.Writer, reports []*Report) error {
	n, names := len(reports), shortNames(reports)
	// Tables stand beside each other from the width of a column on.
	p := chart.NewPage(strings.Join(names, ", "), pageStyle, 14+7*n, 10+8*n, 24+36/n)
	for _, r := range reports {
		if n > 1 && len(r.Findings) > 0 {
			p.Add("<h3>%s</h3>", r.Trace)
		}
		if len(r.Findings) > 0 {
			p.Add("\n")
		}
		for _, f := range r.Findings {
			p.Add(`<div class="finding %s">`, f.Severity)
			if f.Severity == "refusal" {
				p.Add("<b>A replay would refuse this trace.</b> ")
			}
			p.Add("%s</div>\n", f.Text)
		}
	}
	p.Add("\n<div class=\"sections\">\n")
	if n == 1 {
		names = []string{""} // heads of the columns
	}
	for _, t := range tables(reports) {
		addTable(p, t, names)
	}
	p.Add("</div>\n")
	for _, note := range htmlNotes(reports) {
		p.Add("<p class=\"quiet\">%s</p>\n", note)
	}
	p.Add("\n")
	p.Plots(htmlPlots(reports))
	return p.Write(w)
}

// pageStyle is given the width of a column and the least width of a table in rem, and the share of its labels in percent.
const pageStyle = `.sections { columns: %drem; column-gap: 2.4rem; margin-top: 1rem }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; table-layout: fixed; width: 100%%; min-width: %drem }
th:first-child { width: %d%% }
`

// addTable appends a table with a column for each name.
func addTable(p *chart.Page, t table, names []string) {
	p.Add("<div class=\"scroll\"><table>\n<thead><tr><th>%s</th>", t.Title)
	for _, name := range names {
		p.Add("<th>%s</th>", name)
	}
	p.Add("</tr></thead>\n<tbody>\n")
	for _, row := range t.Rows {
		p.Add("<tr>")
		for i, cell := range row {
			if i == 0 {
				p.Add("<th>%s</th>", cell)
			} else {
				p.Add("<td>%s</td>", cell)
			}
		}
		p.Add("</tr>\n")
	}
	p.Add("</tbody>\n</table></div>\n")
}

// htmlNotes are the definitions, each once.
func htmlNotes(reports []*Report) []string {
	var notes []string
	add := func(text string) {
		if !slices.Contains(notes, text) {
			notes = append(notes, text)
		}
	}
	for _, r := range reports {
		if s := r.Sessions; s != nil && s.OverlapShare != nil {
			add(overlapDefinition(s))
		}
		if r.Cache != nil {
			add(r.Cache.Definition)
		}
		if len(r.Routing) > 0 {
			add(r.Routing[0].Definition)
		}
	}
	return notes
}

// htmlPlots have a figure of each report; the figures of one report stand together.
func htmlPlots(reports []*Report) (plots []chart.Plot) {
	names := shortNames(reports)
	for i, r := range reports {
		for k, d := range drawings(r) {
			plot, figure := d.title, names[i]
			if len(reports) == 1 {
				k, plot, figure = 0, "", d.title
			}
			if k == len(plots) {
				plots = append(plots, chart.Plot{Title: plot})
			}
			if d.Drawing != nil {
				plots[k].Figures = append(plots[k].Figures, d.Figure(figure, d.keys...))
			}
		}
	}
	return plots
}

// drawing is a picture of a report; nil where the trace does not have what it shows.
type drawing struct {
	*chart.Drawing
	title string
	keys  []string // what its lines are; none for bars
}

// drawings are the pictures of a report, in the same order for each.
func drawings(r *Report) []drawing {
	all := []drawing{{timeline(r), "Rows by time", nil}}
	for _, h := range histograms(r) {
		all = append(all, drawing{h.draw(), h.title, nil})
	}
	const held = "Tokens that an LRU cache would have held, by capacity in tokens"
	return slices.Insert(all, 3, drawing{curves(r), held, []string{"in order", "tail first"}})
}

// timeline draws rows by time; nil where the trace has no times.
func timeline(r *Report) *chart.Drawing {
	a := &r.Arrivals
	if a.Timeline == nil {
		return nil
	}
	d := chart.New(float64(max(1, slices.Max(a.Timeline))), format.Short)
	for i, c := range a.Timeline {
		from := duration(float64(i) * a.BinS)
		d.Bar("bar", i, len(a.Timeline), float64(c), fmt.Sprintf("from %s: %s rows in %s", from, format.Count(c), duration(a.BinS)))
	}
	d.Ends(duration(a.SpanS))
	return d
}

// draw draws a histogram; nil where it is empty.
func (h *histogram) draw() *chart.Drawing {
	if len(h.bins) == 0 {
		return nil
	}
	d := chart.New(mostOf(h.bins), format.Short)
	for i, b := range h.bins {
		d.Bar("bar", i, len(h.bins), float64(b.Count), h.name(b)+": "+format.Count(b.Count))
		if every := (len(h.bins) + 7) / 8; i%every == 0 {
			text := h.edge(b.From)
			if b.To == timeEdges()[1] {
				text = "at once"
			}
			d.Below(float64(i)/float64(len(h.bins)), "start", text)
		}
	}
	return d
}

// curves draws the hits of LRU caches by capacity; nil where they are not known.
func curves(r *Report) *chart.Drawing {
	if r.Cache == nil || len(r.Cache.Curve) < 2 {
		return nil
	}
	points := r.Cache.Curve
	log := func(p Capacity) float64 { return math.Log10(float64(p.Tokens)) }
	low, high := log(points[0]), log(points[len(points)-1])
	at := func(log float64) float64 { return (log - low) / math.Max(1e-9, high-low) }
	most := math.Max(0.1, math.Ceil(r.Cache.Infinite.Tokens*10)/10)
	d := chart.New(most, func(v float64) string { return whole(100*v) + " %" })
	for decade := math.Ceil(low); decade <= high; decade++ {
		d.Mark(at(decade), format.Short(math.Pow(10, decade)))
	}
	d.Line("first", len(points), func(i int) (float64, *float64) { return at(log(points[i])), &points[i].TokenRatio })
	d.Line("second", len(points), func(i int) (float64, *float64) { return at(log(points[i])), &points[i].TailFirstTokens })
	return d
}
