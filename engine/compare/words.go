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
func (m *Metric) judge(s spec, paired bool) {
	m.Verdict = Unknown
	switch {
	case m.Change == nil:
		m.Sentence = s.label + ": one side or both lack it"
		return
	case m.Low == nil:
		m.Sentence = s.label + " changed by " + m.change() +
			map[bool]string{true: "; there are too few requests for an interval", false: ""}[paired]
		return
	case *m.Low <= 0 && *m.High >= 0:
		m.Verdict, m.Sentence = Same, fmt.Sprintf("no difference seen: %s %s %s", s.label, m.ends(), m.sign(m.times()))
		return
	}
	fall := *m.Change < 0
	reached := ", but the noise floor reaches "
	by := ""
	if m.FloorFrom != "" {
		reached = ", but " + m.FloorFrom + " may have moved it by "
		by = " (" + m.FloorFrom + ")"
	}
	m.Sentence = fmt.Sprintf("B's %s is %s %s %s",
		s.label, m.amount(math.Abs(*m.Change), false),
		map[bool]string{true: "lower", false: "higher"}[fall], m.ends())
	if m.times() {
		m.Sentence = fmt.Sprintf("B's %s is %s A's %s", s.label, m.change(), m.ends())
	}
	switch {
	case m.Floor == nil:
		m.Sentence += ", but there is no floor: nobody knows what noise does"
	case math.Abs(*m.Change) <= *m.Floor:
		m.Verdict = InFloor
		m.Sentence += reached + m.amount(*m.Floor, false)
	default:
		m.Verdict = map[bool]string{true: Better, false: Worse}[fall != s.higher]
		m.Sentence += "; the floor is " + m.amount(*m.Floor, false) + by
	}
}

func (m *Metric) changed() bool { return m.Verdict == Worse || m.Verdict == Better }

// ends prints the interval without its unit.
func (m *Metric) ends() string {
	print := m.number
	if m.times() {
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
func (m *Metric) times() bool { return m.Unit != "share" && *m.Change > large }

// factor prints a change as what A is multiplied by.
func factor(change float64) string { return format.Short(1 + change) }

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

// Gate is a limit to the change of a metric. ParseGate makes it.
type Gate struct {
	Text   string  // as given
	Metric string  // such as ttft.p99
	Limit  float64 // of the change, as in Metric.Change: 0.05 is 5 % more, or of shares 5 points more
}

// ParseGate reads a limit such as "ttft.p99:+5%" (no more than 5 % longer), "output_tokens_per_s:-3%" or
// "error_rate:+0.5%", which is half a percentage point. Its sign is that of a change for the worse.
func ParseGate(text string) (g Gate, err error) {
	name, limit, _ := strings.Cut(text, ":")
	name = strings.ReplaceAll(strings.ToLower(strings.TrimSpace(name)), "-", "_")
	all := specs()
	i := slices.IndexFunc(all, func(s spec) bool { return s.name == name })
	if i < 0 {
		names := map[bool][]string{} // by whether more is better
		for _, s := range all {
			names[s.higher] = append(names[s.higher], s.name)
		}
		return g, fmt.Errorf("%q: want METRIC:+5%% of %s; or METRIC:-5%% of %s",
			text, strings.Join(names[false], ", "), strings.Join(names[true], ", "))
	}
	number, percent := strings.CutSuffix(strings.TrimSpace(limit), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(strings.Replace(number, "−", "-", 1)), 64)
	worse := map[bool]string{
		false: "less is better, so a limit is a rise, such as +5%",
		true:  "more is better, so a limit is a fall, such as -5%",
	}[all[i].higher]
	if err != nil || !percent || !finite(v) || v < 0 != all[i].higher && v != 0 {
		return g, fmt.Errorf("%q: of %s %s", text, name, worse)
	}
	return Gate{text, name, v / 100}, nil
}

// Judge says whether a result passes a gate, and why. It does not if the change is worse than the limit, its interval
// excludes 0, and it is beyond the noise floor. So a change that noise may explain passes. A metric that is unknown
// does not pass, since nothing vouches for it.
func (r *Result) Judge(g Gate) (passed bool, words string) {
	m := &r.Metrics[slices.IndexFunc(r.Metrics, func(m Metric) bool { return m.Name == g.Metric })]
	passed = m.Verdict != Unknown && (m.Verdict != Worse || math.Abs(*m.Change) <= math.Abs(g.Limit))
	if words = g.Text + ": " + m.Sentence; m.Verdict != Unknown {
		words = fmt.Sprintf("%s: %s %s, %s", g.Text, m.change(), m.ends(), m.Verdict)
	}
	if m.Floor != nil && m.Verdict != Same && m.Verdict != Unknown {
		words += "; the floor is " + m.amount(*m.Floor, false)
	}
	return passed, words
}
