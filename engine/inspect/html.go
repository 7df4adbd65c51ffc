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

// HTML writes the reports as one page that needs nothing else: no other file, no network. Words come first, then
// pictures, then the tables. What is by time stands beside each other; distributions and caches of several traces share
// their axes.
func HTML(w io.Writer, reports []*Report) error {
	p := &htmlPage{reports, shortNames(reports)}
	d := chart.Document{Title: strings.Join(p.names, ", ")}
	if len(reports) == 1 {
		d.Under = append(whatWasRead(reports[0]), reports[0].Trace)
	}
	words := chart.Section{}
	for i := range reports {
		words.Findings = append(words.Findings, p.findings(i)...)
	}
	pictures := slices.DeleteFunc(p.pictures(), func(s chart.Section) bool {
		return len(s.Graphs) == 0
	})
	tables := p.tables(len(pictures) > 0)
	d.Sections = slices.Concat([]chart.Section{words}, pictures, tables)
	return d.Write(w)
}

// htmlPage makes the parts of a page.
type htmlPage struct {
	reports []*Report
	names   []string
}

func whatWasRead(r *Report) []string {
	out := []string{r.Format}
	if !r.Untimed {
		out = append(out, "timestamps in "+r.TimeUnit)
	}
	if r.Blocks != nil {
		out = append(out, format.Count(r.BlockTokens)+" tokens a block")
	}
	return out
}

// findings are a trace in words, and what is wrong with it.
func (p *htmlPage) findings(i int) []chart.Finding {
	r := p.reports[i]
	refusals := chart.Finding{Grade: chart.Bad, Word: "A replay would refuse " + p.names[i]}
	said := chart.Finding{Lines: inWords(r)}
	notes := chart.Finding{Grade: chart.Warn}
	if len(p.reports) > 1 {
		said.Word = p.names[i]
	}
	for _, f := range r.Findings {
		if f.Severity == Note {
			notes.Lines = append(notes.Lines, f.Text)
		} else {
			refusals.Lines = append(refusals.Lines, f.Text)
		}
	}
	all := []chart.Finding{said}
	if !r.Replayable {
		all = []chart.Finding{refusals, said}
	}
	if len(notes.Lines) > 0 {
		all = append(all, notes)
	}
	return all
}

// pictures are the sections of graphs, also of those that no trace has.
func (p *htmlPage) pictures() []chart.Section {
	rows := p.graphs("Rows by time")
	if len(rows) == 1 {
		rows[0].Wide = true
	}
	arrivals := chart.Section{
		Title:  "Arrivals",
		Graphs: append(rows, p.graphs("Input tokens/s", "Output tokens/s", "Time from a row to the next")...),
	}
	lengths := chart.Section{
		Title:  "Lengths",
		Graphs: append(p.graphs("Input tokens", "Output tokens"), p.scatter()...),
	}
	caches := chart.Section{Title: "Prefix caches", Graphs: p.curves()}
	if len(caches.Graphs) > 0 {
		caches.Note = p.cacheDefinitions()
	}
	caches.Graphs = append(caches.Graphs, p.graphs(
		heldTitle,
		"Share of a row's prompt that it would have held",
		"Time since the last use of a repeated block",
		"Tokens of other blocks used since",
	)...)
	sessions := chart.Section{
		Title: "Conversations",
		Graphs: p.graphs(
			"Conversations by time",
			"Turns of a conversation",
			"Time from turn to turn",
			"Think and tool time",
			"Time of a job",
			"New tokens of a follow-up turn",
		),
	}
	for _, r := range p.reports {
		if r.Agents != nil {
			sessions.Title = "Jobs and conversations"
		}
		if s := r.Sessions; s != nil && s.OverlapShare != nil {
			sessions.Note = overlapDefinition(s)
		}
	}
	return []chart.Section{arrivals, lengths, caches, sessions}
}

// graphs are those of these titles: by time one for each trace, which zoom together; distributions together.
func (p *htmlPage) graphs(titles ...string) (out []chart.Graph) {
	for _, title := range titles {
		var of distribution
		var samples []chart.Sample
		for i, r := range p.reports {
			if series := r.pictures.series[title]; series != nil {
				out = append(out, p.byTime(title, i, series))
			}
			if d, known := r.pictures.distributions[title]; known {
				of = d
				d.Name = p.names[i]
				samples = append(samples, d.Sample)
			}
		}
		out = append(out, chart.Distributions(title, of.unit, of.whole, samples)...)
	}
	return out
}

// byTime is a graph over the time of trace i.
func (p *htmlPage) byTime(title string, i int, series []chart.Series) chart.Graph {
	stepS := p.reports[i].pictures.stepS
	g := chart.Graph{
		Title:  title,
		Sync:   fmt.Sprint("time", i),
		Series: series,
		X: chart.Axis{
			Label: "time",
			Unit:  "s",
			From:  new(0.0),
			To:    new(stepS * timeSteps),
			Step:  stepS,
		},
	}
	if len(p.reports) > 1 {
		g.Title = p.names[i] + ": " + title
	}
	if title == heldTitle {
		g.Y = chart.Axis{Unit: "ratio", To: new(1.0)}
	}
	for step := range timeSteps {
		g.At = append(g.At, (float64(step)+0.5)*stepS)
	}
	return g
}

// scatter is a dot for each row of a single trace.
func (p *htmlPage) scatter() []chart.Graph {
	dots := slices.Clone(p.reports[0].pictures.dots)
	if len(p.reports) > 1 || len(dots) < 2 {
		return nil
	}
	slices.SortFunc(dots, func(a, b dot) int {
		return int(a.input - b.input)
	})
	outputs := chart.Series{Name: "output", Style: chart.Dots}
	g := chart.Graph{
		Title: "Output against input tokens, a row each",
		X:     chart.Axis{Label: "input", Log: true},
		Y:     chart.Axis{Log: true},
	}
	for _, d := range dots {
		g.At = append(g.At, d.input)
		outputs.Values = append(outputs.Values, d.output)
	}
	g.Series = []chart.Series{outputs}
	return []chart.Graph{g}
}

// curves are the hits of LRU caches by capacity, in one graph.
func (p *htmlPage) curves() []chart.Graph {
	low := int64(math.MaxInt64)
	var high int64
	for _, r := range p.reports {
		if r.Cache != nil && r.Cache.SaturationTokens > 0 {
			curve := r.Cache.Curve
			low = min(low, curve[0].Tokens)
			high = max(high, curve[len(curve)-1].Tokens)
		}
	}
	if high <= low {
		return nil
	}
	g := chart.Graph{
		Title: "Share of the input tokens that an LRU cache would have held, by its capacity in tokens",
		Wide:  true,
		X:     chart.Axis{Label: "tokens", Log: true},
		Y:     chart.Axis{Unit: "ratio"},
	}
	capacities := spread(low, high, 2*curvePoints)
	for _, tokens := range capacities {
		g.At = append(g.At, float64(tokens))
	}
	for i, r := range p.reports {
		if r.Cache == nil {
			continue
		}
		inOrder := chart.Series{Name: "in order"}
		tailFirst := chart.Series{Name: "tail first"}
		unlimited := chart.Series{Name: "without a limit"}
		for _, tokens := range capacities {
			at := r.Cache.at(tokens)
			inOrder.Values = append(inOrder.Values, at.TokenRatio)
			tailFirst.Values = append(tailFirst.Values, at.TailFirstTokens)
			unlimited.Values = append(unlimited.Values, r.Cache.Infinite.Tokens)
		}
		if len(p.reports) == 1 {
			g.Series = []chart.Series{inOrder, tailFirst, unlimited}
			break
		}
		inOrder.Name = p.names[i] + ", in order"
		tailFirst.Name = p.names[i] + ", tail first"
		g.Series = append(g.Series, inOrder, tailFirst)
	}
	return []chart.Graph{g}
}

// cacheDefinitions say what a hit is, which differs if sizes of blocks do.
func (p *htmlPage) cacheDefinitions() string {
	var all []string
	for _, r := range p.reports {
		if r.Cache != nil && !slices.Contains(all, r.Cache.Definition) {
			all = append(all, r.Cache.Definition)
		}
	}
	return strings.Join(all, "\n")
}

// tables are sections of all numbers. Those of routers and tiers are shown, others are folded if there are pictures. Of
// a single trace the caches are one table, the tiers are one, and all else is a grid.
func (p *htmlPage) tables(folded bool) []chart.Section {
	routers := chart.Section{Title: "Routing"}
	tiers := chart.Section{Title: "Tiers"}
	caches := chart.Section{Title: "LRU caches by capacity", Folded: folded}
	rest := chart.Section{Title: "All numbers", Folded: folded}
	one := len(p.reports) == 1
	for _, t := range tables(p.reports) {
		table := chart.Table{
			Title: t.Title,
			Head:  append([]string{""}, p.names...),
		}
		table.Add(t.Rows)
		lru := strings.HasPrefix(t.Title, "LRU ")
		isTiers := strings.HasPrefix(t.Title, "tiers, ")
		switch {
		case strings.HasPrefix(t.Title, "hits on "):
			routers.Tables = append(routers.Tables, table)
		case one && (lru || isTiers): // are below, in one table each
		case isTiers:
			tiers.Tables = append(tiers.Tables, table)
		case lru:
			caches.Tables = append(caches.Tables, table)
		case one:
			for _, row := range t.Rows {
				rest.Facts = append(rest.Facts, [2]string{t.Title + ": " + row[0], row[1]})
			}
		default:
			rest.Tables = append(rest.Tables, table)
		}
	}
	rows := p.reports[0].Cache.rows(capacities(p.reports))
	if one && len(rows) > 0 {
		table := chart.Table{
			Head: []string{"capacity", "in order, of blocks", "of tokens", "tail first, of blocks", "of tokens"},
		}
		table.Add(rows)
		caches.Tables = append(caches.Tables, table)
	}
	if rows := p.reports[0].Tiers.rows(); one && len(rows) > 0 {
		table := chart.Table{
			Head: []string{"", "of tokens", "mean tokens/s", "tokens in the busiest second", "mean GB/s",
				"GB in the busiest second"},
		}
		table.Add(rows)
		tiers.Tables = append(tiers.Tables, table)
	}
	for _, r := range p.reports {
		if r.Tiers != nil {
			tiers.Note = r.Tiers.Definition
		}
		if len(r.Routing) > 0 {
			routers.Note = r.Routing[0].Definition
		}
	}
	return slices.DeleteFunc([]chart.Section{routers, tiers, caches, rest}, func(s chart.Section) bool {
		return len(s.Tables)+len(s.Facts) == 0
	})
}
