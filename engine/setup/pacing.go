package setup

import (
	"fmt"
	"time"

	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/sched"
)

// Pacing decides when requests leave: at the trace's own times, at a rate in their place, or when requests end.
type Pacing struct {
	Scale       float64         // speed: 2 sends twice as fast as recorded
	KeepTimes   bool            // Concurrency bounds what leaves at the trace's times, in place of a closed loop
	AtOnce      bool            // all leave at once
	Arrivals    *sched.Arrivals // nil if there is no rate
	Concurrency int             // in flight, or the most of them where requests leave by the clock; 0 = any
	Lanes       int             // jobs that run at a time, with SessionsLanes; 0 = any
	Duration    time.Duration   // nothing is released after it; 0 = all is
}

// Closed reports whether only requests or jobs that end release others. With all requests due at once, a cap is the same.
func (p *Pacing) Closed() bool {
	return p.Lanes > 0 || p.Concurrency > 0 && p.Arrivals == nil && !p.KeepTimes
}

// Capped reports whether no more than so many requests may be in flight of those that leave by the clock.
func (p *Pacing) Capped() bool { return p.Concurrency > 0 && !p.Closed() }

// Timed reports whether requests leave at trace times.
func (p *Pacing) Timed() bool { return !p.Closed() && p.Arrivals == nil && !p.AtOnce }

// Plan returns when each request of a trace leaves.
func (p *Pacing) Plan(t *trace.Trace) (plan sched.Plan, err error) {
	switch {
	case p.Closed():
		return sched.Closed(t.Len(), max(p.Lanes, p.Concurrency), p.Duration)
	case p.AtOnce:
		return sched.AtOnce(t.Len(), p.Duration), nil
	case p.Arrivals != nil:
		plan, err = sched.FromArrivals(t.Len(), *p.Arrivals, p.Duration)
	default:
		plan, err = sched.FromTrace(t.ArrivalNS, p.Scale, p.Duration)
	}
	if err != nil || p.Concurrency == 0 {
		return plan, err
	}
	return plan.Capped(p.Concurrency)
}

// Words describes what decides when requests are sent.
func (p *Pacing) Words() string {
	a := p.Arrivals
	switch {
	case p.Lanes > 0:
		return format.Many(p.Lanes, "lane")
	case p.Closed():
		return fmt.Sprintf("closed loop of %d", p.Concurrency)
	case p.AtOnce:
		return "all at once"
	case a == nil:
		return metrics.TraceTime
	}
	rate := format.Rate(a.Rate.To) + " requests/s"
	if a.Rate.Over > 0 {
		rate = fmt.Sprintf("%s to %s over %v", format.Rate(a.Rate.From), rate, a.Rate.Over)
	}
	switch a.Process {
	case sched.Poisson:
		rate += ", Poisson"
	case sched.Gamma:
		rate += fmt.Sprintf(", gamma of burstiness %g", a.Burstiness)
	}
	return rate
}

// Summary returns the rate as the results have it; nil without one.
func (p *Pacing) Summary() *metrics.Arrival {
	a := p.Arrivals
	if a == nil {
		return nil
	}
	s := &metrics.Arrival{Process: string(a.Process), FromPerS: a.Rate.From, PerS: a.Rate.To, RampS: a.Rate.Over.Seconds()}
	if a.Process == sched.Gamma {
		s.Burstiness = &a.Burstiness
	}
	if a.Process != sched.Constant {
		s.Seed = &a.Seed
	}
	return s
}
