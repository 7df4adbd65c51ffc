package compare

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/stats"
	"github.com/fastreplay/fastreplay/engine/verdict"
)

// Gate is a limit to the change of a metric. ParseGate makes it.
type Gate struct {
	Text   string  // as given
	Owner  string  // whose requests alone it is about, such as class=gold; "" = all
	Metric string  // such as ttft.p99
	Limit  float64 // of the change, as in Metric.Change: 0.05 is 5 % more, or of shares 5 points more
	higher bool    // is better
}

// ParseGate reads a limit such as "ttft.p99:+5%" (no more than 5 % longer), "output_tokens_per_s:-3%" or
// "error_rate:+0.5%", which is half a percentage point. Its sign is that of a change for the worse. An owner may stand
// before it: "class=gold ttft.p95:+5%".
func ParseGate(text string) (g Gate, err error) {
	owner, rest := cutOwner(text)
	name, limit, hasLimit := strings.Cut(rest, ":")
	name = strings.ReplaceAll(strings.ToLower(strings.TrimSpace(name)), "-", "_")
	all := specs()
	i := slices.IndexFunc(all, func(s spec) bool {
		return s.name == name
	})
	if i < 0 {
		names := map[bool][]string{} // by whether more is better
		for _, s := range all {
			names[s.higher] = append(names[s.higher], s.name)
		}
		return g, &metrics.UnknownName{Name: name, Names: slices.Concat(names[false], names[true]), Why: fmt.Sprintf(
			"%q: want METRIC:+5%% of %s; or METRIC:-5%% of %s",
			text, strings.Join(names[false], ", "), strings.Join(names[true], ", "))}
	}
	if !hasLimit {
		return g, fmt.Errorf("%q has no limit; want one, such as %s:%s", text, name,
			map[bool]string{
				false: "+5%",
				true:  "-5%",
			}[all[i].higher])
	}
	number, percent := strings.CutSuffix(strings.TrimSpace(limit), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(strings.Replace(number, "−", "-", 1)), 64)
	worse := map[bool]string{
		false: "less is better, so a limit is a rise, such as +5%",
		true:  "more is better, so a limit is a fall, such as -5%",
	}[all[i].higher]
	if err == nil && !percent {
		return g, fmt.Errorf("%q has no %% behind its limit; want %s:%s%%", text, name, strings.TrimSpace(limit))
	}
	if err != nil || !finite(v) || v < 0 != all[i].higher && v != 0 {
		return g, fmt.Errorf("%q: of %s %s", text, name, worse)
	}
	return Gate{text, owner, name, v / 100, all[i].higher}, nil
}

// Answer is what a gate says of a result.
type Answer string

// The answers of a gate.
const (
	Passed    Answer = "PASSED"    // the whole interval is within the limit
	Failed    Answer = "FAILED"    // the whole interval is beyond the limit
	Undecided Answer = "UNDECIDED" // neither
)

// Judge says whether a result passes a gate, and why, or what would decide. One pair of runs decides nothing, since it
// does not tell how far runs differ. Nor do runs that began with unlike caches. Nor does a number decide that may in
// truth be another one, or a latency that failed requests of the better side may have had.
func (r *Result) Judge(g Gate) (answer Answer, words string) {
	part := r.ofOwner(g.Owner)
	if part == nil && slices.Contains(r.leftOut, g.Owner) {
		return Undecided, fmt.Sprintf("%s: %s is not among the %d with the most requests", g.Text, g.Owner, mostParts)
	}
	if part == nil {
		return Undecided, g.Text + ": the runs have no requests to compare of " + g.Owner
	}
	m := named(part, g.Metric)
	if m.Low == nil {
		words = g.Text + ": " + m.Sentence
		if r.Scope == ScopePair && !strings.Contains(words, "runs a side") {
			words += r.unknownSpread()
		}
		return Undecided, words
	}
	words = fmt.Sprintf("%s: %s %s, %s", g.Text, m.change(), m.ends(), m.word())
	best := *m.Low
	worst := *m.High
	limit := g.Limit
	if g.higher {
		best = -*m.High
		worst = -*m.Low
		limit = -g.Limit
	}
	switch {
	case r.shifted(g.Metric):
		return Undecided, words + "; " + r.shift.What
	case r.lengthens(g.Metric) && otherLengths(part) != "":
		return Undecided, words + "; " + otherLengths(part)
	case r.unlikeCaches != "":
		return Undecided, words + fmt.Sprintf(unlike, r.unlikeCaches)
	case r.Scope != ScopeServers:
		return Undecided, words + r.unknownSpread()
	case worst <= limit+rounding && verdict.FailuresHide(m.Name, moreFailed(part)):
		return Undecided, words + fmt.Sprintf(hidden, "B")
	case worst <= limit+rounding:
		return Passed, words
	case best > limit+rounding && verdict.FailuresHide(m.Name, -moreFailed(part)):
		return Undecided, words + fmt.Sprintf(hidden, "A")
	case best > limit+rounding:
		return Failed, words
	}
	runs := min(len(r.A.Dirs), len(r.B.Dirs))
	switch {
	case r.separate:
		return Undecided, words + "; runs by turns (--interleave) would tell more"
	case runs < fewestRuns:
		return Undecided, words + fmt.Sprintf("; %d runs a side would tell more", fewestRuns)
	}
	return Undecided, words + "; " + m.decides(g.Limit, runs)
}

// otherLengths says that answers of one side are longer; "" if by no more than is called same.
func otherLengths(part []Metric) string {
	m := named(part, outputTokens)
	if !m.changed() || math.Abs(*m.Change) <= sameWithin {
		return ""
	}
	return m.Sentence
}

// shifted reports whether a number may in truth be another one.
func (r *Result) shifted(name string) bool {
	return r.rests(name, func(latency string) bool { return r.shift != nil && r.shift.Code.Shifts(latency) != 0 })
}

// lengthens reports whether a number is another one if answers have other lengths.
func (r *Result) lengthens(name string) bool {
	return r.rests(name, func(latency string) bool {
		return slices.Contains([]string{"e2e", "e2e_planned", "ntpot"}, latency)
	})
}

// rests reports whether a number is of such a latency, by its key, or is goodput by a bound on one.
func (r *Result) rests(name string, on func(latency string) bool) bool {
	latency, _, _ := strings.Cut(name, ".")
	bounded := func(o metrics.SLO) bool {
		return on(metrics.Latencies()[o.Latency].Key)
	}
	return on(latency) || name == "goodput" && slices.ContainsFunc(r.bounds, bounded)
}

// unknownSpread is said of sides of which one has a single run.
func (r *Result) unknownSpread() string {
	if r.ofRecord() {
		return "; how far the recorded day differs from others is not known"
	}
	return "; how far runs differ is not known: 3 runs a side would tell"
}

// hidden is said of requests that failed in one side.
const hidden = "; %s failed more requests, and how long they would have taken is unknown: a load that both sides " +
	"carry would tell; error_rate has a limit of its own"

// unlike is said of runs that began with other caches.
const unlike = "; %s differs, so caches may be the cause: the same in all runs would tell"

// named is the metric of that name, which all results have.
func named(all []Metric, name string) *Metric {
	return &all[slices.IndexFunc(all, func(m Metric) bool { return m.Name == name })]
}

// moreFailed is the share of requests that failed in B and not in A, less the opposite.
func moreFailed(all []Metric) float64 {
	for _, m := range all {
		if m.Name == verdict.ErrorRate && m.Change != nil {
			return *m.Change
		}
	}
	return 0
}

const (
	// rounding is by how much floats may miss a change: of a server's whole steps an interval may have no width.
	rounding = 1e-9
	// mostPairs is how many more pairs of runs anybody is asked for.
	mostPairs = 50
	// fewestRuns are the fewest of a side whose spread tells how many that are: that of two may be a thirtieth of the
	// true one.
	fewestRuns = 3
)

// decides says what would tell a change from a limit, if further runs are like those that are there.
func (m *Metric) decides(limit float64, runs int) string {
	reach := (*m.High - *m.Low) / 2
	freedom := func(runs int) float64 {
		return float64(max(1, 2*runs-2))
	}
	deviation := reach / stats.Student95(freedom(runs)) * math.Sqrt(float64(runs))
	for more := 1; more <= mostPairs; more++ {
		n := runs + more
		if stats.Student95(freedom(n))*deviation/math.Sqrt(float64(n)) < math.Abs(*m.Change-limit) {
			return "about " + format.Many(int64(more), "more pair") + " of runs would decide"
		}
	}
	return fmt.Sprintf("over %d more pairs of runs would be needed: longer runs, runs that differ less, or another "+
		"limit would decide", mostPairs)
}
