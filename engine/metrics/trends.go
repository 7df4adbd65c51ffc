package metrics

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/engine/format"
)

// Trend is a quantity that went one way over the run, so that percentiles depend on how long the run is. It is told
// from the 20 parts of equally many requests in the order of sending. Their medians tell it, or for requests in flight
// their means. Of quantities that only chance moves, 1 in 1,000 has a trend.
type Trend struct {
	Quantity string  `json:"quantity"` // ttft, tpot or e2e: the median in ms; or in_flight: the mean of requests
	First    float64 `json:"first"`    // in the first quarter of the requests, or before a step
	Last     float64 `json:"last"`     // in the last quarter of the requests, or behind a step
	// about when it stepped from one level to another and stayed, in s from the start; absent if it went gradually
	StepS float64 `json:"step_s,omitempty"`
	// what else changed by over 10 % from the first quarter to the last, as a share. It is requests_per_s as planned,
	// or prompt_tokens or output_tokens of a request. Empty if the load was steady
	Load map[string]float64 `json:"load"`
	// of in_flight: the load was steady, and TTFT or E2E rose, so that requests were not only filling up; else absent
	Overload bool `json:"overload,omitempty"`
}

// Short says what went which way and, if the load was steady, what of the server that tells.
func (t *Trend) Short() string {
	if t.Quantity == InFlightTrend {
		grew := "in flight grew " + format.Number(t.First, 3) + " → " + format.Number(t.Last, 3)
		if t.Overload {
			grew += ": the server cannot carry this load"
		}
		return grew
	}
	way := " p50 rose by "
	if t.Last < t.First {
		way = " p50 fell by "
	}
	label := t.Quantity // of a summary that we did not write
	if of := FindLatency(t.Quantity); of >= 0 {
		label = latencies[of].Label
	}
	words := label + way + size(t.Last/t.First)
	if t.StepS > 0 {
		words += " at about " + format.Span(t.StepS)
	}
	return words
}

// size says by how much a ratio is not 1: as a factor if that is 2 or more, since nobody reads 34442 %.
func size(ratio float64) string {
	if factor := max(ratio, 1/ratio); factor >= 2 {
		return "a factor of " + format.Number(factor, 3)
	}
	return fmt.Sprintf("%.0f %%", 100*math.Abs(ratio-1))
}

// Words says more of it, and what of the load may be the cause.
func (t *Trend) Words() string {
	words := t.Short()
	depend := "; percentiles depend on how long the run is"
	between := func(from, to string) string {
		return from + format.Duration(t.First*1e6, 3) + to + format.Duration(t.Last*1e6, 3)
	}
	switch {
	case t.Quantity == InFlightTrend:
		grew, overload, _ := strings.Cut(words, ": ")
		grew = "requests " + grew + ", all the time and on average from the first quarter of the run to the last"
		words = strings.Join(format.Present(grew, overload), ": ")
	case t.StepS > 0:
		words += between(" of the run and stayed so, from ", " before to ") + " behind it"
		depend = "; percentiles mix both"
	default:
		words += between(" over the run, from ", " in its first quarter to ") + " in its last"
	}
	words += depend
	var load []string
	for _, key := range slices.Sorted(maps.Keys(t.Load)) {
		rose := t.Last > t.First
		if t.Load[key] > 0 != rose { // what grew makes nothing faster
			continue
		}
		name := strings.ReplaceAll(strings.ReplaceAll(key, "_per_s", "/s"), "_", " ")
		changed := fmt.Sprintf(" %+.0f %%", 100*t.Load[key])
		if factor := 1 + t.Load[key]; factor >= 2 {
			changed = " × " + format.Number(factor, 3)
		}
		load = append(load, name+changed)
	}
	if load != nil {
		words += "; the load changed, too, and may be the cause (" + strings.Join(load, ", ") + ")"
	}
	return words
}

// InFlightTrend is the name of the trend of requests in flight, which is no latency.
const InFlightTrend = "in_flight"
