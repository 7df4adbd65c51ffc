package compare

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/fastreplay/fastreplay/engine/format"
)

// judge sets the verdict and the sentence of a metric that has all else.
func (m *Metric) judge(s spec) {
	m.Verdict = Unknown
	switch {
	case m.Change == nil:
		m.Sentence = s.label + ": one side or both lack it"
		return
	case m.Low == nil:
		m.Sentence = s.label + " changed by " + m.amount(*m.Change, true) + "; there are too few requests for an interval"
		return
	case *m.Low <= 0 && *m.High >= 0:
		m.Verdict, m.Sentence = Same, fmt.Sprintf("no difference seen: %s %s %s", s.label, m.ends(false), m.sign())
		return
	}
	direction, fall := "higher", *m.Change < 0
	if fall {
		direction = "lower"
	}
	m.Sentence = fmt.Sprintf("B's %s is %s %s %s", s.label, m.amount(math.Abs(*m.Change), false), direction, m.ends(fall))
	switch {
	case m.Floor == nil:
		m.Sentence += ", but there is no floor: nobody knows what noise does"
	case math.Abs(*m.Change) > *m.Floor:
		m.Sentence += "; the floor is " + m.amount(*m.Floor, false)
		if m.FloorFrom != "" {
			m.Sentence += " (" + m.FloorFrom + ")"
		}
		if m.Verdict = Worse; fall != s.higher {
			m.Verdict = Better
		}
	case m.FloorFrom != "":
		m.Verdict = InFloor
		m.Sentence += ", but " + m.FloorFrom + " may have moved it by " + m.amount(*m.Floor, false)
	default:
		m.Verdict = InFloor
		m.Sentence += ", but the noise floor reaches " + m.amount(*m.Floor, false)
	}
}

// ends prints the interval without its unit, of a fall as its size.
func (m *Metric) ends(fall bool) string {
	low, high := m.number(*m.Low), m.number(*m.High)
	if fall {
		low, high = m.number(-*m.High), m.number(-*m.Low)
	}
	if low == most && high == most {
		return most
	}
	return "[" + low + ", " + high + "]"
}

func (m *Metric) sign() string {
	if m.Unit == "share" {
		return "points"
	}
	return "%"
}

// amount prints a change with its unit, and with a + if that is asked for and it is above 0.
func (m *Metric) amount(v float64, plus bool) string {
	text := m.number(v) + " " + m.sign()
	if plus && v > 0 && !strings.HasPrefix(text, ">") {
		return "+" + text
	}
	return text
}

// most is what is printed of a larger change.
const most = ">1,000"

// number prints a change as percent, with two decimals if all of the metric's are small.
func (m *Metric) number(v float64) string {
	largest, decimals := math.Abs(v), 1
	for _, end := range []*float64{m.Low, m.High} {
		if end != nil {
			largest = max(largest, math.Abs(*end))
		}
	}
	switch {
	case v > 10:
		return most
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

// Gate is a limit to the change of a metric. ParseGate makes it.
type Gate struct {
	Text   string  // as given
	Metric string  // such as ttft.p99
	Limit  float64 // of the change, as in Metric.Change: 0.05 is 5 % more, or of shares 5 points more
}

// ParseGate reads a limit such as "ttft.p99:+5%" (no more than 5 % longer), "output_tokens_per_s:-3%" or "error_rate:+0.5%", which is half
// a percentage point. Its sign is that of a change for the worse.
func ParseGate(text string) (g Gate, err error) {
	name, limit, found := strings.Cut(text, ":")
	if !found {
		return g, fmt.Errorf("%q: want METRIC:CHANGE, such as ttft.p99:+5%%", text)
	}
	name = strings.ReplaceAll(strings.ToLower(strings.TrimSpace(name)), "-", "_")
	var names []string
	for _, s := range specs() {
		names = append(names, s.name)
	}
	i := slices.Index(names, name)
	if i < 0 {
		return g, fmt.Errorf("%q is no metric of a comparison; there are %s", name, strings.Join(names, ", "))
	}
	number, percent := strings.CutSuffix(strings.TrimSpace(limit), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(strings.Replace(number, "−", "-", 1)), 64)
	switch higher := specs()[i].higher; {
	case err != nil || !percent || !finite(v):
		return g, fmt.Errorf("%q: %q is no change; want a percentage with a sign, such as +5%%", text, limit)
	case v < 0 && !higher:
		return g, fmt.Errorf("%q: less is better of %s, so its limit is a rise, such as +5%%", text, name)
	case v > 0 && higher:
		return g, fmt.Errorf("%q: more is better of %s, so its limit is a fall, such as -5%%", text, name)
	}
	return Gate{text, name, v / 100}, nil
}

// Breaks returns a sentence for each gate that the result breaks. A change breaks a gate if it is worse than the limit, its interval
// excludes 0, and it is larger than the noise floor. So a change that noise may explain breaks none. A metric that is unknown breaks its
// gate, since nothing vouches for it.
func (r *Result) Breaks(gates []Gate) (all []string) {
	for _, g := range gates {
		i := slices.IndexFunc(r.Metrics, func(m Metric) bool { return m.Name == g.Metric })
		if i < 0 {
			all = append(all, g.Text+": the result has no such metric")
		} else if m := &r.Metrics[i]; m.Verdict == Unknown || m.Verdict == Worse && math.Abs(*m.Change) > math.Abs(g.Limit) {
			all = append(all, g.Text+": "+m.Sentence)
		}
	}
	return all
}
