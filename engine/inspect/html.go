package inspect

import (
	_ "embed"
	"io"
	"strings"

	"github.com/fastreplay/fastreplay/engine/chart"
	"github.com/fastreplay/fastreplay/engine/metrics/human"
)

//go:embed page.html
var pageTemplate string

// htmlPage is what the template shows.
type htmlPage struct {
	Title   string
	Reports []*Report
	Names   []string // heads of the columns, empty for a single report
	Rem     int      // the width in rem from which tables stand beside each other
	Least   int      // the least width of a table in rem
	First   int      // the share of its labels in percent
	Tables  []htmlTable
	Notes   []string
	Plots   []chart.Plot
}

type htmlTable struct {
	Title string
	Rows  [][]string // label and a cell for each report
}

// HTML writes the reports as one page that needs nothing else: no scripts, no fonts, no network.
func HTML(w io.Writer, reports []*Report) error {
	n, names := len(reports), shortNames(reports)
	p := htmlPage{
		Title: strings.Join(names, ", "), Reports: reports, Names: names, Rem: 14 + 7*n, Least: 10 + 8*n, First: 24 + 36/n,
		Plots: htmlPlots(reports), Notes: htmlNotes(reports),
	}
	if n == 1 {
		p.Names = []string{""}
	}
	for _, s := range sections(reports) {
		table := htmlTable{Title: s.title}
		for _, q := range s.quantities {
			cells := []string{q.label}
			for _, r := range reports {
				cells = append(cells, q.of(r))
			}
			table.Rows = append(table.Rows, cells)
		}
		p.Tables = append(p.Tables, table)
	}
	return chart.Page(pageTemplate).Execute(w, p)
}

// htmlNotes are the definitions, each once.
func htmlNotes(reports []*Report) []string {
	var notes []string
	said := map[string]bool{}
	add := func(text string) {
		if !said[text] {
			said[text] = true
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

func htmlPlots(reports []*Report) []chart.Plot {
	reuse := func(r *Report) *Reuse {
		if r.Reuse == nil {
			return &Reuse{}
		}
		return r.Reuse
	}
	names := shortNames(reports)
	var plots []chart.Plot
	for _, k := range []struct {
		title string
		keys  []string
		draw  func(*Report) *chart.Drawing // nil = the trace has no such thing
	}{
		{"Rows by time", nil, timeline},
		{"Input tokens", nil, func(r *Report) *chart.Drawing { return histogram(r.InputTokens.Histogram, whole, lengthRange) }},
		{"Output tokens", nil, func(r *Report) *chart.Drawing { return histogram(r.OutputTokens.Histogram, whole, lengthRange) }},
		{"Tokens that an LRU cache would have held, by capacity in tokens", []string{"in order", "tail first"}, curves},
		{"Time since the last use of a repeated block", nil,
			func(r *Report) *chart.Drawing { return histogram(reuse(r).TimeHistogram, step, timeRange) }},
		{"Tokens of other blocks used since", nil,
			func(r *Report) *chart.Drawing { return histogram(reuse(r).TokensHistogram, human.Short, tokensRange) }},
	} {
		p := chart.Plot{Title: k.title}
		for i, r := range reports {
			if d := k.draw(r); d != nil {
				p.Figures = append(p.Figures, d.Figure(names[i], k.keys...))
			}
		}
		plots = append(plots, p)
	}
	if len(reports) > 1 {
		return plots
	}
	var one chart.Plot
	for _, p := range plots {
		for _, f := range p.Figures {
			f.Title = p.Title
			one.Figures = append(one.Figures, f)
		}
	}
	return []chart.Plot{one}
}
