package compare

import (
	"fmt"
	"math"
	"slices"

	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/stats"
)

const (
	// sectionsMost are the finest sections of a run that an interval is from, and sectionsLeast the coarsest.
	sectionsMost  = 20
	sectionsLeast = 3
	// sectionsLong are those whose variance tells how it grows with length.
	sectionsLong = 5
	// dependent is how many times the variance among sections may exceed that of neighbours. Of pairs of independent
	// requests 9 % exceed it, and of random walks of 8 % within a run 97 %.
	dependent = 1.4
	// drifts is how much pairs wander at most if a server does not change: of 12,000 runs of independent requests none
	// exceeds it.
	drifts = 4
	// beyond is by how much wider an interval is if they do: only a change that is clear all the same lies outside.
	beyond = 1.5
	// unseen is by how much more the variance of a percentile may grow than sections show, which are few.
	unseen = 0.5
	// unshown is how far a random walk may move all numbers of a latency without showing in sections, in multiples of
	// the pairs' noise. With it, 94 to 99 % of the intervals hold the truth of walks of 2 to 12 %. Without it, 73 to 94
	// % do.
	unshown = 4
	// fewestGroups are the fewest conversations, as many as say what so many of one size do, that an interval needs.
	fewestGroups = 6
	// fewestRequests are the fewest of a pair of runs: ten for each of the finest sections.
	fewestRequests = 10 * sectionsMost
)

// estimate is a change on the scale of a spec.
type estimate struct {
	distance float64
	reach    float64 // how far the truth is at most, in 95 % of cases; NaN if that is unknown
	floor    float64 // how far two runs without a change differ at most, in 95 % of cases; NaN if that is unknown
	why      string  // reach is unknown, or far
	brief    string  // the same in two words
}

// ofRuns is the change between the means of runs, by Welch's t: runs are what varies, and not requests. If a side has
// a single run, its runs are taken to vary as the other's.
func ofRuns(a, b []float64) estimate {
	meanA, varianceA := stats.Moments(a)
	meanB, varianceB := stats.Moments(b)
	if len(a) == 1 {
		varianceA = varianceB
	}
	if len(b) == 1 {
		varianceB = varianceA
	}
	ofA := varianceA / float64(len(a))
	ofB := varianceB / float64(len(b))
	freedom := float64(max(len(a), len(b)) - 1)
	sum := ofA + ofB
	if len(a) > 1 && len(b) > 1 && sum > 0 {
		ofBoth := square(ofA)/float64(len(a)-1) + square(ofB)/float64(len(b)-1)
		freedom = square(sum) / ofBoth
	}
	t := stats.Student95(freedom)
	return estimate{
		distance: meanB - meanA,
		reach:    t * math.Sqrt(ofA+ofB),
		floor:    t * math.Sqrt(varianceA+varianceB),
	}
}

// separate bounds how many places the runs of two sides are apart on average, in the order of their starts. Up to it,
// what drifts from run to run cannot look like a change: in ABBA it is 0, in ABAB 1.
const separate = 1

// isSeparate reports whether the sides were run one behind the other.
func isSeparate(starts [2][]float64) bool {
	a, _ := stats.Moments(starts[0])
	b, _ := stats.Moments(starts[1])
	return math.Abs(b-a) > separate
}

// ofDrift is ofRuns if the sides were run one behind the other. All that changed meanwhile, such as a machine that gets
// warmer, looks like a change. So the change is taken to hold a drift, by as much from each run to the next. A line for
// each side with a common slope tells it, and the interval has both the change with it and that without.
func ofDrift(e estimate, values, starts [2][]float64) estimate {
	var means, at [2]float64
	for side := range values {
		means[side], _ = stats.Moments(values[side])
		at[side], _ = stats.Moments(starts[side])
	}
	var x, y []float64
	for side := range values {
		for k, v := range values[side] {
			x = append(x, starts[side][k]-at[side])
			y = append(y, v-means[side])
		}
	}
	var across, along float64
	for i := range x {
		across += x[i] * x[i]
		along += x[i] * y[i]
	}
	apart := at[1] - at[0]
	freedom := float64(len(x)) - 3
	if !isSeparate(starts) || freedom < 1 || across == 0 {
		return e
	}
	slope := along / across
	left := 0.0
	for i := range x {
		left += square(y[i]-slope*x[i]) / freedom
	}
	variance := left * (1/float64(len(values[0])) + 1/float64(len(values[1])) + apart*apart/across)
	reach := math.Abs(slope*apart) + stats.Student95(freedom)*math.Sqrt(variance)
	e.reach = max(e.reach, reach)
	return e
}

// dated reports whether all runs say when they began.
func (m *matched) dated() bool {
	return !slices.ContainsFunc(m.samples, func(s *sample) bool {
		return s.summary.Run.StartedAt.IsZero()
	})
}

// starts are the places of the runs of both sides in the order of their starts, from 0. Runs that start together share
// one. If a run does not say when it began, all of A count as before all of B.
func (m *matched) starts() (places [2][]float64) {
	dated := m.dated()
	for side, samples := range m.sides {
		for k, s := range samples {
			place := float64(side*len(m.sides[0]) + k)
			if dated {
				place = -0.5 // half of itself is not before itself
				for _, other := range m.samples {
					place += 0.5 + 0.5*float64(s.summary.Run.StartedAt.Compare(other.summary.Run.StartedAt))
				}
			}
			places[side] = append(places[side], place)
		}
	}
	return places
}

// leastVariance is the least variance of a share of n requests: that of a binomial with two requests more of either
// kind (A. Agresti and B. Coull, The American Statistician 52, 1998). Runs without a single failure would else be sure
// that there never is one.
func leastVariance(share, n float64) float64 {
	p := (share*n + 2) / (n + 4)
	return p * (1 - p) / (n + 4)
}

// ofCounts is a change of a share of requests with the interval that counts of them have at least.
func (m *matched) ofCounts(e estimate, shares [2][]float64) estimate {
	variance := 0.0
	for side := range shares {
		mean, _ := stats.Moments(shares[side])
		n := 0
		for _, s := range m.sides[side] {
			n += len(s.all)
		}
		variance += leastVariance(mean, float64(n))
	}
	e.reach = max(e.reach, normal95*math.Sqrt(variance))
	return e
}

func square(v float64) float64 {
	return v * v
}

// normal95 is how many standard errors from a mean 95 % of a normal distribution reach.
const normal95 = 1.96

// jackknife returns the pseudo-values of groups of requests, and the variance of an estimate by them, from the same
// estimate without each group (F. Busing, E. Meijer and R. van der Leeden, Delete-m jackknife for unequal m, Statistics
// and Computing 9, 1999).
func jackknife(whole float64, without []float64, sizes []int) (pseudo []float64, variance float64) {
	sum := 0
	for _, size := range sizes {
		sum += size
	}
	n := float64(len(sizes))
	centre := n * whole
	for i, v := range without {
		parts := float64(sum) / float64(sizes[i]) // as large as this one
		pseudo = append(pseudo, parts*whole-(parts-1)*v)
		centre -= (1 - 1/parts) * v
	}
	for i, v := range pseudo {
		parts := float64(sum) / float64(sizes[i])
		variance += square(v-centre) / (parts - 1) / n
	}
	return pseudo, variance
}

// neighbours is the variance of the mean of values by the differences of neighbours alone (J. von Neumann, Distribution
// of the ratio of the mean square successive difference to the variance, 1941). What changes slowly is not in it.
func neighbours(values []float64) (variance float64) {
	n := float64(len(values))
	for i, v := range values[1:] {
		variance += square(v-values[i]) / 2 / (n - 1) / n
	}
	return variance
}

// cut is one way to divide the requests of a pair of runs, with the numbers of both sides without each of the groups.
type cut struct {
	groups  *groups
	without [][2][]float64
}

// cuts divides requests into sections, and conversations into groups of two sizes.
func (m *matched) cuts() (all []cut) {
	all = append(all, cut{groups: m.sections(sectionsMost)})
	for _, most := range []int{sectionsMost / 2, sectionsMost} {
		if g := m.conversations(most); g != nil {
			all = append(all, cut{groups: g})
		}
	}
	for i := range all {
		g := all[i].groups
		for group := range g.sizes {
			all[i].without = append(all[i].without, [2][]float64{
				m.numbersOf(m.samples[0], g, int8(group)),
				m.numbersOf(m.samples[1], g, int8(group)),
			})
		}
	}
	return all
}

// within is the change between two runs. Its interval is the widest of three. One is by sections of the time, 3 to 10
// and 20 of them, and one by groups of conversations. The third is what an unseen random walk may have moved.
//
// The variance of a mean may be larger by long sections than by neighbours among short ones. Then requests depend on
// each other for longer than a short section, and the interval by sections is wider by as many times. The variance
// grows further to the length of the run, and so few sections tell its growth badly. So the interval of a percentile is
// always somewhat wider. wander is how much the pairs of the latency wander.
func within(s *spec, at int, whole [2][]float64, cuts []cut, wander, spanS float64) estimate {
	distance := func(sides [2][]float64, at int) float64 {
		return s.scale(sides[1][at]) - s.scale(sides[0][at])
	}
	jackknifed := func(c cut, at int) (pseudo []float64, variance float64) {
		var without []float64
		for _, sides := range c.without {
			without = append(without, distance(sides, at))
		}
		return jackknife(distance(whole, at), without, c.groups.sizes)
	}
	e := estimate{
		distance: distance(whole, at),
		floor:    math.NaN(),
	}
	growth := 1.0
	least := 0.0
	for _, c := range cuts {
		g := c.groups
		if !g.timed && s.unit == "rate" {
			continue
		}
		freedom := g.effective() - 1
		if !g.timed && freedom < fewestGroups-1.5 {
			return e.unknown("few sessions", "there are too few conversations, which say as much as %.1f of one "+
				"length: %d would do"+orRuns, g.effective(), fewestGroups)
		}
		pseudo, variance := jackknifed(c, at)
		e.reach = max(e.reach, stats.Student95(freedom)*math.Sqrt(variance)) // NaN stays
		if !g.timed {
			continue
		}
		for count := sectionsLeast; count <= sectionsMost/2; count++ {
			e.reach = max(e.reach, stats.Student95(float64(count-1))*math.Sqrt(ofSections(pseudo, count)))
		}
		noise := variance
		if s.count == nil {
			_, noise = jackknifed(c, at-at%kindsOf+kindsOf-1) // of pairs, in which most cancels
		}
		if s.unit == "ms" {
			least = unshown * stats.Student95(freedom) * math.Sqrt(noise*wander)
		}
		short := neighbours(pseudo)
		if short > 0 {
			growth = max(growth, ofSections(pseudo, sectionsLong)/short)
		}
		if variance > dependent*short || wander > drifts {
			e.brief = "run too short"
			e.why = fmt.Sprintf(
				"requests depend on each other for longer than a twentieth of the run (%s): a run of %d times the "+
					"length would tell unless the server drifts"+orRuns,
				format.Span(spanS/sectionsMost), sectionsMost/sectionsLong)
		}
	}
	if s.quantile > 0 {
		growth += unseen
	}
	e.reach = max(e.reach*growth, least)
	if e.why != "" {
		e.reach *= beyond
	}
	return e
}

// wander is how many times more the pairs of a latency vary among sections, in their ranks, than neighbours among twice
// as many do. It is at least 1. Of a walk it is the more, the further it goes.
func (m *matched) wander(latency int) float64 {
	var sums [2 * sectionsMost]float64
	c := m.samples[1].ratios[latency]
	n := len(c.values)
	for from, to := 0, 0; from < n; from = to {
		for to < n && c.values[to] == c.values[from] {
			to++
		}
		for _, place := range c.places[from:to] { // equal ones share a rank
			sums[place*len(sums)/len(m.samples[0].all)] += float64(from + to - n)
		}
	}
	short := neighbours(sums[:])
	if short == 0 { // all are equal
		return 1
	}
	return max(1, ofSections(sums[:], sectionsMost)/short)
}

// ofSections is the variance of the mean of values by so many sections of them.
func ofSections(values []float64, count int) float64 {
	var means []float64
	n := len(values)
	for section := range count {
		mean, _ := stats.Moments(values[section*n/count : (section+1)*n/count])
		means = append(means, mean)
	}
	_, variance := stats.Moments(means)
	return variance / float64(count)
}

// fewRequests is why there is no interval of most numbers that have none.
const fewRequests = "too few requests"

// orRuns ends why there is no interval of a pair of runs. What a trace recorded has no more runs.
const orRuns = ", or 3 runs a side"

// unknown is an estimate without an interval, and why.
func (e estimate) unknown(brief, why string, parts ...any) estimate {
	e.reach = math.NaN()
	e.floor = math.NaN()
	e.brief = brief
	e.why = fmt.Sprintf(why, parts...)
	return e
}

// estimates are those of all numbers. They set the numbers of all runs.
func (m *matched) estimates() (all []estimate) {
	m.addColumns()
	for _, s := range m.samples {
		s.numbers = m.numbersOf(s, nil, 0)
	}
	a := m.samples[0]
	b := m.samples[1]
	pair := len(m.samples) == 2
	good := int64(len(a.good))
	var cuts []cut
	if m.paired && pair && len(a.all) >= fewestRequests {
		cuts = m.cuts()
	}
	starts := m.starts()
	for i, s := range specs() {
		scaled := [2][]float64{s.scaled(m.sides[0], i), s.scaled(m.sides[1], i)}
		e := ofRuns(scaled[0], scaled[1])
		switch {
		case !m.paired:
			e = e.unknown("other workload", "")
		case s.quantile > 0 && !stats.EnoughSamples(good, s.quantile):
			e = e.unknown(fewRequests, "there are too few requests for an interval: %s would do",
				format.Count(stats.SamplesFor(s.quantile)))
		case pair && cuts == nil:
			e = e.unknown(fewRequests, "there are too few requests for an interval: %d would do"+orRuns, fewestRequests)
		case pair:
			wander := 1.0
			if s.count == nil {
				wander = m.wander(i / kindsOf)
			}
			e = within(&s, i, [2][]float64{a.numbers, b.numbers}, cuts, wander, a.summary.Run.DurationS)
			if s.quantile == 0 {
				break
			}
			needed := stats.SamplesFor(s.quantile)
			says := m.effective(i/kindsOf, i)
			if says < float64(needed) {
				e = e.unknown("values in bursts", "its values come in bursts, and say as much as %.0f independent "+
					"ones, of %s needed: %s requests would do"+orRuns,
					says, format.Count(needed), format.Count(int64(float64(needed*good)/says)))
			}
		}
		if !pair && m.paired {
			e = ofDrift(e, scaled, starts)
		}
		switch {
		case !finite(e.reach):
		case s.all:
			e = m.ofCounts(e, scaled)
		case s.unit == "share":
			p := 2 / (float64(good) + 4) // of requests that differ, if none of these did
			e.reach = max(e.reach, p+normal95*math.Sqrt(leastVariance(0, float64(good))))
		case s.unit == "rate":
			e.reach = max(e.reach, math.Log1p(1/float64(good))) // it counts whole requests
		}
		all = append(all, e)
	}
	return all
}

// effective is how many independent requests say as much of a quantile as those of a pair of runs do. The quantile is
// the number at that place. It follows from how many requests exceed the quantile in each section of both runs, and how
// much that varies. Independent ones vary as a binomial does.
func (m *matched) effective(latency, quantile int) float64 {
	g := m.sections(sectionsMost)
	worst := 1.0
	for _, s := range m.samples {
		c := s.latencies[latency]
		var beyond, all [sectionsMost]float64
		for i, place := range c.places {
			all[g.of[place]]++
			beyond[g.of[place]] += b2f(c.values[i] > s.numbers[quantile])
		}
		share := 0.0
		n := float64(len(c.values))
		for _, count := range beyond {
			share += count / n
		}
		dispersion := 0.0
		for section, count := range beyond {
			expected := share * all[section]
			if expected == 0 { // all values are equal
				continue
			}
			dispersion += square(count-expected) / (expected * (1 - share)) / (sectionsMost - 1)
		}
		worst = max(worst, dispersion)
	}
	return float64(len(m.places)) / worst
}
