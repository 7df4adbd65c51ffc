package capacity

import (
	"cmp"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/fastreplay/fastreplay/engine/chart"
	"github.com/fastreplay/fastreplay/engine/format"
)

// Page is capacity.html, or sweep.html: the answer, curves over the load, and a table of all probes.
type Page struct {
	Sweep      bool // there is no answer
	Title      string
	Sentence   string // the answer
	Unit       string // of loads
	Falling    bool   // a smaller load is harder: instances
	Objectives []Objective
	Answer     Answer
	Replicas   *Replicas // nil = nobody knows
	Outcomes   []Outcome
	Load       func(float64) string // prints a load, without its unit
}

// Write writes the page.
func (p *Page) Write(w io.Writer) error {
	found, how, _ := strings.Cut(p.Sentence, "; ")
	how = format.Capitalised(how)
	why := cmp.Or(p.Answer.Why, "The search has not ended.")
	answer := chart.Finding{
		Grade: chart.Good,
		Lines: format.Present(how, why, p.Answer.Doubt, p.Answer.Part.Words(), p.Replicas.Words()),
	}
	if !p.Answer.Complete || p.Answer.Doubt != "" {
		answer.Grade = chart.Warn
	}
	first := chart.Section{}
	note := "Each point is a probe, with its 95 % interval if that is known. "
	if p.Sweep {
		if p.failures() != "" {
			answer = chart.Finding{Grade: chart.Bad, Lines: []string{"Latencies are of requests that did not fail."}}
			first.Findings = []chart.Finding{answer}
		}
		if p.Answer.Why != "" {
			first.Findings = append(first.Findings, chart.Finding{Grade: chart.Warn, Lines: []string{p.Answer.Why}})
		}
		if curves := p.curves(); len(curves) > 0 {
			first.Title = "Latency by throughput"
			first.Graphs = curves
			first.Note = "Each point is a load, whose number stands beside it. Its line is the 95 % interval, if " +
				"that is known."
		}
	} else {
		first.Findings = []chart.Finding{answer}
		note += "The line is the estimate of the capacity, and the shaded part its 95 % interval. Latencies of a " +
			"probe that was cut short are at least as long."
	}
	if p.Sweep {
		found = p.headline()
	} else if p.Answer.High == nil && p.Answer.HeldS > 0 { // a bound that says nothing without its time
		found += ", held for " + format.Span(p.Answer.HeldS)
	}
	d := chart.Document{
		Title: found,
		Under: []string{p.Title},
	}
	d.Add(first)
	for i := range p.Objectives {
		d.Under = append(d.Under, p.Objectives[i].Text)
	}
	if len(p.Outcomes) > 0 {
		d.Add(
			chart.Section{
				Title:  "By load",
				Graphs: p.graphs(),
				Note:   note,
			},
			chart.Section{
				Title:  "Probes",
				Tables: []chart.Table{p.table()},
			},
		)
	}
	if head, rows := p.OwnerTable(); len(rows) > 0 {
		owners := chart.Table{Head: head}
		for _, row := range rows {
			owners.Rows = append(owners.Rows, chart.Texts(row...))
		}
		d.Sections = append(d.Sections, chart.Section{Title: "By owner", Tables: []chart.Table{owners}})
	}
	if p.Replicas != nil && p.Replicas.Peak > 1 {
		d.Sections = append(d.Sections, p.Replicas.section())
	}
	return d.Write(w)
}

// headline is what a sweep found: what holds or, without objectives, the highest throughput. What failed and what was
// not measured stands behind.
func (p *Page) headline() string {
	title := p.Title
	most := 0.0
	missing := 0
	for _, o := range p.Outcomes {
		if len(o.Numbers) == 0 {
			missing++
		}
		if rate := o.Numbers[tokensPerS]; rate > most && o.Client == "" {
			most = rate
			title = "Up to " + format.Rate(rate) + " output tokens/s, at " + p.Load(o.Load) + " " + p.Unit
		}
	}
	if missing > 0 && missing == len(p.Outcomes) {
		return "Nothing was measured"
	}
	for _, f := range p.found() {
		title = f.Word
	}
	if failed := p.failures(); failed != "" {
		title += "; " + failed
	}
	if missing > 0 {
		title += "; " + format.Many(missing, "load") + " not measured"
	}
	return title
}

// graphs are goodput, the latencies of the objectives, failures and hits by load.
func (p *Page) graphs() (all []chart.Graph) {
	byLoad := slices.Clone(p.Outcomes)
	slices.SortStableFunc(byLoad, func(a, b Outcome) int {
		return cmp.Compare(a.Load, b.Load)
	})
	from := byLoad[0].Load
	to := byLoad[len(byLoad)-1].Load
	axis := chart.Axis{
		Label: p.Unit,
		Log:   to > 8*from,
		From:  new(from / 1.1), // points at the ends are whole
		To:    new(to * 1.1),
	}
	// lines of limits go from end to end, also if there is one load
	byLoad = slices.Concat(
		[]Outcome{{Probe: Probe{Load: *axis.From}}},
		byLoad,
		[]Outcome{{Probe: Probe{Load: *axis.To}}},
	)
	const grey, line = 1, 2
	var spans []chart.Piece
	if a := p.Answer; a.High != nil && a.Low > 0 {
		spans = []chart.Piece{
			{From: a.Low, To: *a.High, Kind: grey, Text: p.Sentence, Name: "95 %"},
			{From: a.Load, To: a.Load * 1.05, Kind: line, Text: p.Sentence, Name: "estimate " + p.Load(a.Load)},
		}
	}
	add := func(title, name, unit string, limit float64) {
		g := chart.Graph{
			Title: title,
			Sync:  "load",
			X:     axis,
			Y: chart.Axis{
				Unit: unit,
				From: new(0.0),
			},
			Spans: spans,
		}
		broken := chart.Values{}
		for i, o := range byLoad {
			g.At = append(g.At, o.Load)
			broken = append(broken, math.NaN())
			if v, known := o.Numbers[name]; known && o.Verdict == Breaks {
				broken[i] = v
			}
		}
		measured := withInterval(byLoad, "measured", name)
		known := slices.DeleteFunc(slices.Clone(measured.Values), math.IsNaN)
		if len(known) == 0 || limit == 0 && slices.Max(known) == 0 {
			return
		}
		if most := max(limit, slices.Max(known)); unit == "ms" && slices.Min(known) > 0 && most > 20*slices.Min(known) {
			g.Y.Log = true
			g.Y.From = nil
		}
		g.Series = []chart.Series{measured}
		if len(p.Objectives) > 0 {
			g.Series = append(g.Series,
				chart.Series{
					Name:   "broke an objective",
					Style:  chart.Dots,
					Bad:    true,
					Values: broken,
				})
		}
		if limit > 0 {
			g.Series = append(
				g.Series,
				chart.Series{
					Name:   "limit",
					Style:  chart.Dashed,
					Values: slices.Repeat(chart.Values{limit}, len(byLoad)),
				},
			)
		}
		all = append(all, g)
	}
	for _, o := range p.Objectives {
		if o.LimitNS == 0 {
			add(format.Capitalised(o.Label()), o.Quantity(), "ratio", o.Allowed)
		} else {
			_, percentile, _ := strings.Cut(o.Quantity(), ".")
			add(o.Label()+" "+percentile, o.Quantity(), "ms", float64(o.LimitNS)/1e6)
		}
	}
	if len(p.Objectives) > 0 {
		add("Goodput, requests/s", GoodputPerS, "", 0)
	}
	for _, m := range measures() {
		bounded := slices.ContainsFunc(p.Objectives, func(o Objective) bool {
			return o.Quantity() == m.name
		})
		if !bounded && (p.Sweep || m.name == PrefixHits) {
			add(m.label, m.name, m.unit, 0)
		}
	}
	return all
}

// Table is the head and the rows of a table of probes.
func (p *Page) Table() (head []string, rows [][]string) {
	rows = make([][]string, len(p.Outcomes))
	add := func(name string, cell func(o *Outcome) string) {
		head = append(head, name)
		for i := range p.Outcomes {
			rows[i] = append(rows[i], cell(&p.Outcomes[i]))
		}
	}
	if !p.Sweep {
		add("probe", func(o *Outcome) string {
			return strconv.Itoa(o.Number)
		})
	}
	add("load", func(o *Outcome) string {
		return p.Load(o.Load)
	})
	print := map[string]func(float64) string{
		"":      format.Rate,
		"ms":    format.Milliseconds,
		"ratio": format.Percent,
	}
	heads := heads()
	for _, m := range measures() {
		if p.Sweep {
			add(cmp.Or(heads[m.name], m.name), number(m.name, print[m.unit]))
		}
	}
	if p.Sweep && len(p.Objectives) == 0 {
		return head, rows
	}
	add("goodput/s", number(GoodputPerS, format.Rate))
	for j, limit := range p.Objectives {
		name := limit.Quantity()
		if slices.Contains(head, cmp.Or(heads[name], name)) {
			continue
		}
		if limit.LimitNS == 0 {
			add(cmp.Or(heads[name], name), number(name, format.Percent))
			continue
		}
		add(name, func(o *Outcome) string {
			// requests that had not ended
			if _, known := o.Numbers[name]; !known && j < len(o.Beyond) && o.Beyond[j] > limit.Allowed {
				return "> " + format.Duration(limit.LimitNS, 3)
			}
			return number(name, format.Milliseconds)(o)
		})
	}
	failed := func(o Outcome) bool { return o.Numbers[ErrorRate] > 0 }
	if name := heads[ErrorRate]; !slices.Contains(head, name) && slices.ContainsFunc(p.Outcomes, failed) {
		add(name, number(ErrorRate, format.Percent))
	}
	if !p.Sweep {
		add("hits", number(PrefixHits, format.Percent))
		add("took", func(o *Outcome) string {
			return format.Span(o.SpentS)
		})
	}
	add("verdict", p.word)
	return head, rows
}

// number prints a number of outcomes.
func number(name string, print func(float64) string) func(*Outcome) string {
	return func(o *Outcome) string {
		if v, known := o.Numbers[name]; known && o.Client == "" {
			return print(v)
		}
		return "–" // also where the client was the bottleneck: its numbers are not the servers'
	}
}

// heads are what tables call numbers that have long names.
func heads() map[string]string {
	return map[string]string{
		requestsPerS: "req/s",
		tokensPerS:   "tokens/s",
		ErrorRate:    "failed",
		PrefixHits:   "hits",
	}
}

// OwnerTable is the head and the rows of a table of probes by whose requests they had.
func (p *Page) OwnerTable() (head []string, rows [][]string) {
	head = []string{"requests of", "load"}
	heads := heads()
	for _, name := range ownedMeasures() {
		head = append(head, cmp.Or(heads[name], name))
	}
	for i := range p.Outcomes {
		o := &p.Outcomes[i]
		for _, owner := range o.Owners {
			row := []string{owner, p.Load(o.Load)}
			for _, name := range ownedMeasures() {
				print := format.Percent
				if strings.Contains(name, ".") {
					print = format.Milliseconds
				}
				row = append(row, number(owner+" "+name, print)(o))
			}
			rows = append(rows, row)
		}
	}
	slices.SortStableFunc(rows, func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	return head, rows
}

// word is that of an outcome. Far from the edge a search goes on after few requests without a sign of breaking, which
// do not tell that a load holds.
func (p *Page) word(o *Outcome) string {
	few := false
	for j, limit := range p.Objectives {
		requests := o.Requests
		if o.Of != nil {
			requests = o.Of[j]
		}
		few = few || requests < limit.LeastRequests()
	}
	if o.Word() == Holds && few {
		return "holds so far"
	}
	return o.Word()
}

// Word is the verdict, or that the client was the bottleneck.
func (o *Outcome) Word() string {
	if o.Client != "" {
		return "client"
	}
	return o.Verdict
}

// table has the probes with why they ended.
func (p *Page) table() chart.Table {
	head, rows := p.Table()
	t := chart.Table{Head: head}
	if p.Sweep && len(p.Objectives) == 0 {
		t.Add(rows)
		return t
	}
	t.Head = append(head, "limited by", "why")
	for i, row := range rows {
		o := &p.Outcomes[i]
		cells := chart.Texts(append(row, o.Limiter, cmp.Or(o.Client, o.Why))...)
		cells[len(row)-1].Mark = map[string]string{
			Holds:  chart.Good,
			Breaks: chart.Bad,
			Edge:   chart.Warn,
		}[o.Verdict]
		t.Rows = append(t.Rows, cells)
	}
	return t
}
