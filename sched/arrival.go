package sched

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Process is how the gaps between requests are distributed.
type Process string

// The arrival processes. All have the same mean gap.
const (
	Constant Process = "constant" // equal gaps
	Poisson  Process = "poisson"  // exponential gaps: the requests are independent of each other
	Gamma    Process = "gamma"    // gamma gaps of shape Burstiness: below 1 requests cluster, above 1 they keep apart
)

// Processes returns all of them.
func Processes() []Process { return []Process{Constant, Poisson, Gamma} }

// Arrivals describes requests that are released at a rate instead of at a trace's instants. The first is released at
// 0, the k-th on average when the integral of the rate has reached k. Equal descriptions make equal instants on every
// machine.
type Arrivals struct {
	Rate       Rate
	Process    Process
	Burstiness float64 // of Gamma, above 0; 1 is Poisson. As in vLLM it is the gaps' shape, 1 / their squared variation
	Seed       uint64  // of the gaps; Constant has none
}

// FromArrivals plans requests as a describes, and keeps those released before duration (0 = all).
func FromArrivals(requests int, a Arrivals, duration time.Duration) (Plan, error) {
	release, err := a.Instants(requests)
	if err != nil {
		return Plan{}, err
	}
	return openPlan(release, duration), nil
}

// AtOnce plans to release all requests at instant 0, and those that wait for others before duration (0 = all).
func AtOnce(requests int, duration time.Duration) Plan {
	return openPlan(make([]int64, requests), duration)
}

// arrivalStream makes the gaps independent of all else that is drawn from the same seed.
const arrivalStream = 2

// Instants returns the instants of n requests in ns, ascending from 0.
func (a Arrivals) Instants(n int) ([]int64, error) {
	if err := a.Validate(); err != nil {
		return nil, err
	}
	meanNS := 1e9 / a.Rate.To
	gaps := gaps{
		Arrivals: a,
		rng:      rand.NewPCG(a.Seed, arrivalStream),
		meanNS:   meanNS,
		gridNS:   grid(meanNS),
	}
	at := make([]int64, n)
	due := 0.0 // at a steady rate; sums of whole ns are exact up to 104 days
	for i := 1; i < n; i++ {
		if a.Process == Constant {
			due = float64(i) * 1e9 / a.Rate.To // no error adds up
		} else {
			due += gaps.next()
		}
		instant := math.Round(a.Rate.when(due))
		if !(instant <= lastInstantNS) {
			return nil, fmt.Errorf(
				"request %d of %d would leave after more than %g s; raise the rate",
				i+1,
				n,
				lastInstantNS/1e9,
			)
		}
		at[i] = int64(instant)
	}
	return at, nil
}

// lastInstantNS is the latest instant; int64 has room for what is added to it.
const lastInstantNS = 3e18

// Validate returns why the description is none of a process; nil if it is one.
func (a Arrivals) Validate() error {
	switch {
	case !slices.Contains(Processes(), a.Process):
		return fmt.Errorf("arrival is %q; want constant, poisson or gamma", string(a.Process))
	case a.Process == Gamma && (!(a.Burstiness > 0) || math.IsInf(a.Burstiness, 0)):
		return fmt.Errorf("burstiness is %v; want a number above 0 (1 is Poisson, less is burstier)", a.Burstiness)
	}
	return a.Rate.validate()
}

// gaps draws independent gaps.
type gaps struct {
	Arrivals
	rng    *rand.PCG
	meanNS float64
	gridNS float64
}

// grid returns what gaps are rounded to, at most a thousandth of the mean: whole microseconds, or ns above 1,000
// requests a second. So the last bit of a logarithm, which differs between processors, has no effect.
func grid(meanNS float64) float64 {
	if meanNS >= 1e6 {
		return 1e3
	}
	return 1
}

// next returns the next gap, whole ns. It uses the generator's bits itself: the sequence must not change with Go's
// releases.
func (g *gaps) next() float64 {
	var gap float64 // in means
	if g.Process == Gamma {
		gap = g.gamma(g.Burstiness) / g.Burstiness
	} else {
		gap = -math.Log(g.uniform())
	}
	return math.Round(gap*g.meanNS/g.gridNS) * g.gridNS
}

// uniform returns a number in (0, 1].
func (g *gaps) uniform() float64 { return float64(g.rng.Uint64()>>11+1) / (1 << 53) }

// gamma draws from the gamma distribution of the given shape and scale 1. Marsaglia, Tsang: A Simple Method for
// Generating Gamma Variables, ACM Transactions on Mathematical Software 26 (2000), 363; section 6 for shapes below 1.
func (g *gaps) gamma(shape float64) float64 {
	if shape < 1 {
		u := g.uniform()
		return g.gamma(shape+1) * math.Pow(u, 1/shape)
	}
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := math.Sqrt2 * math.Erfinv(2*g.inside()-1) // normal
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v *= v * v
		if math.Log(g.uniform()) < 0.5*x*x+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}

// inside returns a number in (0, 1).
func (g *gaps) inside() float64 { return (float64(g.rng.Uint64()>>12) + 0.5) / (1 << 52) }

// Rate is how many requests are released per second: From at instant 0, To from Over on, and in between a straight
// line.
type Rate struct {
	From, To float64
	Over     time.Duration // 0 = To from the start
}

// Steady is a rate that never changes.
func Steady(perSecond float64) Rate { return Rate{From: perSecond, To: perSecond} }

func (r Rate) validate() error {
	switch {
	case !(r.To > 0) || math.IsInf(r.To, 0):
		return fmt.Errorf("rate is %v; want requests per second above 0", r.To)
	case !(r.From >= 0) || math.IsInf(r.From, 0):
		return fmt.Errorf("rate begins at %v; want requests per second, at least 0", r.From)
	case r.Over < 0 || r.Over == 0 && r.From != r.To:
		return errors.New("a ramp must last longer than 0")
	}
	return nil
}

// when returns the instant in ns at which as many requests are due as at a steady rate of To after steadyNS. It
// solves the integral of the rate for it. Products are rounded before they are added, as on processors that do not
// fuse both.
func (r Rate) when(steadyNS float64) float64 {
	over := float64(r.Over)
	if over == 0 || steadyNS == 0 {
		return steadyNS
	}
	from := r.From / r.To
	end := over * (1 + from) / 2 // as much is due at the end of the ramp
	if steadyNS >= end {
		return over + (steadyNS - end)
	}
	bend := float64(2 * (1 - from) * steadyNS / over)
	return 2 * steadyNS / (from + math.Sqrt(float64(from*from)+bend))
}
