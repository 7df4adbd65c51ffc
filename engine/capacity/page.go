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
	Unit       string // of loads
	Head       string // of a column of loads
	Whole      bool   // loads are whole numbers
	Falling    bool   // a smaller load is harder: instances
	Objectives []Objective
	Answer     Answer
	Servers    int       // of all probes, or at most
	Replicas   *Replicas // nil = nobody knows
	Outcomes   []Outcome
	Load       func(float64) string // prints a load
	Number     func(float64) string // the same without its unit
}

// Write writes the page.
func (p *Page) Write(w io.Writer) error {
	d := chart.Document{Title: p.Headline()}
	const interval = ", with its 95 % interval if that is known."
	note := "Each point is a probe" + interval
	if _, worst := failing(p.Outcomes); worst.Numbers[ErrorRate] > 0 {
		note += " Latencies are of requests that did not fail."
	}
	first := chart.Section{}
	warn := func(grade string, lines ...string) {
		if len(lines) > 0 {
			first.Findings = append(first.Findings, chart.Finding{Grade: grade, Lines: lines})
		}
	}
	warn(chart.Warn, append(p.Cautions(), format.Present(p.Answer.Doubt)...)...)
	var curves chart.Section
	if p.Sweep {
		warn(chart.Warn, format.Present(p.Answer.Why)...)
		curves = chart.Section{
			Title:  "Latency by throughput",
			Graphs: p.curves(),
		}
		curves.Note = "Each point is a load, which stands beside it (" + p.Unit + ")" + interval
		measured := func(r *rung) bool { return r.requests > 0 }
		if sizes := p.ladder().sizes(measured); sizes != "" {
			d.Under = []string{sizes + " a load"}
		}
	} else {
		grade := ""
		if p.Answer.Complete && p.Answer.Doubt == "" {
			grade = chart.Good
		}
		warn(grade, cmp.Or(p.Answer.Why, "The search has not ended."))
		d.Under = []string{p.Sure()}
		if spans := p.spans(); spans != nil {
			note += " The shaded part is the 95 % interval of the capacity"
			if len(spans) > 1 {
				note += ", and the grey line its estimate"
			}
			note += "."
		}
		if slices.ContainsFunc(p.Outcomes, func(o Outcome) bool { return o.Cut }) {
			note += " Latencies of a probe that was cut short are at least as long."
		}
	}
	d.Under = append(d.Under, p.Title)
	d.Add(first)
	behind := curves // the graphs with the objectives
	if len(p.Objectives) == 0 {
		d.Add(curves)
		behind = chart.Section{}
	}
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
			behind,
			chart.Section{
				Title:  "Probes",
				Tables: []chart.Table{p.table()},
			},
		)
	}
	if head, rows := p.OwnerTable(); len(rows) > 0 {
		owners := chart.Table{Head: head}
		owners.Add(rows)
		d.Sections = append(d.Sections, chart.Section{Title: "By owner", Tables: []chart.Table{owners}})
	}
	if about := format.Present(p.Answer.Part.Words(), p.Replicas.Words(p.Servers)); len(about) > 0 {
		d.Add(chart.Section{
			Title:    "What was measured",
			Findings: []chart.Finding{{Lines: about}},
		})
	}
	d.Add(p.Replicas.section())
	return d.Write(w)
}

// graphs are goodput, the latencies of the objectives, failures and hits by load.
func (p *Page) graphs() (all []chart.Graph) {
	loads := len(p.ladder().rungs)
	if loads < 2 { // the table has as much
		return nil
	}
	byLoad := slices.DeleteFunc(slices.Clone(p.Outcomes), func(o Outcome) bool { return o.Client != "" })
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
		Whole: p.Whole,
	}
	if axis.Log {
		axis.Label += ", logarithmic"
	}
	again := loads < len(byLoad)
	isMost := func(share float64) bool { return share >= 0.5 }
	// lines of limits go from end to end
	byLoad = slices.Concat(
		[]Outcome{{Probe: Probe{Load: *axis.From}}},
		byLoad,
		[]Outcome{{Probe: Probe{Load: *axis.To}}},
	)
	add := func(title, name, unit string, bound *Objective) {
		g := chart.Graph{
			Title: title,
			Sync:  "load",
			X:     axis,
			Y: chart.Axis{
				Unit: unit,
				From: new(0.0),
			},
			Spans: p.spans(),
		}
		for _, o := range byLoad {
			g.At = append(g.At, o.Load)
		}
		measured := withInterval(byLoad, "measured", name)
		known := slices.DeleteFunc(slices.Clone(measured.Values), math.IsNaN)
		if len(known) == 0 || bound == nil && slices.Max(known) == 0 {
			return
		}
		if again { // a line through probes of one load would zigzag
			measured.Style = chart.Dots
		}
		g.Series = []chart.Series{measured}
		if bound == nil && name == ErrorRate {
			g.Series = append(g.Series, red("half or more", measured.Values, isMost)...)
		}
		most := slices.Max(known)
		if bound != nil {
			g.Series = append(g.Series, bound.lines(measured.Values)...)
			most = max(most, bound.limit())
		}
		if unit == "ms" && slices.Min(known) > 0 && most > 20*slices.Min(known) {
			g.Y.Log = true
			g.Y.From = nil
			g.Title += ", logarithmic"
		}
		all = append(all, g)
	}
	for i := range p.Objectives {
		o := &p.Objectives[i]
		if o.LimitNS == 0 {
			add(format.Capitalised(o.Label()), o.Quantity(), "ratio", o)
		} else {
			_, percentile, _ := strings.Cut(o.Quantity(), ".")
			add(o.Label()+" "+percentile, o.Quantity(), "ms", o)
		}
	}
	if len(p.Objectives) > 0 {
		add("Goodput, requests/s", GoodputPerS, "", nil)
	}
	for _, m := range measures() {
		bounded := slices.ContainsFunc(p.Objectives, func(o Objective) bool {
			return o.Quantity() == m.name
		})
		if !bounded && (p.Sweep || m.name == PrefixHits) {
			add(m.label, m.name, m.unit, nil)
		}
	}
	slices.SortStableFunc(all, func(a, b chart.Graph) int { return cmp.Compare(bad(b), bad(a)) })
	return all
}

// bad is 1 of a graph with points that are bad, else 0.
func bad(g chart.Graph) int {
	if slices.ContainsFunc(g.Series, func(s chart.Series) bool { return s.Bad }) {
		return 1
	}
	return 0
}

// spans mark the interval of the capacity, and its estimate if that is known; nil if no interval is.
func (p *Page) spans() []chart.Piece {
	const grey, line = 1, 2
	low, estimate, high := p.ladder().interval()
	if low == 0 {
		return nil
	}
	text := p.Sure()
	all := []chart.Piece{{From: low, To: high, Kind: grey, Text: text, Name: " "}}
	if estimate > 0 {
		all = append(all, chart.Piece{From: estimate, To: estimate * 1.05, Kind: line, Text: text, Name: " "})
	}
	return all
}

// limit is what the objective's quantity may be, in ms or as a share.
func (o *Objective) limit() float64 {
	switch {
	case o.LimitNS > 0:
		return float64(o.LimitNS) / 1e6
	case o.Metric == goodput:
		return 1 - o.Allowed
	}
	return o.Allowed
}

// red are the points that are bad; nil if there are none.
func red(name string, values chart.Values, isBad func(float64) bool) []chart.Series {
	bad := slices.Clone(values)
	for i, v := range bad {
		if !isBad(v) {
			bad[i] = math.NaN()
		}
	}
	if !slices.ContainsFunc(bad, isBad) {
		return nil
	}
	return []chart.Series{{
		Name:   name,
		Style:  chart.Dots,
		Bad:    true,
		Values: bad,
	}}
}

// lines are a line at the limit, and those of the values that are beyond it.
func (o *Objective) lines(values chart.Values) []chart.Series {
	limit := o.limit()
	isBeyond := func(v float64) bool {
		if o.Metric == goodput {
			return v < limit
		}
		return v > limit || o.LimitNS > 0 && v == limit
	}
	name := format.Percent(limit)
	if o.LimitNS > 0 {
		name = format.Milliseconds(limit)
	}
	line := chart.Series{
		Name:   "limit " + name,
		Style:  chart.Dashed,
		Values: slices.Repeat(chart.Values{limit}, len(values)),
	}
	return append(red("beyond the limit", values, isBeyond), line)
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
	add(cmp.Or(p.Head, "load"), func(o *Outcome) string {
		return p.Number(o.Load)
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
			_, known := o.Numbers[name]
			if !known && o.Numbers[ErrorRate] < 1 && j < len(o.Beyond) && o.Beyond[j] > limit.Allowed {
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
	head = []string{"requests of", cmp.Or(p.Head, "load")}
	heads := heads()
	for _, name := range ownedMeasures() {
		head = append(head, cmp.Or(heads[name], name))
	}
	for i := range p.Outcomes {
		o := &p.Outcomes[i]
		for _, owner := range o.Owners {
			row := []string{owner, p.Number(o.Load)}
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

// What tables call probes that prove nothing: without a sign of breaking, and with one.
const (
	soFar = "holds so far"
	maybe = "missed"
)

// word is that of an outcome. Far from the edge a search goes on after few requests without a sign of breaking, which
// do not tell that a load holds.
func (p *Page) word(o *Outcome) string {
	switch {
	case o.Word() == Holds && (p.few(o) || o.FallsBehind): // a longer window would break
		return soFar
	case o.Word() == Unsure && p.missed(o):
		return maybe
	}
	return o.Word()
}

// few tells whether probes have too few requests together to show that an objective is met.
func (p *Page) few(probes ...*Outcome) bool {
	for j, limit := range p.Objectives {
		var requests int64
		for _, o := range probes {
			if o.Of == nil {
				requests += o.Requests
			} else {
				requests += o.Of[j]
			}
		}
		if requests < limit.LeastRequests() {
			return true
		}
	}
	return len(probes) == 0
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
	limited := slices.ContainsFunc(p.Outcomes, func(o Outcome) bool { return o.Limiter != "" })
	t.Head = head
	if limited {
		t.Head = append(t.Head, "limited by")
	}
	t.Head = append(t.Head, "why")
	for i, row := range rows {
		o := &p.Outcomes[i]
		verdict := len(row) - 1
		if limited {
			row = append(row, o.Limiter)
		}
		cells := chart.Texts(append(row, cmp.Or(o.Client, o.Why))...)
		cells[verdict].Mark = map[string]string{
			Holds:  chart.Good,
			soFar:  chart.Warn,
			Breaks: chart.Bad,
			Unsure: chart.Warn,
			maybe:  chart.Warn,
		}[p.word(o)]
		t.Rows = append(t.Rows, cells)
	}
	return t
}
