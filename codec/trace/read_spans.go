package trace

import (
	"cmp"
	"slices"
)

// linkSpans finds what requests waited for, where a trace only says when each began and ended: those of its job that
// had ended when it began, as far as no other stands between. A request that began while all before were under way was
// sent some time after the one before it. It must run while the rows of dependencies are numbers in the file.
func (l *loader) linkSpans() {
	if l.format == nil || !l.format.spans || l.agents.job.values == nil || l.session == nil {
		return
	}
	var rows []int32
	for i, at := range l.timeNS {
		if at != noTime {
			rows = append(rows, int32(i))
		}
	}
	job := l.agents.job.values
	slices.SortStableFunc(rows, func(a, b int32) int {
		return cmp.Or(cmp.Compare(job[a], job[b]), cmp.Compare(l.timeNS[a], l.timeNS[b]))
	})
	waits := new(listStore[Dependency])
	place := make([]int32, len(l.timeNS))
	waits.add(nil)
	for len(rows) > 0 {
		n := 1
		for n < len(rows) && job[rows[n]] == job[rows[0]] {
			n++
		}
		if job[rows[0]] != noValue {
			l.linkJob(rows[:n], waits, place)
		}
		rows = rows[n:]
	}
	l.agents.dependencies = &listStore[Dependency]{slabs: waits.slabs, held: waits.held}
	for _, at := range place {
		l.agents.dependencies.rows = append(l.agents.dependencies.rows, waits.rows[at])
	}
}

// linkJob links the rows of a job, which are in order of time. Place is of a row's list in waits.
func (l *loader) linkJob(rows []int32, waits *listStore[Dependency], place []int32) {
	latest := make([]int64, len(rows)) // end of any row up to here
	met := map[int64]bool{}            // conversations
	var list []Dependency
	for at, i := range rows {
		latest[at] = l.endOf(i)
		if at > 0 {
			latest[at] = max(latest[at], latest[at-1])
		}
		list = list[:0]
		between, until := at, int64(noTime) // the last row that had ended; when the last answer of all ended
		for b := at - 1; b >= 0; b-- {
			end := l.endOf(rows[b])
			if end > l.timeNS[i] {
				continue
			}
			if between == at {
				between = b
			} else if latest[b] <= l.timeNS[rows[between]] {
				break
			} else if end <= l.timeNS[rows[between]] {
				continue
			}
			until = max(until, end)
			list = append(list, l.waitOf(i, rows[b], OnCompletion, met))
		}
		if len(list) == 0 && at > 0 {
			until = l.timeNS[rows[at-1]]
			list = append(list, l.waitOf(i, rows[at-1], OnDispatch, met))
		}
		slices.Reverse(list)
		for w := range list {
			list[w].DelayNS = l.timeNS[i] - until
		}
		met[l.session[i]] = true
		place[i] = int32(len(waits.rows))
		waits.add(list)
	}
}

// waitOf is row i's dependency on row b. Met has the conversations of the rows before row i.
func (l *loader) waitOf(i, b int32, trigger Trigger, met map[int64]bool) Dependency {
	w := Dependency{On: int64(l.row[b]), Trigger: trigger}
	switch {
	case l.session[i] == l.session[b]:
	case met[l.session[i]]:
		w.Relation = Join
	default:
		w.Relation = Spawn
	}
	return w
}
