package metrics

import (
	"sort"
	"time"
)

// Cause is a way in which the machine keeps the client from its work.
type Cause int

// The causes, each with the time that it takes.
const (
	Stolen    Cause = iota // the hypervisor ran others on our cores; summed over cores
	Throttled              // a control group's CPU limit stopped the client; summed over cores
	Waited                 // a sending thread was ready and had no core; summed over them

	Causes = iota
)

// Interval is a stretch of the replay, which begins where the one before it ends.
type Interval struct {
	EndNS      int64         // on the run's clock
	CapacityNS int64         // processor time that the machine had, all cores together; 0 = unknown
	LostNS     [Causes]int64 // by cause; 0 where unknown
}

// MachineLoss is what the machine took from the client, interval by interval. It is made by NewMachineLoss; one goroutine uses it.
type MachineLoss struct {
	Known     [Causes]bool // what is not known is not 0
	startNS   int64
	intervals []Interval
}

// NewMachineLoss returns one without intervals that begins at startNS on the run's clock.
func NewMachineLoss(startNS int64) *MachineLoss { return &MachineLoss{startNS: startNS} }

// Add appends an interval; a day of them, of 100 ms each, is 35 MB.
func (m *MachineLoss) Add(i Interval) { m.intervals = append(m.intervals, i) }

// sum is an interval and its successor as one.
func sum(a, b Interval) Interval {
	b.CapacityNS += a.CapacityNS
	for c, ns := range a.LostNS {
		b.LostNS[c] += ns
	}
	return b
}

// total is all of it as one interval.
func (m *MachineLoss) total() Interval {
	all := Interval{EndNS: m.startNS}
	for _, i := range m.intervals {
		all = sum(all, i)
	}
	return all
}

// worstStolen is the largest share of the machine's processor time that was stolen within a second, or as little more as
// whole intervals allow. What is left at the end counts as a whole second.
func (m *MachineLoss) worstStolen() float64 {
	var worst float64
	begin, second := m.startNS, Interval{EndNS: m.startNS}
	for n, i := range m.intervals {
		second = sum(second, i)
		length := second.EndNS - begin
		if length < int64(time.Second) && n < len(m.intervals)-1 {
			continue
		}
		capacity := float64(second.CapacityNS) * max(1, float64(time.Second)/float64(max(1, length)))
		if capacity > 0 {
			worst = max(worst, float64(second.LostNS[Stolen])/capacity)
		}
		begin, second = i.EndNS, Interval{EndNS: i.EndNS}
	}
	return worst
}

// sums answers what a cause took between two instants.
type sums struct {
	m    *MachineLoss
	upTo [][Causes]int64 // lost in the intervals before the i-th
}

func newSums(m *MachineLoss) *sums {
	s := &sums{m: m, upTo: make([][Causes]int64, len(m.intervals)+1)}
	for n, i := range m.intervals {
		for c, ns := range i.LostNS {
			s.upTo[n+1][c] = s.upTo[n][c] + ns
		}
	}
	return s
}

// lost is what each cause took in the intervals that have a part of (fromNS, toNS].
func (s *sums) lost(fromNS, toNS int64) (lost [Causes]int64) {
	if toNS <= s.m.startNS {
		return lost
	}
	in := s.m.intervals
	first := sort.Search(len(in), func(n int) bool { return in[n].EndNS > fromNS })
	last := sort.Search(len(in), func(n int) bool { return in[n].EndNS >= toNS }) // holds toNS
	end := max(first, min(last+1, len(in)))
	for c := range lost {
		lost[c] = s.upTo[end][c] - s.upTo[first][c]
	}
	return lost
}
