package inspect

import (
	_ "embed"
	"io"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/engine/chart"
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
	Tables  []table
	Notes   []string
	Plots   []chart.Plot
}

// HTML writes the reports as one page that needs nothing else: no scripts, no fonts, no network.
func HTML(w io.Writer, reports []*Report) error {
	n, names := len(reports), shortNames(reports)
	p := htmlPage{
		Title: strings.Join(names, ", "), Reports: reports, Names: names, Rem: 14 + 7*n, Least: 10 + 8*n, First: 24 + 36/n,
		Plots: htmlPlots(reports), Notes: htmlNotes(reports), Tables: tables(reports),
	}
	if n == 1 {
		p.Names = []string{""}
	}
	return chart.Page(pageTemplate).Execute(w, p)
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
