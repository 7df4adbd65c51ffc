package compare

import "slices"

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
			m.rows[0], m.rows[1], m.lone = append(m.rows[0], x), append(m.rows[1], y), m.lone-2
			switch {
			case x.ok && y.ok:
				m.good[0], m.good[1] = append(m.good[0], x), append(m.good[1], y)
			case x.ok:
				m.onlyOne[0]++
			case y.ok:
				m.onlyOne[1]++
			}
		}
	}
	return m
}

// parts is into how many parts a comparison is cut, one after another. Requests of a part share slow seconds and conversations, so parts
// are taken to be independent, and not requests.
const parts = 10

// part is one of as many parts of m.
func (m *matched) part(i int) *matched {
	cut := func(rows []*row) []*row { return rows[i*len(rows)/parts : (i+1)*len(rows)/parts] }
	return &matched{
		paired: m.paired, runs: m.runs, from: float64(i) / parts, to: float64(i+1) / parts,
		rows: [2][]*row{cut(m.rows[0]), cut(m.rows[1])}, good: [2][]*row{cut(m.good[0]), cut(m.good[1])},
	}
}
