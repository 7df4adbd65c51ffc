package compare

import (
	"cmp"

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

// fewestConversations are drawn as a whole. If there are fewer, stretches of requests are drawn alone.
const fewestConversations = 20

// conversations numbers those of all runs, and gives each row its own. A row without one counts as one; if most do, there are none.
func (m *matched) conversations() (of []int32, n int) {
	numbers, lone := map[int64]int32{}, 0
	for _, r := range m.rows[0] {
		if _, found := numbers[r.group]; !found || r.group == record.None {
			numbers[r.group], n = int32(n), n+1
		}
		lone += int(b2i(r.group == record.None))
		of = append(of, numbers[r.group])
	}
	if lone > len(of)/2 {
		return of, 0
	}
	return of, n
}

func b2i(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
