package trace

import "slices"

// noValue is what is not known of a request in the columns of Agents.
const noValue = -1

// agentRow is what a row says of agents. Dependencies are on rows by their numbers in the file, or in the files one
// after the other: items.first plus the place in items.rows. Named ones are on requests by their names, which may stand
// on any line. A name is unique in all files.
type agentRow struct {
	job          string // "" = none
	request      string // name that named dependencies use; "" = none
	depth        int32
	notBeforeNS  int64
	tookNS       int64
	ttftNS       int64
	cached       int32
	dependencies []Dependency // On is a row's number
	named        []requestDependency
}

func noAgent() agentRow {
	return agentRow{notBeforeNS: noValue, tookNS: noValue, ttftNS: noValue, cached: noValue}
}

// after has the row depend on the ends of others.
func (a *agentRow) after(why Relation, delayNS int64, on ...int64) {
	for _, row := range on {
		a.dependencies = append(a.dependencies, Dependency{On: row, DelayNS: delayNS, Relation: why})
	}
}

// agentColumns collects what rows say of agents.
type agentColumns struct {
	job          column[int32]
	jobs         []string
	numbers      map[string]int32 // of jobs
	depth        column[int32]
	notBeforeNS  column[int64]
	tookNS       column[int64]
	ttftNS       column[int64]
	cached       column[int32]
	subAgents    SubAgents
	parents      map[string]string      // of conversations that have one, in formats with tree
	dependencies *listStore[Dependency] // nil as long as no row has one
	requests     requestNames
	twice        []repeatedName
	order        []int32 // of kept rows, each after what it depends on; nil = no row depends on another
}

// repeatedName is a row's name that an earlier row has already.
type repeatedName struct {
	row  int32 // place among the kept rows
	name string
}

// keep appends a row behind n others that were kept.
func (a *agentColumns) keep(r *agentRow, n int) {
	job := int32(noValue)
	if r.job != "" {
		job = a.jobNumber(r.job)
	}
	a.job.add(job, n, noValue)
	a.depth.add(r.depth, n, 0)
	a.notBeforeNS.add(r.notBeforeNS, n, noValue)
	a.tookNS.add(r.tookNS, n, noValue)
	a.ttftNS.add(r.ttftNS, n, noValue)
	a.cached.add(r.cached, n, noValue)
	if r.request != "" {
		number := a.requests.number(r.request)
		if a.requests.rows[number] == noValue {
			a.requests.rows[number] = int32(n)
		} else {
			a.twice = append(a.twice, repeatedName{int32(n), r.request})
		}
	}
	for _, d := range r.named {
		d.On = firstName - int64(a.requests.number(d.request))
		r.dependencies = append(r.dependencies, d.Dependency)
	}
	if a.dependencies == nil && r.dependencies != nil {
		a.dependencies = new(listStore[Dependency])
		for range n {
			a.dependencies.add(nil)
		}
	}
	if a.dependencies != nil {
		a.dependencies.add(r.dependencies)
	}
}

// jobNumber is the number of a name, a new one for a name that is new.
func (a *agentColumns) jobNumber(name string) int32 {
	if n, known := a.numbers[name]; known {
		return n
	}
	if a.numbers == nil {
		a.numbers = map[string]int32{}
	}
	n := int32(len(a.jobs))
	a.jobs, a.numbers[name] = append(a.jobs, name), n
	return n
}

func (a *agentColumns) columns() Agents {
	return Agents{Job: a.job.values, Jobs: a.jobs, Depth: a.depth.values, NotBeforeNS: a.notBeforeNS.values,
		TookNS: a.tookNS.values, TTFTNS: a.ttftNS.values, Cached: a.cached.values, SubAgents: a.subAgents}
}

// column is a column that begins with the first row that has a value in it.
type column[T comparable] struct{ values []T }

// add appends the value of a row behind n others; none is the value of rows that have none.
func (c *column[T]) add(value T, n int, none T) {
	if c.values == nil {
		if value == none {
			return
		}
		c.values = slices.Repeat([]T{none}, n)
	}
	c.values = append(c.values, value)
}

// idScopes makes block ids that are local to a scope, such as a job, differ from those of all others: they are numbered
// anew in order of first appearance.
type idScopes struct {
	numbers map[string]map[uint64]uint64 // of scopes
	next    uint64
	scope   string   // of the list before
	before  []uint64 // that list, as it stood in the file
	made    []uint64 // and numbered anew
	global  bool     // there are ids that stay as they are
}

// renumber numbers a list of the scope in place. What it begins with as the list before it did is not looked up.
func (s *idScopes) renumber(scope string, ids []uint64) {
	if s.numbers == nil {
		s.numbers = map[string]map[uint64]uint64{}
	}
	known := s.numbers[scope]
	if known == nil {
		known = map[uint64]uint64{}
		s.numbers[scope] = known
	}
	same := 0
	if s.scope == scope {
		same = commonPrefix(ids, s.before)
	}
	s.scope, s.before, s.made = scope, append(s.before[:same], ids[same:]...), s.made[:same]
	for _, id := range ids[same:] {
		n, old := known[id]
		if !old {
			n = s.next
			known[id] = n
			s.next++
		}
		s.made = append(s.made, n)
	}
	copy(ids, s.made)
}

// forget ends a scope that comes no more.
func (s *idScopes) forget(scope string) { delete(s.numbers, scope) }
