package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/sched"
)

// pacing is what decides when requests leave: the trace's own times, a rate in their place, or requests that end.
type pacing struct {
	scale       float64
	duration    time.Duration
	fixed       bool
	notFixed    bool
	rate        string
	ramp        string
	arrival     string
	burstiness  float64
	concurrency int
	repeat      int

	given    func(flag string) bool
	arrivals *sched.Arrivals // from complete on; nil without --rate R and --ramp
}

// rateMax is the --rate that releases everything at once.
const rateMax = "max"

func (p *pacing) addFlags(f *pflag.FlagSet) {
	p.given = f.Changed
	f.Float64Var(&p.scale, "scale", 1, "speed: 2 sends twice as fast as recorded")
	f.DurationVar(&p.duration, "duration", 0, "release nothing after this much wall time")
	f.BoolVar(&p.fixed, "fixed-schedule", false, "send at trace times, which is the default; beside it --concurrency is a cap")
	f.BoolVar(&p.notFixed, "no-fixed-schedule", false, "ignore trace times; needs --rate, --ramp or --concurrency")
	f.StringVar(&p.rate, "rate", "", "send `R` requests per second instead of at trace times, or all at once: max")
	f.StringVar(&p.ramp, "ramp", "", "send at a rate that goes `FROM:TO:TIME`, such as 10:500:60s, and stays there")
	f.StringVar(&p.arrival, "arrival", "", "spacing at a rate: constant, poisson or gamma (default: constant, with --burstiness gamma)")
	f.Float64Var(&p.burstiness, "burstiness", 1, "of --arrival gamma: `B` below 1 is burstier than Poisson, above 1 more even")
	f.IntVar(&p.concurrency, "concurrency", 0, "keep `N` requests in flight (closed loop); with --fixed-schedule, --scale or a rate: let no more than N be in flight")
	f.IntVar(&p.repeat, "repeat", 1, "replay the selection `N` times in a row")
}

// complete checks the flags against each other and reads what --rate and --ramp say; seed is that of the gaps.
func (p *pacing) complete(seed uint64) error {
	if err := p.check(); err != nil {
		return err
	}
	rate, err := p.parseRate()
	if err != nil || rate == nil {
		return err
	}
	a := sched.Arrivals{Rate: *rate, Process: sched.Process(p.arrival), Burstiness: p.burstiness, Seed: seed}
	if err := chooseProcess(&a, p.given("burstiness"), sched.Constant); err != nil {
		return err
	}
	if err := a.Validate(); err != nil {
		return fmt.Errorf("--%s: %w", p.culprit(), err)
	}
	p.arrivals = &a
	return nil
}

// chooseProcess is the one given, else gamma where a burstiness is given, else the usual one.
func chooseProcess(a *sched.Arrivals, bursty bool, usual sched.Process) error {
	switch {
	case a.Process == "" && bursty:
		a.Process = sched.Gamma
	case a.Process == "":
		a.Process = usual
	case a.Process != sched.Gamma && bursty:
		return fmt.Errorf("--burstiness is about --arrival gamma, not %s", a.Process)
	}
	return nil
}

// culprit is the flag about which arrivals may complain.
func (p *pacing) culprit() string {
	switch {
	case p.arrival != "" && !slices.Contains(sched.Processes(), sched.Process(p.arrival)):
		return "arrival"
	case p.given("burstiness") && (!(p.burstiness > 0) || math.IsInf(p.burstiness, 0)):
		return "burstiness"
	case p.ramp != "":
		return "ramp"
	}
	return "rate"
}

// check refuses what contradicts itself.
func (p *pacing) check() error {
	rated := p.rate != "" || p.ramp != ""
	switch {
	case p.fixed && p.notFixed:
		return errors.New("--fixed-schedule and --no-fixed-schedule exclude each other")
	case p.rate != "" && p.ramp != "":
		return errors.New("--rate and --ramp exclude each other")
	case p.fixed && rated:
		return errors.New("--fixed-schedule sends at trace times, which --rate and --ramp ignore")
	case p.given("scale") && (rated || p.notFixed):
		return errors.New("--scale is about trace times, which --rate, --ramp and --no-fixed-schedule ignore")
	case p.notFixed && !rated && p.concurrency == 0:
		return errors.New("--no-fixed-schedule ignores trace times; say when requests leave, with --rate R, --rate max, --ramp or --concurrency N")
	case p.concurrency < 0 || p.duration < 0:
		return errors.New("--concurrency and --duration cannot be negative")
	case p.repeat < 1:
		return fmt.Errorf("--repeat is %d; want at least 1", p.repeat)
	case (p.given("arrival") || p.given("burstiness")) && (!rated || p.rate == rateMax):
		return errors.New("--arrival and --burstiness space requests at a rate; give one with --rate R or --ramp")
	}
	return nil
}

// parseRate is nil where requests are not released at a rate.
func (p *pacing) parseRate() (*sched.Rate, error) {
	switch {
	case p.ramp != "":
		return parseRamp(p.ramp)
	case p.rate == "" || p.rate == rateMax:
		return nil, nil
	}
	perSecond, err := strconv.ParseFloat(p.rate, 64)
	if err != nil {
		return nil, fmt.Errorf("--rate %q: want requests per second, or max", p.rate)
	}
	if math.IsInf(perSecond, 1) {
		return nil, fmt.Errorf("--rate %s: to send everything at once, say --rate %s", p.rate, rateMax)
	}
	rate := sched.Steady(perSecond)
	return &rate, nil
}

// parseRamp reads FROM:TO:TIME.
func parseRamp(text string) (*sched.Rate, error) {
	parts := strings.Split(text, ":")
	if len(parts) == 3 {
		from, errFrom := strconv.ParseFloat(parts[0], 64)
		to, errTo := strconv.ParseFloat(parts[1], 64)
		over, errOver := time.ParseDuration(parts[2])
		if errors.Join(errFrom, errTo, errOver) == nil && over > 0 {
			return &sched.Rate{From: from, To: to, Over: over}, nil
		}
	}
	return nil, fmt.Errorf("--ramp %q: want FROM:TO:TIME in requests per second, such as 10:500:60s", text)
}

// closed tells whether requests that end release others, and nothing else does. With all requests due at once that is what a
// cap amounts to.
func (p *pacing) closed() bool {
	return p.concurrency > 0 && p.arrivals == nil && !p.fixed && !p.given("scale")
}

// capped tells whether no more than so many requests may be in flight of those that leave by the clock.
func (p *pacing) capped() bool { return p.concurrency > 0 && !p.closed() }

// timed tells whether requests leave at trace times.
func (p *pacing) timed() bool { return !p.closed() && p.arrivals == nil && p.rate != rateMax }

// checkTimes refuses to send at trace times where there are none.
func (p *pacing) checkTimes(t *trace.Trace) error {
	if !t.Untimed || !p.timed() {
		return nil
	}
	return fmt.Errorf("%s: no row says when it arrived; say when requests leave, with --rate R, --rate max, --ramp or --concurrency N", t.Name)
}

// plan is when each request of a trace leaves.
func (p *pacing) plan(t *trace.Trace) (plan sched.Plan, err error) {
	switch {
	case p.closed():
		return sched.Closed(t.Len(), p.concurrency, p.duration)
	case p.rate == rateMax:
		return sched.AtOnce(t.Len(), p.duration), nil
	case p.arrivals != nil:
		plan, err = sched.FromArrivals(t.Len(), *p.arrivals, p.duration)
	default:
		plan, err = sched.FromTrace(t.ArrivalNS, p.scale, p.duration)
	}
	if err != nil || p.concurrency == 0 {
		return plan, err
	}
	return plan.Capped(p.concurrency)
}

// repeated is the trace so often in a row.
func (p *pacing) repeated(t *trace.Trace) (*trace.Trace, error) {
	requests := float64(p.repeat) * float64(t.Len())
	if free, err := freeAllowance(0); err == nil && p.repeat > 1 {
		if err := free.refuse("--repeat", p.repeat, requests, requests*peakPerRequest); err != nil {
			return nil, err
		}
	}
	t, err := t.Repeat(p.repeat)
	if err != nil {
		return nil, fmt.Errorf("--repeat: %w", err)
	}
	return t, nil
}

// words say what decides when requests are sent.
func (p *pacing) words() string {
	a := p.arrivals
	switch {
	case p.closed():
		return fmt.Sprintf("closed loop of %d", p.concurrency)
	case p.rate == rateMax:
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

// summary is what the results say of the rate; nil without one.
func (p *pacing) summary() *metrics.Arrival {
	a := p.arrivals
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
