package capacity

import (
	"math"
	"slices"
)

// What the interval has besides the posterior of the edge.
//
// Probes differ by more than their requests tell: a server settles differently each time. So the edge of each probe is
// off by a random effect, whose standard deviation is estimated from the probes near the edge. Repeated loads show it
// the best. Its prior is worth priorProbes probes with a deviation of priorDeviation, in log load: repeated runs of
// unchanged servers differ by 0.3 to 1 %, and by far more after restarts.
//
// And probes measure the same part of the trace. Other traffic like it has another edge. It differs from that of this
// part by what so many requests vary by chance, however often they are replayed.
const (
	priorDeviation = 0.015
	priorProbes    = 4
)

// nearEdge are the probes that tell where the edge is: loads near it, in windows of about full length.
func (s *Search) nearEdge() (all []*Outcome) {
	reach := max(2*s.config.Precision, s.high-s.low)
	if s.config.Whole { // the next number on either side
		reach = max(reach, math.Log1p(1/math.Floor(math.Exp(math.Abs(s.median)))))
	}
	for _, o := range s.served {
		long := !o.Cut || o.lasted() >= s.config.WindowS/4
		near := math.Abs(s.logLoad(o.Load)-s.median) <= reach
		if long && near && len(s.posteriors) > 0 {
			all = append(all, o)
		}
	}
	return all
}

// repetition is the logarithm of the load nearest to the edge, and whether it is to be measured again. Nothing else
// tells as well how much probes differ. A load at which none or most requests are beyond would tell nothing.
func (s *Search) repetition() (logLoad float64, due bool) {
	nearest := math.Inf(1)
	for _, o := range s.nearEdge() {
		again := func(other *Outcome) bool {
			return other != o && other.Load == o.Load
		}
		if slices.ContainsFunc(s.outcomes, again) {
			return 0, false
		}
		t := count(s.settled(o), s.limiting())
		away := math.Abs(s.logLoad(o.Load) - s.median)
		if away < nearest && t.beyond > 0 && t.share() < 0.5 {
			nearest = away
			logLoad = s.logLoad(o.Load)
		}
	}
	return logLoad, nearest < s.config.Precision && !s.config.Whole
}

// limiting is the objective that breaks first.
func (s *Search) limiting() int {
	return s.fitted[s.posteriors.first()]
}

// random returns the variance of a probe's random effect in log load, and its degrees of freedom. It also returns the
// number of probes of which the edge is a mean. ofPart is the variance of the edge between this part of the trace and
// traffic like it.
func (s *Search) random() (variance, probes, freedom, ofPart float64) {
	j := s.limiting()
	allowed := s.config.Objectives[j].Allowed
	effect := s.designEffects[j]
	slope := s.posteriors[s.posteriors.first()].slope()
	sum := priorProbes * priorDeviation * priorDeviation
	least := sum / 4
	most := 1.0 // independent requests of a probe
	var parts []*Part
	for _, o := range s.nearEdge() {
		if o.Part != nil {
			parts = append(parts, o.Part)
		}
		t := count(s.settled(o), j)
		n := t.n / effect
		most = max(most, n)
		probes++
		away := s.logLoad(o.Load) - s.median
		if t.share() == 0 && away <= 0 || t.share() > 0.5 && away >= 0 {
			continue // as far from the edge as it may be, on the side where it should be
		}
		p := (t.beyond/effect + 0.5) / (n + 1)
		away -= (logit(p) - logit(allowed)) / slope
		ofRequests := 1 / (n * p * (1 - p) * slope * slope)
		sum += away*away - ofRequests
	}
	if len(parts) > 0 {
		var longest int64
		for _, p := range parts {
			longest = max(longest, covered([]*Part{p}))
		}
		most *= float64(covered(parts)) / float64(longest)
	}
	ofPart = 1 / (most * allowed * (1 - allowed) * slope * slope)
	freedom = priorProbes + max(0, probes-1)
	variance = max(sum, least) / freedom
	return variance, max(1, probes), freedom, ofPart
}

// wider is a distance from the median of the edge to its quantile at tail, by the posterior, with what the interval has
// besides.
func (s *Search) wider(tail, distance float64) float64 {
	z := math.Sqrt2 * math.Erfinv(1-2*tail)
	variance, probes, freedom, ofPart := s.random()
	// the quantile of Student's t (Abramowitz and Stegun 26.7.5)
	student := z
	student += (math.Pow(z, 3) + z) / (4 * freedom)
	student += (5*math.Pow(z, 5) + 16*math.Pow(z, 3) + 3*z) / (96 * freedom * freedom)
	ofRequests := max(distance, z*math.Sqrt(ofPart))
	return math.Hypot(ofRequests, student*math.Sqrt(variance/probes))
}

// attainable is how wide the interval is at least, relative, however many probes there are.
func (s *Search) attainable() float64 {
	_, _, _, ofPart := s.random()
	return 2 * math.Sqrt2 * math.Erfinv(1-2*tail) * math.Sqrt(ofPart)
}

// settles is for how long after the warm-in servers are slower than later, in s: they scale, compile, or fill a cache.
// It shows in a probe that broke an objective by far at first and by nothing in its last third, though no fewer
// requests came. Chance does not do so: at such a load a backlog grows.
func (s *Search) settles() (seconds float64) {
	const least = 12 // slices
	for _, o := range s.served {
		n := len(o.Slices)
		if n < least {
			continue
		}
		for j, objective := range s.config.Objectives {
			allowed := objective.Allowed
			first := count(o.Slices[:n/3], j)
			last := count(o.Slices[n-n/3:], j)
			broke := first.share() >= min(0.5, 10*allowed)
			if !broke || last.share() > allowed || last.n < 0.8*first.n {
				continue
			}
			k := n // slices until none was beyond
			for k > 0 && float64(o.Slices[k-1].Beyond[j]) <= allowed*float64(o.Slices[k-1].of(j).Requests) {
				k--
			}
			if k <= n-n/3 {
				seconds = max(seconds, o.SettleS+float64(k)*o.SliceS)
			}
		}
	}
	return seconds
}

// settled are the slices of a probe in which the servers were as they are later.
func (s *Search) settled(o *Outcome) []Slice {
	if o.SliceS == 0 || s.settleS <= o.SettleS {
		return o.Slices
	}
	slower := int(math.Ceil((s.settleS - o.SettleS) / o.SliceS))
	return o.Slices[min(len(o.Slices), slower):]
}
