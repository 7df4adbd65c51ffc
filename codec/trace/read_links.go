package trace

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
)

// asker is an agent or a sub-agent of a job, with its requests in an object and its own sub-agents.
type asker struct {
	name   string // unique in all files
	depth  int32
	rows   []int32 // places in items.rows
	subs   []*asker
	named  map[string]int // names of its sub-agents, and how many asked for each
	up     *asker         // whose sub-agent it is; nil = the job's first agent
	top    *asker         // the job's first agent; nil = not known yet
	circle bool           // it comes from itself, or from one that does
	seen   bool           // it has requests, and not just others that it started
	endNS  int64          // when its result came back to its parent; noTime = not known, so nothing waits for it
}

// soon is how long after the request that asked for it a sub-agent begins at most, in ns: 1.06 s in Weka's public set.
const soon = 1500 * int64(time.Millisecond)

const (
	// mostDepth is how deep agents may start each other: a hand-over from session to session may go on for long.
	// A function calls itself for each. Weka's public trace of 48 jobs goes 1 deep.
	mostDepth = 1 << 16
	// mostNested is how deep sub-agents may stand in each other in one object: it is read once for each.
	mostNested = 100
	// mostChains is how many chains of an agent a request may follow. In Weka's public trace an agent has one.
	mostChains = 256
	// mostWaits and waitsPerRow bound what requests wait for where a file does not say it. One that follows many
	// parallel ones waits for each, and so do all beside it. In Weka's public trace a request waits for 4 at most.
	mostWaits   = 1 << 20
	waitsPerRow = 64
)

// refuseWaits is the error if so many more waits are too many for so many rows; else they count.
func (l *loader) refuseWaits(more, rows int) error {
	if l.waits += more; l.waits <= mostWaits+waitsPerRow*rows {
		return nil
	}
	return &rowError{fmt.Sprintf("up to here requests wait for more than %d others in all: each of many at a time waits for many", mostWaits+waitsPerRow*rows),
		"split such jobs, or replay the rows in a format without agents"}
}

// lastRequests are the requests of an agent for which its parent waits: the ends of its own chains, and of those of
// sub-agents for whose end it did not wait itself.
type lastRequests struct {
	own   []int32
	inner []*lastRequests
	last  int32 // the largest place
	endNS int64 // the latest end
}

// appendTo appends the places of all.
func (e *lastRequests) appendTo(places []int32) []int32 {
	places = append(places, e.own...)
	for _, inner := range e.inner {
		places = inner.appendTo(places)
	}
	return places
}

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
func (m *items) linkRequests(a *asker) *lastRequests {
	slices.SortFunc(a.rows, m.inTime)
	joined := make([][]int32, len(a.rows)) // for what a request waits beside its own agent's
	ends := make([]*lastRequests, len(a.subs))
	for n, s := range a.subs {
		ends[n] = m.linkRequests(s)
	}
	causes := m.causes(a)
	all := &lastRequests{last: noValue, endNS: noTime}
	for n, s := range a.subs {
		if len(s.rows) == 0 {
			continue
		}
		on, trigger := causes[n].place, causes[n].trigger
		if on >= 0 {
			m.wait(s.rows[0], Spawn, trigger, a.rows[on])
		}
		if s.endNS == noTime {
			m.l.SubAgents.Background++
			continue
		}
		end := max(s.endNS, ends[n].endNS)
		next, _ := slices.BinarySearchFunc(a.rows, end, func(i int32, end int64) int {
			return cmp.Or(cmp.Compare(m.rows[i].timeNS, end), cmp.Compare(i, ends[n].last))
		})
		if next = max(next, on+1); next == len(a.rows) {
			all.inner = append(all.inner, ends[n])
		} else {
			joined[next] = ends[n].appendTo(joined[next])
		}
	}
	all.own = m.linkOwn(a, joined)
	for _, i := range all.own {
		all.last, all.endNS = max(all.last, i), max(all.endNS, m.rows[i].endNS())
	}
	for _, inner := range all.inner {
		all.last, all.endNS = max(all.last, inner.last), max(all.endNS, inner.endNS)
	}
	return all
}

// linkOwn has the requests of an agent wait for each other and for those joined, and returns the last ones.
func (m *items) linkOwn(a *asker, joined [][]int32) []int32 {
	alike := slices.ContainsFunc(a.rows, func(i int32) bool { return len(m.rows[i].ids) > 0 })
	var chains chains
	before := m.newSweep(a.rows, 0)
	for n, i := range a.rows {
		if m.fault != nil {
			return nil
		}
		if alike {
			m.follow(&chains, i)
		} else if on := m.ended(before, n, m.rows[i].timeNS); len(on) > 0 {
			m.wait(i, Sequence, OnCompletion, on...)
		} else if n > 0 {
			m.wait(i, Barrier, OnDispatch, a.rows[n-1])
		}
		m.wait(i, Join, OnCompletion, joined[n]...)
	}
	if alike {
		return append(chains.tails, chains.left...)
	}
	return slices.Clone(m.ended(before, len(a.rows), math.MaxInt64))
}

// sweep goes through an agent's requests in order of time, and says which of them have ended meanwhile.
type sweep struct {
	rows  []int32
	order []int32 // places in rows in the order in which they have both begun and ended
	live  []int32 // see ended
	early int64
}

func (m *items) newSweep(rows []int32, early int64) *sweep {
	w := &sweep{rows: rows, order: make([]int32, len(rows)), early: early}
	for n := range w.order {
		w.order[n] = int32(n)
	}
	known := func(n int32) int64 { return max(m.rows[rows[n]].endNS()-early, m.rows[rows[n]].timeNS) }
	slices.SortFunc(w.order, func(a, b int32) int { return cmp.Or(cmp.Compare(known(a), known(b)), cmp.Compare(a, b)) })
	return w
}

// next is the place of a further request that had ended at an instant, among those that had begun; noValue = no other.
// Neither the instant nor the number of those that had begun ever falls.
func (m *items) next(w *sweep, begun int, at int64) int32 {
	if len(w.order) == 0 {
		return noValue
	}
	n := w.order[0]
	if int(n) >= begun || m.rows[w.rows[n]].endNS() > at+w.early {
		return noValue
	}
	w.order = w.order[1:]
	return n
}

// ended is those of the requests so far that had ended at an instant, as far as no other that had stands between. The
// next call changes the slice.
func (m *items) ended(w *sweep, begun int, at int64) []int32 {
	grown := len(w.live)
	for n := m.next(w, begun, at); n != noValue; n = m.next(w, begun, at) {
		w.live = append(w.live, w.rows[n])
	}
	if len(w.live) == grown {
		return w.live
	}
	slices.SortFunc(w.live, m.inTime)
	latest := w.live[len(w.live)-1]
	w.live = slices.DeleteFunc(w.live, func(i int32) bool { return i != latest && m.rows[i].endNS() <= m.rows[latest].timeNS })
	return w.live
}

// cause is the place of the request after which another one seems to have begun, and whether after its end or its
// dispatch; -1 if there is none.
type cause struct {
	place   int
	trigger Trigger
}

// causes is the cause of the first request of each of an agent's sub-agents among the agent's own; see causeOf.
func (m *items) causes(a *asker) []cause {
	found, order := make([]cause, len(a.subs)), make([]int, 0, len(a.subs))
	for n, s := range a.subs {
		if len(s.rows) > 0 {
			order = append(order, n)
		}
	}
	slices.SortFunc(order, func(x, y int) int { return m.inTime(a.subs[x].rows[0], a.subs[y].rows[0]) })
	w, begun, ended := m.newSweep(a.rows, m.early), 0, -1
	var flying []int // places of requests that may be in flight
	for _, n := range order {
		first := a.subs[n].rows[0]
		at := m.rows[first].timeNS
		for ; begun < len(a.rows) && m.inTime(a.rows[begun], first) < 0; begun++ {
			flying = append(flying, begun)
		}
		for k := m.next(w, begun, at); k != noValue; k = m.next(w, begun, at) {
			ended = m.endsLater(a.rows, ended, int(k))
		}
		for len(flying) > 0 && !m.inFlight(a.rows[flying[len(flying)-1]], at) {
			flying = flying[:len(flying)-1]
		}
		latest := -1
		if len(flying) > 0 {
			latest = flying[len(flying)-1]
		}
		found[n] = m.choose(a.rows, ended, latest, at)
	}
	return found
}

// endsLater is the one of two places whose request ended later, or else the later place; -1 is none.
func (m *items) endsLater(rows []int32, a, b int) int {
	if a < 0 || cmp.Or(cmp.Compare(m.rows[rows[b]].endNS(), m.rows[rows[a]].endNS()), cmp.Compare(b, a)) > 0 {
		return b
	}
	return a
}

// choose is the cause at an instant: of requests the one that had ended last, or the latest in flight if that end is
// long ago. The two are places; -1 is none.
func (m *items) choose(rows []int32, ended, flying int, at int64) cause {
	if flying >= 0 && (ended < 0 || at-m.rows[rows[ended]].endNS() > soon) {
		return cause{flying, OnDispatch}
	}
	return cause{ended, OnCompletion}
}

// chains are those of an agent's requests that share prefixes.
type chains struct {
	tails []int32 // the last request of each
	left  []int32 // likewise, of those that no request may follow any more
}

// begin begins a chain. If there are too many, none may follow the one that has not gone on for the longest time.
func (c *chains) begin(m *items, i int32) {
	if len(c.tails) == mostChains {
		oldest := 0
		for k, j := range c.tails {
			if m.inTime(j, c.tails[oldest]) < 0 {
				oldest = k
			}
		}
		c.left = append(c.left, c.tails[oldest])
		c.tails = slices.Delete(c.tails, oldest, oldest+1)
	}
	c.tails = append(c.tails, i)
}

// follow has a request wait for the last one of one of the chains so far, and become the last one of that or of a new one.
func (m *items) follow(c *chains, i int32) {
	r := &m.rows[i]
	best, most := -1, -1
	for k, j := range c.tails {
		n := commonPrefix(m.rows[j].ids, r.ids)
		if n > most || n == most && !m.inFlight(j, r.timeNS) && m.rows[j].endNS() >= m.rows[c.tails[best]].endNS() {
			best, most = k, n
		}
	}
	if best < 0 {
		c.begin(m, i)
		return
	}
	before := c.tails[best]
	if m.inFlight(before, r.timeNS) || most == 0 && len(r.ids) > 0 && len(m.rows[before].ids) > 0 {
		on := m.causeOf(c.tails, r.timeNS)
		m.wait(i, Barrier, on.trigger, c.tails[on.place])
		c.begin(m, i)
		return
	}
	m.wait(i, Sequence, OnCompletion, before)
	c.tails[best] = i
}

// causeOf is the cause among some requests: of those that had just ended the last, else of those in flight the latest,
// else of all that had ended the last.
func (m *items) causeOf(rows []int32, at int64) cause {
	ended, flying := -1, -1
	for n, i := range rows {
		if m.inFlight(i, at) {
			if flying < 0 || m.rows[i].timeNS >= m.rows[rows[flying]].timeNS {
				flying = n
			}
		} else {
			ended = m.endsLater(rows, ended, n)
		}
	}
	return m.choose(rows, ended, flying, at)
}

// inTime compares two requests by their instants, or else by their places.
func (m *items) inTime(i, j int32) int {
	return cmp.Or(cmp.Compare(m.rows[i].timeNS, m.rows[j].timeNS), cmp.Compare(i, j))
}

// inFlight reports whether a request that has begun at an instant had surely not ended then.
func (m *items) inFlight(i int32, at int64) bool { return m.rows[i].endNS() > at+m.early }

// endNS is when a request had ended; when it began, if it is not known how long it took.
func (r *row) endNS() int64 { return sumOf(r.timeNS, r.agent.tookNS) }

// wait makes a request depend on others. A delay after an end counts from the last recorded end of all that the request
// waits for, so that it leaves at its recorded instant if they take as long as recorded. If it is not known how long
// one took, the request follows its end at once, and keeps the recorded distance from its dispatch.
func (m *items) wait(i int32, why Relation, t Trigger, on ...int32) {
	if m.fault != nil {
		return
	}
	r := &m.rows[i]
	m.last = i
	m.note(m.l.refuseWaits(len(on), m.first+len(m.rows)))
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
func (l *loader) linkAgents() error {
	if l.format == nil || !l.format.tree || l.Session == nil || l.timed == 0 {
		return nil
	}
	m := items{l: l, rows: make([]row, len(l.ArrivalNS))}
	all, of := m.askers()
	for _, a := range all {
		if a.climb(); a.depth > mostDepth {
			return l.refuseAt(a.rows[0], fmt.Sprintf("session %s is more than %d deep below its job's first", quote(a.name), mostDepth), "let fewer sessions start each other")
		}
		if a.circle {
			l.faultIn(a.rows[0], "the parents of session "+quote(a.name)+" lead back to themselves", "a job begins with a session without a parent")
		} else if a.up != nil {
			a.up.subs = append(a.up.subs, a)
		}
	}
	for _, a := range all {
		if a.depth == 0 {
			m.linkRequests(a)
		}
	}
	if m.fault != nil {
		bad := faultOf("", 0, m.fault)
		return l.refuseAt(m.last, bad.What, bad.Fix)
	}
	job := l.Job
	l.Depth, l.dependencies = make([]int32, len(of)), new(listStore[Dependency])
	for i, a := range of {
		if job == nil {
			addTo(&l.Job, l.agents.jobs.number(a.top.name), i, noValue)
		}
		l.Depth[i] = a.depth
		waits := m.rows[i].agent.dependencies
		for n, d := range waits {
			waits[n].On = int64(l.Row[d.On])
		}
		l.dependencies.add(waits)
	}
	return nil
}

// askers makes the agents of the rows that were kept, each with the one that started it. Of is that of each row.
func (m *items) askers() (all, of []*asker) {
	l, byName := m.l, map[string]*asker{}
	of = make([]*asker, len(m.rows))
	for i := range m.rows {
		m.rows[i] = row{timeNS: l.ArrivalNS[i], ids: l.ids.row(i), agent: noAgent()}
		if took := l.TookNS; took != nil {
			m.rows[i].agent.tookNS = took[i]
		}
		name := cmp.Or(l.sessionNames[l.Session[i]], strconv.FormatInt(l.Session[i], 10))
		if byName[name] == nil {
			byName[name] = &asker{name: name, endNS: noTime}
			all = append(all, byName[name])
		}
		if of[i] = byName[name]; l.ArrivalNS[i] != noTime {
			of[i].rows = append(of[i].rows, int32(i))
			of[i].endNS = max(of[i].endNS, m.rows[i].endNS())
		}
	}
	if l.Job == nil {
		for _, a := range all {
			a.up = byName[l.agents.parents[a.name]]
		}
		return all, of
	}
	var order []int32
	for _, a := range all {
		order = append(order, a.rows...)
	}
	slices.SortFunc(order, m.inTime)
	first := map[int32]*asker{} // of jobs
	for _, i := range order {
		if a, known := first[l.Job[i]]; !known {
			first[l.Job[i]] = of[i]
		} else if a != of[i] {
			of[i].up = a
		}
	}
	return all, of
}

// climb finds the job's first agent, and how deep below it the agent is. One whose parents lead back to themselves is as
// a first one.
func (a *asker) climb() {
	var path []*asker
	at := a
	for ; at.top == nil && at.up != nil; at = at.up {
		at.top = at // until it is known
		path = append(path, at)
	}
	if at.top == nil {
		at.top = at
	}
	at.circle = at.circle || slices.Contains(path, at)
	for _, below := range slices.Backward(path) {
		if below.circle = below.up.circle; !below.circle {
			below.top, below.depth = below.up.top, below.up.depth+1
		}
	}
}
