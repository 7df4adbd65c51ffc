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

// pictures is what the HTML page draws of a trace and the report does not have: series by time, and outlines of distributions.
type pictures struct {
	stepS                  float64   // 0 where the trace has no times; then there are no series
	rows, input, output    []float64 // rows and tokens by step
	begun, active          []float64 // sessions by step: those with their first row, and those between their first and last
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
	return outline(int64(len(values)), func(rank int64) float64 { return float64(values[rank-1]) / unit })
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

func newPictures() *pictures { return &pictures{outlines: map[string]chart.Sample{}} }

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
			p.inputDots, p.outputsDots = append(p.inputDots, float64(t.InputTokens[i])), append(p.outputsDots, float64(t.OutputTokens[i]))
		}
	}
	span := t.SpanNS()
	if t.Untimed || span == 0 {
		return p
	}
	p.stepS = seconds(span) / timeSteps
	p.rows, p.input, p.output = make([]float64, timeSteps), make([]float64, timeSteps), make([]float64, timeSteps)
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
	p.begun, p.active = make([]float64, timeSteps), make([]float64, timeSteps)
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
		return outline(size, func(rank int64) float64 { return float64(ranked(rank)) / unit })
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
