package compare

import (
	"fmt"
	"math"
	"slices"

	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/stats"
)

const (
	// sectionsMost are the finest sections of a run, and sectionsLeast the coarsest that an interval is from.
	sectionsMost, sectionsLeast = 20, 3
	// sectionsLong are those whose variance tells how it grows with length.
	sectionsLong = 5
	// dependent is a growth that independent sections seldom show: of 4 and some 13 degrees of freedom, 14 % do.
	dependent = 2
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
	square := func(v float64, n int) float64 { return v * v / max(1, float64(n-1)) }
	freedom := float64(max(len(a), len(b)) - 1)
	if sum := ofA + ofB; len(a) > 1 && len(b) > 1 && sum > 0 {
		freedom = sum * sum / (square(ofA, len(a)) + square(ofB, len(b)))
	}
	t := stats.Student95(freedom)
	return estimate{
		distance: meanB - meanA,
		reach:    t * math.Sqrt(ofA+ofB),
		floor:    t * math.Sqrt(varianceA+varianceB),
	}
}

// separate is how many places the runs of two sides are apart on average, in the order of their starts, at most if what
// drifts from run to run cannot look like a change: in ABBA it is 0, in ABAB 1.
const separate = 1

// isSeparate reports whether the sides were run one behind the other.
func isSeparate(starts [2][]float64) bool {
	a, _ := stats.Moments(starts[0])
	b, _ := stats.Moments(starts[1])
	return math.Abs(b-a) > separate
}

// ofDrift is ofRuns if the sides were run one behind the other: all that changed meanwhile, such as a machine that gets
// warmer, looks like a change. So the change is taken to hold a drift, by as much from each run to the next. A line for
// each side with a common slope tells it, and the interval has both the change with it and that without.
func ofDrift(e estimate, values, starts [2][]float64) estimate {
	var means, at [2]float64
	for side := range values {
		means[side], _ = stats.Moments(values[side])
		at[side], _ = stats.Moments(starts[side])
	}
	n := 0.0
	across := 0.0
	along := 0.0
	each := func(f func(x, y float64)) {
		for side := range values {
			for k, v := range values[side] {
				f(starts[side][k]-at[side], v-means[side])
			}
		}
	}
	each(func(x, y float64) {
		n++
		across += x * x
		along += x * y
	})
	apart := at[1] - at[0]
	freedom := n - 3
	if !isSeparate(starts) || freedom < 1 || across == 0 {
		return e
	}
	slope := along / across
	left := 0.0
	each(func(x, y float64) { left += (y - slope*x) * (y - slope*x) / freedom })
	variance := left * (1/float64(len(values[0])) + 1/float64(len(values[1])) + apart*apart/across)
	e.reach = max(e.reach, math.Abs(slope*apart)+stats.Student95(freedom)*math.Sqrt(variance))
	return e
}

// dated reports whether all runs say when they began.
func (m *matched) dated() bool {
	return !slices.ContainsFunc(slices.Concat(m.runs[0], m.runs[1]), func(r *run) bool {
		return r.summary.Run.StartedAt.IsZero()
	})
}

// starts are the places of the runs of both sides in the order of their starts, from 0. Runs that start together share
// one. If a run does not say when it began, all of A count as before all of B.
func (m *matched) starts() (places [2][]float64) {
	if !m.dated() {
		place := 0.0
		for side := range m.runs {
			for range m.runs[side] {
				places[side] = append(places[side], place)
				place++
			}
		}
		return places
	}
	for side := range m.runs {
		for _, run := range m.runs[side] {
			place := -0.5 // half of itself is not before itself
			for _, other := range slices.Concat(m.runs[0], m.runs[1]) {
				place += 0.5 + 0.5*float64(run.summary.Run.StartedAt.Compare(other.summary.Run.StartedAt))
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
		for _, rows := range m.rows[side] {
			n += len(rows)
		}
		variance += leastVariance(mean, float64(n))
	}
	e.reach = max(e.reach, normal95*math.Sqrt(variance))
	return e
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
		variance += (v - centre) * (v - centre) / (parts - 1) / n
	}
	return pseudo, variance
}

// neighbours is the variance of the mean of values by the differences of neighbours alone (J. von Neumann, Distribution
// of the ratio of the mean square successive difference to the variance, 1941). What changes slowly is not in it.
func neighbours(values []float64) (variance float64) {
	n := float64(len(values))
	for i, v := range values[1:] {
		variance += (v - values[i]) * (v - values[i]) / 2 / (n - 1) / n
	}
	return variance
}

// cut is one way to divide the requests of a pair of runs, with the numbers of both sides without each of the groups.
type cut struct {
	groups  *groups
	without [][2][]float64
}

// cuts divides requests into sections, and conversations into groups of two sizes.
func (v *values) cuts() (all []cut) {
	all = append(all, cut{groups: v.sections(sectionsMost)})
	for _, most := range []int{sectionsMost / 2, sectionsMost} {
		if g := v.conversations(most); g != nil {
			all = append(all, cut{groups: g})
		}
	}
	for i := range all {
		g := all[i].groups
		for group := range g.sizes {
			all[i].without = append(all[i].without, [2][]float64{
				v.numbers(0, 0, g, int8(group)), v.numbers(1, 0, g, int8(group)),
			})
		}
	}
	return all
}

// within is the change between two runs. Its interval is the widest of those by 3 to 10 and 20 sections of the time and
// by groups of conversations.
//
// If the variance of a mean is larger by long sections than by neighbours among short ones, requests depend on each
// other for longer than a short section. Then the interval is as wide as if the variance went on to grow as much from
// the long sections to the whole run.
func within(s *spec, at int, whole [2][]float64, cuts []cut, spanS float64) estimate {
	distance := func(sides [2][]float64) float64 { return s.scale(sides[1][at]) - s.scale(sides[0][at]) }
	e := estimate{distance: distance(whole), floor: math.NaN()}
	growth := 1.0
	for _, c := range cuts {
		g := c.groups
		if !g.timed && s.unit == "rate" {
			continue
		}
		freedom := g.effective() - 1
		if !g.timed && freedom < fewestGroups-1.5 {
			return e.unknown("there are too few conversations, which say as much as %.1f of one length: %d would do, "+
				"or 3 runs a side", g.effective(), fewestGroups)
		}
		var without []float64
		for _, sides := range c.without {
			without = append(without, distance(sides))
		}
		pseudo, variance := jackknife(e.distance, without, g.sizes)
		e.reach = max(e.reach, stats.Student95(freedom)*math.Sqrt(variance)) // NaN stays
		if !g.timed {
			continue
		}
		for count := sectionsLeast; count <= sectionsMost/2; count++ {
			e.reach = max(e.reach, stats.Student95(float64(count-1))*math.Sqrt(ofSections(pseudo, count)))
		}
		if short := neighbours(pseudo); short > 0 {
			growth = max(growth, ofSections(pseudo, sectionsLong)/short)
		}
	}
	e.reach *= math.Sqrt(math.Pow(growth, math.Log(sectionsLong)/math.Log(sectionsMost/sectionsLong)))
	if growth > dependent {
		e.why = fmt.Sprintf(
			"requests depend on each other for longer than a twentieth of the run (%s): one of %d times the length "+
				"would tell, or 3 runs a side",
			format.Span(spanS/sectionsMost), sectionsMost/sectionsLong)
	}
	return e
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

// unknown is an estimate without an interval, and why.
func (e estimate) unknown(why string, parts ...any) estimate {
	e.reach = math.NaN()
	e.floor = math.NaN()
	e.why = fmt.Sprintf(why, parts...)
	return e
}

// estimates are those of all numbers, and what they are of.
func (m *matched) estimates() (numbers [2][][]float64, all []estimate) {
	v := m.values()
	for side := range m.runs {
		for k := range m.runs[side] {
			numbers[side] = append(numbers[side], v.numbers(side, k, nil, 0))
		}
	}
	pair := len(m.runs[0])+len(m.runs[1]) == 2
	good := int64(len(m.good[0][0]))
	var cuts []cut
	if m.paired && pair && len(m.rows[0][0]) >= fewestRequests {
		cuts = v.cuts()
	}
	spanS := m.runs[0][0].summary.Run.DurationS
	starts := m.starts()
	for i, s := range specs() {
		var scaled [2][]float64
		for side, runs := range numbers {
			for _, run := range runs {
				scaled[side] = append(scaled[side], s.scale(run[i]))
			}
		}
		e := ofRuns(scaled[0], scaled[1])
		switch {
		case !m.paired:
			e = e.unknown("")
		case s.quantile > 0 && !stats.EnoughSamples(good, s.quantile):
			e = e.unknown("there are too few requests for an interval: %s would do",
				format.Count(stats.SamplesFor(s.quantile)))
		case pair && cuts == nil:
			e = e.unknown("there are too few requests for an interval: %d would do, or 3 runs a side", fewestRequests)
		case pair:
			e = within(&s, i, [2][]float64{numbers[0][0], numbers[1][0]}, cuts, spanS)
			if s.quantile == 0 {
				break
			}
			needed := stats.SamplesFor(s.quantile)
			if says := v.effective(i/kindsOf, numbers[0][0][i], numbers[1][0][i]); says < float64(needed) {
				e = e.unknown("its values come in bursts, and say as much as %.0f of %s needed: %s requests would do, "+
					"or 3 runs a side", says, format.Count(needed), format.Count(int64(float64(needed*good)/says)))
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
	return numbers, all
}

// effective is how many independent requests say as much of the quantile of a latency in a pair of runs as these do.
// It is from how much the sections of both runs vary in how many of their requests exceed the quantile: independent
// ones vary as a binomial does.
func (v *values) effective(latency int, quantiles ...float64) float64 {
	g := v.sections(sectionsMost)
	worst := 1.0
	for side, quantile := range quantiles {
		c := v.latencies[side][0][latency]
		var beyond, all [sectionsMost]float64
		for i, place := range c.places {
			all[g.of[place]]++
			beyond[g.of[place]] += b2f(c.values[i] > quantile)
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
			dispersion += (count - expected) * (count - expected) / (expected * (1 - share)) / (sectionsMost - 1)
		}
		worst = max(worst, dispersion)
	}
	return float64(len(v.places)) / worst
}
