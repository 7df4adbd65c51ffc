package metrics

import (
	"fmt"
	"math"
	"slices"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/format"
)

// Window is the part of a run that a summary is of. Requests count by their planned times. Throughput and requests in
// flight are those of all requests, so that windows add up to the run: an ok request counts where it ended, its
// prompt tokens where the first token came, and its completion tokens where they came, if they came evenly.
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
	from, to := w.bounds()
	return ns >= from && ns < to
}

func (w *Window) bounds() (fromNS, toNS int64) {
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

// Within makes c count what was planned in w. Add takes the other requests, too, for what does not count by planned
// times. Call it before Add.
func (c *Collector) Within(w *Window) { c.window = w }

// setRates sets throughput and requests in flight, over a run or a window of some duration.
func (c *Collector) setRates(s *Summary) {
	var requests, prompt, output, flight int64
	from, to := c.window.bounds()
	for _, some := range []*timings{&c.timings, &c.outside} {
		some.each(func(k *timing) {
			if k.sent {
				flight += max(0, min(k.endNS, to)-max(k.atNS, from))
			}
			if k.outcome == record.OK && k.endNS >= from && k.endNS < to {
				requests++
			}
			if first, _ := k.chunksNS(); first >= from && first < to {
				prompt += int64(k.prompt)
			}
			output += k.cameBefore(to) - k.cameBefore(from)
		})
	}
	d := s.Run.DurationS
	s.Throughput = Throughput{float64(requests) / d, float64(prompt) / d, float64(output) / d}
	s.InFlight = new(seconds(flight) / d)
	if s.UnderLoad = c.underLoad(s); c.window != nil {
		s.UnderLoad = UnderLoad{UntilS: d, Throughput: s.Throughput}
	}
}

// FindSteady finds the most steps of a run of runS seconds, one behind the other, in which the requests in flight
// stay within band of their median. Of equally many it takes the first. Fewer than a tenth of the run may be chance,
// so they are none.
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
