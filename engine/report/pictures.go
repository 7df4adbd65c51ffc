package report

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/chart"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/scrape"
)

// Bounds of the page, so that it opens at once.
const (
	mostPoints = 4000    // dots of a graph of single requests: a sample beyond
	mostTurns  = 250_000 // turns among which the longest conversations are looked for
	mostLanes  = 24      // conversations that are drawn …
	lanePieces = 300     // … with so many pieces of each at most
	mostRows   = 64      // rows of a heat map
	slowest    = 10      // requests that are listed
)

// pictures is what the graphs of a page are made of. It is made in one pass over the records.
type pictures struct {
	all     []metrics.Step
	rows    []heatRow // of instances, or else of targets; none if there is one
	cut     int       // rows beyond mostRows
	samples []scrape.Sample
	values  [metrics.NumLatencies]*hdrhistogram.Histogram // of the latencies on the screen, in ns; nil of others
	// the run ended before all was sent and answered: what that stopped did not fail
	over    bool
	moments map[string][]float32 // when requests were sent, in s, by what became of them
	points  []point
	seen    int64 // ok requests, of which points are a sample
	turns   []turn
	names   map[int64]string // of sessions
	late    bool             // turns has not all of them
	byTTFT  []record.Record
	byE2E   []record.Record
	slos    []metrics.SLO
	window  *metrics.Window // nil = the whole run; what is drawn by time is of all of it
	chance  *rand.Rand
}

// What an ok request is counted as over time; others are counted by how they failed.
const goodKind, missedKind = "good", "missed a bound"

// point is an ok request in graphs of single requests.
type point struct{ input, uncached, output, ttftMS, e2eMS float64 }

// turn is a request of a conversation. Instants are seconds; NaN is none.
type turn struct {
	session, row, number          int64
	planned, sent, first, lastEnd float64
	ok                            bool
}

// heatRow is the steps of a target or an instance.
type heatRow struct {
	name  string
	steps []metrics.Step
}

// picturesOf reads the results in dir.
func picturesOf(dir string, s *metrics.Summary) (*pictures, error) {
	p := &pictures{
		window:  s.Window,
		slos:    SLOsOf(s),
		over:    s.Run.Partial || s.Run.Cut,
		moments: map[string][]float32{},
		names:   map[int64]string{},
		chance:  rand.New(rand.NewPCG(1, 2)),
	}
	for i, l := range metrics.Latencies() {
		if l.Shown == metrics.OnScreen && !s.LikeTwin(i) {
			p.values[i] = hdrhistogram.New(1, int64(3600e9), 3)
		}
	}
	var urls []string
	for _, t := range s.Targets {
		urls = append(urls, t.URL)
	}
	c, seen, err := collect(dir, urls, nil, nil, p.see)
	if err != nil {
		return p, err
	}
	if wrong := unlike(dir, s, seen); wrong != nil && s.Window == nil { // whose verdict has it
		return p, errors.New(wrong[0].String())
	}
	t := c.Timeline()
	p.all = slices.Clone(t.All())
	each := t.Targets()
	if s.Instances != nil && len(s.Instances.Parts) > len(s.Targets) {
		each = t.Instances()
	}
	for steps := range each {
		if len(p.rows) == mostRows {
			p.cut++
			continue
		}
		name := cmp.Or(steps[0].Instance, shortURL(steps[0].Target), "no target")
		p.rows = append(p.rows, heatRow{name, slices.Clone(steps)})
	}
	if p.samples, err = ReadLines[scrape.Sample](filepath.Join(dir, ServerMetricsName)); err != nil {
		return p, err
	}
	if p.window != nil {
		return p, nil
	}
	gaps, err := Gaps(dir) // which records do not have, and which are known of the whole run alone
	if gaps != nil {
		p.values[metrics.ITL] = gaps
	}
	return p, err
}

// see takes a record.
func (p *pictures) see(r *record.Record) {
	at := r.SentNS
	if at == record.None {
		at = max(0, r.PlannedNS)
	}
	if kind := p.kindOf(r); kind != "" {
		p.moments[kind] = append(p.moments[kind], float32(float64(at)/1e9))
	}
	p.addTurn(r)
	if r.Outcome != record.OK || !p.window.Has(r.PlannedNS) {
		return
	}
	for i, values := range p.values {
		of := metrics.Latencies()[i].Of
		if values == nil || of == nil {
			continue
		}
		if ns := of(r); ns >= 0 {
			_ = values.RecordValue(min(max(1, ns), int64(3600e9))) // within its bounds
		}
	}
	p.byTTFT = keepSlowest(p.byTTFT, r, (*record.Record).TTFTNS)
	p.byE2E = keepSlowest(p.byE2E, r, (*record.Record).E2ENS)
	p.seen++
	place := len(p.points) // in a sample, which is the same of the same records
	if place < mostPoints {
		p.points = append(p.points, point{})
	} else if place = int(p.chance.Int64N(p.seen)); place >= mostPoints {
		return
	}
	input := orNaN(metrics.PromptTokens(r))
	p.points[place] = point{
		input,
		input - orNaN(r.CachedTokens),
		orNaN(r.CompletionTokens),
		orNaN(r.TTFTNS()) / 1e6,
		orNaN(r.E2ENS()) / 1e6,
	}
}

// kindOf is by what a request is counted over time; "" for nothing.
func (p *pictures) kindOf(r *record.Record) string {
	switch {
	case r.LeftOut(), p.over &&
		(r.Outcome == record.NotSent || r.Outcome == record.Cancelled):
		return ""
	case r.Outcome == record.HTTPError && r.Status > 0:
		return fmt.Sprintf("HTTP %d", r.Status)
	case r.Outcome != record.OK:
		return r.Outcome.String()
	case len(p.slos) == 0:
		return ""
	}
	for i := range p.slos {
		if !p.slos[i].Met(r) {
			return missedKind
		}
	}
	return goodKind
}

// keepSlowest keeps the requests with the largest values, in falling order.
func keepSlowest(kept []record.Record, r *record.Record, of func(*record.Record) int64) []record.Record {
	if of(r) == record.None || len(kept) == slowest && of(r) <= of(&kept[slowest-1]) {
		return kept
	}
	at, _ := slices.BinarySearchFunc(
		kept,
		r,
		func(a record.Record, b *record.Record) int {
			return cmp.Compare(of(b), of(&a))
		},
	)
	kept = slices.Insert(kept, at, *r)
	return kept[:min(len(kept), slowest)]
}

// orNaN is NaN for what a record does not have.
func orNaN(n int64) float64 {
	if n == record.None {
		return math.NaN()
	}
	return float64(n)
}

func (p *pictures) addTurn(r *record.Record) {
	if r.Session == record.None || p.late {
		return
	}
	if len(p.turns) == mostTurns {
		p.late = true
		return
	}
	if r.SessionName != "" {
		p.names[r.Session] = r.SessionName
	}
	end := max(r.LastTokenNS, r.DoneNS)
	p.turns = append(p.turns, turn{
		r.Session,
		r.Row,
		r.Turn,
		orNaN(r.PlannedNS) / 1e9,
		orNaN(r.SentNS) / 1e9,
		orNaN(r.FirstTokenNS) / 1e9,
		orNaN(end) / 1e9,
		r.Outcome == record.OK,
	})
}

// sections are the pictures, in the order of the page, with the tables that belong to them.
func (p *pictures) sections(s *metrics.Summary, tables []chart.Table) []chart.Section {
	targets := chart.Section{Title: "Targets", Graphs: p.heatMaps(), Tables: tables}
	if p.cut > 0 {
		targets.Note = fmt.Sprintf("%d more are not drawn.", p.cut)
	}
	single := chart.Section{Title: "Single requests", Graphs: p.dots()}
	if p.seen > mostPoints {
		single.Note = fmt.Sprintf(
			"A sample of %s of %s ok requests, the same each time.",
			format.Count(mostPoints),
			format.Count(p.seen),
		)
	}
	return []chart.Section{
		{
			Title:  "Over time",
			Graphs: p.timelines(s),
			Note: "Each request counts at the time of its sending. " +
				"Point at a graph to read all at that time; drag to zoom all; double click to reset.",
		},
		{
			Title:  "Distributions",
			Graphs: p.distributions(),
			Note: "Bars count values; the line is the share of values up to the end of each bar. " +
				"The first bar has all below it, too.",
		},
		single,
		targets,
		p.conversations(),
		{Title: "Slowest requests", Tables: p.slowTables()},
	}
}

// overTime is a graph whose places are the steps, on a time axis that all such graphs share.
func (p *pictures) overTime(title, unit string, spans []chart.Piece, series ...chart.Series) chart.Graph {
	at := make(chart.Values, len(p.all))
	for i := range p.all {
		at[i] = (p.all[i].FromS + p.all[i].ToS) / 2
	}
	axis := chart.Axis{
		Label: "time",
		Unit:  "s",
		From:  new(0.0),
		To:    new(p.all[len(at)-1].ToS),
		Step:  p.all[0].ToS - p.all[0].FromS,
	}
	return chart.Graph{
		Title:  title,
		Sync:   "time",
		X:      axis,
		Y:      chart.Axis{Unit: unit},
		At:     at,
		Series: series,
		Spans:  spans,
	}
}

// of is a series of a number of each step.
func of(steps []metrics.Step, value func(*metrics.Step) float64) chart.Values {
	out := make(chart.Values, len(steps))
	for i := range steps {
		out[i] = value(&steps[i])
	}
	return out
}

// maybe is a number that may not exist.
func maybe(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}

func (p *pictures) timelines(s *metrics.Summary) []chart.Graph {
	if len(p.all) == 0 {
		return nil
	}
	widthS := p.all[0].ToS - p.all[0].FromS
	var spans []chart.Piece
	if w := p.window; w != nil {
		spans = append(
			spans,
			chart.Piece{To: w.FromS, Kind: 1, Text: "not counted"},
			chart.Piece{
				From: w.ToS,
				To:   p.all[len(p.all)-1].ToS,
				Kind: 1,
				Text: "not counted",
			},
		)
	}
	for i := range s.Outages {
		o := &s.Outages[i]
		to := p.all[len(p.all)-1].ToS
		if o.ToS != nil {
			to = *o.ToS
		}
		spans = append(
			spans,
			chart.Piece{
				From: o.FromS,
				To:   to,
				Text: "outage of " + cmp.Or(o.Address, shortURL(o.Target)),
			},
		)
	}
	line := func(name string, value func(*metrics.Step) float64) chart.Series {
		return chart.Series{Name: name, Values: of(p.all, value)}
	}
	rate := func(name string, count func(*metrics.Step) int64) chart.Series {
		return line(name, func(t *metrics.Step) float64 { return float64(count(t)) / widthS })
	}
	percentile := func(name string, latency int, permille int64) chart.Series { // no value where nothing was sent
		s := line(name, func(t *metrics.Step) float64 { return maybe(t.Percentile(latency, permille)) })
		s.Gaps = true
		return s
	}
	drift := line("p99", func(t *metrics.Step) float64 { return maybe(t.DriftP99) / 1e3 })
	drift.Gaps = true
	out := []chart.Graph{
		p.overTime("Requests/s", "", spans,
			rate("planned", func(t *metrics.Step) int64 {
				return t.Planned
			}), rate("sent", func(t *metrics.Step) int64 {
				return t.Requests
			})),
		p.overTime("Requests in flight", "", spans,
			line("in flight", func(t *metrics.Step) float64 { return t.InFlight })),
	}
	for i, l := range metrics.Latencies() {
		if l.Shown == metrics.OnScreen && l.Of != nil && !s.LikeTwin(i) {
			out = append(out, p.overTime(l.Label, "ms", spans, percentile("p50", i, 500), percentile("p99", i, 990)))
		}
	}
	out = append(out,
		p.overTime("Output tokens/s", "", spans,
			rate("tokens/s", func(t *metrics.Step) int64 { return t.OutputTokens })),
		p.overTime("Drift: how late requests left", "ms", spans, drift))
	if m := s.Client.StolenByTime; m != nil { // which has steps of its own
		out = append(out,
			p.overTime("CPU time that the host took", "ratio", spans,
				line("of all cores", func(t *metrics.Step) float64 {
					if step := int((t.FromS + t.ToS) / 2 / m.StepS); step < len(m.Shares) {
						return m.Shares[step]
					}
					return math.NaN()
				})))
	}
	out = append(out, p.byKind(spans)...)
	return append(out, p.serverLines(spans)...)
}

// byKind counts requests by how they failed, and by whether they were good; the most frequent kind stands first.
func (p *pictures) byKind(spans []chart.Piece) (out []chart.Graph) {
	widthS := p.all[0].ToS - p.all[0].FromS
	good := p.overTime("Goodput: ok requests within and beyond the bounds", "", spans)
	bad := p.overTime("Failed requests", "", spans)
	for _, kind := range slices.SortedFunc(maps.Keys(p.moments), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(p.moments[b]), len(p.moments[a])), cmp.Compare(a, b))
	}) {
		counts := make(chart.Values, len(p.all))
		to := &bad
		for _, atS := range p.moments[kind] {
			counts[min(len(p.all)-1, int(float64(atS)/widthS))]++
		}
		if kind == goodKind || kind == missedKind {
			to = &good
		}
		to.Series = append(
			to.Series,
			chart.Series{
				Name:   kind,
				Style:  chart.Bars,
				Values: counts,
				Bad:    to == &bad && len(bad.Series) == 0,
			},
		)
	}
	for _, g := range []chart.Graph{good, bad} {
		if g.Stacked = true; len(g.Series) > 0 {
			out = append(out, g)
		}
	}
	return out
}

// heatMaps are of several targets or instances, with a row each.
func (p *pictures) heatMaps() (out []chart.Graph) {
	if len(p.rows) < 2 {
		return nil
	}
	for _, m := range []struct {
		title, unit string
		value       func(*metrics.Step) float64
	}{
		{"TTFT p99", "ms", func(t *metrics.Step) float64 { return maybe(t.TTFTP99) }},
		{"Requests sent", "", func(t *metrics.Step) float64 { return float64(t.Requests) }},
		{"Requests in flight", "", func(t *metrics.Step) float64 { return t.InFlight }},
		{"Failed requests", "", func(t *metrics.Step) float64 { return float64(t.Failed) }},
	} {
		g := p.overTime(m.title, m.unit, nil)
		g.Y.Log = m.unit == "ms"
		for _, r := range p.rows {
			g.Rows, g.Heat = append(g.Rows, r.name), append(g.Heat, of(r.steps, m.value))
		}
		out = append(out, g)
	}
	return slices.DeleteFunc(out, func(g chart.Graph) bool { // such as failed requests where there are none
		return !slices.ContainsFunc(slices.Concat(g.Heat...), func(v float64) bool { return v > 0 })
	})
}

// distributions are the histograms of latencies.
func (p *pictures) distributions() (out []chart.Graph) {
	for i, l := range metrics.Latencies() {
		var s chart.Sample
		if p.values[i] == nil {
			continue
		}
		for _, b := range p.values[i].Distribution() {
			if b.Count > 0 {
				s.At = append(s.At, float64(b.From+b.To)/2e6)
				s.Counts = append(s.Counts, float64(b.Count))
			}
		}
		out = append(out, chart.Distributions(cmp.Or(l.Title, l.Label), "ms", false, []chart.Sample{s})...)
	}
	return out
}

// dots are graphs with a dot for each request.
func (p *pictures) dots() (out []chart.Graph) {
	ttft := func(t *point) float64 { return t.ttftMS }
	for _, g := range []struct {
		title, label string
		x, y         func(*point) float64
	}{
		{"TTFT by input tokens", "input tokens", func(t *point) float64 { return t.input }, ttft},
		{"TTFT by uncached input tokens", "uncached tokens", func(t *point) float64 { return t.uncached }, ttft},
		{"E2E by output tokens", "output tokens", func(t *point) float64 { return t.output },
			func(t *point) float64 { return t.e2eMS }},
	} {
		var own []point
		for _, t := range p.points {
			if !math.IsNaN(g.x(&t)) && !math.IsNaN(g.y(&t)) {
				own = append(own, t)
			}
		}
		if len(own) < 2 {
			continue
		}
		slices.SortFunc(own, func(a, b point) int {
			return cmp.Compare(g.x(&a), g.x(&b))
		})
		at := make(chart.Values, len(own))
		values := make(chart.Values, len(own))
		for i := range own {
			at[i] = g.x(&own[i])
			values[i] = g.y(&own[i])
		}
		spreads := func(v chart.Values) bool {
			return slices.Min(v) > 0 && slices.Max(v) > 20*slices.Min(v)
		}
		out = append(out, chart.Graph{
			Title: g.title,
			X:     chart.Axis{Label: g.label, Log: spreads(at)},
			Y:     chart.Axis{Unit: "ms", Log: spreads(values)},
			At:    at,
			Series: []chart.Series{{
				Name:   strings.Fields(g.title)[0],
				Style:  chart.Dots,
				Values: values,
			}},
		})
	}
	return out
}

// phaseKinds are the kinds of pieces of a request.
var phaseKinds = []string{"held back", "waiting for a connection", "until the first token", "decoding", "failed"}

// conversations are the longest ones, a lane each.
func (p *pictures) conversations() chart.Section {
	of := map[int64][]turn{}
	for _, t := range p.turns {
		of[t.session] = append(of[t.session], t)
	}
	type lane struct {
		session  int64
		from, to float64
	}
	var lanes []lane
	for session, turns := range of {
		l := lane{session, math.Inf(1), 0}
		for _, t := range turns {
			l.from, l.to = min(l.from, zero(t.sent, t.planned)), max(l.to, zero(t.lastEnd, t.sent))
		}
		if len(turns) > 1 {
			lanes = append(lanes, l)
		}
	}
	if len(lanes) == 0 {
		return chart.Section{}
	}
	slices.SortFunc(lanes, func(a, b lane) int {
		return cmp.Or(cmp.Compare(b.to-b.from, a.to-a.from), cmp.Compare(a.session, b.session))
	})
	note := fmt.Sprintf(
		"The %d that took longest of %s.",
		min(len(lanes), mostLanes),
		format.Many(len(lanes), "conversation"),
	)
	if p.late {
		note += fmt.Sprintf(" Of more than %s turns the first to end were looked at.", format.Count(mostTurns))
	}
	lanes = lanes[:min(len(lanes), mostLanes)]
	slices.SortFunc(
		lanes,
		func(a, b lane) int {
			return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.session, b.session))
		},
	)
	g := p.overTime("Turns of conversations", "", nil)
	g.At = nil
	g.X.Step = 0
	g.Wide = true
	g.Kinds = phaseKinds
	for _, l := range lanes {
		g.Rows = append(g.Rows, cmp.Or(p.names[l.session], fmt.Sprint(l.session)))
		turns := of[l.session]
		slices.SortFunc(
			turns,
			func(a, b turn) int {
				return cmp.Or(cmp.Compare(a.planned, b.planned), cmp.Compare(a.row, b.row))
			},
		)
		var pieces []chart.Piece
		for _, t := range turns {
			if len(pieces) < lanePieces {
				pieces = append(pieces, t.pieces()...)
			}
		}
		g.Lanes = append(g.Lanes, pieces)
	}
	return chart.Section{Title: "Conversations", Note: note, Graphs: []chart.Graph{g}}
}

// zero is v, or else, and else 0.
func zero(v, or float64) float64 {
	if math.IsNaN(v) {
		v = or
	}
	if math.IsNaN(v) {
		return 0
	}
	return v
}

// pieces are the phases of a turn.
func (t *turn) pieces() (out []chart.Piece) {
	text := fmt.Sprintf("row %d, turn %d", t.row, t.number)
	sent := zero(t.sent, t.planned)
	if t.sent-t.planned > 0 {
		out = append(
			out,
			chart.Piece{
				From: t.planned,
				To:   t.sent,
				Kind: 0,
				Text: text + ", held back " + format.Seconds(t.sent-t.planned),
			},
		)
	}
	if !t.ok || math.IsNaN(t.first) {
		return append(out, chart.Piece{
			From: sent,
			To:   zero(t.lastEnd, sent),
			Kind: 4,
			Text: text + ", failed",
		})
	}
	text += fmt.Sprintf(", TTFT %s, E2E %s", format.Seconds(t.first-sent), format.Seconds(t.lastEnd-sent))
	return append(
		out,
		chart.Piece{
			From: sent,
			To:   t.first,
			Kind: 2,
			Text: text,
		},
		chart.Piece{From: t.first, To: t.lastEnd, Kind: 3, Text: text},
	)
}

// slowTables list the slowest requests.
func (p *pictures) slowTables() (out []chart.Table) {
	for _, list := range []struct {
		title string
		rows  []record.Record
	}{{"By E2E", p.byE2E}, {"By TTFT", p.byTTFT}} {
		if len(list.rows) == 0 {
			continue
		}
		t := chart.Table{
			Title: list.title,
			Head: []string{
				"request id", "row", "target", "sent at", "late", "no connection", "TTFT", "decode", "E2E", "", "input",
				"cached", "output",
			},
		}
		for i := range list.rows {
			t.Rows = append(t.Rows, slowRow(&list.rows[i]))
		}
		out = append(out, t)
	}
	return out
}

func slowRow(r *record.Record) []chart.Cell {
	tokens := func(n int64) string {
		if n == record.None {
			return "–"
		}
		return format.Count(n)
	}
	span := func(from, to int64) (ns float64, text string) {
		if from == record.None || to == record.None {
			return 0, "–"
		}
		return float64(to - from), format.Duration(to-from, 4)
	}
	late, lateText := span(r.PlannedNS, r.SentNS)
	wait := min(float64(max(0, r.ConnWaitNS)), max(0, late))
	ttft, ttftText := span(r.SentNS, r.FirstTokenNS)
	decode, decodeText := span(r.FirstTokenNS, r.LastTokenNS)
	_, e2eText := span(r.SentNS, r.LastTokenNS)
	waitText := "–"
	if wait > 0 {
		waitText = format.Duration(wait, 4)
	}
	cells := chart.Texts(r.RequestID, fmt.Sprint(r.Row), shortURL(r.Target), format.Duration(r.SentNS, 4),
		lateText, waitText, ttftText, decodeText, e2eText, "",
		tokens(cmp.Or(max(0, r.PromptTokens), r.InputTokens)), tokens(r.CachedTokens),
		tokens(r.CompletionTokens))
	var bar []chart.Piece
	at := 0.0
	for kind, ns := range []float64{max(0, late) - wait, wait, ttft, decode} {
		bar = append(
			bar,
			chart.Piece{
				From: at,
				To:   at + ns/1e6,
				Kind: kind,
				Text: phaseKinds[kind] + " " + format.Duration(ns, 4),
			},
		)
		at += ns / 1e6
	}
	cells[9].Bar = bar
	return cells
}

// serverLines are what all servers report by time: gauges summed over the latest readings of their pages, the mean
// use of KV caches, and the share of prefix hits.
func (p *pictures) serverLines(spans []chart.Piece) (out []chart.Graph) {
	line := func(name string) chart.Series {
		return chart.Series{Name: name, Values: slices.Repeat(chart.Values{math.NaN()}, len(p.all))}
	}
	running := line("running")
	waiting := line("waiting")
	kv := line("mean")
	mostKV := line("the fullest engine")
	hits := line("hits")
	found := make(chart.Values, len(p.all))
	queries := make(chart.Values, len(p.all))
	latest := map[string]scrape.Reading{}
	widthS := p.all[0].ToS - p.all[0].FromS
	for i := range p.samples {
		m := &p.samples[i]
		step := min(len(p.all)-1, int(float64(max(0, m.AtNS))/1e9/widthS))
		if m.Error != "" {
			delete(latest, m.URL)
			continue
		}
		before := latest[m.URL]
		addGrowth(found, step, before.PrefixHits, m.PrefixHits)
		addGrowth(queries, step, before.PrefixQueries, m.PrefixQueries)
		latest[m.URL] = m.Reading
		hits.Values[step] = found[step] / queries[step] // NaN where nothing was looked up
		running.Values[step], _ = scrape.Total(latest, scrape.Running)
		waiting.Values[step], _ = scrape.Total(latest, scrape.Waiting)
		sum, pages := scrape.Total(latest, scrape.KVUsage)
		kv.Values[step] = sum / pages
		for _, r := range latest {
			if v := r.MostKVUsage; v != nil && !(mostKV.Values[step] >= *v) {
				mostKV.Values[step] = *v
			}
		}
	}
	for _, g := range []chart.Graph{
		p.overTime("Requests in the servers, as they report", "", spans, running, waiting),
		p.overTime("KV cache in use", "ratio", spans, kv, mostKV), p.overTime(
			"Prefix hits, as the servers count", "ratio", spans, hits,
		),
	} {
		if slices.ContainsFunc(g.Series[0].Values, func(v float64) bool { return !math.IsNaN(v) }) {
			out = append(out, g)
		}
	}
	return out
}

// addGrowth adds by how much a counter has grown, unless its server was restarted.
func addGrowth(to chart.Values, step int, before, after *float64) {
	if before != nil && after != nil && *after >= *before {
		to[step] += *after - *before
	}
}
