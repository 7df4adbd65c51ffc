package capacity

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/fastreplay/fastreplay/engine/format"
)

const (
	// alpha bounds the chance of each wrong end of a probe near the edge, though it may be looked at after every slice.
	alpha = 0.01
	// alphaAtEnd is the same for the verdict of a probe whose window is over.
	alphaAtEnd = 0.05
	// clearly is the part of what is allowed below which an objective shows no sign of breaking.
	clearly = 0.5
	// leastSlices is after how many slices a probe may end.
	leastSlices = 6
	// leastRequests is after how many requests without a sign of breaking a probe ends while loads that break are still
	// to be found.
	leastRequests = 60
	// nearlyAll is a share of requests beyond a limit that needs no more proof in a whole window of so many. Whatever
	// they share, the load broke for as long as it was measured.
	nearlyAll      = 0.9
	leastNearlyAll = 20
	// leastLengths is how many times as long as a request takes a window in which a load holds must be. A shorter one
	// sees mostly what was in flight when it began.
	leastLengths = 3
)

// Peek tells whether a probe may end by now. It may be asked at any time, as often as one likes.
func (s *Search) Peek(p Probe, peek Peek) Decision {
	level := math.Log(1 / alpha)
	if peek.Ended {
		level = math.Log(1 / alphaAtEnd)
	} else if len(peek.Slices) < leastSlices {
		return Decision{}
	}
	grows := backlogGrows(peek.Slices)
	why := ""
	above, _ := s.open()
	near := s.unsure(p)
	holds := true
	within := true
	quiet := true
	broken := ""
	largest := -1.0
	worst := 0.0
	var fewer counts
	for j, o := range s.config.Objectives {
		known := decided(peek.Slices, j, o.Allowed)
		all := s.judged(peek.Slices, j, peek.Ended)
		now := all
		if len(known) < len(peek.Slices) {
			now = s.judged(known, j, peek.Ended)
		}
		lost := all.share()
		if near && !peek.Ended { // lost whatever comes
			lost *= float64(len(peek.Slices)) * peek.SliceS / peek.WindowS
		}
		plain := p.Confirm || all.share() >= nearlyAll && all.n >= leastNearlyAll // if the window is over
		if lost > o.Allowed && (all.evidence(o.Allowed) >= level || plain && peek.Ended) &&
			(peek.Ended || o.Metric == ok || s.nearest(Breaks) != nil) && lost/o.Allowed > worst {
			worst = lost / o.Allowed
			broken = o.words(all)
		}
		within = within && all.share() <= o.Allowed
		calm := len(known) > 0 && now.share() <= clearly*o.Allowed
		quiet = quiet && calm && now.n >= leastRequests && len(known) > leastSlices
		rare := calm && !slices.Contains(s.fitted, j) && !above // never showed a sign
		holds = holds && (rare || calm && peek.Ended || now.share() < o.Allowed && now.evidence(o.Allowed) >= level)
		over := now.share() / o.Allowed
		if over > largest {
			largest = over
			why = o.words(now)
			fewer = now
		}
	}
	if broken != "" {
		if grows {
			broken += ", and the backlog grows"
		}
		return Decision{true, Breaks, broken + "."}
	}
	for j, o := range s.config.Objectives {
		if peek.Ended && !slices.ContainsFunc(peek.Slices, func(t Slice) bool { return t.of(j).Requests > 0 }) {
			return Decision{true, Unsure, noRequest(o.owner())}
		}
	}
	few := tooShort(peek.Slices, peek.SliceS)
	if p.Confirm {
		few = cmp.Or(few, s.tooFew(peek))
	}
	switch {
	case few != "" && within && peek.Ended:
		return Decision{true, Unsure, few}
	case p.Confirm && peek.Ended && within, holds && peek.Ended,
		!near && !grows && few == "" && (holds || quiet && above):
		return Decision{true, Holds, why + "."}
	case peek.Ended:
		return Decision{true, Unsure, why + ". " + fewer.doubtful(largest > 1)}
	}
	return Decision{}
}

// noRequest says why a probe has no numbers of an owner's requests; "" is of all.
func noRequest(owner string) string {
	return "No " + owner + "request fell into the window: " +
		"a longer trace or --window, or a shorter --warm-in, would tell."
}

// TookS is how long a request took on average, in s; NaN if none came. It is by how many were in flight for each that
// came (Little, 1961).
func TookS(all []Slice, sliceS float64) float64 {
	var inFlight, came float64
	for _, slice := range all {
		inFlight += slice.InFlight * sliceS
		came += float64(slice.Requests + slice.Open)
	}
	return inFlight / came
}

// tooShort says that what a probe has measured so far is too short for anything to hold; "" if it is not.
func tooShort(all []Slice, sliceS float64) string {
	took := TookS(all, sliceS)
	lasted := float64(len(all)) * sliceS
	if !(lasted < leastLengths*took) || math.IsInf(took, 1) {
		return ""
	}
	return fmt.Sprintf(
		"A window of %s does not tell whether a load holds in which a request takes %s: a --window of %s or more "+
			"would tell, and a trace as long.",
		format.Span(lasted),
		format.Span(took),
		format.Span(math.Ceil(leastLengths*took)),
	)
}

// tooFew says which objective nobody can say to hold after so few requests; "" if there is none.
func (s *Search) tooFew(peek Peek) (words string) {
	for j, o := range s.config.Objectives {
		var requests int64
		for _, slice := range peek.Slices {
			requests += slice.of(j).Requests
		}
		if least := o.LeastRequests(); requests < least {
			words = "Too few requests to tell " + o.Text + ": " + format.Count(requests) + ", and " +
				format.Count(least) + " would do."
		}
	}
	return words
}

// judged counts slices for objective j. The effect of requests that are correlated is that of the probes before, or
// more if these slices show more. The whole window of a probe far from the edge may have few requests; they are not
// thought to share as much.
func (s *Search) judged(all []Slice, j int, ended bool) counts {
	const doubt, doubtOfFailures = 8, 0.5 // slices
	t := count(all, j)
	t.designEffect = s.designEffects[j]
	if ended && len(s.posteriors) == 0 {
		t.designEffect = priorDesignEffectFar
	}
	if t.parts == 0 {
		return t
	}
	seen := max(1, t.variance/t.independent)
	if o := &s.config.Objectives[j]; ended && o.Metric == ok && t.share() > o.Allowed {
		// no backlog makes failures alike, so slices with some all over the window tell how far they are
		t.designEffect = (seen*t.parts + doubtOfFailures*priorDesignEffectFar) / (t.parts + doubtOfFailures)
		return t
	}
	t.designEffect = max(t.designEffect, (seen*t.parts+doubt*t.designEffect)/(t.parts+doubt))
	return t
}

// unsure tells whether the load of p is so near the edge that all of its window counts. Every such probe measures the
// same part of the trace, and one piece of that may have more requests than others.
func (s *Search) unsure(p Probe) bool {
	if p.Confirm {
		return true
	}
	above, below := s.open()
	breaks := s.posteriors.until(s.logLoad(p.Load))
	return !above && !below && breaks > 0.02 && breaks < 0.98
}

// doubtful says why requests are too few for a verdict, though the limit may have been missed.
func (t *counts) doubtful(missed bool) string {
	const sayMore = 1.5
	words := "That is too little to be sure"
	if missed {
		words = "That may be chance"
	}
	if t.designEffect < sayMore {
		return words + "."
	}
	return words + ": requests near each other may share their fate, so these count as " +
		format.Count(int64(math.Ceil(t.n/t.designEffect))) + "."
}

// words tell what a counts shows.
func (o *Objective) words(t counts) string {
	least := ""
	if t.open > 0 && t.beyond > 0 { // those may be beyond it yet
		least = "At least "
	}
	return least + fmt.Sprintf(
		"%s of %s are beyond %s, which allows %s",
		format.Percent(t.share()),
		format.Many(int64(t.n), "request"),
		o.Text,
		format.Percent(o.Allowed),
	)
}

// backlogGrows tells whether the requests in flight become more and more: they drift upwards by more than a random walk
// would.
func backlogGrows(all []Slice) bool {
	const parts = 8
	if len(all) < parts {
		return false
	}
	var level [parts]float64
	var sum, squares float64
	for i := range level {
		part := all[i*len(all)/parts : (i+1)*len(all)/parts]
		for k := range part {
			level[i] += part[k].InFlight / float64(len(part))
		}
		if i > 0 {
			d := level[i] - level[i-1]
			sum += d
			squares += d * d
		}
	}
	return level[parts-1] > 1.3*level[0]+1 && sum > 2.5*math.Sqrt(max(0, squares-sum*sum/(parts-1)))
}
