package compare

import (
	"slices"

	"github.com/fastreplay/fastreplay/codec/record"
)

// matched is the requests of both sides that are compared. If they are paired, those with the same place are a pair.
type matched struct {
	paired   bool
	runs     [2][]*run
	from, to float64   // the part of the time of these runs, 0 to 1
	rows     [2][]*row // all that were answered, or were to be; of pairs, in both sides
	good     [2][]*row // those that are ok; of pairs, in both
	onlyOne  [2]int64  // pairs that are ok in this side alone
	lone     int       // requests that one side alone has, or that one side alone was stopped before
}

// match pairs the runs of both sides in their order, and their requests by index.
func match(a, b []*run, paired bool) *matched {
	m := &matched{paired: paired, runs: [2][]*run{a, b}, to: 1}
	if !paired {
		for side, runs := range m.runs {
			for _, run := range runs {
				m.rows[side] = append(m.rows[side], run.rows...)
			}
			m.good[side] = slices.DeleteFunc(slices.Clone(m.rows[side]), func(r *row) bool { return !r.ok })
		}
		return m
	}
	n := min(len(a), len(b))
	m.runs = [2][]*run{a[:n], b[:n]}
	for k := range n {
		others := b[k].rows
		m.lone += len(a[k].rows) + len(others)
		for _, x := range a[k].rows {
			at, found := slices.BinarySearchFunc(others, x, byIndex)
			if !found {
				continue
			}
			y := others[at]
			m.rows[0] = append(m.rows[0], x)
			m.rows[1] = append(m.rows[1], y)
			m.lone = m.lone - 2
			switch {
			case x.ok && y.ok:
				m.good[0] = append(m.good[0], x)
				m.good[1] = append(m.good[1], y)
			case x.ok:
				m.onlyOne[0]++
			case y.ok:
				m.onlyOne[1]++
			}
		}
	}
	return m
}

// parts is into how many parts a comparison is cut.
const parts = 10

// part is one of as many parts of m, one after another. Requests of a part share slow seconds, so parts are taken to
// be independent, and not requests.
func (m *matched) part(i int) *matched {
	cut := func(rows []*row) []*row { return rows[i*len(rows)/parts : (i+1)*len(rows)/parts] }
	return m.partOf(float64(i)/parts, float64(i+1)/parts, cut)
}

// partOfConversations is one of as many parts of m that have whole conversations, whose requests share a prefix, and
// often an instance.
func (m *matched) partOfConversations(i int) *matched {
	return m.partOf(0, 1, func(rows []*row) []*row {
		return slices.DeleteFunc(slices.Clone(rows), func(r *row) bool { return r.group != int8(i) })
	})
}

func (m *matched) partOf(from, to float64, cut func([]*row) []*row) *matched {
	return &matched{
		paired: m.paired,
		runs:   m.runs,
		from:   from,
		to:     to,
		rows:   [2][]*row{cut(m.rows[0]), cut(m.rows[1])},
		good:   [2][]*row{cut(m.good[0]), cut(m.good[1])},
	}
}

// groupConversations deals conversations out to the parts in the order of their first requests, and reports whether
// they are as many as an interval needs. A request without one counts as one; if most have none, there are none.
func (m *matched) groupConversations() bool {
	const fewest = 3 * parts
	groups := map[int64]int8{}
	n := 0
	alone := 0
	for i, r := range m.rows[0] {
		group, found := groups[r.conversation]
		if r.conversation == record.None {
			found = false
			alone++
		}
		if !found {
			group = int8((n + n/parts*7) % parts) // no period of ten goes into one part
			groups[r.conversation] = group
			n++
		}
		r.group = group
		m.rows[1][i].group = group
	}
	return n >= fewest && alone <= len(m.rows[0])/2
}
