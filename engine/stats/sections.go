package stats

import (
	"cmp"
	"math"
	"slices"
)

// How far the percentiles of one run are from those of a run without end is told by its sections: parts of equally
// many requests, one behind the other. If requests depend on each other, sections differ by more than chance explains,
// and as many requests say less.

// MostSections is into how many sections a run is cut at most.
const MostSections = 20

// leastInSection is how many values a section has on average at least.
const leastInSection = 5

// leastGroups is how many groups, such as conversations, can tell by how much groups differ.
const leastGroups = 6

// What a run must not exceed to have intervals. Of independent values 1 in 100 runs does.
const (
	mostWander = 0.74 // Wander
	mostLagOne = 0.5  // LagOne: neighbouring sections are nearly the same
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
	cuts    []cut
	unknown string
}

// cut is a way to cut a run into parts.
type cut struct {
	part   func(*Sample) int
	counts []float64 // values of each part
	// by how many times more the parts' mean ranks vary than those of independent values
	design float64
	// by how many times more again since neighbouring parts are alike
	alike float64
}

// NewSections sorts values, and keeps them. groups is the number of groups; 0 if all values are on their own.
func NewSections(values []Sample, groups int) *Sections {
	slices.SortFunc(values, func(a, b Sample) int { return cmp.Compare(a.Value, b.Value) })
	s := &Sections{sorted: values}
	for m := MostSections; m >= 5; m /= 2 {
		if len(values) >= m*leastInSection {
			s.cut(m, func(v *Sample) int { return int(v.Section) * m / MostSections }, len(s.cuts) == 0)
		}
	}
	switch {
	case len(s.cuts) == 0:
		s.unknown = "there are too few values"
	case groups > 0 && groups < leastGroups:
		s.unknown = "there are too few conversations"
	case groups > 0:
		s.cut(groups, func(v *Sample) int { return int(v.Group) }, false)
	}
	return s
}

// cut adds a cut into m parts. It says if a run is too short for what the finest of its cuts in time shows.
func (s *Sections) cut(m int, part func(*Sample) int, finest bool) {
	c := cut{part: part, counts: make([]float64, m), alike: 1}
	n := float64(len(s.sorted))
	ranks := make([]float64, m) // from the middle one, in units of n, summed
	for from := 0; from < len(s.sorted); {
		to := s.after(from)
		middle := float64(from+to)/2/n - 0.5
		for ; from < to; from++ {
			ranks[part(&s.sorted[from])] += middle
			c.counts[part(&s.sorted[from])]++
		}
	}
	noise := n / float64(m) / 12 // the variance of such a sum, if values are independent
	c.design = squares(ranks) / float64(m-1) / noise
	if finest {
		lag := LagOne(ranks)
		c.alike = (1 + max(0, lag)) / (1 - max(0, lag))
		switch {
		case slices.Min(c.counts) == 0:
			s.unknown = "requests left at one time"
		case lag > mostLagOne || Wander(ranks, noise) > mostWander:
			s.unknown = "values depend on each other for longer than a part of the run"
		}
	}
	s.cuts = append(s.cuts, c)
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
func (s *Sections) Unknown() string { return s.unknown }

// Effective is how many independent values would vary as much from part to part, by their mean ranks.
func (s *Sections) Effective() float64 {
	worst := 1.0
	for i := range s.cuts {
		worst = max(worst, s.cuts[i].design*s.cuts[i].alike)
	}
	return float64(len(s.sorted)) / worst
}

// Intervals returns a 95 % interval for each quantile of perMille, which rise. There is none where values, as few as
// they are by what they depend on each other, may all be on one side of the quantile.
//
// By how much the parts' shares of values below a quantile vary tells the variance of the whole share. The interval is
// from order statistics: it has the quantiles that the share may stand for (Woodruff, JASA 1952). It holds those of
// all cuts, each with Student's t for its number of parts. The larger of two variances counts: that of the share and that of
// mean ranks. A quantile is never surer than those before it.
func (s *Sections) Intervals(perMille []int64) []*[2]int64 {
	out := make([]*[2]int64, len(perMille))
	if s.unknown != "" {
		return out
	}
	worst := make([]float64, len(s.cuts))
	for k, p := range perMille {
		out[k] = s.interval(p, worst)
	}
	return out
}

// interval raises worst, by how many times more the shares vary than those of independent values, of each cut.
func (s *Sections) interval(perMille int64, worst []float64) *[2]int64 {
	n := float64(len(s.sorted))
	q := float64(perMille) / 1000
	rank := int(Rank(int64(n), perMille))
	theta := s.sorted[rank-1].Value
	from, _ := slices.BinarySearchFunc(s.sorted, theta, func(v Sample, value int64) int {
		return cmp.Compare(v.Value, value)
	})
	to := s.after(from)
	equal := float64(rank-from) / float64(to-from) // of those as large as the quantile, what counts as below it
	independent := q * (1 - q) / n
	low, high := rank, rank
	for k := range s.cuts {
		c := &s.cuts[k]
		m := len(c.counts)
		excess := make([]float64, m)
		for j, count := range c.counts {
			excess[j] = -float64(rank) / n * count
		}
		for i := range s.sorted[:to] {
			weight := 1.0
			if i >= from {
				weight = equal
			}
			excess[c.part(&s.sorted[i])] += weight
		}
		variance := squares(excess) / float64(m-1) * float64(m) / n / n
		worst[k] = max(worst[k], variance/independent*c.alike, c.design*c.alike, 1)
		reach := Student95(float64(m-1)) * math.Sqrt(worst[k]*independent)
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
// values with that variance, one series in 20 is above 0.46, and one in 100 above 0.74.
func Wander(values []float64, noise float64) float64 {
	n := float64(len(values))
	sum, wandered, steps := 0.0, 0.0, 0.0
	for i, v := range values {
		sum += v
		wandered += sum * sum
		if i > 0 {
			steps += (v - values[i-1]) * (v - values[i-1])
		}
	}
	return wandered / n / n / max(noise, steps/2/(n-1))
}

// Student95 is how many standard errors from a mean 95 % of Student's t reach, with so many degrees of freedom, 1 or
// more; they need not be whole.
func Student95(freedom float64) float64 {
	exact := [...]float64{12.706, 4.303, 3.182} // of 1, 2 and 3
	for i := range exact[1:] {
		if below := float64(i + 1); freedom < below+1 {
			share := (1/below - 1/max(freedom, below)) * below * (below + 1) // of the way in 1/freedom
			return exact[i] + share*(exact[i+1]-exact[i])
		}
	}
	// Abramowitz and Stegun, Handbook of Mathematical Functions, 1964, 26.7.5, for a normal quantile of 1.95996
	x := 1 / freedom
	return 1.95996 + x*(2.3722+x*(2.8225+x*(2.5558+x*1.5895)))
}
