package inspect

import (
	"math/bits"
	"slices"

	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/chart"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// Bounds of the HTML page, so that it opens at once.
const (
	timeSteps  = 120  // of a trace, from its first row to its last
	mostValues = 4096 // of an outline
	mostDots   = 3000 // rows that are drawn one by one: a sample beyond
)

// heldTitle is of a graph that is a ratio.
const heldTitle = "Share of the input tokens that a cache without a limit would have held"

// pictures is what the HTML page draws of a trace and the report does not have.
type pictures struct {
	stepS         float64                   // 0 where the trace has no times; then there are no series
	series        map[string][]chart.Series // by time, a value for each step, by the titles of graphs
	distributions map[string]distribution   // by the titles of graphs
	dots          []dot
}

// distribution is an outline of values.
type distribution struct {
	chart.Sample
	unit  string // s, ratio or ""
	whole bool   // values are whole numbers
}

// dot is a row that has both lengths.
type dot struct{ input, output float64 }

func newPictures() *pictures {
	return &pictures{
		series:        map[string][]chart.Series{},
		distributions: map[string]distribution{},
	}
}

// describe describes values, and keeps their outline: of ns if the unit is s, else of whole numbers.
func (p *pictures) describe(title, unit string, values []int64) *stats.Percentiles {
	size := 1.0
	if unit == "s" {
		size = 1e9
	}
	p.distributions[title] = distribution{outlineOf(values, size), unit, unit == ""}
	return stats.Describe(values, size)
}

// outlineOf sorts the values and divides them by unit. The outline has at most 4,096 of them, by rank.
func outlineOf[T int32 | int64 | float64](values []T, unit float64) chart.Sample {
	slices.Sort(values)
	return outline(int64(len(values)), func(rank int64) float64 {
		return float64(values[rank-1]) / unit
	})
}

// outlineOfCounted is outlineOf for values that are sorted and counted.
func outlineOfCounted(values []stats.Counted, unit float64) chart.Sample {
	size, ranked := stats.Ranked(values)
	return outline(size, func(rank int64) float64 {
		return float64(ranked(rank)) / unit
	})
}

// outline asks for values by their rank, from 1, in rising order.
func outline(size int64, ranked func(int64) float64) (o chart.Sample) {
	n := min(size, mostValues)
	for i := range n {
		rank := 1 + (2*i+1)*size/(2*n)
		o.At = append(o.At, ranked(rank))
		o.Counts = append(o.Counts, float64(size)/float64(n))
	}
	return o
}

// stepOf is the step of an instant within a span; the last step is closed at its end.
func stepOf(ns, span int64, steps uint64) int {
	high, low := bits.Mul64(uint64(ns), steps) // 64 times 292 years is beyond an int64
	step, _ := bits.Div64(high, low, uint64(span))
	return int(min(step, steps-1))
}

// newSteps is a value for each step.
func newSteps() chart.Values { return make(chart.Values, timeSteps) }

// picture draws what follows from the rows alone.
func picture(t *trace.Trace) *pictures {
	p := newPictures()
	for i := 0; i < t.Len(); i += (t.Len() + mostDots - 1) / mostDots {
		if t.InputTokens[i] > 0 && t.OutputTokens[i] > 0 {
			p.dots = append(p.dots, dot{
				input:  float64(t.InputTokens[i]),
				output: float64(t.OutputTokens[i]),
			})
		}
	}
	span := t.SpanNS()
	if t.Untimed || span == 0 {
		return p
	}
	p.stepS = seconds(span) / timeSteps
	rows := newSteps()
	input := newSteps()
	output := newSteps()
	for i, ns := range t.ArrivalNS {
		step := stepOf(ns, span, timeSteps)
		rows[step]++
		input[step] += float64(t.InputTokens[i])
		output[step] += float64(t.OutputTokens[i])
	}
	for step := range rows {
		input[step] /= p.stepS
		output[step] /= p.stepS
	}
	p.series["Rows by time"] = []chart.Series{{
		Name:   "rows",
		Style:  chart.Bars,
		Values: rows,
	}}
	p.series["Input tokens/s"] = []chart.Series{{Name: "tokens/s", Values: input}}
	p.series["Output tokens/s"] = []chart.Series{{Name: "tokens/s", Values: output}}
	if t.Session != nil {
		p.addSessions(t, span)
	}
	return p
}

// addSessions counts conversations by time.
func (p *pictures) addSessions(t *trace.Trace, span int64) {
	first := map[int64]int{} // steps
	last := map[int64]int{}
	for i, ns := range t.ArrivalNS {
		id := t.Session[i]
		last[id] = stepOf(ns, span, timeSteps)
		if _, known := first[id]; !known {
			first[id] = last[id]
		}
	}
	begun := newSteps()
	active := newSteps()
	for id, from := range first {
		begun[from]++
		for step := from; step <= last[id]; step++ {
			active[step]++
		}
	}
	p.series["Conversations by time"] = []chart.Series{
		{Name: "between first and last turn", Values: active},
		{Name: "begun", Values: begun},
	}
}

// rowHeld is what a cache without a limit would have held of a row's prompt.
type rowHeld struct {
	atNS         int64
	tokens, held int32
}

// addHeld draws what f found.
func (p *pictures) addHeld(f *follower, span int64) {
	var shares []float64
	tokens := newSteps()
	held := newSteps()
	for _, r := range f.held {
		shares = append(shares, float64(r.held)/float64(r.tokens))
		if p.stepS > 0 {
			step := stepOf(r.atNS, span, timeSteps)
			tokens[step] += float64(r.tokens)
			held[step] += float64(r.held)
		}
	}
	for step := range held {
		held[step] /= tokens[step] // NaN where no row is
	}
	if p.stepS > 0 {
		p.series[heldTitle] = []chart.Series{{
			Name:   "held",
			Values: held,
			Gaps:   true,
		}}
	}
	for title, d := range map[string]distribution{
		"Share of a row's prompt that it would have held": {outlineOf(shares, 1), "ratio", false},
		"Time since the last use of a repeated block":     {outlineOfCounted(f.gapsNS, 1e9), "s", false},
		"Tokens of other blocks used since":               {outlineOfCounted(f.between, 1), "", false},
	} {
		p.distributions[title] = d
	}
}
