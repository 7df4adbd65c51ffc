package metrics

import (
	"fmt"
	"math"
	"slices"

	"github.com/fastreplay/fastreplay/engine/format"
)

// Step is a row of timeline.jsonl or timeline_instances.jsonl. It has what became of the requests to one target, or
// of one instance, that were sent within a step of time. A request that was not sent counts at its planned time.
type Step struct {
	FromS float64 `json:"from_s"` // begin of the step, since the start of the run
	ToS   float64 `json:"to_s"`   // end of the step
	// URL; absent for requests that never had one, and in timeline_instances.jsonl
	Target   string  `json:"target,omitempty"`
	Instance string  `json:"instance,omitempty"` // as answers name it; only in timeline_instances.jsonl
	Planned  int64   `json:"planned"`            // requests that were to leave in the step
	Requests int64   `json:"requests"`           // sent in the step, or, if unsent, planned in it
	OK       int64   `json:"ok"`                 // of requests, those that ended ok
	Failed   int64   `json:"failed"`             // of requests, those that did not
	InFlight float64 `json:"in_flight"`          // requests in flight, mean over the step
	StepLatencies
	PromptTokens int64 `json:"prompt_tokens"` // of the step's ok requests
	// of prompt_tokens, those that the server reported as cached; null if it reported nothing
	CachedTokens *int64 `json:"cached_tokens"`
	// tokens of ok requests that came in the step, if they came evenly from a request's first chunk to its last
	OutputTokens int64 `json:"output_tokens"`
}

// Window is the part of a run that a summary is of. Requests count by their planned times. Throughput and requests in
// flight are those of all requests, so that windows add up to the run. An ok request counts where it ended, and its
// prompt tokens where the first token came. Its completion tokens count where they came, if they came evenly.
type Window struct {
	FromS float64 `json:"from_s"` // begin, since the start of the run
	ToS   float64 `json:"to_s"`   // end, which is no part of it unless the run ends there
	RunS  float64 `json:"run_s"`  // duration of the whole run

	// Of what report --steady found, by the steps of timeline.jsonl.

	// with --steady: largest distance from the median that was allowed, as a share of it; absent otherwise
	Band float64 `json:"band_share,omitempty"`
	// requests in flight: median of the steps of timeline.jsonl; likewise
	Level float64 `json:"in_flight_median,omitempty"`
	Least float64 `json:"in_flight_min,omitempty"` // requests in flight in the step with the fewest; likewise
	Most  float64 `json:"in_flight_max,omitempty"` // requests in flight in the step with the most; likewise
}

// Length says how long the run was or, such as "20 s to 60 s of 80 s", which part of it this is.
func (s *Summary) Length() string {
	if w := s.Window; w != nil {
		return format.Seconds(w.FromS) + " to " + format.Seconds(w.ToS) + " of " + format.Seconds(w.RunS)
	}
	return format.Seconds(s.Run.DurationS)
}

// Has reports whether an instant is in the window; no window has all. Nothing is behind a window that ends with the
// run.
func (w *Window) Has(ns int64) bool {
	from, to := w.Bounds()
	return ns >= from && ns < to
}

// Bounds are the first instant of the window and the first one behind it; nil has all instants.
func (w *Window) Bounds() (fromNS, toNS int64) {
	if w == nil {
		return math.MinInt64, math.MaxInt64
	}
	fromNS = int64(math.Round(w.FromS * 1e9))
	toNS = math.MaxInt64
	if w.ToS < w.RunS {
		toNS = int64(math.Round(w.ToS * 1e9))
	}
	return fromNS, toNS
}

// FindSteady finds the longest row of steps of a run of runS seconds in which the requests in flight stay within band
// of their median. Of equally many it takes the first. Fewer than a tenth of the run may be chance, so they are none.
func FindSteady(steps []Step, runS, band float64) (best *Window, err error) {
	longest := (len(steps) - 1) / 10
	for i := range steps {
		var levels []float64 // sorted
		for n, step := range steps[i:] {
			at, _ := slices.BinarySearch(levels, step.InFlight)
			levels = slices.Insert(levels, at, step.InFlight)
			level := (levels[n/2] + levels[(n+1)/2]) / 2
			if n >= longest && level > 0 && levels[0] >= (1-band)*level &&
				levels[n] <= (1+band)*level {
				longest = n + 1
				best = &Window{steps[i].FromS, min(runS, step.ToS), runS, band, level, levels[0], levels[n]}
			}
		}
	}
	if best == nil {
		return nil, fmt.Errorf(
			"no steady part: requests in flight stay within %s of their median for no tenth of the run; "+
				"give a wider band, such as --steady=%.0f%%, or the part with --from and --to",
			format.Percent(band), 100*max(0.2, min(0.95, 2*band)))
	}
	return best, nil
}
