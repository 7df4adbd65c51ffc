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
	case m.Change == nil || m.Low == nil:
		m.Verdict, m.Sentence = Unknown, m.unknown(s)
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

// unknown says what is missing.
func (m *Metric) unknown(s spec) string {
	switch {
	case m.Change != nil && strings.HasPrefix(m.Name, "itl."):
		return fmt.Sprintf("%s changed by %s; runs keep no single gaps, so there is no interval", s.label, m.signed(*m.Change))
	case m.Change != nil:
		return fmt.Sprintf("%s changed by %s; there are too few requests for an interval", s.label, m.signed(*m.Change))
	}
	return s.label + ": one side or both lack it"
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

func (m *Metric) amount(v float64) string { return m.number(v) + " " + m.unit() }

func (m *Metric) signed(v float64) string {
	if v > 0 {
		return "+" + m.amount(v)
	}
	return m.amount(v)
}

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
