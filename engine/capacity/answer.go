package capacity

import (
	"fmt"
	"math"

	"github.com/fastreplay/fastreplay/engine/format"
)

// update computes all that follows from the outcomes.
func (s *Search) update() {
	s.designEffects = nil
	s.fitted = nil
	s.posteriors = nil
	s.settleS = s.settles()
	tallied := make([][]counts, len(s.config.Objectives))
	breaks := math.Inf(1) // the least x at which an objective breaks
	for j, o := range s.config.Objectives {
		tallied[j] = s.tallied(j)
		for _, t := range tallied[j] {
			if t.share() > o.Allowed {
				breaks = min(breaks, t.logLoad)
			}
		}
	}
	for j, o := range s.config.Objectives {
		s.designEffects = append(s.designEffects, designEffect(tallied[j], o.Allowed))
		sign := false // of breaking, where the first of the objectives do
		for i := range tallied[j] {
			t := &tallied[j][i]
			t.designEffect = s.designEffects[j]
			t.trust(o.Allowed)
			if s.config.Falling { // a load of few instances is far from the next
				t.least = math.Inf(-1)
			}
			sign = sign || t.share() > clearly*o.Allowed && t.logLoad < breaks+0.1
		}
		if sign {
			s.fitted = append(s.fitted, j)
			s.posteriors = append(s.posteriors, fit(o.Allowed, tallied[j]))
		}
	}
	if len(s.posteriors) > 0 {
		s.low, s.median, s.high = s.posteriors.at(tail), s.posteriors.at(0.5), s.posteriors.at(1-tail)
	}
	s.why = s.ended()
}

// tallied are of objective j, of all probes that tell of the server.
func (s *Search) tallied(j int) (all []counts) {
	objective := &s.config.Objectives[j]
	for i := range s.outcomes {
		o := &s.outcomes[i]
		counted := s.settled(o)
		t := count(counted, j)
		if o.Client != "" || t.n == 0 {
			continue
		}
		t.logLoad = s.logLoad(o.Load)
		if lasted := o.lasted(); lasted > 0 && t.share() <= objective.Allowed {
			// a load so much above a hard edge takes all the window to break the limit
			t.logLoad -= min(0.1, float64(objective.LimitNS)/1e9/lasted)
		}
		t.grows = backlogGrows(counted)
		all = append(all, t)
	}
	return all
}

// lasted is the duration of the window as far as it went, in s.
func (o *Outcome) lasted() float64 { return float64(len(o.Slices)) * o.SliceS }

// designEffect is that of requests that are correlated, of all probes below the edge or near it in which no backlog
// grew: who waits in that is late by no chance. Where few groups of requests are beyond, it is thought to be larger.
func designEffect(all []counts, allowed float64) float64 {
	var variance, independent, groups float64
	for _, t := range all {
		if t.share() < min(0.5, 3*allowed) && !t.grows {
			variance, independent, groups = variance+t.variance, independent+t.independent, groups+t.beyond
		}
	}
	if independent == 0 {
		return priorDesignEffect
	}
	const doubt = 20 // groups
	e := max(1, variance/independent)
	groups /= e
	return (e*groups + 1.5*max(priorDesignEffect, e)*doubt) / (groups + doubt)
}

// ended is why the search is over; "" if it goes on.
func (s *Search) ended() string {
	if o := s.last(); o != nil && o.Client != "" {
		return fmt.Sprintf("The client was the bottleneck at %.4g: %s. %s", o.Load, o.Client, s.beyondClient())
	}
	least, most := s.bounds()
	budget := s.config.Budget.Seconds()
	switch held := s.held(); {
	case s.complete():
		if low, load, high := s.interval(tail); high-low > s.config.Precision*load {
			return "The interval is as narrow as this part of the trace allows: other traffic like it varies as much."
		}
		return "The interval is as narrow as wanted."
	case s.stopped != "":
		return s.stopped
	case held != 0 && s.logLoad(held) >= most-1e-9 && (len(s.posteriors) == 0 || s.confirmed(most)),
		held != 0 && s.beyond(most):
		return fmt.Sprintf("The objectives hold at %.4g, and nothing harder was to be tried.", held)
	case s.posteriors.until(least) > 1-tail:
		return fmt.Sprintf("The objectives break even at %.4g.", s.load(least))
	case budget > 0 && len(s.outcomes) > 0 && s.leftS() < s.nextS()+s.besidesS()+s.reserveS():
		return fmt.Sprintf("The budget of %s leaves no time for another probe, and the interval is wider than wanted; "+
			"the same command goes on with a larger one.", format.Span(budget))
	case len(s.outcomes) >= mostProbes:
		return fmt.Sprintf("After %d probes the interval is still wider than wanted.", mostProbes)
	}
	return ""
}

// nextS is how long the next window must be at least, in s. Far from the edge a small part of one may do.
func (s *Search) nextS() float64 {
	if above, below := s.open(); above || below {
		return s.config.WindowS / 4
	}
	return s.config.WindowS
}

// beyondClient is what a search tells of the servers that the client ended.
func (s *Search) beyondClient() string {
	switch {
	case s.held() == 0:
		return "So the servers' capacity stays unknown."
	case s.config.Falling:
		return "So fewer instances may do."
	}
	return "So the servers may carry more."
}

func (s *Search) last() *Outcome {
	if len(s.outcomes) == 0 {
		return nil
	}
	return &s.outcomes[len(s.outcomes)-1]
}

// beyond tells whether the capacity surely lies above x.
func (s *Search) beyond(x float64) bool { return len(s.posteriors) > 0 && s.posteriors.until(x) < tail }

// complete tells whether the interval is as narrow as wanted, and rests on probes that lasted long enough, or as long
// as any could.
func (s *Search) complete() bool {
	if above, below := s.open(); above || below {
		return false
	}
	if low, _, high := s.interval(sure); s.config.Whole && low == high {
		return true
	}
	_, again := s.repetition()
	low, load, high := s.interval(tail)
	narrow := max(s.config.Precision, 1.25*s.attainable())
	return len(s.nearEdge()) >= leastNear && !again && high-low <= narrow*load
}

// interval is what the posteriors say of the capacity, as loads, but for a probability of tail on either side.
func (s *Search) interval(tail float64) (low, load, high float64) {
	if len(s.posteriors) == 0 {
		return 0, 0, 0
	}
	below, above := s.wider(tail, s.median-s.posteriors.at(tail)), s.wider(tail, s.posteriors.at(1-tail)-s.median)
	low, load, high = math.Exp(s.median-below), math.Exp(s.median), math.Exp(s.median+above)
	whole := math.Floor
	if s.config.Falling {
		low, load, high, whole = 1/high, 1/load, 1/low, math.Ceil
	}
	if s.config.Whole {
		low, load, high = whole(low), whole(load), whole(high)
	}
	return low, load, high
}

// Summarize replaces the slices of an outcome by the share of the requests beyond each of so many objectives.
func (o *Outcome) Summarize(objectives int) {
	for j := range objectives {
		if t := count(o.Slices, j); t.n > 0 {
			o.Beyond = append(o.Beyond, t.share())
		}
	}
	o.Slices = nil
}

// Answer is what is known so far.
func (s *Search) Answer() Answer {
	a := s.bounded()
	a.SettleS = s.settleS
	s.confirm(&a)
	a.Part = s.part(a.Load)
	return a
}

// bounded is the answer without a confirmation.
func (s *Search) bounded() Answer {
	a := Answer{
		Probes:   len(s.outcomes),
		SpentS:   s.spentS,
		Complete: s.complete(),
		Why:      s.why,
	}
	low, load, high := s.interval(tail)
	o := s.last()
	above, below := s.open()
	least, most := s.bounds()
	below = below || s.posteriors.until(least) > 1-tail
	unbounded := above || o != nil && o.Client != "" || s.beyond(most)
	if !unbounded {
		a.Limits = s.config.Objectives[s.limiting()].Text
	}
	if s.config.Falling { // more is easier: the bounds change sides
		unbounded, below = below, unbounded
	}
	if a.Load = load; unbounded || below {
		a.Load = s.held()
	}
	if !unbounded {
		a.High = &high
	}
	if !below {
		a.Low = low
	}
	// no probe was easier
	if broke := s.nearest(Breaks); a.Load == 0 && a.High != nil && broke != nil && !s.config.Falling {
		a.High = new(broke.Load)
	}
	switch { // what holds bounds the side that is open
	case unbounded && !s.config.Falling:
		a.Low = a.Load
	case below && s.config.Falling && a.Load > 0:
		a.High = &a.Load
		if s.config.Whole && a.Load == 1 { // none is less
			a.Low, a.Complete = 1, true
		}
	}
	return a
}
