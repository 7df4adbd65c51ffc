package trace

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/fastreplay/fastreplay/codec/trace/agents"
	"github.com/fastreplay/fastreplay/codec/trace/lists"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// A dependency on a request by its name has the number of that name in On, as firstName − number. Numbers of rows are
// at least 0.
const firstName = -2

// linkAgents finds out which requests waited for which, for formats that say of each row no more than its agent. A
// sub-agent returns its result with its last answer. Where agents name their parents, a job is what one without a
// parent began. Where rows name their jobs, a job's first agent began the others. Rows without an instant are not
// linked.
func (l *loader) linkAgents() error {
	if l.format == nil || !l.format.Agents || l.Session == nil || l.timed == 0 {
		return nil
	}
	calls := make([]agents.Call, len(l.ArrivalNS))
	for i := range calls {
		calls[i] = agents.Call{
			BeganNS: l.ArrivalNS[i],
			TookNS:  agents.None,
			IDs:     l.ids.Row(i),
		}
		if l.TookNS != nil {
			calls[i].TookNS = l.TookNS[i]
		}
	}
	var of []*agents.Node // nil for nested agents
	roots, err := l.nestedAgents(calls)
	if roots == nil && err == nil {
		roots, of, err = l.namedAgents(calls)
	}
	if err != nil {
		return err
	}
	links, err := agents.Link(roots, calls, l.format.ClockSkewNS, &l.budget)
	limit := (*agents.LimitError)(nil)
	if errors.As(err, &limit) {
		return l.refuseAt(limit.Call, limit.Error(), limit.Fix())
	}
	l.SubAgents.Background += int64(links.Background)
	named := l.Job != nil
	if of != nil {
		l.Depth = make([]int32, len(of))
	}
	l.dependencies = new(lists.Store[Dependency])
	for i, waits := range links.Dependencies {
		if !named {
			addTo(&l.Job, l.jobs.number(of[i].Root.Name), i, agents.None)
		}
		if of != nil {
			l.Depth[i] = of[i].Depth
		}
		for n, d := range waits {
			waits[n].On = l.Row[d.On]
		}
		l.dependencies.Add(waits)
	}
	return nil
}

// namedAgents makes the first agents of jobs by the names that rows have, with the agent of each row.
func (l *loader) namedAgents(calls []agents.Call) (roots, of []*agents.Node, err error) {
	nodes, of := l.agentNodes(calls)
	for _, a := range nodes {
		a.Climb()
		if a.Depth > agents.MostDepth {
			return nil, nil, l.refuseAt(a.Calls[0], fmt.Sprintf("session %s is more than %d deep below its job's first",
				rows.Quote(a.Name), agents.MostDepth), "let fewer sessions start each other")
		}
		if a.Circle {
			l.faultIn(a.Calls[0], "the parents of session "+rows.Quote(a.Name)+" lead back to themselves",
				"a job begins with a session without a parent")
		} else if a.Parent != nil {
			a.Parent.Subs = append(a.Parent.Subs, a)
		}
		if a.Depth == 0 {
			roots = append(roots, a)
		}
	}
	return roots, of, nil
}

// agentNodes makes the agents of the rows that were kept, each with the one that started it. Of is that of each row.
func (l *loader) agentNodes(calls []agents.Call) (nodes, of []*agents.Node) {
	byName := map[string]*agents.Node{}
	of = make([]*agents.Node, len(calls))
	for i := range calls {
		name := cmp.Or(l.sessionNames[l.Session[i]], strconv.FormatInt(l.Session[i], 10))
		a := byName[name]
		if a == nil {
			a = &agents.Node{Name: name, EndNS: agents.NoTime}
			byName[name] = a
			nodes = append(nodes, a)
		}
		of[i] = a
		if l.ArrivalNS[i] != agents.NoTime {
			a.Calls = append(a.Calls, int32(i))
			a.EndNS = max(a.EndNS, calls[i].EndNS())
		}
	}
	if l.Job == nil {
		for i, a := range of {
			a.Parent = byName[l.parents[l.Session[i]]]
		}
		return nodes, of
	}
	var order []int32
	for _, a := range nodes {
		order = append(order, a.Calls...)
	}
	slices.SortFunc(order, func(i, j int32) int {
		return cmp.Or(cmp.Compare(l.ArrivalNS[i], l.ArrivalNS[j]), cmp.Compare(i, j))
	})
	first := map[int32]*agents.Node{} // of jobs
	for _, i := range order {
		if a, known := first[l.Job[i]]; !known {
			first[l.Job[i]] = of[i]
		} else if a != of[i] {
			of[i].Parent = a
		}
	}
	return nodes, of
}

// growIDs makes the block ids of prompts that are known by their lengths.
func (l *loader) growIDs(order []int32) {
	if l.growths == nil {
		return
	}
	for i := range l.growths {
		g := &l.growths[i]
		if g.From < 0 {
			continue
		}
		at, found := slices.BinarySearch(l.Row, g.From)
		if found && !l.unusable[int32(at)] {
			g.From = int32(at)
		} else {
			g.From = agents.FromNothing
		}
	}
	prompts := agents.Prompts{
		Growth:       l.growths,
		InputTokens:  l.InputTokens,
		OutputTokens: l.OutputTokens,
		CachedTokens: l.Cached,
		BeganNS:      l.ArrivalNS,
		TookNS:       l.TookNS,
		Conversation: l.conversation,
		BlockTokens:  l.BlockTokens,
	}
	l.ids = prompts.Grow(order)
}

// resolveDependencies makes row numbers of names, and finds an order in which each row comes after what it depends on.
// A dependency on nothing, on the row itself or in a circle is a fault.
func (l *loader) resolveDependencies() {
	for _, twice := range l.twice {
		l.faultIn(twice.row, "request_id "+rows.Quote(twice.name)+" is the name of an earlier row too",
			"each request needs a name of its own")
	}
	d := l.dependencies
	job := l.Job
	if d == nil {
		return
	}
	for i := range d.Len() {
		list := d.Row(i)
		for j := range list {
			on, name := l.dependsOn(list[j].On)
			switch {
			case on < 0:
				l.faultIn(int32(i), "dependencies: no row has the request_id "+rows.Quote(name),
					"leave the dependency out, or add the row")
			case job != nil && job[i] != job[on]:
				l.faultIn(int32(i), "dependencies: the row depends on "+l.place(int(on))+", which is of another job",
					"give both one job, or leave the dependency out")
			case on == int32(i):
				l.faultIn(int32(i), "dependencies: the row depends on itself", "a request depends on earlier ones")
			}
			list[j].On = on // a place among the kept rows, until all are known
		}
	}
	var circles []int32
	l.order, circles = agents.Order(d)
	for _, i := range circles {
		l.faultIn(i, "dependencies lead from the row back to itself",
			"a request depends on earlier ones: leave one dependency of the circle out")
	}
}

// dependsOn is the place of the row that a dependency names, or agents.None and the name.
func (l *loader) dependsOn(on int32) (row int32, name string) {
	if on <= firstName {
		n := firstName - on
		return l.named[n], l.requests.names[n]
	}
	at, found := slices.BinarySearch(l.Row, on)
	if found {
		return int32(at), ""
	}
	return agents.None, fmt.Sprintf("row %d", on)
}

// derive finds the instants of rows that have none but a bound or dependencies, if any row has an instant or a bound
// above 0. An instant is the latest of the bound and of the triggers, each with its delay. A request that is not known
// to have taken any time took none. It finds the depths of rows that have none, -1, too. A sub-agent is one below the
// request that began it, and the other rows of its conversation are where it is.
func (l *loader) derive() {
	took := l.TookNS
	bounds := l.NotBeforeNS
	depth := l.Depth
	timed := l.timed > 0 || slices.Max(append([]int64{0}, bounds...)) > 0
	deep := map[int64]int32{} // depths of conversations
	for _, i := range l.order {
		at := int64(agents.NoTime)
		if bounds != nil && bounds[i] >= 0 {
			at = bounds[i]
		}
		unknown := depth != nil && depth[i] == agents.None
		if unknown {
			depth[i] = deep[l.Session[i]]
		}
		for _, d := range l.dependencies.Row(int(i)) {
			if d.On < 0 || d.On == i {
				continue
			}
			triggered := l.ArrivalNS[d.On]
			if triggered != agents.NoTime {
				if d.Trigger == OnCompletion && took != nil {
					triggered = agents.After(triggered, took[d.On])
				}
				at = max(at, agents.After(triggered, d.DelayNS))
			}
			if unknown && d.Relation == Spawn {
				depth[i] = depth[d.On] + 1
			}
		}
		if timed && l.ArrivalNS[i] == agents.NoTime && at != agents.NoTime {
			l.ArrivalNS[i] = at
			l.timed++
		}
		if depth != nil && l.Session != nil {
			deep[l.Session[i]] = depth[i]
		}
	}
	if depth != nil && slices.Max(depth) <= 0 {
		l.Depth = nil
	}
}

// settleDependencies makes faults of rows that came before what they depend on. Rows that depended on one that is left
// out then depend on what that one depended on. Rows have their numbers in the file from here on.
func (l *loader) settleDependencies() error {
	d := l.dependencies
	if d == nil {
		return nil
	}
	for i, at := range l.ArrivalNS {
		for _, w := range d.Row(i) {
			if w.On < 0 || l.unusable[int32(i)] || l.unusable[w.On] {
				continue
			}
			early := time.Duration(l.ArrivalNS[w.On] - at)
			if early > 0 {
				l.faultIn(int32(i), fmt.Sprintf("dependencies: the row is %v earlier than %s, on which it depends",
					early, l.place(int(w.On))), "a request depends on earlier ones")
			}
		}
	}
	if len(l.unusable) > 0 {
		bridged, err := agents.Bridge(d, l.order, l.unusable, l.TookNS, &l.budget)
		limit := (*agents.LimitError)(nil)
		if errors.As(err, &limit) {
			return l.refuseAt(limit.Call, limit.Error(), "mend the rows that are left out")
		}
		d = bridged
		l.dependencies = bridged
	}
	for i := range d.Len() {
		list := d.Row(i)
		for j := range list {
			list[j].On = l.Row[list[j].On]
		}
	}
	return nil
}

// faultIn makes a fault of a row that was kept, once.
func (l *loader) faultIn(i int32, what, fix string) {
	if l.unusable[i] {
		return
	}
	if l.unusable == nil {
		l.unusable = make(map[int32]bool)
	}
	l.unusable[i] = true
	l.fault(l.faultAt(i, what, fix))
}

// faultAt is a fault at a row that was kept.
func (l *loader) faultAt(i int32, what, fix string) Fault {
	return Fault{
		File: l.files[l.fileOf(l.Row[i])].name,
		Line: int(l.line[i]),
		What: what,
		Fix:  fix,
	}
}

// refuseAt is the error for a fault at a row that was kept, without which the file cannot be read either.
func (l *loader) refuseAt(i int32, what, fix string) error {
	return &LintError{Faults: []Fault{l.faultAt(i, what, fix)}}
}
