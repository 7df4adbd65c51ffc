package inspect

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/fastreplay/fastreplay/codec/trace"
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
	inputs, outputs, gaps  outline   // tokens; seconds from a row to the next
	turns, apart, thinks   outline   // rows of a session; seconds from turn to turn; think times
	reusedS, reusedTokens  outline   // what lies between two uses of a block
	heldShares             outline   // by row
	inputDots, outputsDots []float64
}

// outline is the shape of a distribution: values of equal weight, ascending, at most 4,096 of n, by rank.
type outline struct {
	n  int
	at []float64
}

// outlineOf sorts the values, which are in units of unit.
func outlineOf[T cmp.Ordered](values []T, number func(T) float64) outline {
	slices.Sort(values)
	o := outline{n: len(values), at: make([]float64, min(len(values), mostValues))}
	for i := range o.at {
		o.at[i] = number(values[(2*i+1)*len(values)/(2*len(o.at))])
	}
	return o
}

func ofTokens(n int32) float64   { return float64(n) }
func ofCount(n int64) float64    { return float64(n) }
func itself(v float64) float64   { return v }
func ofSeconds(ns int64) float64 { return seconds(ns) }

// recorded are the lengths that the trace has.
func recorded(tokens []int32) []int32 {
	return slices.DeleteFunc(slices.Clone(tokens), func(n int32) bool { return n == 0 })
}

// stepOf is the step of an instant within a span; the last step is closed at its end.
func stepOf(ns, span int64, steps uint64) int {
	high, low := bits.Mul64(uint64(ns), steps) // 64 times 292 years is beyond an int64
	step, _ := bits.Div64(high, low, uint64(span))
	return int(min(step, steps-1))
}

// picture draws what follows from the rows alone.
func picture(t *trace.Trace) *pictures {
	p := &pictures{inputs: outlineOf(recorded(t.InputTokens), ofTokens), outputs: outlineOf(recorded(t.OutputTokens), ofTokens)}
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
	for _, list := range []*[]float64{&p.rows, &p.input, &p.output} {
		*list = make([]float64, timeSteps)
	}
	var gaps []int64
	for i, ns := range t.ArrivalNS {
		step := stepOf(ns, span, timeSteps)
		p.rows[step]++
		p.input[step] += float64(t.InputTokens[i])
		p.output[step] += float64(t.OutputTokens[i])
		if i > 0 {
			gaps = append(gaps, ns-t.ArrivalNS[i-1])
		}
	}
	p.gaps = outlineOf(gaps, ofSeconds)
	p.sessions(t, span)
	return p
}

// outlines are those of turns, of times from turn to turn, and of think times; empty without conversations.
func (s *Sessions) outlines() (turns, apart, thinks outline) {
	if s == nil {
		return outline{}, outline{}, outline{}
	}
	return outlineOf(s.turns, ofCount), outlineOf(s.gaps, ofSeconds), outlineOf(s.thinks, ofSeconds)
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
	p.reusedS, p.reusedTokens = outlineOf(f.gapsNS, ofSeconds), outlineOf(f.between, ofCount)
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
	p.heldShares = outlineOf(shares, itself)
	if p.stepS > 0 {
		for step := range held {
			held[step] /= tokens[step] // NaN where no row is
		}
		p.held = held
	}
}

// bars are values between edges that all outlines share.
type bars struct {
	edges   []float64
	log     bool
	shares  [][]float64 // of each outline's values, by bar
	nothing []float64   // share of values of 0, of which a logarithmic axis has no place
}

const mostBars = 40

// barsOf cuts the range of all values into 40 bars, or fewer of whole numbers. The axis is logarithmic if the range is wide,
// but of ratios.
func barsOf(all []outline, whole, ratio bool) bars {
	least, most := math.Inf(1), 0.0
	for _, o := range all {
		if first := slices.IndexFunc(o.at, func(v float64) bool { return v > 0 }); first >= 0 {
			least, most = min(least, o.at[min(len(o.at)-1, first+len(o.at)/1000)]), max(most, o.at[len(o.at)-1])
		}
	}
	b := bars{log: most > 20*least && !ratio && (!whole || most > mostBars)}
	n := mostBars
	switch {
	case ratio:
		least, most = 0, 1
	case !b.log && whole && most-least < mostBars:
		n = int(most-least) + 1
		least, most = least-0.5, most+0.5
	case !b.log:
		least = 0
		most = max(most, 1e-9)
	case whole:
		least, most = max(1, least)-0.5, most+0.5
	}
	for i := range n + 1 {
		share := float64(i) / float64(n)
		edge := least + (most-least)*share
		if b.log {
			edge = least * math.Pow(most/least, share)
		}
		b.edges = append(b.edges, edge)
	}
	for _, o := range all {
		shares, nothing := make([]float64, n), 0.0
		for _, v := range o.at {
			if b.log && v <= 0 {
				nothing += 1 / float64(len(o.at))
				continue
			}
			i, exact := slices.BinarySearch(b.edges, v)
			if !exact {
				i--
			}
			shares[min(n-1, max(0, i))] += 1 / float64(len(o.at))
		}
		b.shares, b.nothing = append(b.shares, shares), append(b.nothing, nothing)
	}
	return b
}
