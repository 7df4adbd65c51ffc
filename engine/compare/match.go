package compare

import (
	"slices"

	"github.com/fastreplay/fastreplay/codec/record"
)

// matched is the requests of both sides that are compared, by side and run. If they are paired, all runs have the same
// requests in the same order, so those with the same place are one request.
type matched struct {
	paired  bool
	runs    [2][]*run
	rows    [2][][]*row // all that were answered, or were to be; of pairs, in all runs
	good    [2][][]*row // those that are ok; of pairs, in all runs
	places  []int       // of the good ones among rows, of pairs
	onlyOne [2]int64    // of pairs: requests that are ok in all runs of this side, and not in all of the other
	lone    int         // requests that not all runs have, or that one was stopped before
}

// match finds the requests that are compared: without pairs all of each run, else those that all runs have.
func match(a, b []*run, paired bool) *matched {
	m := &matched{paired: paired, runs: [2][]*run{a, b}}
	all := slices.Concat(a, b)
	for side, runs := range m.runs {
		for _, run := range runs {
			rows := run.rows
			if paired {
				rows = slices.DeleteFunc(slices.Clone(rows), func(r *row) bool { return !inAll(all, r) })
			}
			m.rows[side] = append(m.rows[side], rows)
		}
	}
	if !paired {
		for side, runs := range m.rows {
			for _, rows := range runs {
				good := slices.DeleteFunc(slices.Clone(rows), func(r *row) bool { return !r.ok })
				m.good[side] = append(m.good[side], good)
			}
		}
		return m
	}
	seen := map[int64]bool{}
	for _, run := range all {
		for _, r := range run.rows {
			seen[r.index] = true
		}
	}
	m.lone = len(seen) - len(m.rows[0][0])
	for side, runs := range m.rows {
		m.good[side] = make([][]*row, len(runs))
	}
	for place := range m.rows[0][0] {
		var ok [2]bool
		for side, runs := range m.rows {
			ok[side] = !slices.ContainsFunc(runs, func(rows []*row) bool { return !rows[place].ok })
		}
		switch {
		case ok[0] && ok[1]:
			m.places = append(m.places, place)
			for side, runs := range m.rows {
				for k, rows := range runs {
					m.good[side][k] = append(m.good[side][k], rows[place])
				}
			}
		case ok[0]:
			m.onlyOne[0]++
		case ok[1]:
			m.onlyOne[1]++
		}
	}
	return m
}

// inAll reports whether all runs have a request.
func inAll(all []*run, r *row) bool {
	return !slices.ContainsFunc(all, func(run *run) bool {
		_, found := slices.BinarySearchFunc(run.rows, r, byIndex)
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
	n := len(m.rows[0][0])
	g := &groups{of: make([]int8, n), sizes: make([]int, count), timed: true}
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
	rows := m.rows[0][0]
	number := map[int64]int{}
	count := 0
	alone := 0
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
	g := &groups{of: make([]int8, len(rows)), sizes: make([]int, min(count, most))}
	for place, n := range numbers {
		group := (n + n/most*7) % len(g.sizes) // no period of the groups goes into one
		g.of[place] = int8(group)
		g.sizes[group]++
	}
	return g
}

// effective is how many groups of one size say as much as these.
func (g *groups) effective() float64 {
	sum := 0.0
	squares := 0.0
	for _, size := range g.sizes {
		sum += float64(size)
		squares += float64(size) * float64(size)
	}
	return sum * sum / squares
}
