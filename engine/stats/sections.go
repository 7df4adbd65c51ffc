package stats

import (
	"cmp"
	"math"
	"slices"
)

// Sections tell how far the percentiles of one run are from those of a run without end. They are parts of equally many
// requests, one behind the other. If requests depend on each other, sections differ by more than chance explains, and
// as many requests say less.

// MostSections is into how many sections a run is cut at most.
const MostSections = 20

// fewestSections is the same at least.
const fewestSections = 5

// leastInSection is how many values a section has on average at least.
const leastInSection = 5

// leastGroups is how many groups, such as conversations, can tell by how much groups differ.
const leastGroups = 6

// What a run must not exceed to have intervals. Of independent values 1 run in 50 does.
const (
	mostWander  = 0.574 // Wander
	usualWander = 0.15  // the mean of Wander, of independent values
	mostLagOne  = 0.5   // LagOne: neighbouring sections are nearly the same
)

// Unknown is why a run has no intervals; "" if it has.
type Unknown string

// Why a run has none.
const (
	TooFew    Unknown = "few"           // values
	Dependent Unknown = "dependent"     // values depend on each other, or change, for longer than a part of the run
	FewGroups Unknown = "conversations" // too few
	AtOnce    Unknown = "at_once"       // requests left at one time
)

// Sample is a value, and where in a run it is from.
type Sample struct {
	Value   int64
	Section uint8 // 0 to MostSections-1
	Group   uint8 // of what may be alike wherever it is; below the number of groups
}

// Sections are the values of a run by section. NewSections makes them.
type Sections struct {
	sorted  []Sample
	cuts    []*cut
	unknown Unknown
}

// cut is a way to cut a run into parts.
type cut struct {
	part   func(*Sample) int
	counts []float64 // values of each part
	ranks  []float64 // of each part: its ranks from the middle one, as shares of all values, summed
	says   float64   // as how many parts of one size they are
	coarse bool      // its parts are parts of the first cut together
	alike  float64   // by how many times more parts may vary than they show, since they are alike or wander
}

// NewSections sorts values, and keeps them. groups is the number of groups; 0 if all values are on their own.
func NewSections(values []Sample, groups int) *Sections {
	SortBy(values, func(v *Sample) int64 { return v.Value })
	s := &Sections{sorted: values}
	for m := MostSections; m >= fewestSections; m /= 2 {
		if len(values) < m*leastInSection {
			continue
		}
		s.cut(m, func(v *Sample) int {
			return int(v.Section) * m / MostSections
		}, len(s.cuts) > 0)
	}
	if len(s.cuts) == 0 {
		s.unknown = TooFew
		return s
	}
	finest := s.cuts[0]
	lag := max(0, LagOne(finest.ranks))
	wander := Wander(finest.ranks, s.noise(finest))
	for _, c := range s.cuts {
		c.alike = max((1+lag)/(1-lag), wander/usualWander)
	}
	switch {
	case slices.Min(finest.counts) == 0:
		s.unknown = AtOnce
	case lag > mostLagOne || wander > mostWander:
		s.unknown = Dependent
	case groups > 0 && groups < leastGroups:
		s.unknown = FewGroups
	case groups > 0:
		s.cut(groups, func(v *Sample) int {
			return int(v.Group)
		}, false)
		if s.cuts[len(s.cuts)-1].says < leastGroups-0.5 {
			s.unknown = FewGroups
		}
	}
	return s
}

// cut adds a cut into m parts. Those of a coarse one are made of neighbouring parts of the first cut.
func (s *Sections) cut(m int, part func(*Sample) int, coarse bool) {
	c := &cut{
		part:   part,
		counts: make([]float64, m),
		ranks:  make([]float64, m),
		coarse: coarse,
		alike:  1,
	}
	n := float64(len(s.sorted))
	if coarse {
		sumUp(c.counts, s.cuts[0].counts)
		sumUp(c.ranks, s.cuts[0].ranks)
	}
	for from := 0; from < len(s.sorted) && !coarse; {
		to := s.after(from)
		middle := float64(from+to)/2/n - 0.5
		for ; from < to; from++ {
			c.ranks[part(&s.sorted[from])] += middle
			c.counts[part(&s.sorted[from])]++
		}
	}
	c.says = n * n / squares(c.counts)
	s.cuts = append(s.cuts, c)
}

// sumUp sets a coarse cut's sums from those of the first cut.
func sumUp(coarse, finest []float64) {
	clear(coarse)
	for i, v := range finest {
		coarse[i*len(coarse)/len(finest)] += v
	}
}

// noise is the variance that the ranks of each part have if values are independent.
func (s *Sections) noise(c *cut) float64 {
	return float64(len(s.sorted)) / float64(len(c.ranks)) / 12
}

// excess is by how many times more the ranks of parts vary than those of independent values.
func (s *Sections) excess(c *cut) float64 {
	return squares(c.ranks) / float64(len(c.ranks)-1) / s.noise(c) * c.alike
}

// after is the place behind those that are as large as the value at i.
func (s *Sections) after(i int) int {
	v := s.sorted[i].Value
	for i < len(s.sorted) && s.sorted[i].Value == v {
		i++
	}
	return i
}

// Unknown says why there are no intervals; "" if there are.
func (s *Sections) Unknown() Unknown { return s.unknown }

// Value is a percentile of all values.
func (s *Sections) Value(perMille int64) int64 {
	return s.sorted[Rank(int64(len(s.sorted)), perMille)-1].Value
}

// Effective is how many independent values would vary as much from part to part, by their ranks.
func (s *Sections) Effective() float64 {
	worst := 1.0
	for _, c := range s.cuts {
		worst = max(worst, s.excess(c))
	}
	return float64(len(s.sorted)) / worst
}

// Intervals returns a 95 % interval for each quantile of perMille, which rise. There is none if all values may be on
// one side of the quantile. Values that depend on each other count as fewer.
//
// How much the parts' shares of values below a quantile vary tells the variance of the whole share. The interval is
// from order statistics: it has the quantiles that the share may stand for (Woodruff, JASA 1952). It holds those of all
// cuts, each with Student's t for its number of parts. The larger of two variances counts: that of shares and that of
// ranks. A quantile is never surer than those before it.
func (s *Sections) Intervals(perMille []int64) []*[2]int64 {
	out := make([]*[2]int64, len(perMille))
	if s.unknown != "" {
		return out
	}
	less := make([][]float64, len(s.cuts)) // by cut and part, how many values are below the quantile
	worst := make([]float64, len(s.cuts))
	for i, c := range s.cuts {
		less[i] = make([]float64, len(c.counts))
	}
	passed := 0
	for k, p := range perMille {
		rank := Rank(int64(len(s.sorted)), p)
		from, _ := slices.BinarySearchFunc(s.sorted, s.sorted[rank-1].Value, func(v Sample, value int64) int {
			return cmp.Compare(v.Value, value)
		})
		for i, c := range s.cuts {
			if c.coarse {
				sumUp(less[i], less[0])
			} else {
				c.count(less[i], s.sorted[passed:from], 1)
			}
		}
		passed = from
		out[k] = s.interval(p, from, less, worst)
	}
	return out
}

// count adds a weight to the parts of values.
func (c *cut) count(to []float64, values []Sample, weight float64) {
	for i := range values {
		to[c.part(&values[i])] += weight
	}
}

// interval is that of a quantile whose value is at from first. It raises worst, by how many times more the shares vary
// than those of independent values, of each cut.
func (s *Sections) interval(perMille int64, from int, less [][]float64, worst []float64) *[2]int64 {
	n := float64(len(s.sorted))
	q := float64(perMille) / 1000
	rank := int(Rank(int64(n), perMille))
	to := s.after(from)
	equal := float64(rank-from) / float64(to-from) // of those as large as the quantile, what counts as below it
	independent := q * (1 - q) / n
	low := rank
	high := rank
	for i, c := range s.cuts {
		m := len(c.counts)
		excess := slices.Clone(less[i])
		c.count(excess, s.sorted[from:to], equal)
		for j, count := range c.counts {
			excess[j] -= float64(rank) / n * count
		}
		variance := squares(excess) / float64(m-1) * float64(m) / n / n
		worst[i] = max(worst[i], variance/independent*c.alike, s.excess(c), 1)
		reach := Student95(min(float64(m), c.says)-1) * math.Sqrt(worst[i]*independent)
		low = min(low, int(math.Floor(n*(q-reach))))
		high = max(high, int(math.Ceil(n*(q+reach)))+1)
	}
	if low < 1 || high > len(s.sorted) {
		return nil
	}
	return &[2]int64{s.sorted[low-1].Value, s.sorted[high-1].Value}
}

func squares(values []float64) (sum float64) {
	for _, v := range values {
		sum += v * v
	}
	return sum
}

// LagOne is the correlation of neighbours in a series whose sum is 0.
func LagOne(values []float64) float64 {
	sum := 0.0
	for i := 1; i < len(values); i++ {
		sum += values[i-1] * values[i]
	}
	if sum == 0 {
		return 0
	}
	return sum / squares(values)
}

// Wander tells how far a series whose sum is 0 goes away from 0 and stays there, in units of how neighbours differ
// (D. Kwiatkowski and others, J. Econometrics 1992). noise is the least variance that each value has. Of independent
// values with that variance the mean of 20 is 0.15, and one series in 50 is above 0.574.
func Wander(values []float64, noise float64) float64 {
	n := float64(len(values))
	sum := 0.0
	wandered := 0.0
	steps := 0.0
	for i, v := range values {
		sum += v
		wandered += sum * sum
		if i > 0 {
			steps += (v - values[i-1]) * (v - values[i-1])
		}
	}
	return wandered / n / n / max(noise, steps/2/(n-1))
}

// TrendT is Student's t of the slope of a line through values at equal distances, with two degrees of freedom less than
// there are values. If what is left of neighbours is alike, it is smaller, as fewer values would make it.
func TrendT(values []float64) float64 {
	n := float64(len(values))
	mean := 0.0
	slope := 0.0
	for i, v := range values {
		mean += v / n
		slope += v * (float64(i) - (n-1)/2)
	}
	across := n * (n*n - 1) / 12 // the sum of squares of places
	slope /= across
	left := make([]float64, len(values))
	for i, v := range values {
		left[i] = v - mean - slope*(float64(i)-(n-1)/2)
	}
	lag := max(0, LagOne(left))
	noise := squares(left) / (n - 2) * (1 + lag) / (1 - lag) / across
	if noise == 0 {
		return math.Copysign(math.Inf(1), slope)
	}
	return slope / math.Sqrt(noise)
}

// What a step is.
const (
	leastBeside = 4 // values, a fifth of a run, on each side
	// apart is the part of a step that has no value of either side in it: what drifts, waves or walks has some
	// there. Of random walks of 8 to 30 % within a run, 0 to 0.3 % have a step.
	apart = 0.65
)

// Step is where a series goes to another level and stays, with the means of both. It is the place of a value, from 0,
// and the part of it that is still on the first level. It is 0 if there is no step.
func Step(values []float64) (at, before, after float64) {
	widest := 0.0
	place := 0
	for k := leastBeside; k < len(values)-leastBeside; k++ { // value k may have something of both
		first := values[:k]
		last := values[k+1:]
		between := max(slices.Min(last)-slices.Max(first), slices.Min(first)-slices.Max(last))
		if between > widest {
			widest = between
			place = k
		}
	}
	if place == 0 {
		return 0, 0, 0
	}
	before, _ = Moments(values[:place])
	after, _ = Moments(values[place+1:])
	stays := func(side []float64) bool { return slices.Max(side)-slices.Min(side) < widest }
	if widest < apart*math.Abs(after-before) || !stays(values[:place]) || !stays(values[place+1:]) {
		return 0, 0, 0
	}
	still := (after - values[place]) / (after - before)
	return float64(place) + max(0, min(1, still)), before, after
}

// StepsT is Student's t of the mean step from a value to the next. A random walk without a drift has independent
// steps.
func StepsT(values []float64) float64 {
	n := float64(len(values) - 1)
	mean := (values[len(values)-1] - values[0]) / n
	left := 0.0
	for i := 1; i < len(values); i++ {
		d := values[i] - values[i-1] - mean
		left += d * d
	}
	return mean / math.Sqrt(left/(n-1)/n)
}

// Student95 is how many standard errors from a mean 95 % of Student's t reach. freedom is its degrees, 1 or more, which
// need not be whole.
func Student95(freedom float64) float64 {
	exact := [...]float64{12.706, 4.303, 3.182} // of 1, 2 and 3
	for i := range exact[1:] {
		below := float64(i + 1)
		if freedom < below+1 {
			share := (1/below - 1/max(freedom, below)) * below * (below + 1) // of the way in 1/freedom
			return exact[i] + share*(exact[i+1]-exact[i])
		}
	}
	// Abramowitz and Stegun, Handbook of Mathematical Functions, 1964, 26.7.5, for a normal quantile of 1.95996
	x := 1 / freedom
	return 1.95996 + x*(2.3722+x*(2.8225+x*(2.5558+x*1.5895)))
}
