package inspect

import (
	_ "embed"
	"html/template"
	"io"
	"strings"

	"github.com/fastreplay/fastreplay/engine/metrics/human"
	"github.com/fastreplay/fastreplay/engine/svg"
)

//go:embed page.html
var pageTemplate string

// htmlPage is what the template shows.
type htmlPage struct {
	Style   template.CSS
	Title   string
	Reports []*Report
	Names   []string // heads of the columns, empty for a single report
	Rem     int      // the width in rem from which tables stand beside each other
	Least   int      // the least width of a table in rem
	First   int      // the share of its labels in percent
	Tables  []htmlTable
	Notes   []string
	Plots   []htmlPlot
}

type htmlTable struct {
	Title string
	Rows  [][]string // label and a cell for each report
}

// htmlPlot is one kind of picture, of every report that has it.
type htmlPlot struct {
	Title   string // "" where all kinds stand together
	Figures []htmlFigure
}

type htmlFigure struct {
	Title  string
	Curves bool // the two of the LRU caches
	SVG    template.HTML
}

// HTML writes the reports as one page that needs nothing else: no scripts, no fonts, no network.
func HTML(w io.Writer, reports []*Report) error {
	t, err := template.New("page").Parse(pageTemplate)
	if err != nil {
		panic("BUG: inspect: " + err.Error())
	}
	p := htmlPage{Style: svg.Style(), Reports: reports, Rem: 14 + 7*len(reports), Least: 10 + 8*len(reports), First: 24 + 36/len(reports), Plots: htmlPlots(reports), Notes: htmlNotes(reports)}
	names := shortNames(reports)
	p.Title = strings.Join(names, ", ")
	if len(reports) > 1 {
		p.Names = names
	} else {
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
	return t.Execute(w, p)
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

func htmlPlots(reports []*Report) []htmlPlot {
	kinds := []struct {
		title string
		key   bool
		draw  func(*Report) string // "" = the trace has no such thing
	}{
		{"Rows by time", false, timelineSVG},
		{"Input tokens", false, func(r *Report) string { return histogramSVG(r.InputTokens.Histogram, whole, lengthRange) }},
		{"Output tokens", false, func(r *Report) string { return histogramSVG(r.OutputTokens.Histogram, whole, lengthRange) }},
		{"Tokens that an LRU cache would have held, by capacity in tokens", true, curveSVG},
		{"Time since the last use of a repeated block", false, func(r *Report) string {
			if r.Reuse == nil {
				return ""
			}
			return histogramSVG(r.Reuse.TimeHistogram, step, timeRange)
		}},
		{"Tokens of other blocks used since", false, func(r *Report) string {
			if r.Reuse == nil {
				return ""
			}
			return histogramSVG(r.Reuse.TokensHistogram, human.Short, tokensRange)
		}},
	}
	names := shortNames(reports)
	var plots []htmlPlot
	for _, k := range kinds {
		p := htmlPlot{Title: k.title}
		for i, r := range reports {
			if svg := k.draw(r); svg != "" {
				p.Figures = append(p.Figures, htmlFigure{names[i], k.key, template.HTML(svg)}) // made of numbers alone
			}
		}
		if len(p.Figures) > 0 {
			plots = append(plots, p)
		}
	}
	if len(reports) > 1 {
		return plots
	}
	var one htmlPlot
	for _, p := range plots {
		p.Figures[0].Title = p.Title
		one.Figures = append(one.Figures, p.Figures[0])
	}
	return []htmlPlot{one}
}
