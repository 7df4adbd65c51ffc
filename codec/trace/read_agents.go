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

// agentNames is what rows say of agents beside the columns of a Trace.
type agentNames struct {
	jobs     numbering[string]
	parents  map[string]string // of conversations that have one, in formats with tree
	requests numbering[string] // those that rows have, and those that they only depend on
	rows     []int32           // that has a request's name: its place among the kept rows; noValue = none
	twice    []repeatedName
	order    []int32 // of kept rows, each after what it depends on; nil = no row depends on another
}

// repeatedName is a row's name that an earlier row has already.
type repeatedName struct {
	row  int32 // place among the kept rows
	name string
}

// request is the number of a request's name.
func (a *agentNames) request(name string) int32 {
	n := a.requests.number(name)
	if int(n) == len(a.rows) {
		a.rows = append(a.rows, noValue)
	}
	return n
}

// keepAgent appends what the row behind those that were kept says of agents.
func (l *loader) keepAgent(r *agentRow) {
	n, job := len(l.ArrivalNS), int32(noValue)
	if r.job != "" {
		job = l.agents.jobs.number(r.job)
	}
	addTo(&l.Job, job, n, noValue)
	addTo(&l.Depth, r.depth, n, 0)
	addTo(&l.NotBeforeNS, r.notBeforeNS, n, noValue)
	addTo(&l.TookNS, r.tookNS, n, noValue)
	addTo(&l.TTFTNS, r.ttftNS, n, noValue)
	addTo(&l.Cached, r.cached, n, noValue)
	if r.request != "" {
		if number := l.agents.request(r.request); l.agents.rows[number] == noValue {
			l.agents.rows[number] = int32(n)
		} else {
			l.agents.twice = append(l.agents.twice, repeatedName{int32(n), r.request})
		}
	}
	for _, d := range r.named {
		d.On = firstName - int64(l.agents.request(d.request))
		r.dependencies = append(r.dependencies, d.Dependency)
	}
	keepList(&l.dependencies, r.dependencies, n)
}

// addTo appends the value of a row behind n others to a column that begins with the first row that has a value in it; none
// is the value of rows that have none.
func addTo[T comparable](column *[]T, value T, n int, none T) {
	if *column == nil {
		if value == none {
			return
		}
		*column = slices.Repeat([]T{none}, n)
	}
	*column = append(*column, value)
}

// keepList is addTo for a list, where nil is none.
func keepList[T uint64 | byte | Dependency](store **listStore[T], list []T, n int) {
	if *store == nil {
		if list == nil {
			return
		}
		*store = new(listStore[T])
		for range n {
			(*store).add(nil)
		}
	}
	(*store).add(list)
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
