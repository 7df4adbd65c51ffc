package verdict

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/fastreplay/fastreplay/codec/trace/rows"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// quantity is a number of the summary that --require can bound.
type quantity struct {
	name string
	unit string // ms, share or rate
	of   func(*metrics.Summary) *float64
}

// The units of quantities, and of limits.
const (
	inMS  = "ms"    // time
	share = "share" // 0 to 1
	rate  = "rate"  // per second
)

// quantities are all that --require can bound, in the order of a list for people: distributions and rates by their
// keys in the summary.
func quantities() (all []quantity) {
	for _, l := range metrics.LatenciesIn[metrics.RunLatencies]() {
		for j, percentile := range fieldsOf[float64](reflect.TypeFor[stats.Percentiles]()) {
			name := metrics.Latencies()[l].Key + "." + percentile
			all = append(all, quantity{name, inMS, func(s *metrics.Summary) *float64 {
				values, unitNS := s.Latency(l)
				if values == nil {
					return nil
				}
				if percentile == "p75" && values.P75 < values.P50 { // of a version that did not have it
					return nil
				}
				return new(reflect.ValueOf(values).Elem().Field(j).Float() / (1e6 / unitNS))
			}})
		}
	}
	for i, key := range fieldsOf[float64](reflect.TypeFor[metrics.Throughput]()) {
		all = append(all,
			quantity{key, rate,
				func(s *metrics.Summary) *float64 {
					return new(reflect.ValueOf(s.Throughput).Field(i).Float())
				}},
			quantity{"under_load." + key, rate,
				func(s *metrics.Summary) *float64 {
					return new(reflect.ValueOf(s.UnderLoad.Throughput).Field(i).Float())
				}})
	}
	return append(all,
		quantity{goodput, share, func(s *metrics.Summary) *float64 {
			if s.Goodput == nil {
				return nil
			}
			return s.Goodput.Share
		}},
		quantity{ErrorRate, share,
			func(s *metrics.Summary) *float64 {
				return stats.Ratio(s.Requests.Failed, s.Requests.Planned-s.Requests.Stopped)
			}},
		quantity{"coverage", share, func(s *metrics.Summary) *float64 {
			if s.Run.DurationS <= 0 || s.Run.AnsweredS <= 0 {
				return nil
			}
			return new(min(1, s.Run.AnsweredS/s.Run.DurationS))
		}},
		quantity{"prefix_hits", share, func(s *metrics.Summary) *float64 { return s.PrefixCache.HitRatio }},
		quantity{"hits_of_ideal", share, func(s *metrics.Summary) *float64 {
			hits := s.PrefixCache.HitRatio
			ideal := s.PrefixCache.ExpectedHitRatio
			if hits == nil || ideal == nil || *ideal == 0 {
				return nil
			}
			return new(*hits / *ideal)
		}},
	)
}

// Shares of requests.
const (
	ErrorRate = "error_rate"
	goodput   = "goodput"
)

// fieldsOf yields the fields of a struct that have this type, with their keys in JSON.
func fieldsOf[T any](of reflect.Type) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		for i := range of.NumField() {
			if key, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ","); of.Field(i).Type == reflect.TypeFor[T]() &&
				!yield(i, key) {
				return
			}
		}
	}
}

// Quantities returns the names that --require takes: those of latencies with each percentile, and the others.
func Quantities() (names []string) {
	for _, q := range quantities() {
		names = append(names, q.name)
	}
	return names
}

// Value returns the quantity of s that --require calls name, in ms, as a share or per second; nil if s has none.
func Value(s *metrics.Summary, name string) *float64 {
	s, name = viewOf(s, name)
	if q := quantityOf(name); q.of != nil {
		return q.of(s)
	}
	return nil
}

// Quantity is a number of a run that --require can bound.
type Quantity struct {
	Name  string  // such as ttft.p99
	Unit  string  // ms, share (0 to 1) or rate (per second)
	Value float64 // in the unit
}

// Values yields all quantities that s has.
func Values(s *metrics.Summary) iter.Seq[Quantity] {
	return func(yield func(Quantity) bool) {
		for _, q := range quantities() {
			if v := q.of(s); v != nil && !yield(Quantity{q.name, q.unit, *v}) {
				return
			}
		}
	}
}

func unknownQuantity(name string) error {
	names := slices.DeleteFunc(Quantities(), func(name string) bool {
		return strings.Contains(name, ".") && !strings.HasSuffix(name, ".p99")
	})
	return &metrics.UnknownName{Name: name, Names: Quantities(), Why: fmt.Sprintf(
		"%q is no number of a run; there are %s, and .p50 .p75 .p90 .p95 .p999 .max and .mean in place of .p99",
		name, strings.Join(names, ", "),
	)}
}

// ParseRequirement returns the parts of an objective such as ttft.p99<500ms, or why it can be none: the name of the
// quantity, the operator, and the limit in ms, as a share or per second.
//
// An objective may be about the requests of one owner alone, which the name then has, too: "class=gold ttft.p99<500ms".
func ParseRequirement(text string) (name, op string, limit float64, err error) {
	owner := ""
	field, value, text := rows.CutOwner(text)
	if field != "" {
		owner = field + "=" + value + " "
	}
	at := strings.IndexAny(text, "<>")
	if at < 0 {
		return "", "", 0, fmt.Errorf("%q bounds nothing; want NAME<LIMIT, such as %q, with < <= > or >=",
			strings.TrimSpace(owner+text), owner+"ttft.p99<500ms")
	}
	op = text[at : at+1]
	if strings.HasPrefix(text[at+1:], "=") {
		op += "="
	}
	name, unit, err := FindQuantity(strings.TrimSpace(text[:at]))
	if err != nil {
		return "", "", 0, err
	}
	if limit, err = parseLimit(strings.TrimSpace(text[at+len(op):]), unit); err != nil {
		err = fmt.Errorf("%q: %w", text, err)
	} else if owner != "" {
		err = checkOwned(name)
	}
	return owner + name, op, limit, err
}

// FindQuantity returns what results call the quantity that people call so, and its unit.
func FindQuantity(called string) (name, unit string, err error) {
	q := quantityOf(strings.Replace(strings.ToLower(strings.ReplaceAll(called, "-", "_")), ".p99.9", ".p999", 1))
	if q.name == "" {
		return "", "", unknownQuantity(called)
	}
	return q.name, q.unit, nil
}

// parseLimit reads a limit in a unit. A time is in ms unless it says otherwise; a share is a number from 0 to 1, or has
// a %.
func parseLimit(text, unit string) (limit float64, err error) {
	switch unit {
	case inMS:
		limit, err = metrics.ParseMS(text)
	case share:
		number, isPercent := strings.CutSuffix(text, "%")
		if limit, err = strconv.ParseFloat(strings.TrimSpace(number), 64); isPercent {
			limit /= 100
		}
		if !(limit >= 0 && limit <= 1) || text == "1" {
			err = errors.New("out of range, or 1 %")
		}
	default:
		limit, err = strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(text, "/s")), 64)
	}
	if err != nil || !(limit >= 0) || math.IsInf(limit, 0) {
		want := map[string]string{
			inMS:  "a time, such as 500ms or 1.5s",
			share: "a share, such as 99% or 0.99, and 1 as 1% or 100%",
			rate:  "a number per second, such as 12.5",
		}[unit]
		return 0, fmt.Errorf("%q is no limit for it; want %s", text, want)
	}
	return limit, nil
}

// Objectives compares s with what the user wants of it: Limits.Require and Limits.MaxErrorRate. A number that the run
// does not have meets nothing, and a percentile of too few values decides nothing. unsafe are percentiles that the
// client may have moved.
func Objectives(s *metrics.Summary, unsafe []metrics.Unsafe) []metrics.Objective {
	out := []metrics.Objective{}
	if most := s.Limits.MaxErrorRate; most != nil {
		limit := strings.ReplaceAll(format.PercentTo(*most, 4), " ", "")
		out = append(out, objective(s, unsafe, ErrorRate+"<="+limit, ErrorRate, "<=", *most))
	}
	for _, text := range s.Limits.Require {
		if name, op, limit, err := ParseRequirement(text); err == nil { // else the command line refused it
			out = append(out, objective(s, unsafe, text, name, op, limit))
		}
	}
	if why := s.Run.Aborted; why != "" {
		if name, _, limit, err := ParseRequirement(s.Limits.AbortIf); err == nil {
			out = append(out, metrics.Objective{
				Text: "not " + s.Limits.AbortIf, Metric: name, Value: Value(s, name), Limit: limit, Aborted: why,
			})
		}
	}
	return out
}

// quantityOf returns the quantity of a name; the zero value if a summary of another version has one that is unknown
// here.
func quantityOf(name string) quantity {
	_, _, name = rows.CutOwner(name)
	all := append(quantities(), quantity{})
	return all[slices.IndexFunc(all, func(q quantity) bool { return q.name == name || q.name == "" })]
}

// neededValues is how many values a quantity needs to be known if its run has too few, else 0. Percentiles need more
// than one, and a mean as many as a median. So do shares of requests: that 99 % are within a limit says as much as a
// p99.
func neededValues(s *metrics.Summary, name string, limit float64) int64 {
	n := requestsOf(s, name)
	if n > 0 && limit > 0 && limit < 1 { // that none failed, or all, is said of this run alone
		if name == ErrorRate {
			limit = 1 - limit
		}
		if stats.EnoughSamples(n, limit) {
			return 0
		}
		return stats.SamplesFor(limit)
	}
	latency, number, _ := strings.Cut(name, ".")
	quantile, err := strconv.ParseFloat("0."+strings.TrimPrefix(number, "p"), 64)
	switch {
	case number == "mean": // as a median
		quantile = 0.5
	case err != nil:
		return 0
	}
	values, _ := s.Latency(metrics.FindLatency(latency))
	needed := stats.SamplesFor(quantile)
	if values == nil || values.Count == 0 || values.Count >= needed {
		return 0
	}
	return needed
}

// requestsOf is how many requests a share is of; 0 if it is a share of anything else.
func requestsOf(s *metrics.Summary, name string) int64 {
	if name != ErrorRate && name != goodput {
		return 0
	}
	return s.Requests.Planned - s.Requests.Stopped
}

// mostByChance bounds how likely the requests of a share are by chance, if the true one is at the limit. Below it they
// decide, although they are too few.
const mostByChance = 0.05

// shareDecides reports whether a share of few requests lies beyond a limit, or within it, by more than chance.
func shareDecides(share, limit float64, n int64) bool {
	k := int64(math.Round(share * float64(n)))
	return stats.AtMost(k, n, limit) <= mostByChance || stats.AtMost(n-k, n, 1-limit) <= mostByChance
}

// decides reports whether a lower percentile of the same latency, which has enough values, tells whether an objective
// is met. A higher one is no smaller, so it exceeds what the lower one exceeds.
func decides(o *metrics.Objective, s *metrics.Summary, exceeds func(float64) bool) bool {
	latency, _, _ := strings.Cut(o.Metric, ".")
	for _, lower := range stats.PercentileKeys() {
		name := latency + "." + lower
		if name == o.Metric || neededValues(s, name, 0) > 0 {
			return false
		}
		if v := Value(s, name); v != nil && exceeds(*v) {
			return true
		}
	}
	return false
}

func objective(s *metrics.Summary, unsafe []metrics.Unsafe, text, name, op string, limit float64) metrics.Objective {
	view, rest := viewOf(s, name)
	if view != s {
		unsafe = ofOwner(unsafe, rest)
	}
	o := objectiveOf(view, unsafe, text, rest, op, limit)
	o.Metric = name
	doubt(&o, s, rest, strings.HasPrefix(op, "<"))
	doubtForFailures(&o, s, view, rest, op)
	doubtForWhole(&o, s, rest)
	return o
}

// doubtForWhole makes an objective undecided if answers that came whole decide it.
func doubtForWhole(o *metrics.Objective, s *metrics.Summary, name string) {
	why := AnsweredWhole(s, name)
	if name == goodput && s.Goodput != nil && !o.Met {
		for latency, n := range s.Goodput.Unmeasured {
			if n > 0 {
				why = cmp.Or(why, AnsweredWhole(s, latency+".max"))
			}
		}
	}
	if why != "" {
		o.Met = false
		o.Doubt = why
	}
}

// AnsweredWhole says that so many answers came whole and lack a latency, such as ttft.p99, that they decide what it is;
// "" if they do not.
func AnsweredWhole(s *metrics.Summary, name string) string {
	whole := s.Tokens.Whole
	latency, _, _ := strings.Cut(name, ".")
	i := metrics.FindLatency(latency)
	if whole == 0 || i < 0 || !metrics.Latencies()[i].OfStream ||
		!FailuresHide(name, float64(whole)/float64(s.Requests.OK)) {
		return ""
	}
	return fmt.Sprintf("%s of %s answers came whole, not as streams, and lack %s: have them stream, or bound e2e",
		format.Count(whole), format.Count(s.Requests.OK), latency)
}

// doubtForFailures makes a latency that is met undecided if requests of the view may owe it to others that failed. Then
// an objective must say how many may fail: of all requests, or of those of the same owner.
func doubtForFailures(o *metrics.Objective, s, view *metrics.Summary, name, op string) {
	n := requestsOf(view, ErrorRate)
	if !o.Met || op[0] == '>' || n == 0 || s.Limits.MaxErrorRate != nil ||
		!FailuresHide(name, float64(view.Requests.Failed)/float64(n)) {
		return
	}
	field, value, _ := rows.CutOwner(o.Metric)
	for _, text := range s.Limits.Require {
		about, _, _, _ := ParseRequirement(text)
		ofField, ofValue, about := rows.CutOwner(about)
		theirs := ofField == "" || ofField == field && ofValue == value
		if theirs && (about == ErrorRate || about == goodput) {
			return
		}
	}
	o.Met = false
	o.Doubt = fmt.Sprintf("%s of %s failed: --max-error-rate says how many may",
		format.Count(view.Requests.Failed), format.Count(n))
}

// FailuresHide reports whether a latency, such as ttft.p99, may be owed to a share of the requests that failed. It may
// if they are half or more of those that lie beyond the percentile. A mean, or a median of pairs, counts as p50. What
// the client measures of itself is no latency of the servers.
func FailuresHide(name string, failed float64) bool {
	latency, perMille := metrics.PercentileOf(name)
	switch metrics.FindLatency(latency) {
	case -1, metrics.Drift, metrics.WireDrift, metrics.Upload:
		return false
	}
	if strings.HasSuffix(name, ".max") {
		perMille = 1000
	}
	beyond := float64(1000-cmp.Or(perMille, 500)) / 1000
	return failed > 0 && failed >= beyond/2
}

// doubt makes an objective undecided if its number may in truth be another than was measured, and that can change
// whether it is met. A longer latency makes goodput less. atMost: its limit is the most that name may be.
func doubt(o *metrics.Objective, s *metrics.Summary, name string, atMost bool) {
	latency, _, _ := strings.Cut(strings.TrimPrefix(name, "under_load."), ".")
	for _, reason := range []*metrics.Reason{emptyFirst(s), uncounted(s)} {
		if reason == nil || o.Value == nil || o.Needed > 0 {
			continue
		}
		shifts := []int{reason.Code.Shifts(latency)}
		if name == goodput {
			for latency := range s.Goodput.Missed {
				shifts = append(shifts, -reason.Code.Shifts(latency))
			}
		}
		against := -1
		if o.Met == atMost {
			against = 1
		}
		if slices.Contains(shifts, against) {
			o.Met = false
			o.Doubt = reason.What + ": " + reason.Do
			return
		}
	}
}

// objectiveOf is objective for a name without an owner.
func objectiveOf(
	s *metrics.Summary, unsafe []metrics.Unsafe, text, name, op string, limit float64,
) metrics.Objective {
	o := metrics.Objective{
		Text:   text,
		Metric: name,
		Value:  Value(s, name),
		Limit:  limit,
		Needed: neededValues(s, name, limit),
	}
	met := func(v float64) bool {
		return op == "<" && v < limit || op == "<=" && v <= limit ||
			op == ">" && v > limit || op == ">=" && v >= limit
	}
	switch n := requestsOf(s, name); {
	case o.Needed == 0:
	case o.Value == nil || n > 0 && shareDecides(*o.Value, limit, n):
		o.Needed = 0
	default:
		o.TooFew = true
		atLeast := op[0] == '>'
		if n == 0 && decides(&o, s, func(v float64) bool { return met(v) == atLeast }) {
			o.Met = atLeast
			o.Needed = 0
		}
		return o
	}
	if v := o.Value; v != nil && !math.IsNaN(*v) {
		o.Met = met(*v)
		for _, u := range unsafe {
			if o.Metric == u.Metric+"."+u.Percentile {
				o.EffectMS = u.EffectMS
				o.Unsure = met(*v-u.EffectMS) != met(*v+u.EffectMS)
			}
		}
	}
	return o
}

// Outcome says what the value is, with its unit, or that there is none. If the client may have moved it, they say
// whether that changes the outcome.
func Outcome(o *metrics.Objective) string {
	unit := quantityOf(o.Metric).unit
	few := "~" + valueText(o, unit) + " of too few values"
	if unit == share {
		few = valueText(o, unit) + " of too few requests"
	}
	switch {
	case o.Aborted != "":
		return o.Aborted
	case o.Doubt != "" && o.Value == nil:
		return "unknown: " + o.Doubt
	case o.Value == nil:
		return "the run has no " + o.Metric
	case o.Doubt != "":
		return "unknown: " + valueText(o, unit) + ", and " + o.Doubt
	case o.EffectMS > 0:
		outcome := "missed"
		other := "met"
		if o.Met {
			outcome, other = other, outcome
		}
		words := format.Duration(*o.Value*1e6, 4) + " ± " + format.Milliseconds(o.EffectMS)
		if o.Unsure {
			return words + ": may be " + other
		}
		return words + ": " + outcome + " all the same"
	case o.Needed > 0:
		return fmt.Sprintf("unknown: %s, %s would tell", few, format.Count(o.Needed))
	case o.TooFew:
		return few
	}
	return valueText(o, unit)
}

// valueText is the value with its unit; "" if there is none.
func valueText(o *metrics.Objective, unit string) string {
	switch {
	case o.Value == nil:
		return ""
	case unit == inMS:
		return format.Duration(*o.Value*1e6, 4)
	case unit == share:
		return format.PercentTo(*o.Value, 4)
	}
	return format.Number(*o.Value, 4) + "/s"
}
