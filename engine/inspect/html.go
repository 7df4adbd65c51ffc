package inspect

import (
	"fmt"
	"io"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/chart"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// HTML writes the reports as one page that needs nothing else: no other file, no network. Words come first, then
// pictures, then the tables. What is by time stands beside each other; distributions and caches of several traces share
// their axes.
func HTML(w io.Writer, reports []*Report) error {
	names := shortNames(reports)
	d := chart.Document{Title: strings.Join(names, ", ")}
	if len(reports) == 1 {
		d.Under = append(whatWasRead(reports[0]), reports[0].Trace)
	}
	first := chart.Section{}
	for i, r := range reports {
		first.Findings = append(first.Findings, htmlFindings(r, names[i], len(reports))...)
	}
	d.Sections = []chart.Section{first}
	for _, s := range []chart.Section{arrivalPictures(reports, names), lengthPictures(reports, names),
		cachePictures(reports, names), sessionPictures(reports, names)} {
		if len(s.Graphs) > 0 {
			d.Sections = append(d.Sections, s)
		}
	}
	tables, err := tableSections(reports, names, len(d.Sections) > 1)
	if err != nil {
		return err
	}
	d.Sections = append(d.Sections, tables...)
	return d.Write(w)
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

// htmlFindings are the trace in words, and what is wrong with it.
func htmlFindings(r *Report, name string, traces int) (out []chart.Finding) {
	said := chart.Finding{Lines: inWords(r)}
	if traces > 1 {
		said.Word = name
	}
	var refused, notes []string
	for _, f := range r.Findings {
		if f.Severity == Note {
			notes = append(notes, f.Text)
		} else {
			refused = append(refused, f.Text)
		}
	}
	if !r.Replayable {
		out = append(out, chart.Finding{
			Grade: chart.Bad,
			Word:  "A replay would refuse " + name,
			Lines: refused,
		})
	}
	out = append(out, said)
	if len(notes) > 0 {
		out = append(out, chart.Finding{Grade: chart.Warn, Lines: notes})
	}
	return out
}

// inWords are a trace's main numbers as sentences.
func inWords(r *Report) (out []string) {
	say := func(text string, args ...any) {
		out = append(out, fmt.Sprintf(text, args...))
	}
	if a := &r.Arrivals; a.RowsPerS != nil {
		say(
			"%s over %s: %s on average, up to %s within a second.",
			format.Many(r.Rows, "row"),
			format.Span(a.SpanS),
			rate(*a.RowsPerS),
			format.Count(a.PeakRows),
		)
		if a.GapCV != nil {
			say(
				"The gaps between rows have a coefficient of variation of %s; those of a Poisson process have 1.",
				variation(*a.GapCV),
			)
		}
	} else {
		say("%s without times.", format.Many(r.Rows, "row"))
	}
	for _, l := range []struct {
		of     *Lengths
		called string
	}{{&r.InputTokens, "Prompts"}, {&r.OutputTokens, "Answers"}} {
		if d := l.of.known(); d != nil {
			say(
				"%s have %s tokens (median), %s at p99, %s in all.",
				l.called,
				whole(d.P50),
				whole(d.P99),
				format.Count(l.of.Total),
			)
		}
	}
	if c := r.Cache; c != nil {
		say("A prefix cache without a limit would have held %s of the input tokens.", format.Share(c.Infinite.Tokens))
		if c.SaturationTokens > 0 {
			i := slices.IndexFunc(c.Curve, func(at Capacity) bool {
				return at.TokenRatio >= c.Infinite.Tokens/2
			})
			say(
				"An LRU cache needs %s tokens for all of that, and about %s for half of it.",
				format.Short(float64(c.SaturationTokens)),
				format.Short(float64(c.Curve[max(0, i)].Tokens)),
			)
		}
	}
	if s := r.Sessions; s != nil {
		text := fmt.Sprintf(
			"%s, %s of several turns, the longest of %s.",
			format.Many(s.Sessions, "conversation"),
			format.Count(s.MultiTurn),
			format.Many(int64(s.Turns.Max), "turn"),
		)
		if s.OverlapShare != nil {
			text += fmt.Sprintf(
				" %s of the follow-up turns begin before the previous one has ended.",
				format.Share(*s.OverlapShare),
			)
		}
		say("%s", text)
	}
	if a := r.Agents; a != nil {
		say("%s", strings.Join(a.inWords(), " "))
	}
	say("A replay needs about %s of memory with prompts of token ids.", format.Bytes(r.Replay.TokenIDs.MemoryBytes))
	return out
}

// byTime are graphs over the time of each trace; they zoom together.
func byTime(
	reports []*Report,
	names []string,
	title string,
	series func(*pictures) []chart.Series,
) (out []chart.Graph) {
	for i, r := range reports {
		p := r.pictures
		if p.stepS == 0 {
			continue
		}
		all := series(p)
		if len(all) == 0 {
			continue
		}
		end := p.stepS * timeSteps
		g := chart.Graph{
			Title: title, Sync: fmt.Sprint("time", i), Series: all,
			X: chart.Axis{
				Label: "time",
				Unit:  "s",
				From:  new(0.0),
				To:    &end,
				Step:  p.stepS,
			},
		}
		if len(reports) > 1 {
			g.Title = names[i] + ": " + title
		}
		for step := range timeSteps {
			g.At = append(g.At, (float64(step)+0.5)*p.stepS)
		}
		out = append(out, g)
	}
	return out
}

func arrivalPictures(reports []*Report, names []string) chart.Section {
	rates := func(tokens func(*pictures) []float64) func(*pictures) []chart.Series {
		return func(p *pictures) []chart.Series {
			out := make(chart.Values, timeSteps)
			for i, n := range tokens(p) {
				out[i] = n / p.stepS
			}
			return []chart.Series{{Name: "tokens/s", Values: out}}
		}
	}
	rows := byTime(reports, names, "Rows by time", func(p *pictures) []chart.Series {
		return []chart.Series{{Name: "rows", Style: chart.Bars, Values: p.rows}}
	})
	if len(rows) == 1 {
		rows[0].Wide = true
	}
	return chart.Section{
		Title: "Arrivals",
		Graphs: slices.Concat(rows,
			byTime(reports, names, "Input tokens/s", rates(func(p *pictures) []float64 {
				return p.input
			})),
			byTime(reports, names, "Output tokens/s", rates(func(p *pictures) []float64 {
				return p.output
			})),
			distributionGraphs(reports, names, "Time from a row to the next", "s", false)),
	}
}

func lengthPictures(reports []*Report, names []string) chart.Section {
	s := chart.Section{
		Title: "Lengths",
		Graphs: slices.Concat(
			distributionGraphs(reports, names, "Input tokens", "", true),
			distributionGraphs(reports, names, "Output tokens", "", true)),
	}
	if p := reports[0].pictures; len(reports) == 1 && len(p.inputDots) > 1 {
		order := make([]int, len(p.inputDots))
		for i := range order {
			order[i] = i
		}
		slices.SortFunc(order, func(a, b int) int {
			return int(p.inputDots[a] - p.inputDots[b])
		})
		g := chart.Graph{
			Title: "Output against input tokens, a row each",
			X:     chart.Axis{Label: "input", Log: true},
			Y:     chart.Axis{Log: true},
		}
		var outputs chart.Values
		for _, i := range order {
			g.At = append(g.At, p.inputDots[i])
			outputs = append(outputs, p.outputsDots[i])
		}
		g.Series = []chart.Series{{Name: "output", Style: chart.Dots, Values: outputs}}
		s.Graphs = append(s.Graphs, g)
	}
	return s
}

func sessionPictures(reports []*Report, names []string) chart.Section {
	note := ""
	for _, r := range reports {
		if s := r.Sessions; s != nil && s.OverlapShare != nil {
			note = overlapDefinition(s)
		}
	}
	title := "Conversations"
	if slices.ContainsFunc(reports, func(r *Report) bool { return r.Agents != nil }) {
		title = "Jobs and conversations"
	}
	return chart.Section{
		Title: title, Note: note,
		Graphs: slices.Concat(
			byTime(reports, names, "Conversations by time", func(p *pictures) []chart.Series {
				if p.active == nil {
					return nil
				}
				return []chart.Series{
					{Name: "between first and last turn", Values: p.active},
					{Name: "begun", Values: p.begun},
				}
			}),
			distributionGraphs(reports, names, "Turns of a conversation", "", true),
			distributionGraphs(reports, names, "Time from turn to turn", "s", false),
			distributionGraphs(reports, names, "Think and tool time", "s", false),
			distributionGraphs(reports, names, "Time of a job", "s", false),
			distributionGraphs(reports, names, "New tokens of a follow-up turn", "", true)),
	}
}

func cachePictures(reports []*Report, names []string) chart.Section {
	curve, notes := curves(reports, names)
	held := byTime(reports, names, "Share of the input tokens that a cache without a limit would have held",
		func(p *pictures) []chart.Series {
			if p.held == nil {
				return nil
			}
			return []chart.Series{{Name: "held", Values: p.held, Gaps: true}}
		})
	for i := range held {
		held[i].Y = chart.Axis{Unit: "ratio", To: new(1.0)}
	}
	return chart.Section{
		Title: "Prefix caches",
		Note:  notes,
		Graphs: slices.Concat(curve,
			held,
			distributionGraphs(reports, names, "Share of a row's prompt that it would have held", "ratio", false),
			distributionGraphs(reports, names, "Time since the last use of a repeated block", "s", false),
			distributionGraphs(reports, names, "Tokens of other blocks used since", "", false),
		),
	}
}

// curves are the hits of LRU caches by capacity, in one graph, and how the caches work.
func curves(reports []*Report, names []string) ([]chart.Graph, string) {
	g := chart.Graph{
		Title: "Share of the input tokens that an LRU cache would have held, by its capacity in tokens",
		Wide:  true,
		X:     chart.Axis{Label: "tokens", Log: true}, Y: chart.Axis{Unit: "ratio"},
	}
	notes := "" // what a hit is, which differs if sizes of blocks do
	low := int64(math.MaxInt64)
	high := int64(0)
	for _, r := range reports {
		if r.Cache != nil && r.Cache.SaturationTokens > 0 {
			low = min(low, r.Cache.Curve[0].Tokens)
			high = max(high, r.Cache.Curve[len(r.Cache.Curve)-1].Tokens)
		}
	}
	if high <= low {
		return nil, ""
	}
	capacities := spread(low, high, 2*curvePoints)
	for _, tokens := range capacities {
		g.At = append(g.At, float64(tokens))
	}
	for i, r := range reports {
		if r.Cache == nil {
			continue
		}
		if !strings.Contains(notes, r.Cache.Definition) {
			notes = strings.TrimSpace(notes + "\n" + r.Cache.Definition)
		}
		prefix := ""
		if len(reports) > 1 {
			prefix = names[i] + ", "
		}
		var inOrder, tailFirst, limit chart.Values
		for _, tokens := range capacities {
			at := r.Cache.at(tokens)
			inOrder = append(inOrder, at.TokenRatio)
			tailFirst = append(tailFirst, at.TailFirstTokens)
			limit = append(limit, r.Cache.Infinite.Tokens)
		}
		g.Series = append(
			g.Series,
			chart.Series{Name: prefix + "in order", Values: inOrder},
			chart.Series{Name: prefix + "tail first", Values: tailFirst},
		)
		if len(reports) == 1 {
			g.Series = append(g.Series, chart.Series{Name: "without a limit", Values: limit})
		}
	}
	return []chart.Graph{g}, notes
}

// distributionGraphs draw an outline of each trace that has it.
func distributionGraphs(reports []*Report, names []string, title, unit string, whole bool) []chart.Graph {
	var all []chart.Sample
	for i, r := range reports {
		o := r.pictures.outlines[title]
		o.Name = names[i]
		all = append(all, o)
	}
	return chart.Distributions(title, unit, whole, all)
}

// tableSections have all numbers. Those of routers are shown, others are folded if there are pictures. Of a single
// trace the caches are one table, and all else is a grid.
func tableSections(reports []*Report, names []string, folded bool) ([]chart.Section, error) {
	all, err := tables(reports)
	if err != nil {
		return nil, err
	}
	routers := chart.Section{Title: "Routing"}
	caches := chart.Section{Title: "LRU caches by capacity", Folded: folded}
	rest := chart.Section{Title: "All numbers", Folded: folded}
	one := len(reports) == 1
	if rows := reports[0].Cache.rows(capacities(reports)); one && len(rows) > 0 {
		t := chart.Table{
			Head: []string{"capacity", "in order, of blocks", "of tokens", "tail first, of blocks", "of tokens"},
		}
		for _, row := range rows {
			t.Rows = append(t.Rows, chart.Texts(row...))
		}
		caches.Tables = append(caches.Tables, t)
	}
	for _, t := range all {
		table := chart.Table{Title: t.Title, Head: append([]string{""}, names...)}
		for _, row := range t.Rows {
			table.Rows = append(table.Rows, chart.Texts(row...))
		}
		switch lru := strings.HasPrefix(t.Title, "LRU "); {
		case strings.HasPrefix(t.Title, "hits on "):
			routers.Tables = append(routers.Tables, table)
		case lru && !one:
			caches.Tables = append(caches.Tables, table)
		case !lru && !one:
			rest.Tables = append(rest.Tables, table)
		case !lru:
			for _, row := range t.Rows {
				rest.Facts = append(rest.Facts, [2]string{t.Title + ": " + row[0], row[1]})
			}
		}
	}
	for _, r := range reports {
		if len(r.Routing) > 0 {
			routers.Note = r.Routing[0].Definition
		}
	}
	return slices.DeleteFunc(
		[]chart.Section{routers, caches, rest},
		func(s chart.Section) bool { return len(s.Tables)+len(s.Facts) == 0 },
	), nil
}

// Bounds of the HTML page, so that it opens at once.
const (
	timeSteps  = 120  // of a trace, from its first row to its last
	mostValues = 4096 // of an outline
	mostDots   = 3000 // rows that are drawn one by one: a sample beyond
)

// pictures is what the HTML page draws of a trace and the report does not have: series by time, and outlines of
// distributions.
type pictures struct {
	stepS               float64   // 0 where the trace has no times; then there are no series
	rows, input, output []float64 // rows and tokens by step
	// sessions by step: those with their first row, and those between their first and last
	begun, active          []float64
	held                   []float64 // share of a step's input tokens that a cache without a limit would have held
	inputDots, outputsDots []float64
	outlines               map[string]chart.Sample // of distributions, by their titles
}

// describe keeps the outline of values, too.
func (p *pictures) describe(title string, values []int64, unit float64) *stats.Percentiles {
	p.outlines[title] = outlineOf(values, unit)
	return stats.Describe(values, unit)
}

// outlineOf sorts the values and divides them by unit. The outline has at most 4,096 of them, by rank.
func outlineOf[T int32 | int64 | float64](values []T, unit float64) (o chart.Sample) {
	slices.Sort(values)
	return outline(int64(len(values)), func(rank int64) float64 {
		return float64(values[rank-1]) / unit
	})
}

// outline asks for values by their rank, from 1, in rising order.
func outline(size int64, ranked func(int64) float64) (o chart.Sample) {
	n := min(size, mostValues)
	for i := range n {
		o.At = append(o.At, ranked(1+(2*i+1)*size/(2*n)))
		o.Counts = append(o.Counts, float64(size)/float64(n))
	}
	return o
}

func newPictures() *pictures {
	return &pictures{outlines: map[string]chart.Sample{}}
}

// stepOf is the step of an instant within a span; the last step is closed at its end.
func stepOf(ns, span int64, steps uint64) int {
	high, low := bits.Mul64(uint64(ns), steps) // 64 times 292 years is beyond an int64
	step, _ := bits.Div64(high, low, uint64(span))
	return int(min(step, steps-1))
}

// picture draws what follows from the rows alone.
func picture(t *trace.Trace) *pictures {
	p := newPictures()
	for i := 0; i < t.Len(); i += (t.Len() + mostDots - 1) / mostDots {
		if t.InputTokens[i] > 0 && t.OutputTokens[i] > 0 {
			p.inputDots = append(p.inputDots, float64(t.InputTokens[i]))
			p.outputsDots = append(p.outputsDots, float64(t.OutputTokens[i]))
		}
	}
	span := t.SpanNS()
	if t.Untimed || span == 0 {
		return p
	}
	p.stepS = seconds(span) / timeSteps
	p.rows = make([]float64, timeSteps)
	p.input = make([]float64, timeSteps)
	p.output = make([]float64, timeSteps)
	for i, ns := range t.ArrivalNS {
		step := stepOf(ns, span, timeSteps)
		p.rows[step]++
		p.input[step] += float64(t.InputTokens[i])
		p.output[step] += float64(t.OutputTokens[i])
	}
	p.sessions(t, span)
	return p
}

// sessions counts conversations by time.
func (p *pictures) sessions(t *trace.Trace, span int64) {
	if t.Session == nil {
		return
	}
	type stay struct{ first, last int }
	stays := map[int64]*stay{}
	for i, ns := range t.ArrivalNS {
		step := stepOf(ns, span, timeSteps)
		if s := stays[t.Session[i]]; s != nil {
			s.last = step
		} else {
			stays[t.Session[i]] = &stay{step, step}
		}
	}
	p.begun = make([]float64, timeSteps)
	p.active = make([]float64, timeSteps)
	for _, s := range stays {
		p.begun[s.first]++
		for step := s.first; step <= s.last; step++ {
			p.active[step]++
		}
	}
}

// rowHeld is what a cache without a limit would have held of a row's prompt.
type rowHeld struct {
	atNS         int64
	tokens, held int32
}

// addHeld draws what f found.
func (p *pictures) addHeld(f *follower, span int64) {
	counted := func(values []stats.Counted, unit float64) chart.Sample {
		size, ranked := stats.Ranked(values)
		return outline(size, func(rank int64) float64 {
			return float64(ranked(rank)) / unit
		})
	}
	p.outlines["Time since the last use of a repeated block"] = counted(f.gapsNS, 1e9)
	p.outlines["Tokens of other blocks used since"] = counted(f.between, 1)
	var shares []float64
	tokens := make([]float64, timeSteps)
	held := make([]float64, timeSteps)
	for _, r := range f.held {
		shares = append(shares, float64(r.held)/float64(r.tokens))
		if p.stepS > 0 {
			step := stepOf(r.atNS, span, timeSteps)
			tokens[step] += float64(r.tokens)
			held[step] += float64(r.held)
		}
	}
	p.outlines["Share of a row's prompt that it would have held"] = outlineOf(shares, 1)
	if p.stepS > 0 {
		for step := range held {
			held[step] /= tokens[step] // NaN where no row is
		}
		p.held = held
	}
}
