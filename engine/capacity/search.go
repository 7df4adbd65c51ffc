package capacity

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/fastreplay/fastreplay/engine/format"
)

// Search decides what to probe. Everything that it says follows from its Config and the outcomes so far, in their order. It is for one
// goroutine.
type Search struct {
	config   Config
	outcomes []Outcome
	spentS   float64

	effects []float64 // by objective: of requests that share their fate, as probes near the edge had it
	fitted  []int     // objectives that may limit
	beliefs beliefs   // of those
	low     float64   // quantiles of the capacity, as x
	median  float64
	high    float64
	why     string // why it ended
}

const (
	// tail is the probability on either side of the interval. It is less than 2.5 %: what the fit assumes is true only nearly.
	tail = 0.0125
	// usual is the effect of requests that share their fate before a probe showed it.
	usual = 4
	// mostProbes ends a search in which probes contradict each other without end.
	mostProbes = 40
	// mostHalvings is how far below Least a search goes.
	mostHalvings = 10
)

// New makes a search. Its errors say what of the Config cannot be.
func New(c Config) (*Search, error) {
	if c.Precision == 0 {
		c.Precision = 0.04
	}
	switch {
	case len(c.Objectives) == 0:
		return nil, errors.New("a search needs objectives")
	case !(c.Least > 0) || math.IsInf(c.Least, 0):
		return nil, fmt.Errorf("a search cannot begin at a load of %v; want a number above 0", c.Least)
	case c.Most != 0 && !(c.Most >= c.Least):
		return nil, fmt.Errorf("a search that begins at a load of %v cannot end at %v at most", c.Least, c.Most)
	case c.Whole && c.Least != math.Trunc(c.Least):
		return nil, fmt.Errorf("a load of %v is no whole number", c.Least)
	case !(c.Precision >= 0.001 && c.Precision < 1):
		return nil, fmt.Errorf("a precision of %v; want 0.001 up to less than 1", c.Precision)
	}
	s := &Search{config: c}
	s.update()
	return s, nil
}

// Add takes the outcome of the probe that Next returned.
func (s *Search) Add(o Outcome) {
	s.outcomes = append(s.outcomes, o)
	s.spentS += o.SpentS
	s.update()
}

// Next returns the probe to try, or false if the search has ended.
func (s *Search) Next() (Probe, bool) {
	if s.why != "" {
		return Probe{}, false
	}
	return Probe{Number: len(s.outcomes) + 1, Load: s.load(s.place())}, true
}

// x is where a load is on the axis of the fit: more is harder.
func (s *Search) x(load float64) float64 {
	if s.config.Falling {
		return -math.Log(load)
	}
	return math.Log(load)
}

// load is the load at x: a whole number, or one with four digits.
func (s *Search) load(x float64) float64 {
	if s.config.Falling {
		x = -x
	}
	load := math.Exp(x)
	if s.config.Whole {
		return max(1, math.Round(load))
	}
	load, _ = strconv.ParseFloat(strconv.FormatFloat(load, 'g', 4, 64), 64)
	return load
}

// bounds are the least and the largest x that may be probed.
func (s *Search) bounds() (least, most float64) {
	c := &s.config
	least, most = s.x(c.Least)-mostHalvings*math.Ln2, math.Inf(1)
	switch {
	case c.Falling:
		if most = -math.Log(c.Least) + mostHalvings*math.Ln2; c.Whole {
			most = 0
		}
		if c.Most > 0 {
			least = -math.Log(c.Most)
		}
	default:
		if c.Whole {
			least = max(0, least)
		}
		if c.Most > 0 {
			most = math.Log(c.Most)
		}
	}
	return least, most
}

// update computes all that follows from the outcomes.
func (s *Search) update() {
	s.effects, s.fitted, s.beliefs = nil, nil, nil
	for j := range s.config.Objectives {
		s.effects = append(s.effects, s.effect(j))
		if all := s.tallies(j); len(all) > 0 {
			allowed := s.config.Objectives[j].Allowed
			if slices.ContainsFunc(all, func(t tally) bool { return t.beyond > allowed/2*t.n }) {
				s.fitted = append(s.fitted, j)
				s.beliefs = append(s.beliefs, fit(allowed, all))
			}
		}
	}
	if len(s.beliefs) > 0 {
		s.low, s.median, s.high = s.beliefs.at(tail), s.beliefs.at(0.5), s.beliefs.at(1-tail)
	}
	s.why = s.ended()
}

// tallies are of objective j, of all probes that tell of the server.
func (s *Search) tallies(j int) (all []tally) {
	edge := logit(s.config.Objectives[j].Allowed)
	for i := range s.outcomes {
		o := &s.outcomes[i]
		t := s.tally(o.Probe, o.Slices, j, false)
		if o.Client != "" || t.n == 0 {
			continue
		}
		n := t.n / t.effect
		p := (t.beyond/t.effect + 0.5) / (n + 1)
		noise, away := 1/(n*p*(1-p)), bend*(logit(p)-edge)
		t.weight = noise / (noise + away*away)
		all = append(all, t)
	}
	return all
}

// effect is that of requests that share their fate, by the probes near the edge of objective j.
func (s *Search) effect(j int) float64 {
	const doubt = 4 // batches
	sum, count := usual*float64(doubt), float64(doubt)
	allowed := s.config.Objectives[j].Allowed
	for i := range s.outcomes {
		o := &s.outcomes[i]
		n, beyond := make([]float64, len(o.Slices)), make([]float64, len(o.Slices))
		sumN, sumB := 0.0, 0.0
		for k := range o.Slices {
			n[k], beyond[k] = float64(o.Slices[k].Requests), float64(o.Slices[k].Beyond[j])
			sumN, sumB = sumN+n[k], sumB+beyond[k]
		}
		if p := sumB / sumN; p > allowed/8 && p < min(0.5, 8*allowed) {
			e, batches := effect(n, beyond)
			sum, count = sum+e*batches, count+batches
		}
	}
	return max(1, sum/count)
}

// probed are the least and the largest x of probes that tell of the server.
func (s *Search) probed() (least, most float64) {
	least, most = math.Inf(1), math.Inf(-1)
	for i := range s.outcomes {
		if o := &s.outcomes[i]; o.Client == "" {
			least, most = min(least, s.x(o.Load)), max(most, s.x(o.Load))
		}
	}
	return least, most
}

// unsure is a probability that the capacity lies far outside of what was probed, above which the search goes there.
const unsure = 0.01

// open tells whether the capacity may lie far above, or far below, the loads that were probed.
func (s *Search) open() (above, below bool) {
	least, most := s.probed()
	if len(s.beliefs) == 0 {
		return true, false
	}
	return 1-s.beliefs.until(most+math.Ln2) > unsure, s.beliefs.until(least-math.Ln2) > unsure
}

// place is the x of the next probe: twice or half the load until the capacity is bounded, then where it narrows the interval most.
func (s *Search) place() float64 {
	if len(s.outcomes) == 0 {
		return s.x(s.config.Least)
	}
	least, most := s.bounds()
	from, to := s.probed()
	switch above, below := s.open(); {
	case above:
		return min(most, to+math.Ln2)
	case below:
		return max(least, from-math.Ln2)
	}
	b := s.beliefs[s.beliefs.first()]
	n := s.window() / s.effects[s.fitted[s.beliefs.first()]]
	best, where := -1.0, 0.0
	const tries = 24
	reach := s.high - s.low
	for i := range tries + 1 {
		x := s.low + reach*(2*float64(i)/tries-0.5)
		x = s.x(s.load(min(most, max(least, x))))
		if gain := b.gain(x, n); gain > best {
			best, where = gain, x
		}
	}
	return where
}

// Window is how long a probe's measured window is to be.
type Window struct {
	Requests int64   // at least
	LeastS   float64 // and at least so long in s: a backlog that grows slowly needs time to break a latency
}

// Window returns how long the window of the next probe is to be: enough for the percentiles of the objectives and, near the edge, about
// half of what the wanted interval needs.
func (s *Search) Window(Probe) Window {
	w := Window{Requests: int64(math.Ceil(s.window()))}
	if above, below := s.open(); !above && !below {
		for _, o := range s.config.Objectives {
			w.LeastS = max(w.LeastS, float64(o.LimitNS)/1e9*2/s.config.Precision)
		}
	}
	return w
}

func (s *Search) window() float64 {
	n := 400.0
	for _, o := range s.config.Objectives {
		n = max(n, 7/o.Allowed)
	}
	if above, below := s.open(); above || below {
		return n
	}
	i := s.beliefs.first()
	b, allowed := s.beliefs[i], s.beliefs[i].allowed
	slope := 0.0
	for _, row := range b.joint {
		for j, w := range row {
			slope += w * math.Log(slopeOf(j))
		}
	}
	slope = math.Exp(slope)
	deviation := s.config.Precision / 4.5
	return min(100*n, max(n, s.effects[s.fitted[i]]/(slope*slope*allowed*(1-allowed)*deviation*deviation)/2))
}

// ended is why the search is over; "" if it goes on.
func (s *Search) ended() string {
	least, most := s.bounds()
	if len(s.outcomes) > 0 {
		if o := &s.outcomes[len(s.outcomes)-1]; o.Client != "" {
			return fmt.Sprintf("The client was the bottleneck at %s: %s. So this is a lower bound of the server's capacity.", format.Number(o.Load, 4), o.Client)
		}
	}
	held := s.held()
	switch {
	case s.complete():
		return "The interval is as narrow as wanted."
	case held != 0 && (len(s.beliefs) == 0 && s.x(held) >= most-1e-9 || len(s.beliefs) > 0 && 1-s.beliefs.until(most) > 1-tail):
		return fmt.Sprintf("The objectives hold at %s, and nothing harder was to be tried.", format.Number(held, 4))
	case len(s.beliefs) > 0 && s.beliefs.until(least) > 1-tail:
		return fmt.Sprintf("The objectives break even at %s.", format.Number(s.load(least), 4))
	case s.config.Budget > 0 && s.spentS >= s.config.Budget.Seconds():
		return fmt.Sprintf("The budget of %s is spent.", format.Span(time.Duration(s.config.Budget).Seconds()))
	case len(s.outcomes) >= mostProbes:
		return fmt.Sprintf("After %d probes the interval is still wider than wanted: the server differs from probe to probe.", mostProbes)
	}
	return ""
}

// complete tells whether the interval is as narrow as wanted.
func (s *Search) complete() bool {
	if above, below := s.open(); above || below || len(s.beliefs) == 0 {
		return false
	}
	low, load, high := s.interval()
	return high-low <= s.config.Precision*load
}

// interval is what the beliefs say of the capacity, as loads.
func (s *Search) interval() (low, load, high float64) {
	low, load, high = math.Exp(s.low), math.Exp(s.median), math.Exp(s.high)
	whole := math.Floor
	if s.config.Falling {
		low, load, high = 1/high, 1/load, 1/low
		whole = math.Ceil
	}
	if s.config.Whole {
		low, load, high = whole(low), whole(load), whole(high)
	}
	return low, load, high
}

// held is the hardest load that held; 0 if none did.
func (s *Search) held() (load float64) {
	for i := range s.outcomes {
		if o := &s.outcomes[i]; o.Verdict == Holds && o.Client == "" && (load == 0 || s.x(o.Load) > s.x(load)) {
			load = o.Load
		}
	}
	return load
}

// Answer is what is known so far.
func (s *Search) Answer() Answer {
	a := Answer{Probes: len(s.outcomes), SpentS: s.spentS, Complete: s.complete(), Why: s.why}
	above, below := s.open()
	client := len(s.outcomes) > 0 && s.outcomes[len(s.outcomes)-1].Client != ""
	if _, most := s.bounds(); client || above || s.beliefs.until(most) < tail {
		if a.Load = s.held(); s.config.Falling && a.Load != 0 {
			a.High = &a.Load
		} else {
			a.Low = a.Load
		}
		return a
	}
	low, load, high := s.interval()
	a.Load, a.Low, a.High = load, low, &high
	if below && s.config.Falling {
		a.Load, a.High = s.held(), nil
	} else if below {
		a.Load, a.Low = s.held(), 0
	}
	a.Limits = s.config.Objectives[s.fitted[s.beliefs.first()]].Text
	return a
}
