package trace

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"
)

// asker is an agent or a sub-agent of a job, with its requests in an object and its own sub-agents.
type asker struct {
	name  string // unique in all files
	depth int32
	rows  []int32 // places in items.rows
	subs  []*asker
	endNS int64 // when its result came back to its parent; noTime = not known, so nothing waits for it
}

// soon is how long after the request that asked for it a sub-agent begins at most, in ns: 1.06 s in Weka's public set.
const soon = 1500 * int64(time.Millisecond)

// linkRequests finds out from recorded times and from block ids which requests of an agent and of its sub-agents waited
// for which. It returns the agent's last requests, for which its parent waited.
//
// A request follows that one of its agent's chains with which it shares the longest prefix. If the last request of that
// chain is still in flight, or if nothing is shared, it begins a chain of its own, and see cause for when. Where prompts
// have no ids, it follows all that had ended, as far as no other stands between.
//
// A sub-agent begins as a chain does. The first request of the parent after the sub-agent's end waits for the last
// request of each of the sub-agent's chains. If there is none, the sub-agent runs in the background.
//
// Recorded clocks need not be exact: a request may seem to begin m.early ns before the end of the one that it followed.
func (m *items) linkRequests(a *asker) []int32 {
	slices.SortFunc(a.rows, m.inTime)
	joined := make([][]int32, len(a.rows)) // for what a request waits beside its own agent's
	var loose []int32
	for _, s := range a.subs {
		ends := m.linkRequests(s)
		if len(s.rows) == 0 {
			continue
		}
		first := s.rows[0]
		begun, _ := slices.BinarySearchFunc(a.rows, first, m.inTime)
		on, trigger := m.cause(a.rows[:begun], m.rows[first].timeNS)
		if on >= 0 {
			m.wait(first, Spawn, trigger, a.rows[on])
		}
		if s.endNS == noTime {
			m.l.SubAgents.Background++
			continue
		}
		end, last := s.endNS, slices.Max(ends)
		for _, i := range ends {
			end = max(end, m.rows[i].endNS())
		}
		next := on + 1
		for next < len(a.rows) && (m.rows[a.rows[next]].timeNS < end || m.rows[a.rows[next]].timeNS == end && a.rows[next] < last) {
			next++
		}
		if next == len(a.rows) {
			loose = append(loose, ends...)
		} else {
			joined[next] = append(joined[next], ends...)
		}
	}
	alike := slices.ContainsFunc(a.rows, func(i int32) bool { return len(m.rows[i].ids) > 0 })
	latest := make([]int64, len(a.rows)) // end of any up to here
	var tails []int32
	for n, i := range a.rows {
		if alike {
			tails = m.follow(tails, i)
		} else if on := m.ended(a.rows[:n], latest, m.rows[i].timeNS); on != nil {
			m.wait(i, Sequence, OnCompletion, on...)
		} else if n > 0 {
			m.wait(i, Barrier, OnDispatch, a.rows[n-1])
		}
		m.wait(i, Join, OnCompletion, joined[n]...)
		latest[n] = max(latest[max(0, n-1)], m.rows[i].endNS())
	}
	if !alike {
		tails = m.ended(a.rows, latest, math.MaxInt64)
	}
	return append(tails, loose...)
}

// ended is those of some requests, in order of time, that had ended at an instant, as far as no other that had stands
// between.
func (m *items) ended(rows []int32, latest []int64, at int64) (on []int32) {
	between := int64(noTime) // when the last one of them began
	for n, i := range slices.Backward(rows) {
		if on != nil && latest[n] <= between {
			break
		}
		end := m.rows[i].endNS()
		if end > at || on != nil && end <= between {
			continue
		}
		if on == nil {
			between = m.rows[i].timeNS
		}
		on = append(on, i)
	}
	slices.Reverse(on)
	return on
}

// follow has a request wait for one of the last requests of the chains so far, and returns the last ones with it.
func (m *items) follow(tails []int32, i int32) []int32 {
	r := &m.rows[i]
	best, most := -1, -1
	for c, j := range tails {
		n := commonPrefix(m.rows[j].ids, r.ids)
		if n > most || n == most && !m.inFlight(j, r.timeNS) && m.rows[j].endNS() >= m.rows[tails[best]].endNS() {
			best, most = c, n
		}
	}
	if best < 0 {
		return append(tails, i)
	}
	before := tails[best]
	if m.inFlight(before, r.timeNS) || most == 0 && len(r.ids) > 0 && len(m.rows[before].ids) > 0 {
		on, trigger := m.cause(tails, r.timeNS)
		m.wait(i, Barrier, trigger, tails[on])
		return append(tails, i)
	}
	m.wait(i, Sequence, OnCompletion, before)
	tails[best] = i
	return tails
}

// cause is the place of that one of some requests after which another one seems to have begun, and whether after its
// end or its dispatch: of those that had just ended the last, else of those in flight the latest, else of all that had
// ended the last. It is -1 if there are none.
func (m *items) cause(rows []int32, at int64) (place int, t Trigger) {
	ended, flying := -1, -1
	for n, i := range rows {
		if m.inFlight(i, at) {
			if flying < 0 || m.rows[i].timeNS >= m.rows[rows[flying]].timeNS {
				flying = n
			}
		} else if ended < 0 || m.rows[i].endNS() >= m.rows[rows[ended]].endNS() {
			ended = n
		}
	}
	if flying >= 0 && (ended < 0 || at-m.rows[rows[ended]].endNS() > soon) {
		return flying, OnDispatch
	}
	return ended, OnCompletion
}

// inTime compares two requests by their instants, or else by their places.
func (m *items) inTime(i, j int32) int {
	return cmp.Or(cmp.Compare(m.rows[i].timeNS, m.rows[j].timeNS), cmp.Compare(i, j))
}

// inFlight reports whether a request that has begun at an instant had surely not ended then.
func (m *items) inFlight(i int32, at int64) bool { return m.rows[i].endNS() > at+m.early }

// endNS is when a request had ended; when it began, if it is not known how long it took.
func (r *row) endNS() int64 { return r.timeNS + max(0, r.agent.tookNS) }

// wait makes a request depend on others. A delay after an end counts from the last recorded end of all that the request
// waits for, so that it leaves at its recorded instant if they take as long as recorded. If it is not known how long
// one took, the request follows its end at once, and keeps the recorded distance from its dispatch.
func (m *items) wait(i int32, why Relation, t Trigger, on ...int32) {
	r := &m.rows[i]
	for _, j := range on {
		d := Dependency{On: int64(m.first) + int64(j), Trigger: t, Relation: why}
		if t == OnCompletion {
			r.agent.dependencies = append(r.agent.dependencies, d)
		}
		if d.Trigger = OnDispatch; t == OnDispatch || m.rows[j].agent.tookNS < 0 {
			d.DelayNS = r.timeNS - m.rows[j].timeNS
			r.agent.dependencies = append(r.agent.dependencies, d)
		}
	}
	last := int64(noTime)
	known := func(d Dependency) bool {
		return d.Trigger == OnCompletion && m.rows[d.On-int64(m.first)].agent.tookNS >= 0
	}
	for _, d := range r.agent.dependencies {
		if known(d) {
			last = max(last, m.rows[d.On-int64(m.first)].endNS())
		}
	}
	for n, d := range r.agent.dependencies {
		if known(d) {
			r.agent.dependencies[n].DelayNS = max(0, r.timeNS-last)
		}
	}
}

// commonPrefix is how many ids two lists begin with alike.
func commonPrefix(a, b []uint64) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// linkAgents is linkRequests for formats in which each row is of an agent. A sub-agent returns its result with its last
// answer. Where agents name their parents, a job is what one without a parent began. Where rows name their jobs, a job's
// first agent began the others. Rows without an instant are not linked.
func (l *loader) linkAgents() {
	if l.format == nil || !l.format.tree || l.Session == nil || l.timed == 0 {
		return
	}
	m := items{l: l, rows: make([]row, len(l.ArrivalNS))}
	askers := map[string]*asker{}
	var all []*asker
	of := make([]*asker, len(m.rows))
	for i := range m.rows {
		m.rows[i] = row{timeNS: l.ArrivalNS[i], ids: l.ids.row(i), agent: noAgent()}
		if took := l.TookNS; took != nil {
			m.rows[i].agent.tookNS = took[i]
		}
		name := cmp.Or(l.sessionNames[l.Session[i]], strconv.FormatInt(l.Session[i], 10))
		if askers[name] == nil {
			askers[name] = &asker{name: name, endNS: noTime}
			all = append(all, askers[name])
		}
		if of[i] = askers[name]; l.ArrivalNS[i] != noTime {
			of[i].rows = append(of[i].rows, int32(i))
			of[i].endNS = max(of[i].endNS, m.rows[i].endNS())
		}
	}
	parents, job := l.agents.parents, l.Job
	if job != nil {
		parents = map[string]string{}
		var order []int32
		for _, a := range all {
			order = append(order, a.rows...)
		}
		slices.SortFunc(order, m.inTime)
		first := map[int32]string{} // of jobs
		for _, i := range order {
			if name, known := first[job[i]]; !known {
				first[job[i]] = of[i].name
			} else if name != of[i].name {
				parents[of[i].name] = name
			}
		}
	}
	root := func(a *asker) (top *asker, depth int32) {
		top = a
		for up := askers[parents[a.name]]; up != nil && int(depth) <= len(all); up = askers[parents[up.name]] {
			top, depth = up, depth+1
		}
		return top, depth
	}
	for _, a := range all {
		if _, a.depth = root(a); int(a.depth) > len(all) {
			l.faultIn(a.rows[0], "the parents of session "+quote([]byte(a.name))+" lead back to themselves", "a job begins with a session without a parent")
			a.depth = 0
		} else if a.depth > 0 {
			up := askers[parents[a.name]]
			up.subs = append(up.subs, a)
		}
	}
	for _, a := range all {
		if a.depth == 0 {
			m.linkRequests(a)
		}
	}
	l.Depth, l.dependencies = make([]int32, len(of)), new(listStore[Dependency])
	for i, a := range of {
		if job == nil {
			top, _ := root(a)
			addTo(&l.Job, l.agents.jobs.number(top.name), i, noValue)
		}
		l.Depth[i] = a.depth
		waits := m.rows[i].agent.dependencies
		for n, d := range waits {
			waits[n].On = int64(l.Row[d.On])
		}
		l.dependencies.add(waits)
	}
}
