package report

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/chart"
	"github.com/fastreplay/fastreplay/engine/collect"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/scrape"
	"github.com/fastreplay/fastreplay/engine/stats"
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

// Pictures is what the graphs of a page are made of. It is made in one pass over the records, during the run or after
// it, and belongs to one goroutine.
type Pictures struct {
	all     []metrics.Step
	rows    []heatRow // of instances, or else of targets; none if there is one
	cut     int       // rows beyond mostRows
	samples []scrape.Sample
	values  [metrics.NumLatencies]*hdrhistogram.Histogram // of the latencies on the screen, in ns; nil of others
	moments map[string][]float32                          // when requests were sent, in s, by what became of them
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
const (
	goodKind   = "good"
	missedKind = "missed a bound"
)

// point is an ok request in graphs of single requests; NaN is none.
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

// mostLatencyNS is the largest latency that is told from larger ones.
const mostLatencyNS = int64(time.Hour)

// NewPictures are those of a run that is to begin; with SLOs they tell what keeps them.
func NewPictures(slos []metrics.SLO) *Pictures {
	p := &Pictures{
		slos:    slos,
		moments: map[string][]float32{},
		names:   map[int64]string{},
		chance:  rand.New(rand.NewPCG(1, 2)),
	}
	for i, l := range metrics.Latencies() {
		if l.Shown == metrics.OnScreen {
			p.values[i] = hdrhistogram.New(1, mostLatencyNS, 3)
		}
	}
	return p
}

// picturesOf reads the results in dir.
func picturesOf(dir string, s *metrics.Summary) (*Pictures, error) {
	p := NewPictures(SLOsOf(s))
	p.window = s.Window
	var urls []string
	for _, t := range s.Targets {
		urls = append(urls, t.URL)
	}
	c, seen, err := recordsIn(dir, urls, nil, nil, p.See)
	if err != nil {
		return p, err
	}
	wrong := unlike(dir, s, seen)
	if wrong != nil && s.Window == nil { // whose verdict has it
		return p, errors.New(wrong[0].String())
	}
	return p, p.complete(dir, s, c.Timeline())
}

// complete adds what records do not have, after the last of them.
func (p *Pictures) complete(dir string, s *metrics.Summary, t *collect.Timeline) (err error) {
	for i := range p.values {
		if s.LikeTwin(i) {
			p.values[i] = nil
		}
	}
	if s.Run.Partial || s.Run.Cut { // what that stopped did not fail
		delete(p.moments, record.NotSent.String())
		delete(p.moments, record.Cancelled.String())
	}
	byInstance := s.Instances != nil && len(s.Instances.Parts) > len(s.Targets)
	p.addSteps(t, byInstance)
	p.samples, err = ReadLines[scrape.Sample](filepath.Join(dir, ServerMetricsName))
	if err != nil || p.window != nil {
		return err
	}
	gaps, err := Gaps(dir) // which are known of the whole run alone
	if gaps != nil {
		p.values[metrics.ITL] = gaps
	}
	return err
}

// addSteps takes the steps of the run, and those of each target or instance.
func (p *Pictures) addSteps(t *collect.Timeline, byInstance bool) {
	p.all = slices.Clone(t.All())
	each := t.Targets()
	if byInstance {
		each = t.Instances()
	}
	for steps := range each {
		if len(p.rows) == mostRows {
			p.cut++
			continue
		}
		target := shortURL(steps[0].Target)
		p.rows = append(p.rows, heatRow{
			name:  cmp.Or(steps[0].Instance, target, "no target"),
			steps: slices.Clone(steps),
		})
	}
}

// See takes a record, and does not keep it. What prepares is not drawn.
func (p *Pictures) See(r *record.Record) {
	if r.Phase != record.Profiled {
		return
	}
	at := r.SentNS
	if at == record.None {
		at = max(0, r.PlannedNS)
	}
	kind := p.kindOf(r)
	if kind != "" {
		p.moments[kind] = append(p.moments[kind], float32(float64(at)/1e9))
	}
	p.addTurn(r)
	if r.Outcome != record.OK || !p.window.Has(r.PlannedNS) {
		return
	}
	for i, l := range metrics.Latencies() {
		if p.values[i] == nil || l.Of == nil {
			continue
		}
		ns := l.Of(r)
		if ns >= 0 {
			ns = max(1, ns)
			_ = p.values[i].RecordValue(min(ns, mostLatencyNS)) // within its bounds
		}
	}
	p.byTTFT = keepSlowest(p.byTTFT, r, (*record.Record).TTFTNS)
	p.byE2E = keepSlowest(p.byE2E, r, (*record.Record).E2ENS)
	p.addPoint(r)
}

// addPoint adds an ok request to the sample, which is the same of the same records.
func (p *Pictures) addPoint(r *record.Record) {
	p.seen++
	place := len(p.points)
	if place < mostPoints {
		p.points = append(p.points, point{})
	} else {
		place = int(p.chance.Int64N(p.seen))
	}
	if place >= mostPoints {
		return
	}
	input := record.Float(metrics.PromptTokens(r))
	p.points[place] = point{
		input:    input,
		uncached: input - record.Float(r.CachedTokens),
		output:   record.Float(r.CompletionTokens),
		ttftMS:   record.Float(r.TTFTNS()) / 1e6,
		e2eMS:    record.Float(r.E2ENS()) / 1e6,
	}
}

// kindOf is by what a request is counted over time; "" for nothing.
func (p *Pictures) kindOf(r *record.Record) string {
	switch {
	case r.LeftOut():
		return ""
	case r.Outcome == record.HTTPError && r.Status > 0:
		return fmt.Sprintf("HTTP %d", r.Status)
	case r.Outcome != record.OK:
		return r.Outcome.String()
	case len(p.slos) == 0:
		return ""
	}
	for _, slo := range p.slos {
		if !slo.Met(r) {
			return missedKind
		}
	}
	return goodKind
}

// keepSlowest keeps the requests with the largest values, in falling order.
func keepSlowest(kept []record.Record, r *record.Record, of func(*record.Record) int64) []record.Record {
	ns := of(r)
	full := len(kept) == slowest
	if ns == record.None || full && ns <= of(&kept[slowest-1]) {
		return kept
	}
	if full {
		kept = kept[:slowest-1]
	}
	place, _ := slices.BinarySearchFunc(kept, ns, func(k record.Record, ns int64) int {
		return cmp.Compare(ns, of(&k))
	})
	return slices.Insert(kept, place, *r)
}

func (p *Pictures) addTurn(r *record.Record) {
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
	p.turns = append(p.turns, turn{
		session: r.Session,
		row:     r.Row,
		number:  r.Turn,
		planned: record.Float(r.PlannedNS) / 1e9,
		sent:    record.Float(r.SentNS) / 1e9,
		first:   record.Float(r.FirstTokenNS) / 1e9,
		lastEnd: record.Float(max(r.LastTokenNS, r.DoneNS)) / 1e9,
		ok:      r.Outcome == record.OK,
	})
}

// sections are the pictures, in the order of the page, with the tables that belong to them.
func (p *Pictures) sections(s *metrics.Summary, tables []chart.Table) []chart.Section {
	targets := chart.Section{
		Title:  "Targets",
		Graphs: p.heatMaps(),
		Tables: tables,
	}
	if p.cut > 0 {
		targets.Note = fmt.Sprintf("%d more are not drawn.", p.cut)
	}
	single := chart.Section{Title: "Single requests", Graphs: p.dots()}
	if p.seen > mostPoints {
		single.Note = "A sample of " + format.Count(mostPoints) + " of " + format.Count(p.seen) +
			" ok requests, the same each time."
	}
	timelines, zero := p.timelines(s)
	return []chart.Section{
		{
			Title:  "Over time",
			Graphs: timelines,
			Note: "Each request counts at the time of its sending. " +
				"Point at a graph to read all at that time; drag to zoom all; double click to reset." + zero,
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
		{
			Title:  "Slowest requests",
			Tables: []chart.Table{slowTable("By E2E", p.byE2E), slowTable("By TTFT", p.byTTFT)},
		},
	}
}

// ErrNoPicture is an unknown name of a picture, or one that a run does not have.
var ErrNoPicture = errors.New("no such picture")

// Picture writes a graph of the page of the results in dir as SVG. Its name is its title in small letters with
// hyphens: requests-s, ttft, ttft-distribution, ttft-by-input-tokens, …
func Picture(w io.Writer, dir string, s *metrics.Summary, name string) error {
	p, err := picturesOf(dir, s)
	if err != nil {
		return err
	}
	timelines, _ := p.timelines(s)
	var names []string
	for what, graphs := range [][]chart.Graph{timelines, p.distributions(), p.dots()} {
		for _, g := range graphs {
			title, _, _ := strings.Cut(strings.ToLower(strings.ReplaceAll(g.Title, ",", ":")), ":")
			words := strings.FieldsFunc(title, func(r rune) bool {
				return !unicode.IsLetter(r) && !unicode.IsDigit(r)
			})
			if what == 1 {
				words = append(words, "distribution")
			}
			if names = append(names, strings.Join(words, "-")); names[len(names)-1] == name {
				return g.SVG(w)
			}
		}
	}
	return fmt.Errorf("%w: %q; there are %s", ErrNoPicture, name, strings.Join(names, ", "))
}

// stall says when the slowest first tokens were asked for, if that was one short part of the run. Then the highest
// percentiles tell of that part alone.
func (p *Pictures) stall(s *metrics.Summary) (found chart.Finding) {
	const (
		far   = 10   // times the median that the slowest takes at least
		brief = 0.25 // of the run that the part lasts at most
	)
	q := s.TTFTMS
	if q == nil || q.Count < fewRequests || q.Max < far*q.P50 {
		return found
	}
	bound := math.Sqrt(q.P50 * q.Max)
	p99 := func(t metrics.Step) float64 { return stats.OrZero(t.Percentile(metrics.TTFT, 990)) }
	isSlow := func(t metrics.Step) bool { return p99(t) > bound }
	usual := 0.0
	var slow []metrics.Step
	for _, t := range p.all {
		if isSlow(t) {
			slow = append(slow, t)
		} else {
			usual = max(usual, p99(t))
		}
	}
	if len(slow) == 0 || q.P99 < bound {
		return found
	}
	fromS := slow[0].FromS
	toS := slow[len(slow)-1].ToS
	if toS-fromS > brief*s.Run.DurationS {
		return found
	}
	others := slices.DeleteFunc(slices.Clone(p.rows), func(row heatRow) bool {
		return !slices.ContainsFunc(row.steps, isSlow)
	})
	if len(others) == 1 && len(p.rows) > 1 {
		found.Lines = append(found.Lines, "all of them went to "+others[0].name)
	}
	for i := range s.Actions {
		if at := s.Actions[i].BeganS(); at > fromS-2*p.stepS() && at < toS {
			found.Lines = append(found.Lines, "action at "+format.Seconds(at)+": "+s.Actions[i].Run)
		}
	}
	found.Grade = chart.Warn
	found.Word = fmt.Sprintf("Slow answers at %.3g–%.3g s: TTFT up to %s", fromS, toS, format.Milliseconds(q.Max))
	found.Lines = append(found.Lines, "at other times its p99 was at most "+format.Milliseconds(usual)+
		", so p99 and max of the run are of this part")
	return found
}

// stepS is how long a step is, and endS when the last of them ends.
func (p *Pictures) stepS() float64 {
	return p.all[0].ToS - p.all[0].FromS
}
func (p *Pictures) endS() float64 {
	return p.all[len(p.all)-1].ToS
}

// stepAt is the step of an instant.
func (p *Pictures) stepAt(atS float64) int {
	return min(len(p.all)-1, int(atS/p.stepS()))
}

// overTime is a graph whose places are the steps, on a time axis that all such graphs share.
func (p *Pictures) overTime(title, unit string, series ...chart.Series) chart.Graph {
	return chart.Graph{
		Title: title,
		Sync:  "time",
		X: chart.Axis{
			Label: "time",
			Unit:  "s",
			From:  new(0.0),
			To:    new(p.endS()),
			Step:  p.stepS(),
		},
		Y:      chart.Axis{Unit: unit},
		At:     of(p.all, middleS),
		Series: series,
	}
}

func middleS(t *metrics.Step) float64 {
	return (t.FromS + t.ToS) / 2
}

// of is a number of each step.
func of(steps []metrics.Step, value func(*metrics.Step) float64) chart.Values {
	out := make(chart.Values, len(steps))
	for i := range steps {
		out[i] = value(&steps[i])
	}
	return out
}

// line is a series of a number of each step.
func (p *Pictures) line(name string, value func(*metrics.Step) float64) chart.Series {
	return chart.Series{Name: name, Values: of(p.all, value)}
}

// maybe is a line of a number that a step may not have.
func (p *Pictures) maybe(name string, value func(*metrics.Step) *float64) chart.Series {
	line := p.line(name, func(t *metrics.Step) float64 {
		return orUnknown(value(t))
	})
	line.Gaps = true
	return line
}

// orUnknown is NaN for a number that is not there.
func orUnknown(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}

// timelines are the graphs over time, and what to say of those that are not drawn because they are 0 throughout.
func (p *Pictures) timelines(s *metrics.Summary) (out []chart.Graph, zero string) {
	if len(p.all) == 0 {
		return nil, ""
	}
	stepS := p.stepS()
	planned := p.line("planned", func(t *metrics.Step) float64 {
		return float64(t.Planned) / stepS
	})
	planned.Style = chart.Behind
	sent := p.line("sent", func(t *metrics.Step) float64 {
		return float64(t.Requests) / stepS
	})
	p.even(planned.Values)
	p.even(sent.Values)
	both := []chart.Series{planned, sent}
	unsent := s.Requests.Planned - s.Requests.Sent
	if unsent > 0 {
		both[1].Name = "sent, or planned if unsent"
	}
	if areAlike(planned.Values, sent.Values) { // one line would hide the other
		sent.Name = "sent, as planned"
		if unsent > 0 {
			sent.Name = fmt.Sprintf("planned (%s were not sent)", format.Count(unsent))
		}
		both = []chart.Series{sent}
	}
	out = []chart.Graph{
		p.overTime("Requests/s", "", both...),
		p.overTime("Requests in flight", "",
			p.line("in flight", func(t *metrics.Step) float64 {
				return t.InFlight
			})),
	}
	for i, l := range metrics.Latencies() {
		if l.Shown == metrics.OnScreen && l.Of != nil && !s.LikeTwin(i) {
			out = append(out, p.overTime(l.Label, "ms",
				p.maybe("p50", func(t *metrics.Step) *float64 {
					return t.Percentile(i, 500)
				}),
				p.maybe("p99", func(t *metrics.Step) *float64 {
					return t.Percentile(i, 990)
				})))
		}
	}
	drift := p.maybe("p99", func(t *metrics.Step) *float64 {
		return t.DriftP99
	})
	for i := range drift.Values {
		drift.Values[i] /= 1e3
	}
	out = append(out,
		p.overTime("Output tokens/s", "",
			p.line("tokens/s", func(t *metrics.Step) float64 {
				return float64(t.OutputTokens) / stepS
			})),
		p.overTime("Drift: how late requests left", "ms", drift))
	m := s.Client.StolenByTime
	if m != nil {
		out = append(out, p.overTime("CPU time that the host took", "ratio", p.stolen(m)))
	}
	out = slices.Concat(out, p.byKind(), p.serverLines())
	spans := append(p.spans(s.Outages), p.marks(s.Actions)...)
	var flat, unknown []string
	out = slices.DeleteFunc(out, func(g chart.Graph) bool {
		most := math.Inf(-1)
		for _, s := range g.Series {
			for _, v := range s.Values {
				if v > most { // which NaN is not
					most = v
				}
			}
		}
		switch {
		case most > 0:
			return false
		case most == 0:
			flat = append(flat, g.Title)
		default:
			unknown = append(unknown, g.Title)
		}
		return true
	})
	for i := range out {
		out[i].Spans = spans
	}
	if len(flat) > 0 {
		zero = " Not drawn, as 0 throughout: " + strings.Join(flat, "; ") + "."
	}
	if len(unknown) > 0 {
		zero += " Not drawn, as no request told them: " + strings.Join(unknown, "; ") + "."
	}
	return out, zero
}

// even spreads rates over steps until some requests fall into each: two requests in 10 ms are no 200 in a second.
func (p *Pictures) even(rates chart.Values) {
	const least = 5.0
	requests := 1.0
	for i := range p.all {
		requests += float64(p.all[i].Requests)
	}
	size := math.Ceil(least * float64(len(p.all)) / requests)
	for steps := range slices.Chunk(rates, int(size)) {
		mean, _ := stats.Moments(steps)
		for i := range steps {
			steps[i] = mean
		}
	}
}

// areAlike reports whether one of two counts by step would hide the other: at most 1 in 50 left a step behind its plan.
func areAlike(planned, sent chart.Values) bool {
	var all, ahead, late float64
	for i := range planned {
		all += planned[i]
		ahead += planned[i] - sent[i]
		late += math.Abs(ahead)
	}
	return late <= all/50
}

// stolen is the share of the machine's time that it did not have, which has steps of its own.
func (p *Pictures) stolen(m *stats.Shares) chart.Series {
	return p.line("of all cores", func(t *metrics.Step) float64 {
		step := int(middleS(t) / m.StepS)
		if step >= len(m.Shares) {
			return math.NaN()
		}
		return m.Shares[step]
	})
}

// spans are the parts of the run that are shaded: what is not counted, and outages.
func (p *Pictures) spans(outages []metrics.Outage) (spans []chart.Piece) {
	const grey = 1
	w := p.window
	if w != nil && w.FromS > 0 {
		spans = append(spans, chart.Piece{To: w.FromS, Kind: grey, Text: "not counted"})
	}
	if w != nil && w.ToS < p.endS() {
		spans = append(spans, chart.Piece{From: w.ToS, To: p.endS(), Kind: grey, Text: "not counted"})
	}
	for _, o := range outages {
		to := p.endS()
		if o.ToS != nil {
			to = *o.ToS
		}
		who := cmp.Or(o.Address, shortURL(o.Target))
		spans = append(spans, chart.Piece{
			From: o.FromS,
			To:   to,
			Text: "outage of " + who,
		})
	}
	return spans
}

// marks are the instants of actions. Each takes a step's width where somebody points at it.
func (p *Pictures) marks(actions []metrics.Action) (marks []chart.Piece) {
	const line = 2
	for i := range actions {
		if a := &actions[i]; a.Began() {
			marks = append(marks, chart.Piece{
				From: a.Ran.StartedS,
				To:   a.Ran.StartedS + p.stepS(),
				Kind: line,
				Text: format.Seconds(a.Ran.StartedS) + " " + a.Run + ": " + a.Finding(),
				Name: a.Run,
			})
		}
	}
	return marks
}

// byKind counts requests by how they failed, and by whether they were good; the most frequent kind stands first.
func (p *Pictures) byKind() (out []chart.Graph) {
	good := p.overTime("Goodput: ok requests within and beyond the bounds", "")
	bad := p.overTime("Failed requests", "")
	kinds := slices.SortedFunc(maps.Keys(p.moments), func(a, b string) int {
		more := len(p.moments[b]) - len(p.moments[a])
		return cmp.Or(more, cmp.Compare(a, b))
	})
	for _, kind := range kinds {
		bars := chart.Series{
			Name:   strings.ReplaceAll(kind, "_", " "),
			Style:  chart.Bars,
			Values: make(chart.Values, len(p.all)),
		}
		for _, atS := range p.moments[kind] {
			bars.Values[p.stepAt(float64(atS))]++
		}
		if kind == goodKind || kind == missedKind {
			bars.Bad = kind == missedKind
			good.Series = append(good.Series, bars)
			continue
		}
		bars.Bad = len(bad.Series) == 0
		bad.Series = append(bad.Series, bars)
	}
	for _, g := range []chart.Graph{good, bad} {
		g.Stacked = true
		if len(g.Series) > 0 {
			out = append(out, g)
		}
	}
	return out
}

// heatMaps are of several targets or instances, with a row each.
func (p *Pictures) heatMaps() (out []chart.Graph) {
	if len(p.rows) < 2 {
		return nil
	}
	for _, m := range []struct {
		title, unit string
		value       func(*metrics.Step) float64
	}{
		{"TTFT p99", "ms", func(t *metrics.Step) float64 {
			return orUnknown(t.TTFTP99)
		}},
		{"Requests sent", "", func(t *metrics.Step) float64 {
			return float64(t.Requests)
		}},
		{"Requests in flight", "", func(t *metrics.Step) float64 { return t.InFlight }},
		{"Failed requests", "", func(t *metrics.Step) float64 {
			return float64(t.Failed)
		}},
	} {
		g := p.overTime(m.title, m.unit)
		g.Y.Log = m.unit == "ms"
		some := false
		for _, r := range p.rows {
			values := of(r.steps, m.value)
			some = some || slices.ContainsFunc(values, func(v float64) bool { return v > 0 })
			g.Rows = append(g.Rows, r.name)
			g.Heat = append(g.Heat, values)
		}
		if some {
			out = append(out, g)
		}
	}
	return out
}

// distributions are the histograms of latencies.
func (p *Pictures) distributions() (out []chart.Graph) {
	for i, l := range metrics.Latencies() {
		if p.values[i] == nil {
			continue
		}
		var s chart.Sample
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
func (p *Pictures) dots() (out []chart.Graph) {
	ttft := func(t point) float64 { return t.ttftMS }
	for _, g := range []struct {
		title, label string
		x, y         func(point) float64
	}{
		{"TTFT by input tokens", "input tokens", func(t point) float64 { return t.input }, ttft},
		{"TTFT by uncached input tokens", "uncached tokens", func(t point) float64 { return t.uncached }, ttft},
		{"E2E by output tokens", "output tokens", func(t point) float64 { return t.output },
			func(t point) float64 { return t.e2eMS }},
	} {
		own := slices.DeleteFunc(slices.Clone(p.points), func(t point) bool { return math.IsNaN(g.x(t) + g.y(t)) })
		if len(own) < 2 {
			continue
		}
		slices.SortFunc(own, func(a, b point) int { return cmp.Compare(g.x(a), g.x(b)) })
		latency, _, _ := strings.Cut(g.title, " ")
		dots := chart.Series{Name: latency, Style: chart.Dots}
		var at chart.Values
		for _, t := range own {
			at = append(at, g.x(t))
			dots.Values = append(dots.Values, g.y(t))
		}
		out = append(out, chart.Graph{
			Title: g.title,
			X: chart.Axis{
				Label: g.label,
				Log:   spreads(at),
			},
			Y: chart.Axis{
				Unit: "ms",
				Log:  spreads(dots.Values),
			},
			At:     at,
			Series: []chart.Series{dots},
		})
	}
	return out
}

// spreads reports whether values need a logarithmic axis.
func spreads(v chart.Values) bool {
	least := slices.Min(v)
	return least > 0 && slices.Max(v) > 20*least
}

// phaseKinds are the kinds of pieces of a request.
var phaseKinds = []string{"held back", "waiting for a connection", "until the first token", "decoding", "failed"}

// The places of phaseKinds.
const (
	heldBack = iota
	connecting
	prefilling
	decoding
	failing
)

// lane is a conversation of several turns. Instants are seconds.
type lane struct {
	session  int64
	turns    []turn
	from, to float64
}

// conversations are the longest ones, a lane each.
func (p *Pictures) conversations() chart.Section {
	lanes := p.lanes()
	if len(lanes) == 0 {
		return chart.Section{}
	}
	drawn := lanes[:min(len(lanes), mostLanes)]
	note := fmt.Sprintf("The %d that took longest of %s.", len(drawn), format.Many(len(lanes), "conversation"))
	if p.late {
		note += fmt.Sprintf(" Of more than %s turns the first to end were looked at.", format.Count(mostTurns))
	}
	slices.SortFunc(drawn, func(a, b lane) int {
		earliest := cmp.Compare(a.from, b.from)
		return cmp.Or(earliest, cmp.Compare(a.session, b.session))
	})
	g := p.overTime("Turns of conversations", "")
	g.At = nil
	g.X.Step = 0
	g.Wide = true
	g.Kinds = phaseKinds
	for _, l := range drawn {
		slices.SortFunc(l.turns, func(a, b turn) int {
			earliest := cmp.Compare(a.planned, b.planned)
			return cmp.Or(earliest, cmp.Compare(a.row, b.row))
		})
		var pieces []chart.Piece
		for _, t := range l.turns {
			if len(pieces) < lanePieces {
				pieces = append(pieces, t.pieces()...)
			}
		}
		g.Rows = append(g.Rows, cmp.Or(p.names[l.session], fmt.Sprint(l.session)))
		g.Lanes = append(g.Lanes, pieces)
	}
	return chart.Section{
		Title:  "Conversations",
		Note:   note,
		Graphs: []chart.Graph{g},
	}
}

// lanes are the conversations of several turns, those that took longest first.
func (p *Pictures) lanes() (lanes []lane) {
	of := map[int64]lane{}
	for _, t := range p.turns {
		l, begun := of[t.session]
		if !begun {
			l.session = t.session
			l.from = math.Inf(1)
		}
		l.turns = append(l.turns, t)
		from := zero(t.sent, t.planned)
		to := zero(t.lastEnd, t.sent)
		l.from = min(l.from, from)
		l.to = max(l.to, to)
		of[t.session] = l
	}
	for _, l := range of {
		if len(l.turns) > 1 {
			lanes = append(lanes, l)
		}
	}
	slices.SortFunc(lanes, func(a, b lane) int {
		longest := cmp.Compare(b.to-b.from, a.to-a.from)
		return cmp.Or(longest, cmp.Compare(a.session, b.session))
	})
	return lanes
}

// zero is the first that is known, or 0.
func zero(values ...float64) float64 {
	for _, v := range values {
		if !math.IsNaN(v) {
			return v
		}
	}
	return 0
}

// pieces are the phases of a turn.
func (t *turn) pieces() (out []chart.Piece) {
	text := fmt.Sprintf("row %d, turn %d", t.row, t.number)
	sent := zero(t.sent, t.planned)
	late := t.sent - t.planned
	if late > 0 {
		out = append(out, chart.Piece{
			From: t.planned,
			To:   t.sent,
			Kind: heldBack,
			Text: text + ", held back " + format.Seconds(late),
		})
	}
	if !t.ok || math.IsNaN(t.first) {
		return append(out, chart.Piece{
			From: sent,
			To:   zero(t.lastEnd, sent),
			Kind: failing,
			Text: text + ", failed",
		})
	}
	ttft := format.Seconds(t.first - sent)
	e2e := format.Seconds(t.lastEnd - sent)
	text += ", TTFT " + ttft + ", E2E " + e2e
	return append(out,
		chart.Piece{
			From: sent,
			To:   t.first,
			Kind: prefilling,
			Text: text,
		},
		chart.Piece{
			From: t.first,
			To:   t.lastEnd,
			Kind: decoding,
			Text: text,
		})
}

// slowTable lists the slowest requests.
func slowTable(title string, slow []record.Record) chart.Table {
	t := chart.Table{
		Title: title,
		Head: []string{
			"row", "target", "sent at", "late", "no connection", "TTFT", "decode", "E2E", "", "input", "cached",
			"output", "request id",
		},
	}
	for _, r := range slow {
		t.Rows = append(t.Rows, slowRow(&r))
	}
	for _, name := range []string{"no connection", "target"} { // a page has room for what differs
		c := slices.Index(t.Head, name)
		same := func(row []chart.Cell) bool { return row[c].Text == t.Rows[0][c].Text }
		if !slices.ContainsFunc(t.Rows, func(row []chart.Cell) bool { return !same(row) }) {
			t.Head = slices.Delete(t.Head, c, c+1)
			for i := range t.Rows {
				t.Rows[i] = slices.Delete(t.Rows[i], c, c+1)
			}
		}
	}
	return t
}

func slowRow(r *record.Record) []chart.Cell {
	tokens := func(n int64) string {
		if n == record.None {
			return "–"
		}
		return format.Count(n)
	}
	took := func(ns float64) string {
		if math.IsNaN(ns) {
			return "–"
		}
		return format.Duration(ns, 4)
	}
	planned := record.Float(r.PlannedNS)
	sent := record.Float(r.SentNS)
	first := record.Float(r.FirstTokenNS)
	last := record.Float(r.LastTokenNS)
	late := max(0, zero(sent-planned))
	wait := min(float64(max(0, r.ConnWaitNS)), late)
	waited := "–"
	if wait > 0 {
		waited = took(wait)
	}
	var bar []chart.Piece
	at := 0.0
	for kind, ns := range []float64{heldBack: late - wait, wait, zero(first - sent), decoding: zero(last - first)} {
		to := at + ns/1e6
		bar = append(bar, chart.Piece{
			From: at,
			To:   to,
			Kind: kind,
			Text: phaseKinds[kind] + " " + took(ns),
		})
		at = to
	}
	row := chart.Texts(
		fmt.Sprint(r.Row),
		shortURL(r.Target),
		format.Duration(r.SentNS, 4),
		took(sent-planned),
		waited,
		took(first-sent),
		took(last-first),
		took(last-sent))
	row = append(row, chart.Cell{Bar: bar})
	return append(row, chart.Texts(
		tokens(cmp.Or(max(0, r.PromptTokens), r.InputTokens)),
		tokens(r.CachedTokens),
		tokens(r.CompletionTokens),
		r.RequestID)...)
}

// serverLines are what all servers report by time. They are gauges summed over the latest readings of their pages, the
// mean KV cache use, and the prefix hit ratio.
func (p *Pictures) serverLines() []chart.Graph {
	unknown := func(*metrics.Step) float64 { return math.NaN() }
	running := p.line("running", unknown)
	waiting := p.line("waiting", unknown)
	kv := p.line("mean", unknown)
	mostKV := p.line("the fullest engine", unknown)
	hits := p.line("hits", unknown)
	found := make(chart.Values, len(p.all))
	queries := make(chart.Values, len(p.all))
	latest := map[string]scrape.Reading{}
	for _, m := range p.samples {
		step := p.stepAt(float64(max(0, m.AtNS)) / 1e9)
		if m.Error != "" {
			delete(latest, m.URL)
			continue
		}
		before := latest[m.URL]
		latest[m.URL] = m.Reading
		found[step] += growth(before.PrefixHits, m.PrefixHits)
		queries[step] += growth(before.PrefixQueries, m.PrefixQueries)
		hits.Values[step] = found[step] / queries[step] // NaN where nothing was looked up
		running.Values[step], _ = scrape.Total(latest, scrape.Running)
		waiting.Values[step], _ = scrape.Total(latest, scrape.Waiting)
		sum, pages := scrape.Total(latest, scrape.KVUsage)
		kv.Values[step] = sum / pages
		for _, r := range latest {
			if v := r.MostKVUsage; v != nil && !(*v <= mostKV.Values[step]) {
				mostKV.Values[step] = *v
			}
		}
	}
	out := []chart.Graph{
		p.overTime("Requests in the servers, as they report", "", running, waiting),
		p.overTime("KV cache in use", "ratio", kv, mostKV),
		p.overTime("Prefix hits, as the servers count", "ratio", hits),
	}
	known := func(v float64) bool { return !math.IsNaN(v) }
	return slices.DeleteFunc(out, func(g chart.Graph) bool {
		return !slices.ContainsFunc(g.Series[0].Values, known)
	})
}

// growth is by how much a counter has grown; 0 if that is unknown, or its server was restarted.
func growth(before, after *float64) float64 {
	return max(0, zero(orUnknown(after)-orUnknown(before)))
}
