package compare

import (
	"cmp"
	"slices"

	"github.com/fastreplay/fastreplay/codec/record"
)

// matched is the requests of both sides that are compared. If they are paired, those with the same place are a pair.
type matched struct {
	paired  bool
	runs    [2][]*run
	rows    [2][]*row  // all that were answered, or were to be; of pairs, in both sides
	number  [2][]int32 // of the run that a row is from
	good    [2][]int32 // places of those that are ok; of pairs, in both
	onlyOne [2]int64   // pairs that are ok in this side alone
	lone    int        // requests that one side alone has, or that one side alone was stopped before
}

// match pairs the runs of both sides in their order, and their requests by index.
func match(a, b *Side, paired bool) *matched {
	m := &matched{paired: paired, runs: [2][]*run{a.runs, b.runs}}
	if n := min(len(a.runs), len(b.runs)); paired {
		m.runs = [2][]*run{a.runs[:n], b.runs[:n]}
	}
	for side := range m.runs {
		for k, run := range m.runs[side] {
			for i := range run.rows {
				if r := &run.rows[i]; r.state != stopped {
					m.rows[side], m.number[side] = append(m.rows[side], r), append(m.number[side], int32(k))
				}
			}
		}
	}
	if x, y := m.rows[0], m.rows[1]; paired { // both are in order of runs and indexes: keep what both have
		n := 0
		for i, j := 0, 0; i < len(x) && j < len(y); {
			switch cmp.Or(cmp.Compare(m.number[0][i], m.number[1][j]), cmp.Compare(x[i].index, y[j].index)) {
			case -1:
				i++
			case 1:
				j++
			default:
				x[n], y[n], m.number[0][n] = x[i], y[j], m.number[0][i]
				i, j, n = i+1, j+1, n+1
			}
		}
		m.lone, m.rows = len(x)+len(y)-2*n, [2][]*row{x[:n], y[:n]}
		m.number = [2][]int32{m.number[0][:n], m.number[0][:n]}
	}
	for side, rows := range m.rows {
		for i, r := range rows {
			if r.state == ok && (!paired || m.rows[1-side][i].state == ok) {
				m.good[side] = append(m.good[side], int32(i))
			} else if r.state == ok {
				m.onlyOne[side]++
			}
		}
	}
	return m
}

// How requests are grouped.
const (
	sliceNS             = 10e9 // of planned time
	fewestSlices        = 10   // a short run has shorter slices
	fewestConversations = 20   // with fewer, slices of time are drawn alone
	blocks              = 10   // parts of the run, by which the noise floor is estimated
)

// byTime groups each side's rows by slices of time, in their order, or by the rows' order if all are planned at once.
func (m *matched) byTime() (group [2][]int32, groups []int) {
	from := 0
	for side, rows := range m.rows {
		if m.paired && side == 1 {
			return [2][]int32{group[0], group[0]}, groups
		}
		at := (*row).at
		byTime := func(x, y *row) int { return cmp.Compare(at(x), at(y)) }
		if at(slices.MinFunc(rows, byTime)) == at(slices.MaxFunc(rows, byTime)) {
			at = func(r *row) int64 { return r.index }
		}
		first, last := at(slices.MinFunc(rows, byTime)), at(slices.MaxFunc(rows, byTime))
		n := min(len(rows), max(fewestSlices, int((last-first)/sliceNS)))
		for i, r := range rows {
			slice := int(float64(at(r)-first) / float64(last-first+1) * float64(n))
			group[side] = append(group[side], int32(from+int(m.number[side][i])*n+slice))
		}
		groups = append(groups, n*len(m.runs[side]))
		from += n * len(m.runs[side])
	}
	return group, groups
}

// byConversation groups rows by conversation. It finds no groups if most rows have none; others without one are a group each.
func (m *matched) byConversation() (group [2][]int32, groups []int) {
	from, lone := 0, 0
	for side, rows := range m.rows {
		if m.paired && side == 1 {
			group[1] = group[0]
			break
		}
		n, numbers := from, map[int64]int{}
		for _, r := range rows {
			if _, found := numbers[r.group]; !found || r.group == record.None {
				numbers[r.group], n = n, n+1
			}
			lone += int(b2i(r.group == record.None))
			group[side] = append(group[side], int32(numbers[r.group]))
		}
		groups, from = append(groups, n-from), n
	}
	if lone > len(group[0])/2 {
		return group, []int{0}
	}
	return group, groups
}

func b2i(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
