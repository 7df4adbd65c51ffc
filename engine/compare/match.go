package compare

import (
	"slices"

	"github.com/fastreplay/fastreplay/codec/record"
)

// matched is the requests of both sides that are compared. If they are paired, all runs have the same requests in the
// same order, so those with the same place are one request.
type matched struct {
	paired  bool
	sides   [2][]*sample
	samples []*sample // of both sides, A first
	places  []int     // of the good ones among all, of pairs
	onlyOne [2]int64  // of pairs: requests that are ok in all runs of this side, and not in all of the other
	lone    int       // requests that not all runs have, or that one was stopped before
}

// sample is the requests of a run that are compared, and what its numbers are computed from.
type sample struct {
	*run
	all       []*row    // that were answered, or were to be; of pairs, in all runs
	good      []*row    // those that are ok; of pairs, in all runs
	latencies []*column // by latency
	ratios    []*column // of pairs: to the geometric mean of all runs' values of the same request
	numbers   []float64 // in the order of the specs
}

// match finds the requests that are compared: without pairs all of each run, else those that all runs have.
func match(a, b []*run, paired bool) *matched {
	m := &matched{paired: paired}
	seen := map[int64]bool{}
	for side, runs := range [2][]*run{a, b} {
		for _, run := range runs {
			s := &sample{run: run, all: run.rows}
			m.sides[side] = append(m.sides[side], s)
			m.samples = append(m.samples, s)
			for _, r := range run.rows {
				seen[r.index] = true
			}
		}
	}
	for _, s := range m.samples {
		if !paired {
			s.good = keep(s.rows, func(r *row) bool {
				return r.ok
			})
			continue
		}
		s.all = keep(s.rows, m.inAll)
		m.lone = len(seen) - len(s.all)
	}
	if !paired {
		return m
	}
	for place := range m.samples[0].all {
		var ok [2]bool
		for side, samples := range m.sides {
			failed := func(s *sample) bool {
				return !s.all[place].ok
			}
			ok[side] = !slices.ContainsFunc(samples, failed)
		}
		switch {
		case ok[0] && ok[1]:
			m.places = append(m.places, place)
			for _, s := range m.samples {
				s.good = append(s.good, s.all[place])
			}
		case ok[0]:
			m.onlyOne[0]++
		case ok[1]:
			m.onlyOne[1]++
		}
	}
	return m
}

// keep returns the rows that are wanted.
func keep(rows []*row, wanted func(*row) bool) (kept []*row) {
	for _, r := range rows {
		if wanted(r) {
			kept = append(kept, r)
		}
	}
	return kept
}

// inAll reports whether all runs have a request.
func (m *matched) inAll(r *row) bool {
	return !slices.ContainsFunc(m.samples, func(s *sample) bool {
		_, found := slices.BinarySearchFunc(s.rows, r, byIndex)
		return !found
	})
}

// groups say to which of several groups each request belongs, by its place among all rows.
type groups struct {
	of    []int8
	sizes []int // requests of each
	timed bool  // groups are sections of the time, one after another
}

// sections cuts requests into so many groups, one after another.
func (m *matched) sections(count int) *groups {
	n := len(m.samples[0].all)
	g := &groups{
		of:    make([]int8, n),
		sizes: make([]int, count),
		timed: true,
	}
	for place := range n {
		section := place * count / n
		g.of[place] = int8(section)
		g.sizes[section]++
	}
	return g
}

// conversations deals whole conversations, or jobs, out to groups, so many at most, in the order of their first
// requests. Requests of one share a prefix, and often an instance. A request without one counts as one; if most have
// none, there are no groups.
func (m *matched) conversations(most int) *groups {
	rows := m.samples[0].all
	number := map[int64]int{}
	var count, alone int
	numbers := make([]int, len(rows))
	for place, r := range rows {
		n, found := number[r.conversation]
		if r.conversation == record.None {
			found = false
			alone++
		}
		if !found {
			n = count
			number[r.conversation] = n
			count++
		}
		numbers[place] = n
	}
	if alone > len(rows)/2 {
		return nil
	}
	g := &groups{
		of:    make([]int8, len(rows)),
		sizes: make([]int, min(count, most)),
	}
	for place, n := range numbers {
		group := (n + n/most*7) % len(g.sizes) // no period of the groups goes into one
		g.of[place] = int8(group)
		g.sizes[group]++
	}
	return g
}

// effective is how many groups of one size say as much as these.
func (g *groups) effective() float64 {
	var sum, squares float64
	for _, size := range g.sizes {
		sum += float64(size)
		squares += float64(size) * float64(size)
	}
	return sum * sum / squares
}
