package compare

import (
	"fmt"
	"math"
	"strings"

	"github.com/fastreplay/fastreplay/engine/format"
)

// judge sets the verdict and the sentence of a metric that has all else.
func (m *Metric) judge(s spec) {
	switch {
	case m.Change == nil:
		m.Verdict, m.Sentence = Unknown, s.label+": one side or both lack it"
		return
	case m.Low == nil:
		m.Verdict, m.Sentence = Unknown, s.label+" changed by "+m.signed(*m.Change)+"; there are too few requests for an interval"
		return
	case *m.Low <= 0 && *m.High >= 0:
		m.Verdict, m.Sentence = Same, fmt.Sprintf("no difference seen: %s %s", s.label, m.Interval())
		return
	case m.Floor != nil && math.Abs(*m.Change) <= *m.Floor:
		m.Verdict = InFloor
	case *m.Change > 0 == s.higher:
		m.Verdict = Better
	default:
		m.Verdict = Worse
	}
	direction := "higher"
	if *m.Change < 0 {
		direction = "lower"
	}
	m.Sentence = fmt.Sprintf("B's %s is %s %s %s", s.label, m.amount(math.Abs(*m.Change)), direction, m.ends(*m.Change < 0))
	switch {
	case m.Floor == nil:
		m.Sentence += "; the floor is unknown"
	case m.Verdict == InFloor:
		m.Sentence += ", but the noise floor reaches " + m.amount(*m.Floor)
	default:
		m.Sentence += "; the floor is " + m.amount(*m.Floor)
	}
}

// Interval prints the 95 % interval of the change, such as [−0.4, 0.5] %; "" if there is none.
func (m *Metric) Interval() string {
	if m.Low == nil {
		return ""
	}
	return m.ends(false) + " " + m.unit()
}

// ends prints the interval without its unit, of a fall as its size.
func (m *Metric) ends(fall bool) string {
	low, high := *m.Low, *m.High
	if fall {
		low, high = -high, -low
	}
	return "[" + m.number(low) + ", " + m.number(high) + "]"
}

func (m *Metric) unit() string {
	if m.Unit == "share" {
		return "points"
	}
	return "%"
}

// signed is amount with a + if v is above 0.
func (m *Metric) signed(v float64) string { return strings.Repeat("+", int(b2i(v > 0))) + m.amount(v) }

func (m *Metric) amount(v float64) string { return m.number(v) + " " + m.unit() }

// number prints a change as percent, with two decimals if all of the metric's are small.
func (m *Metric) number(v float64) string {
	most, decimals := math.Abs(v), 1
	for _, end := range []*float64{m.Low, m.High} {
		if end != nil {
			most = max(most, math.Abs(*end))
		}
	}
	if most < 0.01 {
		decimals = 2
	} else if most >= 1 {
		decimals = 0
	}
	text := format.Fixed(100*v, decimals)
	if strings.Trim(text, "-0.") == "" {
		return strings.TrimPrefix(text, "-")
	}
	return strings.Replace(text, "-", "−", 1)
}
