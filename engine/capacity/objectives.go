package capacity

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/stats"
	"github.com/fastreplay/fastreplay/engine/verdict"
)

// The metrics of objectives that bound a share of requests.
const (
	ok      = "ok"
	goodput = "goodput" // requests that are ok, and within every bound of --goodput
)

// spaced is an operator with spaces around it.
var spaced = regexp.MustCompile(`\s*(<=|>=|<|>)\s*`)

// ParseObjectives reads a list such as "ttft.p95<1s tpot.p95<50ms ok>=99.9%", separated by spaces or commas. Each is a
// percentile of a latency of requests, below a limit, or the share of requests that are ok. So each allows a share of
// requests to be beyond it. A goodput is the share of requests that are ok and within all of these bounds. Those behind
// an owner, such as class=gold, are about its requests alone.
func ParseObjectives(text string, bounds ...metrics.SLO) ([]Objective, error) {
	text = spaced.ReplaceAllString(text, "$1")
	var all []Objective
	owner := ""
	ended := false // with an objective
	for _, part := range strings.FieldsFunc(text, func(r rune) bool {
		return strings.ContainsRune(" ,\t\n", r)
	}) {
		if field, _, _ := rows.CutOwner(part); field != "" {
			owner = part + " "
			ended = false
			continue
		}
		ended = true
		o, err := parseObjective(part)
		o.Text = owner + part
		o.Field, o.Value, _ = rows.CutOwner(o.Text)
		if err == nil && o.LimitNS > 0 {
			_, _, _, err = verdict.ParseRequirement(o.Text)
		}
		if o.Metric == goodput {
			o.bounds = bounds
			if len(bounds) == 0 {
				err = fmt.Errorf(
					"%q: a goodput needs bounds; give them with --goodput \"ttft:500ms tpot:50ms\" behind --",
					part)
			}
		}
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(all, func(other Objective) bool {
			return other.Metric == o.Metric && other.Allowed == o.Allowed && other.Field == o.Field &&
				other.Value == o.Value
		}) {
			return nil, fmt.Errorf("%q: there is such an objective already", part)
		}
		all = append(all, o)
	}
	if !ended {
		return nil, fmt.Errorf(
			"%q has no objective at its end; want a list such as ttft.p95<1s tpot.p95<50ms ok>=99.9%%",
			text,
		)
	}
	return all, nil
}

func parseObjective(part string) (Objective, error) {
	requirement := part
	if rest, isOK := strings.CutPrefix(part, ok); isOK && strings.IndexAny(rest, "<>") == 0 {
		requirement = ErrorRate + rest
	}
	name, op, limit, err := verdict.ParseRequirement(requirement)
	metric, perMille := metrics.PercentileOf(name)
	latency := metrics.FindLatency(metric)
	isOK := requirement != part || name == goodput // the least share, not the largest
	isShare := name == ErrorRate || name == goodput
	known := latency >= 0 && metrics.Latencies()[latency].Bounded
	limitNS := math.Round(limit * 1e6)
	failing := limit
	var unknown *metrics.UnknownName
	if isOK {
		failing = math.Round((1-limit)*1e12) / 1e12
	}
	switch {
	case err != nil && isOK:
		err = errors.New("want a share of requests, such as ok>=99.9%")
	case errors.As(err, &unknown):
		unknown.Why = fmt.Sprintf("want a percentile of %s, such as ttft.p95<1s, or ok>=99.9%%", boundedKeys())
		unknown.Names = names()
	case err != nil:
		return Objective{}, err
	case isShare && (op[0] == '>') != isOK:
		err = errors.New(
			"want the least share that is ok, such as ok>=99.9%, or the largest that fails, such as error_rate<=0.1%",
		)
	case isShare && !(failing > 0 && failing < 1):
		err = fmt.Errorf(
			"that allows %v of the requests to fail; want a share above 0 and below 1, such as ok>=99.9%%",
			failing,
		)
	case isShare:
		if name == ErrorRate {
			metric = ok
		}
		return Objective{Text: part, Metric: metric, Allowed: failing}, nil
	case metric == "itl":
		err = errors.New("itl has many values in one request; bound their mean with tpot")
	case !known:
		err = fmt.Errorf(
			"%s is no latency of a request; want a percentile of one, such as ttft.p95<1s, or ok>=99.9%%",
			name,
		)
	case perMille == 0:
		err = fmt.Errorf("%s allows no share of requests beyond it; want a percentile, such as %s.p95", name, metric)
	case op[0] == '>':
		err = fmt.Errorf("want an upper limit of a latency, such as %s<1s", name)
	case !(limitNS >= 1 && limitNS < math.MaxInt64):
		err = errors.New("want a time above 0")
	}
	if err != nil {
		return Objective{}, fmt.Errorf("%q: %w", part, err)
	}
	if op == "<=" {
		limitNS++
	}
	return Objective{
		Text:    part,
		Metric:  metric,
		LimitNS: int64(limitNS),
		Allowed: float64(1000-perMille) / 1000,
	}, nil
}

// names are those of all that an objective can be about.
func names() []string {
	all := []string{ok, goodput, ErrorRate}
	for _, l := range metrics.BoundedLatencies() {
		for _, percentile := range []string{"p50", "p90", "p95", "p99", "p999"} {
			all = append(all, l.Key+"."+percentile)
		}
	}
	slices.Sort(all) // a hint is the same each time
	return all
}

// Beyond reports whether r, which has ended, is beyond the objective. A failed request is beyond every objective: an
// answer that never came is late too. An ok one without the latency is beyond, unless that is its TPOT: an answer of
// one token has none. Of tokens that came at once it is bounded by E2E.
//
// A request of another owner than the objective's is never beyond it. Those that the user left out, or that ended
// because the probe did, are not to be counted at all.
func (o *Objective) Beyond(r *record.Record) bool {
	if !o.concerns(metrics.OwnerOf(r)) {
		return false
	}
	if r.Outcome != record.OK || o.Metric == ok {
		return r.Outcome != record.OK
	}
	if o.Metric == goodput {
		return slices.ContainsFunc(o.bounds, func(bound metrics.SLO) bool {
			return bound.Exceeds(r)
		})
	}
	bound := metrics.SLO{Latency: metrics.FindLatency(o.Metric), LimitNS: o.LimitNS - 1}
	return bound.Exceeds(r)
}

// Untold says which objective a run cannot tell of; "" if there is none. So many answers came whole that they lack its
// latency, or none of eleven or more has it, such as a TPOT of one token.
func Untold(objectives []Objective, s *metrics.Summary) string {
	for _, o := range objectives {
		_, _, name := rows.CutOwner(o.Text)
		name, _, _ = strings.Cut(name, "<")
		bounds := append([]metrics.SLO{{Latency: metrics.FindLatency(o.Metric)}}, o.bounds...)
		for _, bound := range bounds {
			if bound.Latency < 0 {
				continue
			}
			values, _ := s.Latency(bound.Latency)
			if values == nil && s.Tokens.AtOnce == 0 && s.Requests.OK >= stats.SamplesFor(0.5) {
				return fmt.Sprintf("none of %s answers has what %s bounds, so no load tells of it; bound e2e",
					format.Count(s.Requests.OK), o.Text)
			}
			if len(o.bounds) > 0 {
				name = metrics.Latencies()[bound.Latency].Key + ".p99"
			}
			if why := verdict.AnsweredWhole(s, name); why != "" {
				return why + ": no load tells of " + o.Text
			}
		}
	}
	return ""
}

// concerns reports whether the objective is about the requests of an owner.
func (o *Objective) concerns(of rows.Owner) bool {
	return o.Field == "" || of.Value(o.Field) == o.Value
}

// Shares are the shares of a trace's requests that objectives are about. An objective about none is an error.
func Shares(objectives []Objective, t *trace.Trace) (shares []float64, err error) {
	for _, o := range objectives {
		about := 0
		for i := range t.Len() {
			if o.concerns(t.OwnerOf(i)) {
				about++
			}
		}
		if about == 0 {
			return nil, fmt.Errorf("--slo %q: no row of the trace has the %s %q", o.Text, o.Field, o.Value)
		}
		shares = append(shares, float64(about)/float64(t.Len()))
	}
	return shares, nil
}

// boundedKeys lists the latencies that an objective can be about, as "a, b or c".
func boundedKeys() string {
	var keys []string
	for _, l := range metrics.BoundedLatencies() {
		keys = append(keys, l.Key)
	}
	last := len(keys) - 1
	return strings.Join(keys[:last], ", ") + " or " + keys[last]
}
