package compare

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/fastreplay/fastreplay/engine/format"
)

// judge sets the verdict and the sentence of a metric that has all else.
func (m *Metric) judge(s spec, r *Result) {
	m.Verdict = Unknown
	m.gained = m.Change != nil && *m.Change < 0 != s.higher
	pair := r.Scope == ScopePair
	switch {
	case m.Change == nil && m.A != nil:
		m.brief = "one side is 0"
		m.Sentence = fmt.Sprintf("%s is %s in A and %s in B, and no change in percent: one is 0",
			s.label, m.value(m.A), m.value(m.B))
		return
	case m.Change == nil:
		m.brief = "not in both"
		m.Sentence = s.label + ": one side or both lack it"
		return
	case m.Low == nil:
		m.Sentence = s.label + " changed by " + m.change()
		if m.why != "" {
			m.Sentence += "; " + m.why
		}
		return
	case *m.Low <= 0 && *m.High >= 0:
		m.Verdict = Unclear
		m.Sentence = fmt.Sprintf("no difference seen: %s %s %s", s.label, m.ends(), m.sign(m.times()))
		if m.why != "" {
			m.Verdict = Unknown
			m.Sentence = fmt.Sprintf("%s changed by %s %s; %s", s.label, m.change(), m.ends(), m.why)
		}
		if !pair && max(-*m.Low, *m.High) <= r.Margin {
			m.Verdict = Same
			m.Sentence = fmt.Sprintf("%s is the same within %s: %s %s",
				s.label, m.amount(r.Margin, false), m.ends(), m.sign(m.times()))
		}
	default:
		m.Verdict = Differs
		is := "was" // in these runs
		if !pair {
			m.Verdict = m.direction()
			is = "is"
		}
		m.Sentence = fmt.Sprintf("B's %s %s %s %s %s",
			s.label, is, m.amount(math.Abs(*m.Change), false),
			map[bool]string{
				true:  "lower",
				false: "higher",
			}[*m.Change < 0], m.ends())
		if m.times() {
			m.Sentence = fmt.Sprintf("B's %s %s %s A's %s", s.label, is, m.change(), m.ends())
		}
	}
	if m.Client {
		m.Sentence += "; lateness of the client is in the interval"
	}
}

// word is the verdict for people or, if there is none, why, in at most 16 columns.
func (m *Metric) word() string {
	switch m.Verdict {
	case Differs:
		return m.direction() + " (one run)"
	case Unclear:
		return "may be chance"
	case Unknown:
		return cmp.Or(m.brief, m.Verdict)
	}
	return m.Verdict
}

// direction is which way a number went, surely or not.
func (m *Metric) direction() string {
	if m.gained {
		return Better
	}
	return Worse
}

func (m *Metric) changed() bool {
	return m.Verdict == Worse || m.Verdict == Better || m.Verdict == Differs
}

// ends prints the interval without its unit. Requests that depend on each other may leave ends of 10^170 and 10^-12.
func (m *Metric) ends() string {
	print := m.number
	switch {
	case *m.Low < -0.995 && (*m.High > large || m.Unit == "share" && *m.High > 0.995):
		return "[unbounded]"
	case m.times():
		print = factor
	}
	return "[" + print(*m.Low) + ", " + print(*m.High) + "]"
}

// sign is the unit of a change.
func (m *Metric) sign(times bool) string {
	switch {
	case times:
		return "×"
	case m.Unit == "share":
		return "points"
	}
	return "%"
}

// times reports whether the change is so large that it is printed as a factor, and its interval, too.
func (m *Metric) times() bool {
	return m.Unit != "share" && *m.Change > large
}

// factor prints a change as what A is multiplied by.
func factor(change float64) string {
	return format.Short(1 + change)
}

// change prints the change with its unit, and with a + if it is a rise in percent.
func (m *Metric) change() string {
	if m.times() {
		return factor(*m.Change) + " ×"
	}
	return m.amount(*m.Change, true)
}

// amount prints a change with its unit, and with a + if that is asked for and it is above 0.
func (m *Metric) amount(v float64, plus bool) string {
	text := m.number(v) + " " + m.sign(false)
	if plus && v > 0 {
		return "+" + text
	}
	return text
}

// large is a change above which nobody thinks in percent.
const large = 10

// number prints a change as percent, with two decimals if all of the metric's are small.
func (m *Metric) number(v float64) string {
	largest := math.Abs(v)
	decimals := 1
	for _, end := range []*float64{m.Low, m.High} {
		if end != nil {
			largest = max(largest, math.Abs(*end))
		}
	}
	switch {
	case v > large:
		return ">1,000"
	case largest < 0.01:
		decimals = 2
	case largest >= 1:
		decimals = 0
	}
	text := format.Fixed(100*v, decimals)
	if strings.Trim(text, "-0.") == "" {
		return strings.TrimPrefix(text, "-")
	}
	return strings.Replace(text, "-", "−", 1)
}
