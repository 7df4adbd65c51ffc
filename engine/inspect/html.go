package inspect

import (
	_ "embed"
	"html/template"
	"io"
	"strings"
)

//go:embed page.html
var pageTemplate string

// htmlPage is what the template shows.
type htmlPage struct {
	Title   string
	Reports []*Report
	Columns int
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
	Title   string
	Key     bool // two curves
	Figures []htmlFigure
}

type htmlFigure struct {
	Trace string
	SVG   template.HTML
}

// HTML writes the reports as one page that needs nothing else: no scripts, no fonts, no network.
func HTML(w io.Writer, reports []*Report) error {
	t, err := template.New("page").Parse(pageTemplate)
	if err != nil {
		panic("BUG: inspect: " + err.Error())
	}
	p := htmlPage{Reports: reports, Columns: len(reports) + 1, Plots: htmlPlots(reports), Notes: htmlNotes(reports)}
	var names []string
	for _, r := range reports {
		names = append(names, r.Trace)
	}
	p.Title = strings.Join(names, ", ")
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
		if s := r.Sessions; s != nil && s.Followups > 0 {
			add(overlapDefinition(s))
		}
		if r.Cache != nil {
			add(r.Cache.Definition)
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
		{"Input tokens", false, func(r *Report) string { return histogramSVG(r.InputTokens.Histogram, short) }},
		{"Output tokens", false, func(r *Report) string { return histogramSVG(r.OutputTokens.Histogram, short) }},
		{"Share of tokens that an LRU cache would have held, by its capacity in tokens", true, curveSVG},
		{"Time since the last use of a repeated block", false, func(r *Report) string {
			if r.Reuse == nil {
				return ""
			}
			return histogramSVG(r.Reuse.TimeHistogram, step)
		}},
		{"Tokens of other blocks used since", false, func(r *Report) string {
			if r.Reuse == nil {
				return ""
			}
			return histogramSVG(r.Reuse.TokensHistogram, short)
		}},
	}
	var plots []htmlPlot
	for _, k := range kinds {
		p := htmlPlot{Title: k.title, Key: k.key}
		for _, r := range reports {
			if svg := k.draw(r); svg != "" {
				p.Figures = append(p.Figures, htmlFigure{r.Trace, template.HTML(svg)}) // made of numbers alone
			}
		}
		if len(p.Figures) > 0 {
			plots = append(plots, p)
		}
	}
	return plots
}
