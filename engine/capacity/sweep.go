package capacity

import (
	"cmp"
	"encoding/csv"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/fastreplay/fastreplay/engine/chart"
)

// Sweep probes given loads in their order, each for its whole window. It is for one goroutine.
type Sweep struct {
	*Search // judges probes, if there are objectives
	at      []float64
}

// NewSweep makes a sweep over loads. There may be no objectives.
func NewSweep(c Config, at []float64) *Sweep {
	s := &Search{config: c}
	s.update()
	return &Sweep{s, at}
}

// Next returns the probe to try, or false if all loads were probed.
func (s *Sweep) Next() (Probe, bool) {
	n := len(s.outcomes)
	if n >= len(s.at) {
		return Probe{}, false
	}
	return Probe{
		Number: n + 1,
		Load:   s.at[n],
	}, true
}

// Window returns how long the window of a probe is, in s. Nothing is added to its warm-in.
func (s *Sweep) Window(Probe) (seconds, settleS float64) {
	return s.config.WindowS, 0
}

// Stop ends the sweep before its time, and says why in a whole sentence.
func (s *Sweep) Stop(why string) {
	s.stopped = why
	s.at = nil
}

// Why is why the sweep ended before its time; "" if it did not.
func (s *Sweep) Why() string { return s.stopped }

// Peek ends a probe with its window. What a search may take for granted of a load far from the edge, a sweep does not.
func (s *Sweep) Peek(p Probe, peek Peek) Decision {
	if !peek.Ended {
		return Decision{}
	}
	if len(s.config.Objectives) == 0 {
		why := ""
		if !slices.ContainsFunc(peek.Slices, func(t Slice) bool { return t.Requests > 0 }) {
			why = noRequest("")
		}
		return Decision{End: true, Why: why}
	}
	d := s.Search.Peek(p, peek)
	if few := s.tooFew(peek); d.Verdict == Holds && few != "" {
		d.Verdict = Unsure
		d.Why = few
	}
	return d
}

// measure is a number of every probe.
type measure struct{ name, label, unit string }

// Throughput, as verdict.Quantities has it.
const (
	requestsPerS = "requests_per_s"
	tokensPerS   = "output_tokens_per_s"
)

// measures are the numbers of every probe, besides those that its objectives bound, in the order of a table.
func measures() []measure {
	return []measure{
		{requestsPerS, "Throughput, requests/s", ""},
		{tokensPerS, "Throughput, output tokens/s", ""},
		{"ttft.p50", "TTFT p50", "ms"},
		{"ttft.p95", "TTFT p95", "ms"},
		{"tpot.p50", "TPOT p50", "ms"},
		{"tpot.p95", "TPOT p95", "ms"},
		{"e2e.p50", "E2E p50", "ms"},
		{"e2e.p95", "E2E p95", "ms"},
		{ErrorRate, "Failures", "ratio"},
		{PrefixHits, "Prefix hits", "ratio"},
	}
}

// curves are latencies by throughput, with the median and p95 of each.
func (p *Page) curves() (all []chart.Graph) {
	byThroughput := slices.DeleteFunc(slices.Clone(p.Outcomes), func(o Outcome) bool {
		_, known := o.Numbers["e2e.p50"]
		return !known || o.Client != ""
	})
	if len(byThroughput) < 2 {
		return nil
	}
	slices.SortStableFunc(byThroughput, func(a, b Outcome) int {
		return cmp.Compare(a.Numbers[tokensPerS], b.Numbers[tokensPerS])
	})
	var at chart.Values
	var loads []string
	for i := range byThroughput {
		at = append(at, byThroughput[i].Numbers[tokensPerS])
		loads = append(loads, p.Number(byThroughput[i].Load))
	}
	// a line tells which load follows another
	ordered := slices.IsSortedFunc(byThroughput, func(a, b Outcome) int { return cmp.Compare(a.Load, b.Load) })
	for _, m := range measures() {
		if m.unit != "ms" {
			continue
		}
		title, percentile, _ := strings.Cut(m.label, " ")
		series := withInterval(byThroughput, percentile, m.name)
		if !ordered {
			series.Style = chart.Dots
		}
		if !slices.ContainsFunc(series.Values, func(v float64) bool { return !math.IsNaN(v) }) {
			continue
		}
		series.Names = loads // beside the last series alone
		if last := len(all) - 1; last >= 0 && all[last].Title == title+" by throughput" {
			all[last].Series[0].Names = nil
			all[last].Series = append(all[last].Series, series)
			continue
		}
		all = append(all, chart.Graph{
			Title:  title + " by throughput",
			Sync:   "throughput",
			X:      chart.Axis{Label: "output tokens/s", From: new(0.0), To: new(1.1 * slices.Max(append(at, 1)))},
			Y:      chart.Axis{Unit: m.unit, From: new(0.0)},
			At:     at,
			Series: []chart.Series{series},
		})
	}
	return all
}

// withInterval is a number of outcomes, with the ends of its interval where they are known; NaN where it is not.
func withInterval(outcomes []Outcome, label, name string) chart.Series {
	s := chart.Series{Name: label, Style: chart.Points}
	for i := range outcomes {
		value, has := outcomes[i].Numbers[name]
		interval, bounded := outcomes[i].Intervals[name]
		if !has {
			value = math.NaN()
		}
		if !bounded {
			interval = [2]float64{math.NaN(), math.NaN()}
		}
		s.Values = append(s.Values, value)
		s.Low = append(s.Low, interval[0])
		s.High = append(s.High, interval[1])
	}
	return s
}

// WriteCSV writes a row for each outcome: its load, every number with the ends of its 95 % interval, and the verdict.
// What is not known is empty.
func (p *Page) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	var owners []string
	for _, o := range p.Outcomes {
		owners = append(owners, o.Owners...)
	}
	names := quantities(p.Objectives, owners...)
	head := []string{"load"}
	for _, name := range names {
		head = append(head, name, name+"_low", name+"_high")
	}
	err := out.Write(append(head, "verdict"))
	number := func(v float64, known bool) string {
		if !known {
			return ""
		}
		return strconv.FormatFloat(v, 'g', 6, 64)
	}
	for _, o := range p.Outcomes {
		row := []string{number(o.Load, true)}
		for _, name := range names {
			v, known := o.Numbers[name]
			interval, has := o.Intervals[name]
			row = append(row, number(v, known), number(interval[0], has), number(interval[1], has))
		}
		err = cmp.Or(err, out.Write(append(row, o.Word())))
	}
	out.Flush()
	return cmp.Or(err, out.Error())
}
