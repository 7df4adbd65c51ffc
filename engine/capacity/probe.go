// Package capacity searches for the largest load of a trace at which objectives hold.
//
// It decides what to try next, when a try may end, and what the answer is. It sends nothing: probes are somebody
// else's. Everything follows from the outcomes so far, so a search that was interrupted goes on from them.
//
// The package is not an API: any release may change it.
package capacity

import (
	"fmt"
	"math"
	"time"

	"github.com/fastreplay/fastreplay/engine/metrics"
)

// Objective is met at a load if at most a share of requests is beyond its limit. ttft.p95<1s allows 5 % of requests a
// TTFT of 1 s or more; ok>=99.9% allows 0.1 % of requests to fail.
type Objective struct {
	Text    string  // as given, such as ttft.p95<1s
	Metric  string  // ttft, ttft_planned, tpot, e2e, e2e_planned, ok or goodput
	LimitNS int64   // the shortest latency that is beyond; 0 for ok and goodput
	Allowed float64 // share of requests that may be beyond it, such as 0.05
	// whose requests alone it is about, such as class and gold; "" = all
	Field, Value string

	bounds []metrics.SLO // of goodput
}

// LeastRequests is how many requests without a late one tell that an objective is met. With fewer, a server that is too
// slow has no late one with a chance above 5 %.
func (o *Objective) LeastRequests() int64 {
	return int64(math.Ceil(math.Log(0.05) / math.Log1p(-o.Allowed)))
}

// Probe is one try: a replay at a load.
type Probe struct {
	Number  int     `json:"number"`            // from 1
	Load    float64 `json:"load"`              // a factor, a rate, a concurrency or a number of instances
	Confirm bool    `json:"confirm,omitempty"` // it replays the lower bound for as long as the budget allows
}

// Slice is a part of a probe's measured window: the requests that were planned in it.
type Slice struct {
	Requests int64   `json:"requests"`       // decided: they ended, or are beyond a limit already
	Open     int64   `json:"open,omitempty"` // sent and undecided yet
	Beyond   []int64 `json:"beyond"`         // of Requests, by objective
	Of       []Tally `json:"of,omitempty"`   // those that each objective is about; absent if each is about all
	InFlight float64 `json:"in_flight"`      // mean in the slice's time
	// TPOT of those that ended ok and have one, summed, and how many they are
	TPOTMS float64 `json:"tpot_ms,omitempty"`
	Timed  int64   `json:"timed,omitempty"`
}

// Tally is how many requests an objective is about, as of a Slice.
type Tally struct {
	Requests int64 `json:"requests"`
	Open     int64 `json:"open,omitempty"`
}

// of is how many requests objective j is about.
func (s *Slice) of(j int) Tally {
	if s.Of == nil {
		return Tally{s.Requests, s.Open}
	}
	return s.Of[j]
}

// Peek is what a running probe has shown so far, after its warm-in.
type Peek struct {
	SliceS  float64 // duration of a slice in s of wall time
	Slices  []Slice
	WindowS float64 // how long the window is if nobody ends it
	Ended   bool    // the window is over and every request is decided
}

// The verdicts of a probe.
const (
	Holds  = "holds"  // every objective is met
	Breaks = "breaks" // at least one is not
	Unsure = "unsure" // too little to be sure
)

// Decision is what a peek at a probe leads to.
type Decision struct {
	End     bool   // the probe may end
	Verdict string // one of the above; "" if it goes on
	Why     string // whole sentence, such as: the backlog grows by 12 requests a second
}

// Outcome is what became of a probe. It has all that the search needs of it.
type Outcome struct {
	Probe
	Slices  []Slice `json:"slices"`
	SliceS  float64 `json:"slice_s"`
	Verdict string  `json:"verdict"` // "" if there is no objective
	Cut     bool    `json:"cut"`     // it ended before its window did
	// so long behind the warm-in requests were left out, as the servers had been slower then in an earlier probe
	SettleS float64 `json:"settle_s,omitempty"`
	Part    *Part   `json:"part,omitempty"` // of the trace
	WarmInS float64 `json:"warm_in_s"`      // it ran for so long before it was measured
	Why     string  `json:"why"`
	SpentS  float64 `json:"spent_s"`          // wall time, start and warm-in included
	Client  string  `json:"client,omitempty"` // why the client was the bottleneck; "" if it was not
	// why its numbers may be others than measured, such as: TTFT may be too short; "" if nothing showed it
	Limited string `json:"limited,omitempty"`
	// of an answer alone: requests of the window, in place of the slices
	Requests int64 `json:"requests,omitempty"`
	// of an answer alone: those that each objective is about
	Of []int64 `json:"of,omitempty"`
	// of an answer alone: share of the requests beyond each objective, in place of the slices
	Beyond []float64 `json:"beyond,omitempty"`
	// of an answer alone: in flight were more and more, and fewer ended than were sent
	FallsBehind bool `json:"falls_behind,omitempty"`
	// for tables: ttft.p95, goodput, hits and so on, by verdict.Quantities
	Numbers map[string]float64 `json:"numbers"`
	// whose requests have numbers of their own, such as class=gold ttft.p95: the largest classes, or else tenants,
	// models or priorities
	Owners []string `json:"owners,omitempty"`
	// 95 % intervals of numbers that have one, in their unit: from, to
	Intervals map[string][2]float64 `json:"intervals,omitempty"`
	// where the objective broke first, such as: TTFT on instance 2
	Limiter string `json:"limiter,omitempty"`
	// how requests of the run failed, such as: all by HTTP 503; "" if none did, or in several ways
	FailedBy  string `json:"failed_by,omitempty"`
	Directory string `json:"directory"`
}

// Measured reports whether requests fell into the window. Without them there is at most the share of those that failed
// in the whole run.
func (o *Outcome) Measured() bool {
	_, measured := o.Numbers[requestsPerS]
	return measured
}

// implausible is above any number of a search: a load, a duration in s, requests.
const implausible = 1e12

// Validate returns what a search cannot have noted of its probe of that number; nil if it can all be.
func (o *Outcome) Validate(number, objectives int) error {
	plausible := func(v float64) bool {
		return v >= 0 && v < implausible
	}
	switch {
	case o.Number != number:
		return fmt.Errorf("it is of probe %d, and stands where probe %d should", o.Number, number)
	case !plausible(o.Load) || o.Load == 0:
		return fmt.Errorf("no probe has a load of %v", o.Load)
	case !plausible(o.SpentS) || !plausible(o.SliceS):
		return fmt.Errorf("no probe takes %v s, in slices of %v s", o.SpentS, o.SliceS)
	case o.Verdict == "" && objectives == 0: // as of a sweep
	case o.Verdict != Holds && o.Verdict != Breaks && o.Verdict != Unsure:
		return fmt.Errorf("no probe has the verdict %q", o.Verdict)
	}
	for i, s := range o.Slices {
		if !plausible(float64(s.Requests)) || !plausible(float64(s.Open)) || !plausible(s.InFlight) ||
			!plausible(s.TPOTMS) || !plausible(float64(s.Timed)) || len(s.Beyond) != objectives ||
			s.Of != nil && len(s.Of) != objectives {
			return fmt.Errorf("no probe has slice %d: %+v", i+1, s)
		}
		for j, beyond := range s.Beyond {
			of := s.of(j)
			if beyond < 0 || beyond > of.Requests || of.Open < 0 || of.Requests > s.Requests || of.Open > s.Open {
				return fmt.Errorf("slice %d has %d of %d requests beyond a limit", i+1, beyond, of.Requests)
			}
		}
	}
	return nil
}

// Config bounds a search.
type Config struct {
	Objectives []Objective
	Least      float64       // the load at which it starts, which is thought to hold
	From       float64       // no probe is below it; 0 = no bound
	Most       float64       // no probe is above it; 0 = no bound
	Whole      bool          // loads are whole numbers: concurrency, instances
	Falling    bool          // more is easier: instances
	Precision  float64       // width of the interval at which the search ends, relative; 0 = 0.04
	Budget     time.Duration // of probes' wall time; 0 = no bound
	WindowS    float64       // longest window of a probe but for the confirmation, in s
	BesidesS   float64       // what a probe takes besides its window, in s: a guess, until the first one has ended

	Load func(float64) string // prints a load with its unit; nil = four digits alone
}

// Answer is what is known of the capacity.
type Answer struct {
	// the largest load at which all objectives hold; with Falling the least. If no probe bounds it, the most that held;
	// 0 if none did
	Load     float64  `json:"load"`
	Low      float64  `json:"low"`    // 95 % interval; 0 if no probe bounds it
	High     *float64 `json:"high"`   // null if no probe bounds it
	Limits   string   `json:"limits"` // text of the objective that breaks first; "" if none is known to break
	Probes   int      `json:"probes"`
	SpentS   float64  `json:"spent_s"`
	Complete bool     `json:"complete"` // the interval is as narrow as wanted (--precision), and its easy end is confirmed
	HeldS    float64  `json:"held_s"`   // how long the objectives held in the confirmation; 0 if they did not
	HeldAt   float64  `json:"held_at"`  // the load of that
	Doubt    string   `json:"doubt"`    // why the interval may be wrong, a whole sentence; "" if nothing showed it
	SettleS  float64  `json:"settle_s"` // for so long at the beginning of a probe the servers were slower than later
	Part     *Part    `json:"part"`     // of the trace, on which the answer rests; null if nothing was measured
	Why      string   `json:"why"`      // why the search ended, a whole sentence; "" if it goes on
}
