package sched

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Plan has when each request of a run is released. Request i of a plan is row i of the trace it was made from.
// A plan is open (ReleaseNS) or closed (Concurrency), never both. An open one may have a Cap.
type Plan struct {
	// ReleaseNS are the planned instants in ns since the run's start, ascending. Nil in a closed loop.
	ReleaseNS []int64
	// Requests is how many requests the plan has.
	Requests int
	// Concurrency is the number of requests kept in flight by a closed loop, or of jobs if Dependencies has jobs; 0
	// in an open one.
	Concurrency int
	// Cap is the most requests that an open plan lets be in flight; what is due meanwhile is held back. 0 = any number.
	Cap int
	// Dependencies make requests wait for others; nil = none does.
	Dependencies *Dependencies
	// EndNS ends the releases: a request that waits until then for another one is not released, but one that a Cap
	// holds back is. math.MaxInt64 = unlimited.
	EndNS int64
}

// FromTrace plans arrivals (ns since the first, ascending) at scale times the recorded speed, and keeps those released
// before duration (0 = all). Scale 1 keeps the recorded nanoseconds exactly.
func FromTrace(arrivalNS []int64, scale float64, duration time.Duration) (Plan, error) {
	if !(scale > 0) || math.IsInf(scale, 0) {
		return Plan{}, fmt.Errorf("scale is %v; want a number above 0 (2 sends twice as fast)", scale)
	}
	release := make([]int64, len(arrivalNS))
	for i, at := range arrivalNS {
		release[i] = scaled(at, scale)
	}
	return openPlan(release, duration), nil
}

func scaled(at int64, scale float64) int64 {
	if scale == 1 {
		return at
	}
	return int64(math.Round(float64(at) / scale))
}

// Closed plans a closed loop: concurrency requests in flight, the next one released when one ends.
func Closed(requests, concurrency int, duration time.Duration) (Plan, error) {
	if concurrency < 1 {
		return Plan{}, fmt.Errorf("concurrency is %d; want at least 1", concurrency)
	}
	return Plan{
		Requests:    requests,
		Concurrency: min(concurrency, requests),
		EndNS:       until(duration),
	}, nil
}

func openPlan(release []int64, duration time.Duration) Plan {
	end := until(duration)
	due, _ := slices.BinarySearch(release, end)
	release = release[:due]
	return Plan{
		ReleaseNS: release,
		Requests:  len(release),
		EndNS:     end,
	}
}

// until returns when a duration, 0 = unlimited, is over.
func until(duration time.Duration) int64 {
	if duration > 0 {
		return int64(duration)
	}
	return math.MaxInt64
}

// Open reports whether the plan releases by the clock, as far as its cap allows.
func (p Plan) Open() bool { return p.Concurrency == 0 }

// ByClock reports whether only the clock releases requests, and no answer does.
func (p Plan) ByClock() bool { return p.Open() && p.Cap == 0 && p.Dependencies == nil }

// Capped returns the open plan with a cap of at least 1 on the requests in flight.
func (p Plan) Capped(inFlight int) (Plan, error) {
	if inFlight < 1 || !p.Open() {
		return Plan{}, fmt.Errorf("cap is %d; want at least 1, and a plan that releases by the clock", inFlight)
	}
	p.Cap = inFlight
	return p, nil
}

// Following returns the plan whose requests wait for others. A plan with a cap releases its requests in order, so it
// cannot wait. In a closed loop with jobs, Concurrency counts jobs.
// It is an error if d is not as its fields say.
func (p Plan) Following(d *Dependencies) (Plan, error) {
	if p.Cap > 0 {
		return Plan{}, errors.New("requests that wait for others cannot leave in order, as with a cap")
	}
	if err := d.validate(p.Requests, p.Concurrency); err != nil {
		return Plan{}, err
	}
	p.Dependencies = d
	return p, nil
}

// Only returns the plan of some of its requests, in ascending order, each at its own instant. For their waits see
// Dependencies.
func (p Plan) Only(order []int32) Plan {
	all := p
	p.Requests = len(order)
	p.Concurrency = min(all.Concurrency, len(order))
	p.ReleaseNS = nil
	if all.ReleaseNS != nil {
		for _, i := range order {
			p.ReleaseNS = append(p.ReleaseNS, all.ReleaseNS[i])
		}
	}
	if all.Dependencies != nil {
		p.Dependencies = all.Dependencies.only(order)
	}
	return p
}

// SpanNS returns the last planned instant.
func (p Plan) SpanNS() int64 {
	if len(p.ReleaseNS) == 0 {
		return 0
	}
	return p.ReleaseNS[len(p.ReleaseNS)-1]
}

// PeakWithin returns the largest number of requests released in any window of the given length.
func (p Plan) PeakWithin(window time.Duration) int {
	if !p.Open() {
		return p.Concurrency
	}
	peak := 0
	from := 0
	for to, at := range p.ReleaseNS {
		for at-p.ReleaseNS[from] >= int64(window) {
			from++
		}
		peak = max(peak, to-from+1)
	}
	return peak
}

// AssumedLatency is how long requests took when they were recorded, if the trace does not have it.
type AssumedLatency struct {
	TTFT time.Duration // at most 24 h
	TPOT time.Duration // at most 1 min
}

// The longest latencies that can be assumed. No server is slower, and the longest output times maxTPOT still fits 64
// bits.
const (
	maxTTFT = 24 * time.Hour
	maxTPOT = time.Minute
)

// Validate returns why the latencies cannot be assumed; nil if they can.
func (a AssumedLatency) Validate() error {
	switch {
	case a.TTFT < 0 || a.TPOT < 0:
		return errors.New("the assumed TTFT and TPOT cannot be negative")
	case a.TTFT > maxTTFT || a.TPOT > maxTPOT:
		return fmt.Errorf(
			"an assumed TTFT of %v and TPOT of %v; want at most %v and %v",
			a.TTFT,
			a.TPOT,
			maxTTFT,
			maxTPOT,
		)
	}
	return nil
}

// LastNS returns how long a request of so many output tokens took, in ns.
func (a AssumedLatency) LastNS(outputTokens int32) int64 {
	return int64(a.TTFT + time.Duration(max(1, outputTokens)-1)*a.TPOT)
}
