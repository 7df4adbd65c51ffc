package capacity

import (
	"fmt"
	"math"

	"github.com/fastreplay/fastreplay/engine/format"
)

// confirmation is the latest one; nil if there was none.
func (s *Search) confirmation() *Outcome {
	for i := len(s.outcomes) - 1; i >= 0; i-- {
		if o := &s.outcomes[i]; o.Confirm && o.Client == "" {
			return o
		}
	}
	return nil
}

// confirmed tells whether the latest confirmation held, at such a load or a harder one.
func (s *Search) confirmed(logLoad float64) bool {
	c := s.confirmation()
	return c != nil && c.Verdict == Holds && s.logLoad(c.Load) >= logLoad-1e-9
}

// unconfirmed is the load that is to be confirmed: the bound of the answer on the easy side. It is 0 if there is none,
// if that load, or a harder one, held in a confirmation, or if too little of the budget is left.
func (s *Search) unconfirmed() float64 {
	last := s.last()
	a := s.bounded()
	bound := a.Low
	if s.config.Falling {
		bound = 0
		if a.High != nil {
			bound = *a.High
		}
	}
	if bound == 0 || last == nil || last.Client != "" || len(s.outcomes) > mostProbes {
		return 0
	}
	load := s.load(s.logLoad(bound))
	c := s.confirmation()
	if s.confirmed(s.logLoad(load) - s.config.Precision) {
		return 0
	}
	leastS := s.longest() / 2
	if c != nil {
		leastS = confirmWindows * s.longest()
	}
	if least, _ := s.bounds(); s.logLoad(load) < least-1e-9 ||
		s.config.Budget > 0 && s.leftS()-s.besidesS() < leastS {
		return 0
	}
	return load
}

// confirm adds to an answer what its confirmation showed: the lower bound is a load that held in it. If it broke there,
// the bound is withdrawn to what held at an easier load, or altogether.
func (s *Search) confirm(a *Answer) {
	c := s.confirmation()
	if c == nil {
		a.Complete = false
		return
	}
	bound := c.Load
	if c.Verdict == Holds {
		a.HeldS, a.HeldAt = c.lasted(), c.Load
	} else {
		a.Complete = false
		held := s.easier(c)
		if bound = 0; held != nil {
			bound = held.Load
		}
		a.Why += fmt.Sprintf(" At %.4g the objectives broke in the confirmation, after %s, so that bound is withdrawn.",
			c.Load, format.Span(c.lasted()))
	}
	switch {
	case !s.config.Falling:
		a.Low = min(a.Low, bound)
		a.Load = max(a.Load, a.Low)
	case bound == 0:
		a.High = nil
	case a.High != nil:
		a.High = new(max(*a.High, bound))
	}
}

// easier is the hardest probe at an easier load than that of o, in which the objectives held; nil if there is none.
func (s *Search) easier(o *Outcome) (found *Outcome) {
	for i := range s.outcomes {
		p := &s.outcomes[i]
		if p.Verdict == Holds && p.Client == "" && s.logLoad(p.Load) < s.logLoad(o.Load)-1e-9 &&
			(found == nil || s.logLoad(p.Load) > s.logLoad(found.Load)) {
			found = p
		}
	}
	return found
}

// part is the part of the trace that the probe nearest to a load measured, the confirmation aside.
func (s *Search) part(load float64) (part *Part) {
	nearest := math.Inf(1)
	for i := range s.outcomes {
		o := &s.outcomes[i]
		if away := math.Abs(math.Log(o.Load / load)); o.Part != nil && !o.Confirm && (part == nil || away < nearest) {
			nearest, part = away, o.Part
		}
	}
	return part
}
