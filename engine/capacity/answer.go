package capacity

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/fastreplay/fastreplay/engine/format"
)

// update computes all that follows from the outcomes.
func (s *Search) update() {
	s.designEffects = nil
	s.fitted = nil
	s.posteriors = nil
	s.settleS = s.settles()
	tallied := make([][]counts, len(s.config.Objectives))
	breaks := math.Inf(1) // the least log load at which an objective breaks
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
		s.low = s.posteriors.at(tail)
		s.median = s.posteriors.at(0.5)
		s.high = s.posteriors.at(1 - tail)
	}
	s.why = s.ended()
}

// tallied are of objective j, of all probes that tell of the server.
func (s *Search) tallied(j int) (all []counts) {
	objective := &s.config.Objectives[j]
	for _, o := range s.served {
		counted := s.settled(o)
		t := count(counted, j)
		if t.n == 0 {
			continue
		}
		t.logLoad = s.logLoad(o.Load)
		lasted := o.lasted()
		if lasted > 0 && t.share() <= objective.Allowed {
			// a load so much above a hard edge takes all the window to break the limit
			t.logLoad -= min(0.1, float64(objective.LimitNS)/1e9/lasted)
		}
		t.grows = backlogGrows(counted)
		all = append(all, t)
	}
	return all
}

// lasted is the duration of the window as far as it went, in s.
func (o *Outcome) lasted() float64 {
	return float64(len(o.Slices)) * o.SliceS
}

// designEffect is that of correlated requests, over all probes below the edge or near it in which no backlog grew.
// Whoever waits in a backlog is not late by chance. Where few groups of requests are beyond, it is thought to be
// larger.
func designEffect(all []counts, allowed float64) float64 {
	var variance, independent, groups float64
	for _, t := range all {
		if t.share() < min(0.5, 3*allowed) && !t.grows {
			variance += t.variance
			independent += t.independent
			groups += t.beyond
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
	o := s.last()
	if o != nil && o.Client != "" {
		return fmt.Sprintf("The client was the bottleneck at %s: %s. %s", s.words(o.Load), o.Client, s.beyondClient())
	}
	least, most := s.bounds()
	budget := s.config.Budget.Seconds()
	held := s.held()
	switch {
	case s.complete():
		if s.asWanted() {
			return "The interval is as narrow as wanted."
		}
		return s.boundByPart()
	case s.stopped != "":
		return s.stopped
	case held == 0 && o != nil && o.Verdict == Unsure && tooShort(o.Slices, o.SliceS) != "": // so will be all others
		return tooShort(o.Slices, o.SliceS)
	case held != 0 && s.logLoad(held) >= most-1e-9 && (len(s.posteriors) == 0 || s.confirmed(most)),
		held != 0 && s.beyond(most):
		return fmt.Sprintf("The objectives hold at %s, the hardest load that was to be tried.", s.words(held))
	case s.posteriors.until(least) > 1-tail:
		return fmt.Sprintf("The objectives are missed even at %s.", s.words(s.load(least)))
	case budget > 0 && len(s.outcomes) > 0 && s.leftS() < s.nextS()+s.besidesS()+s.reserveS():
		return fmt.Sprintf("%s of the budget of %s are left, and another probe and a confirmation take %s; %s.",
			format.Span(math.Floor(max(0, s.leftS()))), format.Span(budget),
			format.Span(math.Ceil(s.nextS()+s.besidesS()+s.reserveS())), s.furthers())
	case len(s.outcomes) >= mostProbes:
		return fmt.Sprintf("After %d probes the interval is still wider than wanted.", mostProbes)
	}
	return ""
}

// noneSucceeded tells whether the easiest load that broke had no answer at all, as of a server that is not ready.
func (s *Search) noneSucceeded() bool {
	broke := s.nearest(Breaks)
	return broke != nil && broke.Numbers[ErrorRate] == 1 && !s.config.Falling
}

// furthers is what would narrow the interval after the budget is spent.
func (s *Search) furthers() string {
	if s.noneSucceeded() {
		return "no request succeeded, so look at the server first"
	}
	cutByTrace := func(o *Outcome) bool {
		return !o.Cut && o.lasted() < 0.9*s.config.WindowS
	}
	if slices.ContainsFunc(s.served, cutByTrace) {
		return fmt.Sprintf("the trace ended before a window of %s did, so a longer trace would tell more than a "+
			"larger budget", format.Span(s.config.WindowS))
	}
	return "the same command goes on with a larger one"
}

// asWanted tells whether the interval is as narrow as wanted.
func (s *Search) asWanted() bool {
	low, load, high := s.interval(tail)
	return high-low <= s.config.Precision*load || s.config.Whole && high-low <= 1
}

// boundByPart says how wide the interval is if more probes of this part of the trace would not narrow it, and what
// would. What traffic varies by falls with the root of the time that is measured.
func (s *Search) boundByPart() string {
	low, load, high := s.interval(tail)
	words := fmt.Sprintf("The interval is as narrow as this part of the trace allows, a factor of %s from end to end: "+
		"other traffic like it varies as much.", format.Number(high/low, 2))
	if p := s.part(load); p != nil && p.Whole {
		return words + " A longer trace would narrow it."
	}
	words += fmt.Sprintf(" --window %v", time.Duration(4*s.config.WindowS*1e9).Round(time.Second))
	if s.config.Budget > 0 {
		words += fmt.Sprintf(" --budget %v", 4*s.config.Budget)
	}
	return words + " would bring it to about " + format.Number(math.Sqrt(high/low), 2) + "."
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
	return s.outcomes[len(s.outcomes)-1]
}

// beyond tells whether the capacity surely lies above.
func (s *Search) beyond(logLoad float64) bool {
	return len(s.posteriors) > 0 && s.posteriors.until(logLoad) < tail
}

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
	below := s.wider(tail, s.median-s.posteriors.at(tail))
	above := s.wider(tail, s.posteriors.at(1-tail)-s.median)
	low = math.Exp(s.median - below)
	load = math.Exp(s.median)
	high = math.Exp(s.median + above)
	whole := math.Floor
	if s.config.Falling {
		low, load, high, whole = 1/high, 1/load, 1/low, math.Ceil
	}
	if s.config.Whole {
		low = whole(low)
		load = whole(load)
		high = whole(high)
	}
	return low, load, high
}

// Summarize replaces the slices of an outcome by how many requests they have, and by the share of these beyond each of
// so many objectives.
func (o *Outcome) Summarize(objectives int) {
	for _, slice := range o.Slices {
		o.Requests += slice.Requests
	}
	for j := range objectives {
		t := count(o.Slices, j)
		o.Of = append(o.Of, int64(t.n))
		if o.Requests > 0 {
			o.Beyond = append(o.Beyond, t.share())
		}
	}
	sent := float64(o.Requests) / o.lasted()
	o.FallsBehind = backlogGrows(o.Slices) && o.Numbers[requestsPerS] < keepsUp*sent
	o.Slices = nil
}

// keepsUp is the least share of what is sent that ends meanwhile if servers keep up.
const keepsUp = 0.95

// Answer is what is known so far. Its bound on the easy side is a load that held in the confirmation. If that broke,
// there is no such bound: what held at easier loads did so in shorter windows.
func (s *Search) Answer() Answer {
	a, easy, hard := s.bounded()
	c := s.confirmation()
	switch {
	case c == nil:
		a.Complete = false
		// no probe is that easy, so none could confirm it
		if least, _ := s.bounds(); easy != nil && *easy > 0 && s.logLoad(*easy) < least-1e-9 {
			a.Load = s.held()
			easy = nil
			a.Why = fmt.Sprintf("Nothing shows that the objectives hold at %s, the easiest load to be tried: "+
				"another --range or a larger --window would tell.", s.words(s.load(least)))
		}
	case c.Verdict != Holds:
		a.Complete = false
		easy = nil
		found := "the objectives broke in the confirmation, after " + format.Span(c.lasted())
		told := ""
		if c.Verdict == Unsure {
			found = "the confirmation told too little"
			told = " " + c.Why
		}
		a.Why += fmt.Sprintf(" At %s %s, so that bound is withdrawn.%s", s.words(c.Load), found, told)
	default:
		a.HeldS = c.lasted()
		a.HeldAt = c.Load
		warmer := false
		if a.Doubt, warmer = doubt(c); warmer {
			hard = nil
		}
		if a.Doubt == "" {
			a.Doubt = cmp.Or(s.limited(), slows(c), s.hangsOnOne(c), c.Part.missedWords(),
				s.missedBelow(easy), tooWide(easy, hard))
		}
		if easy != nil && s.logLoad(c.Load) < s.logLoad(*easy) {
			easy = &c.Load
		}
	}
	if easy == nil && hard != nil {
		hard = s.within(*hard)
		a.Load = s.held()
	}
	a.SettleS = s.settleS
	a.Part = s.part(a.Load)
	low := easy
	a.High = hard
	if s.config.Falling {
		low = hard
		a.High = easy
	}
	if low != nil {
		a.Low = *low
	}
	return a
}

// within is a bound on the hard side without one on the easy side: no harder than the easiest load that broke, if none
// held. Beyond all that was tried it says nothing, and is nil.
func (s *Search) within(hard float64) *float64 {
	broke := s.nearest(Breaks)
	if _, most := s.probed(); s.logLoad(hard) <= most {
		return &hard
	}
	if broke == nil || broke.Confirm || s.held() > 0 || s.noneSucceeded() {
		return nil
	}
	return &broke.Load
}

// words are a load with its unit.
func (s *Search) words(load float64) string {
	if s.config.Load == nil {
		return fmt.Sprintf("%.4g", load)
	}
	return s.config.Load(load)
}

// missedBelow says that an objective was missed at a load that is easier than the interval; "" if none was.
func (s *Search) missedBelow(easy *float64) string {
	if easy == nil || *easy == 0 {
		return ""
	}
	for _, o := range s.served {
		if s.logLoad(o.Load) > s.logLoad(*easy)-1e-9 {
			continue
		}
		for j, objective := range s.config.Objectives {
			if t := count(s.settled(o), j); t.share() > objective.Allowed {
				return fmt.Sprintf("At %s, easier than all of the interval, %s, though harder loads held. That was "+
					"chance, or the servers stalled for a while: another search would tell.", s.words(o.Load),
					objective.words(t))
			}
		}
	}
	return ""
}

// tooWide says that an interval is so wide that its ends are little more than guesses; "" if it is not, or open.
func tooWide(easy, hard *float64) string {
	const most = 8 // times
	if easy == nil || hard == nil || *easy == 0 || *hard == 0 {
		return ""
	}
	ratio := max(*easy / *hard, *hard / *easy)
	if !(ratio > most) {
		return ""
	}
	return fmt.Sprintf("The interval is a factor of %s from end to end, so each end is little more than a guess: at "+
		"different loads a window has parts of the trace that are not alike. A longer --window would tell.",
		format.Number(ratio, 2))
}

// limited says of the first probe whose numbers may be others than measured; "" if there is none.
func (s *Search) limited() string {
	for _, o := range s.served {
		if o.Limited != "" {
			return o.doubt()
		}
	}
	return ""
}

// doubt says why the numbers of a probe may be others than measured.
func (o *Outcome) doubt() string {
	return fmt.Sprintf("In probe %d %s.", o.Number, o.Limited)
}

// bounded is the answer without a confirmation. Its bounds are the ends of the interval: the easier one, at which the
// objectives surely hold, and the harder one. A bound is nil if no probe gives it.
func (s *Search) bounded() (a Answer, easy, hard *float64) {
	low, load, high := s.interval(tail)
	easy = &low
	hard = &high
	if s.config.Falling {
		easy, hard = hard, easy
	}
	a = Answer{
		Load:     load,
		Probes:   len(s.outcomes),
		SpentS:   s.spentS,
		Complete: s.complete() && s.asWanted(),
		Why:      s.why,
	}
	o := s.last()
	above, below := s.open()
	least, most := s.bounds()
	below = below || s.posteriors.until(least) > 1-tail
	above = above || o != nil && o.Client != "" || s.beyond(most)
	if above || below {
		a.Load = s.held()
	}
	if below {
		easy = nil
	}
	if !above {
		a.Limits = s.config.Objectives[s.limiting()].Text
		// no probe was easier
		broke := s.nearest(Breaks)
		if a.Load == 0 && broke != nil && !s.config.Falling {
			hard = &broke.Load
		}
		if a.Load == 0 && s.noneSucceeded() {
			hard = nil
		}
		return a, easy, hard
	}
	hard = nil
	if a.Load > 0 || !s.config.Falling { // what holds bounds the side that is open
		easy = &a.Load
	}
	if s.config.Falling && s.config.Whole && a.Load == 1 { // none is less
		hard = new(1.0)
		a.Complete = true
	}
	return a, easy, hard
}
