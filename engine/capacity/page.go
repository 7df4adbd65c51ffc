package capacity

import (
	"cmp"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/engine/chart"
	"github.com/fastreplay/fastreplay/engine/format"
)

// Page is capacity.html: the answer, curves over the load, and a table of all probes.
type Page struct {
	Title      string
	Sentence   string // the answer
	Unit       string // of loads
	Objectives []Objective
	Answer     Answer
	Outcomes   []Outcome
	Load       func(float64) string // prints a load
}

// Write writes the page.
func (p *Page) Write(w io.Writer) error {
	answer := chart.Finding{Grade: chart.Good, Word: p.Sentence, Lines: []string{p.Answer.Why}}
	if !p.Answer.Complete {
		answer.Grade = chart.Warn
	}
	if p.Answer.Why == "" {
		answer.Lines = []string{"The search has not ended."}
	}
	d := chart.Document{Title: p.Title, Sections: []chart.Section{{Findings: []chart.Finding{answer}}}}
	for i := range p.Objectives {
		d.Under = append(d.Under, p.Objectives[i].Text)
	}
	if len(p.Outcomes) > 0 {
		d.Sections = append(d.Sections,
			chart.Section{Title: "By load", Graphs: p.graphs(), Note: "Each point is a probe. The shaded part is the 95 % interval of the capacity. Latencies of a probe that was cut short are at least as long."},
			chart.Section{Title: "Probes", Tables: []chart.Table{p.table()}})
	}
	return d.Write(w)
}

// graphs are goodput, the latencies of the objectives, failures and hits by load.
func (p *Page) graphs() (all []chart.Graph) {
	byLoad := slices.Clone(p.Outcomes)
	slices.SortStableFunc(byLoad, func(a, b Outcome) int { return cmp.Compare(a.Load, b.Load) })
	from, to := byLoad[0].Load, byLoad[len(byLoad)-1].Load
	axis := chart.Axis{Label: p.Unit, Log: to > 8*from}
	if from < to {
		axis.From, axis.To = new(from), new(to)
	}
	var spans []chart.Piece
	if a := p.Answer; a.High != nil && a.Low > 0 {
		spans = []chart.Piece{{From: a.Low, To: *a.High, Text: p.Sentence}}
	}
	add := func(title, name, unit string, limit float64) {
		g := chart.Graph{Title: title, Sync: "load", X: axis, Y: chart.Axis{Unit: unit, From: new(0.0)}, Spans: spans}
		values, broken := chart.Values{}, chart.Values{}
		seen := false
		for i := range byLoad {
			o := &byLoad[i]
			v, known := o.Numbers[name]
			if seen = seen || known; !known {
				v = math.NaN()
			}
			g.At, values, broken = append(g.At, o.Load), append(values, v), append(broken, math.NaN())
			if o.Verdict == Breaks {
				broken[i] = v
			}
		}
		g.Series = []chart.Series{{Name: "measured", Values: values}, {Name: "broke an objective", Style: chart.Dots, Bad: true, Values: broken}}
		if limit > 0 {
			g.Series = append(g.Series, chart.Series{Name: "limit", Values: slices.Repeat(chart.Values{limit}, len(byLoad))})
		}
		if seen {
			all = append(all, g)
		}
	}
	add("Goodput, requests/s", GoodputPerS, "", 0)
	for i := range p.Objectives {
		o := &p.Objectives[i]
		if o.Metric == ok {
			add("Failures", ErrorRate, "ratio", o.Allowed)
		} else {
			add(o.Label()+" at the percentile of "+o.Text, o.Quantity(), "ms", float64(o.LimitNS)/1e6)
		}
	}
	add("Prefix hits", PrefixHits, "ratio", 0)
	return all
}

// Head is the head of a table of probes.
func Head(objectives []Objective) []string {
	head := []string{"probe", "goodput/s"}
	for i := range objectives {
		head = append(head, strings.Replace(objectives[i].Quantity(), ErrorRate, "failed", 1))
	}
	return append(head, "hits", "took", "verdict")
}

// Rows are the probes as a table has them.
func Rows(outcomes []Outcome, objectives []Objective, load func(float64) string) (rows [][]string) {
	for i := range outcomes {
		o := &outcomes[i]
		text := func(name string, print func(float64) string) string {
			if v, known := o.Numbers[name]; known {
				return print(v)
			}
			return "–"
		}
		ms := func(v float64) string { return format.Duration(v*1e6, 3) }
		row := []string{format.Count(int64(o.Number)) + "  " + load(o.Load), text(GoodputPerS, format.Rate)}
		for j := range objectives {
			print := ms
			if objectives[j].Metric == ok {
				print = format.Percent
			}
			cell := text(objectives[j].Quantity(), print)
			if cell == "–" && objectives[j].Metric != ok && j < len(o.Beyond) && o.Beyond[j] > objectives[j].Allowed { // of requests that had not ended
				cell = "> " + format.Duration(float64(objectives[j].LimitNS), 3)
			}
			row = append(row, cell)
		}
		verdict := o.Verdict
		if o.Client != "" {
			verdict = "client"
		}
		rows = append(rows, append(row, text(PrefixHits, format.Percent), format.Span(o.SpentS), verdict))
	}
	return rows
}

// table has the probes with why they ended.
func (p *Page) table() chart.Table {
	t := chart.Table{Head: append(Head(p.Objectives), "limited by", "why")}
	for i, row := range Rows(p.Outcomes, p.Objectives, p.Load) {
		o := &p.Outcomes[i]
		why := o.Why
		if o.Client != "" {
			why = o.Client
		}
		cells := chart.Texts(append(row, o.Limiter, why)...)
		cells[len(row)-1].Mark = map[string]string{Holds: chart.Good, Breaks: chart.Bad, Edge: chart.Warn}[o.Verdict]
		t.Rows = append(t.Rows, cells)
	}
	return t
}
