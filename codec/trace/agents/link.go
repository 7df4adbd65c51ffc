package agents

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// SpawnTolerance is how long after the request that asked for it a sub-agent begins at most, in ns: 1.06 s in Weka's
// public set.
const SpawnTolerance = 1500 * int64(time.Millisecond)

const (
	// mostChains is how many chains of an agent a request may follow. In Weka's public trace an agent has one.
	mostChains = 256
	// mostWaits and waitsPerCall bound what requests wait for where a file does not say it. One that follows many
	// parallel ones waits for each, and so do all beside it. In Weka's public trace a request waits for 4 at most.
	mostWaits    = 1 << 20
	waitsPerCall = 64
)

// Call is a recorded request of an agent.
type Call struct {
	BeganNS int64
	TookNS  int64    // to the end of its answer; None = not recorded
	IDs     []uint64 // of the prompt's blocks; nil = not recorded
}

// EndNS is when a request had ended; when it began, if it is not known how long it took.
func (c *Call) EndNS() int64 {
	return After(c.BeganNS, c.TookNS)
}

// Budget counts what requests wait for where a file does not say it. The zero value has counted nothing.
type Budget struct{ waits int }

// Take counts further waits of a call. The error, a [*LimitError], is that they are too many for so many calls.
func (b *Budget) Take(waits int, call int32, calls int) error {
	b.waits += waits
	most := mostWaits + waitsPerCall*calls
	if b.waits > most {
		return &LimitError{Call: call, Most: most}
	}
	return nil
}

// LimitError is that requests wait for too many others.
type LimitError struct {
	Call int32 // place of the request that waits for one too many
	Most int   // waits that are taken
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("up to here requests wait for more than %d others in all: each of many at a time waits for many",
		e.Most)
}

// Fix is what to do about it.
func (e *LimitError) Fix() string {
	return "split such jobs, or replay the rows in a format without agents"
}

// Links are what Link found.
type Links struct {
	Dependencies [][]Dependency // of each call, on the places of others
	Background   int            // sub-agents for which nothing waits
}

// Link finds out from recorded times and from block ids which requests of agents, and of their sub-agents, waited for
// which.
//
// A request follows that one of its agent's chains with which it shares the longest prefix. If the last request of that
// chain is still in flight, or if nothing is shared, it begins a chain of its own. See causeOf for when. Where prompts
// have no ids, it follows all that had ended, as far as no other stands between.
//
// A sub-agent begins as a chain does. The first request of the parent after the sub-agent's end waits for the last
// request of each of the sub-agent's chains. If there is none, the sub-agent runs in the background.
//
// Recorded clocks need not be exact: a request may seem to begin clockSkewNS before the end of the one that it
// followed. The error is a [*LimitError].
func Link(jobs []*Node, calls []Call, clockSkewNS int64, budget *Budget) (Links, error) {
	l := &linker{
		calls:       calls,
		clockSkewNS: clockSkewNS,
		budget:      budget,
	}
	l.Dependencies = make([][]Dependency, len(calls))
	for _, job := range jobs {
		l.link(job)
		if l.err != nil {
			return Links{}, l.err
		}
	}
	return l.Links, nil
}

type linker struct {
	Links
	calls       []Call
	clockSkewNS int64
	budget      *Budget
	err         error
}

// lastCalls are the requests of an agent for which its parent waits. They end its own chains, and those of sub-agents
// for whose end it did not wait itself.
type lastCalls struct {
	own   []int32
	inner []*lastCalls
	last  int32 // the largest place
	endNS int64 // the latest end
}

// appendTo appends the places of all.
func (e *lastCalls) appendTo(places []int32) []int32 {
	places = append(places, e.own...)
	for _, inner := range e.inner {
		places = inner.appendTo(places)
	}
	return places
}

// link links an agent and its sub-agents. It returns the agent's last requests, for which its parent waited.
func (l *linker) link(a *Node) *lastCalls {
	slices.SortFunc(a.Calls, l.inTime)
	joined := make([][]int32, len(a.Calls)) // for what a request waits beside its own agent's
	ends := make([]*lastCalls, len(a.Subs))
	for n, s := range a.Subs {
		ends[n] = l.link(s)
	}
	causes := l.causes(a)
	all := &lastCalls{last: None, endNS: NoTime}
	for n, s := range a.Subs {
		if len(s.Calls) == 0 {
			continue
		}
		on := causes[n].place
		trigger := causes[n].trigger
		if on >= 0 {
			l.wait(s.Calls[0], Spawn, trigger, a.Calls[on])
		}
		if s.EndNS == NoTime {
			l.Background++
			continue
		}
		end := max(s.EndNS, ends[n].endNS)
		next, _ := slices.BinarySearchFunc(a.Calls, end, func(i int32, end int64) int {
			later := cmp.Compare(l.calls[i].BeganNS, end)
			return cmp.Or(later, cmp.Compare(i, ends[n].last))
		})
		next = max(next, on+1)
		if next == len(a.Calls) {
			all.inner = append(all.inner, ends[n])
		} else {
			joined[next] = ends[n].appendTo(joined[next])
		}
	}
	all.own = l.linkOwn(a, joined)
	for _, i := range all.own {
		all.last = max(all.last, i)
		all.endNS = max(all.endNS, l.endNS(i))
	}
	for _, inner := range all.inner {
		all.last = max(all.last, inner.last)
		all.endNS = max(all.endNS, inner.endNS)
	}
	return all
}

// endNS is when request i had ended.
func (l *linker) endNS(i int32) int64 {
	return l.calls[i].EndNS()
}

// linkOwn has the requests of an agent wait for each other and for those joined, and returns the last ones.
func (l *linker) linkOwn(a *Node, joined [][]int32) []int32 {
	haveIDs := slices.ContainsFunc(a.Calls, func(i int32) bool {
		return len(l.calls[i].IDs) > 0
	})
	var chains chains
	before := l.newSweep(a.Calls, 0)
	for n, i := range a.Calls {
		if l.err != nil {
			return nil
		}
		if haveIDs {
			l.follow(&chains, i)
		} else {
			l.followEnded(a.Calls, n, before)
		}
		l.wait(i, Join, OnCompletion, joined[n]...)
	}
	if haveIDs {
		return append(chains.tails, chains.left...)
	}
	return slices.Clone(l.latestEnded(before, len(a.Calls), math.MaxInt64))
}

// followEnded has the n-th request of an agent wait for those that had ended, or else for the dispatch of the one
// before.
func (l *linker) followEnded(calls []int32, n int, before *sweep) {
	i := calls[n]
	on := l.latestEnded(before, n, l.calls[i].BeganNS)
	if len(on) > 0 {
		l.wait(i, Sequence, OnCompletion, on...)
	} else if n > 0 {
		l.wait(i, Barrier, OnDispatch, calls[n-1])
	}
}

// sweep goes through an agent's requests in order of time, and says which of them have ended meanwhile.
type sweep struct {
	calls       []int32
	order       []int32 // places in calls in the order in which they have both begun and ended
	latest      []int32 // see latestEnded
	clockSkewNS int64
}

func (l *linker) newSweep(calls []int32, clockSkewNS int64) *sweep {
	w := &sweep{
		calls:       calls,
		order:       make([]int32, len(calls)),
		clockSkewNS: clockSkewNS,
	}
	for n := range w.order {
		w.order[n] = int32(n)
	}
	known := func(n int32) int64 {
		c := &l.calls[calls[n]]
		return max(c.EndNS()-clockSkewNS, c.BeganNS)
	}
	slices.SortFunc(w.order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(known(a), known(b)), cmp.Compare(a, b))
	})
	return w
}

// nextEnded is the place of a further request that had ended at an instant, among those that had begun; None = no
// other. Neither the instant nor the number of those that had begun ever falls.
func (l *linker) nextEnded(w *sweep, begun int, at int64) int32 {
	if len(w.order) == 0 {
		return None
	}
	n := w.order[0]
	if int(n) >= begun || l.endNS(w.calls[n]) > at+w.clockSkewNS {
		return None
	}
	w.order = w.order[1:]
	return n
}

// latestEnded is those of the requests so far that had ended at an instant, as far as no other that had stands between.
// The next call changes the slice.
func (l *linker) latestEnded(w *sweep, begun int, at int64) []int32 {
	grown := len(w.latest)
	for n := l.nextEnded(w, begun, at); n != None; n = l.nextEnded(w, begun, at) {
		w.latest = append(w.latest, w.calls[n])
	}
	if len(w.latest) == grown {
		return w.latest
	}
	slices.SortFunc(w.latest, l.inTime)
	last := w.latest[len(w.latest)-1]
	w.latest = slices.DeleteFunc(w.latest, func(i int32) bool {
		return i != last && l.endNS(i) <= l.calls[last].BeganNS
	})
	return w.latest
}

// cause is the place of the request after which another one seems to have begun, and whether after its end or its
// dispatch. The place is None if there is none.
type cause struct {
	place   int
	trigger Trigger
}

// causes is the cause of the first request of each of an agent's sub-agents among the agent's own; see causeOf.
func (l *linker) causes(a *Node) []cause {
	found := make([]cause, len(a.Subs))
	order := make([]int, 0, len(a.Subs))
	for n, s := range a.Subs {
		if len(s.Calls) > 0 {
			order = append(order, n)
		}
	}
	slices.SortFunc(order, func(x, y int) int {
		return l.inTime(a.Subs[x].Calls[0], a.Subs[y].Calls[0])
	})
	w := l.newSweep(a.Calls, l.clockSkewNS)
	begun := 0
	ended := None
	var flying []int // places of requests that may be in flight
	for _, n := range order {
		first := a.Subs[n].Calls[0]
		at := l.calls[first].BeganNS
		for ; begun < len(a.Calls) && l.inTime(a.Calls[begun], first) < 0; begun++ {
			flying = append(flying, begun)
		}
		for k := l.nextEnded(w, begun, at); k != None; k = l.nextEnded(w, begun, at) {
			ended = l.endsLater(a.Calls, ended, int(k))
		}
		for len(flying) > 0 && !l.inFlight(a.Calls[flying[len(flying)-1]], at) {
			flying = flying[:len(flying)-1]
		}
		latest := None
		if len(flying) > 0 {
			latest = flying[len(flying)-1]
		}
		found[n] = l.choose(a.Calls, ended, latest, at)
	}
	return found
}

// endsLater is the one of two places whose request ended later, or else the later place; None is none.
func (l *linker) endsLater(calls []int32, a, b int) int {
	if a < 0 {
		return b
	}
	endA := l.endNS(calls[a])
	endB := l.endNS(calls[b])
	if endB > endA || endB == endA && b > a {
		return b
	}
	return a
}

// choose is the cause at an instant. It is the request that had ended last, or the latest in flight if that end is long
// ago. The two are places; None is none.
func (l *linker) choose(calls []int32, ended, flying int, at int64) cause {
	if flying >= 0 && (ended < 0 || at-l.endNS(calls[ended]) > SpawnTolerance) {
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
func (c *chains) begin(l *linker, i int32) {
	if len(c.tails) == mostChains {
		oldest := 0
		for k, j := range c.tails {
			if l.inTime(j, c.tails[oldest]) < 0 {
				oldest = k
			}
		}
		c.left = append(c.left, c.tails[oldest])
		c.tails = slices.Delete(c.tails, oldest, oldest+1)
	}
	c.tails = append(c.tails, i)
}

// follow has a request wait for the last one of one of the chains so far. The request becomes the last one of that
// chain or of a new one.
func (l *linker) follow(c *chains, i int32) {
	call := &l.calls[i]
	best := None
	most := -1
	for k, j := range c.tails {
		n := CommonPrefix(l.calls[j].IDs, call.IDs)
		ended := !l.inFlight(j, call.BeganNS)
		if n > most || n == most && ended && l.endNS(j) >= l.endNS(c.tails[best]) {
			best = k
			most = n
		}
	}
	if best < 0 {
		c.begin(l, i)
		return
	}
	before := c.tails[best]
	apart := most == 0 && len(call.IDs) > 0 && len(l.calls[before].IDs) > 0
	if apart || l.inFlight(before, call.BeganNS) {
		on := l.causeOf(c.tails, call.BeganNS)
		l.wait(i, Barrier, on.trigger, c.tails[on.place])
		c.begin(l, i)
		return
	}
	l.wait(i, Sequence, OnCompletion, before)
	c.tails[best] = i
}

// causeOf is the cause among some requests. It is the last of those that had just ended, else the latest of those in
// flight, else the last of all that had ended.
func (l *linker) causeOf(calls []int32, at int64) cause {
	ended := None
	flying := None
	for n, i := range calls {
		if l.inFlight(i, at) {
			if flying < 0 || l.calls[i].BeganNS >= l.calls[calls[flying]].BeganNS {
				flying = n
			}
		} else {
			ended = l.endsLater(calls, ended, n)
		}
	}
	return l.choose(calls, ended, flying, at)
}

// inTime compares two requests by their instants, or else by their places.
func (l *linker) inTime(i, j int32) int {
	later := cmp.Compare(l.calls[i].BeganNS, l.calls[j].BeganNS)
	return cmp.Or(later, cmp.Compare(i, j))
}

// inFlight reports whether a request that has begun at an instant had surely not ended then.
func (l *linker) inFlight(i int32, at int64) bool {
	return l.endNS(i) > at+l.clockSkewNS
}

// wait makes a request depend on others. A delay after an end counts from the last recorded end of all that the request
// waits for. So it leaves at its recorded instant if they take as long as recorded. If it is not known how long one
// took, the request follows its end at once, and keeps the recorded distance from its dispatch.
func (l *linker) wait(i int32, why Relation, t Trigger, on ...int32) {
	if l.err != nil {
		return
	}
	l.err = l.budget.Take(len(on), i, len(l.calls))
	if l.err != nil {
		return
	}
	began := l.calls[i].BeganNS
	waits := l.Dependencies[i]
	for _, j := range on {
		d := Dependency{On: j, Relation: why}
		if t == OnCompletion {
			waits = append(waits, d)
		}
		if t == OnDispatch || l.calls[j].TookNS < 0 {
			d.Trigger = OnDispatch
			d.DelayNS = began - l.calls[j].BeganNS
			waits = append(waits, d)
		}
	}
	known := func(d Dependency) bool {
		return d.Trigger == OnCompletion && l.calls[d.On].TookNS >= 0
	}
	last := int64(NoTime)
	for _, d := range waits {
		if known(d) {
			last = max(last, l.endNS(d.On))
		}
	}
	for n, d := range waits {
		if known(d) {
			waits[n].DelayNS = max(0, began-last)
		}
	}
	l.Dependencies[i] = waits
}
