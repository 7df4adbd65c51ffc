package compare

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

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
	all := specs()
	i := slices.IndexFunc(all, func(s spec) bool { return s.name == name })
	if i < 0 {
		var names []string
		for _, s := range all {
			names = append(names, s.name)
		}
		return g, fmt.Errorf("%q is no metric of a comparison; there are %s", name, strings.Join(names, ", "))
	}
	number, percent := strings.CutSuffix(strings.TrimSpace(limit), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(strings.Replace(number, "−", "-", 1)), 64)
	switch {
	case err != nil || !percent || math.IsInf(v, 0) || math.IsNaN(v):
		return g, fmt.Errorf("%q: %q is no change; want a percentage with a sign, such as +5%%", text, limit)
	case v < 0 && !all[i].higher:
		return g, fmt.Errorf("%q: less is better of %s, so its limit is a rise, such as +5%%", text, name)
	case v > 0 && all[i].higher:
		return g, fmt.Errorf("%q: more is better of %s, so its limit is a fall, such as -5%%", text, name)
	}
	return Gate{text, name, v / 100}, nil
}

// Break is a gate that a result does not pass.
type Break struct {
	Gate   Gate
	Metric Metric
	Words  string // one sentence
}

// Breaks returns the gates that the result breaks. A change breaks a gate if it is worse than the limit, its interval excludes 0, and it
// is larger than the noise floor. So a change that noise may explain breaks none. A metric without a change or an interval breaks its
// gate, since nothing is known of it.
func (r *Result) Breaks(gates []Gate) (all []Break) {
	for _, g := range gates {
		m := Metric{Name: g.Metric, Verdict: Unknown, Sentence: "the result has no such metric"}
		if i := slices.IndexFunc(r.Metrics, func(m Metric) bool { return m.Name == g.Metric }); i >= 0 {
			m = r.Metrics[i]
		}
		if m.Verdict == Unknown || m.Verdict == Worse && math.Abs(*m.Change) > math.Abs(g.Limit) {
			all = append(all, Break{g, m, g.Text + ": " + m.Sentence})
		}
	}
	return all
}
