package capacity

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
)

// Search decides what to probe. Everything that it says follows from its Config and the outcomes so far, in their
// order. It is for one goroutine.
type Search struct {
	config   Config
	outcomes []*Outcome
	served   []*Outcome // those that tell of the server: the client was not the bottleneck
	spentS   float64

	designEffects     []float64  // by objective: of requests that are correlated
	fitted            []int      // objectives that may limit
	posteriors        posteriors // of those
	low, median, high float64    // quantiles of the capacity, as log load
	why               string     // why it ended, but for the confirmation
	stopped           string     // the same, of Stop
	settleS           float64    // so long at the beginning of a probe the servers are slower than later
}

const (
	// tail is the probability on either side of the interval. It is less than 2.5 %, for a search ends when its
	// interval happens to be narrow. In simulations of queues the interval then covers the capacity in at least 95 % of
	// the searches.
	tail = 0.01
	// sure is the same where one whole number of them is the answer.
	sure = 0.001
	// priorDesignEffect is the effect of requests that are correlated, as far as no probe showed it. Simulated queues
	// and caches have 50 to 600. With 15 some searches ended after a twentieth of the time of others, with an interval
	// beside the capacity.
	priorDesignEffect = 60
	// priorDesignEffectFar is the same at the end of a window before any probe showed a sign of breaking.
	priorDesignEffectFar = 22
	// far is a probability that the capacity is not within twice and half of the loads probed, above which the search
	// goes there.
	far = 0.01
	// leastNear is how many probes near the edge must have lasted long enough to show how far requests are correlated.
	leastNear = 3
	// mostProbes ends a search in which probes contradict each other without end.
	mostProbes = 40
	// mostHalvings is how far below Least a search goes.
	mostHalvings = 10
	// confirmWindows is how many windows of probes the confirmation lasts, at least.
	confirmWindows = 3
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
	case !(c.From <= c.Least):
		return nil, fmt.Errorf("a search that begins at a load of %v has none below %v", c.Least, c.From)
	case c.Most != 0 && !(c.Most >= c.Least):
		return nil, fmt.Errorf("a search that begins at a load of %v cannot end at %v at most", c.Least, c.Most)
	case c.Whole && c.Least != math.Trunc(c.Least):
		return nil, fmt.Errorf("a load of %v is no whole number", c.Least)
	case !(c.WindowS > 0):
		return nil, fmt.Errorf("a window of %v s; want a time above 0", c.WindowS)
	case !(c.Precision >= 0.001 && c.Precision < 1):
		return nil, fmt.Errorf("a precision of %v; want 0.001 up to less than 1", c.Precision)
	}
	s := &Search{config: c}
	s.update()
	return s, nil
}

// Add takes the outcome of the probe that Next returned.
func (s *Search) Add(o Outcome) {
	s.outcomes = append(s.outcomes, &o)
	if o.Client == "" {
		s.served = append(s.served, &o)
	}
	s.spentS += o.SpentS
	s.update()
}

// Next returns the probe to try, or false if the search has ended. The last one is the confirmation.
func (s *Search) Next() (Probe, bool) {
	p := Probe{Number: len(s.outcomes) + 1}
	if s.why == "" {
		p.Load = s.load(s.nextDesignPoint())
		return p, true
	}
	p.Load = s.unconfirmed()
	p.Confirm = true
	return p, p.Load > 0
}

// Stop ends the search before its time, and says why in a whole sentence. The confirmation is still to come.
func (s *Search) Stop(why string) {
	s.stopped = why
	s.update()
}

// logLoad is where a load is on the axis of the fit: more is harder.
func (s *Search) logLoad(load float64) float64 {
	if s.config.Falling {
		return -math.Log(load)
	}
	return math.Log(load)
}

// load is the load there: a whole number, or one with four digits.
func (s *Search) load(logLoad float64) float64 {
	if s.config.Falling {
		logLoad = -logLoad
	}
	load := math.Exp(logLoad)
	if s.config.Whole {
		return max(1, math.Round(load))
	}
	load, _ = strconv.ParseFloat(strconv.FormatFloat(load, 'g', 4, 64), 64)
	return load
}

// bounds are the least and the largest log load that may be probed.
func (s *Search) bounds() (least, most float64) {
	c := &s.config
	smallest := cmp.Or(c.From, c.Least/(1<<mostHalvings))
	largest := math.Inf(1)
	if c.Whole {
		smallest = max(1, c.From)
	}
	if c.Most > 0 {
		largest = c.Most
	}
	if c.Falling {
		return s.logLoad(largest), s.logLoad(smallest)
	}
	return s.logLoad(smallest), s.logLoad(largest)
}

// probed are the least and the largest log load of probes that tell of the server.
func (s *Search) probed() (least, most float64) {
	least = math.Inf(1)
	most = math.Inf(-1)
	for _, o := range s.served {
		least = min(least, s.logLoad(o.Load))
		most = max(most, s.logLoad(o.Load))
	}
	return least, most
}

// open tells whether the capacity may lie far above, or far below, the loads that were probed.
func (s *Search) open() (above, below bool) {
	if len(s.posteriors) == 0 {
		return true, false
	}
	least, most := s.probed()
	return 1-s.posteriors.until(most+math.Ln2) > far, s.posteriors.until(least-math.Ln2) > far
}

// nextDesignPoint is the log load of the next probe. It is twice or half the load until the capacity is bounded, then
// where it narrows the interval most.
func (s *Search) nextDesignPoint() float64 {
	if len(s.outcomes) == 0 {
		return s.logLoad(s.config.Least)
	}
	least, most := s.bounds()
	from, to := s.probed()
	held := s.nearest(Holds)
	if held != nil && !held.Cut {
		broke := s.nearest(Breaks)
		if broke == nil || s.logLoad(broke.Load) > s.logLoad(held.Load) {
			least = s.logLoad(held.Load) // what is known to hold is not searched below
		}
	}
	switch above, below := s.open(); {
	case above:
		return min(most, to+math.Ln2)
	case below:
		return max(least, from-math.Ln2)
	}
	if again, due := s.repetition(); due {
		return again
	}
	i := s.posteriors.first()
	n := 1.0 // independent requests of a window
	for _, o := range s.outcomes {
		n = max(n, count(o.Slices, 0).n/s.designEffects[s.fitted[i]])
	}
	best := -1.0
	where := 0.0
	const tries = 24
	for k := range tries + 1 {
		logLoad := s.low + (s.high-s.low)*(2*float64(k)/tries-0.5)
		logLoad = s.logLoad(s.load(min(most, max(least, logLoad))))
		gain := s.posteriors[i].gain(logLoad, n)
		if gain > best {
			best = gain
			where = logLoad
		}
	}
	return where
}

// Window is how long the measured window of a probe is to be, and how much longer its warm-in, in s. For so long the
// servers were slower than later. The trace may be too short for it. All windows are as long, so that they measure the
// same part of the trace; the confirmation takes what is left of the budget.
func (s *Search) Window(p Probe) (seconds, settleS float64) {
	seconds = s.config.WindowS
	if p.Confirm {
		seconds = confirmWindows * s.config.WindowS
		if s.config.Budget > 0 {
			seconds = s.leftS() - s.besidesS()
		}
	}
	return seconds, s.settleS
}

// leftS is what is left of the budget, in s.
func (s *Search) leftS() float64 {
	return s.config.Budget.Seconds() - s.spentS
}

// besidesS is what a probe takes besides its window, in s.
func (s *Search) besidesS() float64 {
	if len(s.outcomes) == 0 {
		return s.config.BesidesS
	}
	sum := 0.0
	for _, o := range s.outcomes {
		sum += max(0, o.SpentS-o.lasted())
	}
	return sum/float64(len(s.outcomes)) + s.settleS
}

// reserveS is what the confirmation needs of the budget, in s: no more than half of it.
func (s *Search) reserveS() float64 {
	return min(s.config.Budget.Seconds()/2, confirmWindows*s.config.WindowS+s.besidesS())
}

// nearest is the hardest probe that held, or the easiest that broke, of those that tell of the server; nil if there is
// none.
func (s *Search) nearest(verdict string) (found *Outcome) {
	for _, o := range s.served {
		if o.Verdict != verdict {
			continue
		}
		if found == nil || s.logLoad(o.Load) < s.logLoad(found.Load) == (verdict == Breaks) {
			found = o
		}
	}
	return found
}

// held is the hardest load that held; 0 if none did.
func (s *Search) held() float64 {
	return cmp.Or(s.nearest(Holds), &Outcome{}).Load
}
