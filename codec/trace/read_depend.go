package trace

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// A dependency on a request by its name has the number of that name in On, as firstName − number. Numbers of rows are
// at least 0.
const firstName = -2

// requestDependency is a dependency on a request that has a name in the file.
type requestDependency struct {
	request string
	Dependency
}

// resolveDependencies makes row numbers of names, and finds an order in which each row comes after what it depends on.
// A dependency on nothing, on the row itself or in a circle is a fault.
func (l *loader) resolveDependencies() {
	d, job := l.dependencies, l.Job
	for _, twice := range l.agents.twice {
		l.faultIn(twice.row, "request_id "+quote(twice.name)+" is the name of an earlier row too", "each request needs a name of its own")
	}
	if d == nil {
		return
	}
	for i := range d.rows {
		list := d.row(i)
		for j := range list {
			on, name := l.dependsOn(list[j].On)
			switch {
			case on < 0:
				l.faultIn(int32(i), "dependencies: no row has the request_id "+quote(name), "leave the dependency out, or add the row")
			case job != nil && job[i] != job[on]:
				l.faultIn(int32(i), "dependencies: the row depends on "+l.place(int(on))+", which is of another job", "give both one job, or leave the dependency out")
			case on == int32(i):
				l.faultIn(int32(i), "dependencies: the row depends on itself", "a request depends on earlier ones")
			}
			list[j].On = int64(on) // a place among the kept rows, until all are known
		}
	}
	l.orderDependencies()
}

// dependsOn is the place of the row that a dependency names, or noValue and the name.
func (l *loader) dependsOn(on int64) (row int32, name string) {
	if on <= firstName {
		n := firstName - on
		return l.agents.rows[n], l.agents.requests.names[n]
	}
	if at, found := slices.BinarySearch(l.Row, int32(on)); found {
		return int32(at), ""
	}
	return noValue, fmt.Sprintf("row %d", on)
}

// orderDependencies sets an order in which each row comes after what it depends on: the file's, but for what must come
// first. Rows in a circle become faults.
func (l *loader) orderDependencies() {
	d, n := l.dependencies, len(l.ArrivalNS)
	looked := make([]int32, n) // dependencies of a row so far; none is left when it is in the order
	place := make([]int32, n)  // on the path, from 1; 0 = not seen, inOrder = in the order
	back := make([]int32, n)   // of a row on the path: the first place to which dependencies lead back from it, or from one after it
	order := make([]int32, 0, n)
	const inOrder = math.MaxInt32
	var path []int32 // each depends on the next one
	enter := func(i int32) {
		path = append(path, i)
		place[i], back[i] = int32(len(path)), inOrder
	}
	for i := range int32(n) {
		if place[i] == 0 {
			enter(i)
		}
		for len(path) > 0 {
			at := path[len(path)-1]
			list := d.row(int(at))[looked[at]:]
			if len(list) > 0 {
				looked[at]++
				if on := int32(list[0].On); on >= 0 && place[on] == 0 {
					enter(on)
				} else if on >= 0 {
					back[at] = min(back[at], place[on])
				}
				continue
			}
			if back[at] <= place[at] {
				l.faultIn(at, "dependencies lead from the row back to itself", "a request depends on earlier ones: leave one dependency of the circle out")
			}
			path = path[:len(path)-1]
			if len(path) > 0 {
				before := path[len(path)-1]
				back[before] = min(back[before], back[at])
			}
			place[at] = inOrder
			order = append(order, at)
		}
	}
	l.agents.order = order
}

// derive finds the instants of rows that have none but a bound or dependencies, if any row has an instant or a bound
// above 0: the latest of the bound and of the triggers, each with its delay. A request that is not known to have taken
// any time took none. It finds the depths of rows that have none, -1, too: a sub-agent is one below the request that
// began it, and the other rows of its conversation are where it is.
func (l *loader) derive() {
	d, took, bounds, depth := l.dependencies, l.TookNS, l.NotBeforeNS, l.Depth
	timed := l.timed > 0 || slices.Max(append([]int64{0}, bounds...)) > 0
	deep := map[int64]int32{} // depths of conversations
	for _, i := range l.agents.order {
		at := int64(noTime)
		if bounds != nil && bounds[i] >= 0 {
			at = bounds[i]
		}
		unknown := depth != nil && depth[i] == noValue
		if unknown {
			depth[i] = deep[l.Session[i]]
		}
		for _, w := range d.row(int(i)) {
			if w.On < 0 || w.On == int64(i) {
				continue
			}
			if l.ArrivalNS[w.On] != noTime {
				at = max(at, sumOf(l.ArrivalNS[w.On], ended(w, took), w.DelayNS))
			}
			if unknown && w.Relation == Spawn {
				depth[i] = depth[w.On] + 1
			}
		}
		if timed && l.ArrivalNS[i] == noTime && at != noTime {
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

// ended is how long the request took that w is on, if w waits for its end.
func ended(w Dependency, took []int64) int64 {
	if w.Trigger == OnDispatch || took == nil {
		return 0
	}
	return took[w.On]
}

// sumOf adds durations to an instant; unknown ones are 0.
func sumOf(at int64, durations ...int64) int64 {
	for _, d := range durations {
		if d = max(0, d); at > math.MaxInt64-d {
			return math.MaxInt64
		} else {
			at += d
		}
	}
	return at
}

// settleDependencies makes faults of rows that came before what they depend on, and has rows that depended on one that
// is left out depend on what that one depended on. Rows have their numbers in the file from here on.
func (l *loader) settleDependencies() (err error) {
	d := l.dependencies
	if d == nil {
		return nil
	}
	for i := range d.rows {
		for _, w := range d.row(i) {
			if w.On >= 0 && !l.unusable[int32(i)] && !l.unusable[int32(w.On)] && l.ArrivalNS[w.On] > l.ArrivalNS[i] {
				l.faultIn(int32(i), fmt.Sprintf("dependencies: the row is %v earlier than %s, on which it depends", time.Duration(l.ArrivalNS[w.On]-l.ArrivalNS[i]), l.place(int(w.On))),
					"a request depends on earlier ones")
			}
		}
	}
	if len(l.unusable) > 0 {
		if d, err = l.bridged(); err != nil {
			return err
		}
		l.dependencies = d
	}
	for i := range d.rows {
		list := d.row(i)
		for j := range list {
			list[j].On = int64(l.Row[list[j].On])
		}
	}
	return nil
}

// bridged is the dependencies without rows that are left out.
func (l *loader) bridged() (*listStore[Dependency], error) {
	d, out := l.dependencies, new(listStore[Dependency])
	lists := make([][]Dependency, len(d.rows))
	for _, i := range l.agents.order {
		known := map[Dependency]bool{}
		for _, w := range d.row(int(i)) {
			if w.On >= 0 && !l.unusable[int32(w.On)] {
				lists[i] = append(lists[i], w)
				known[w] = true
			} else if w.On >= 0 && w.On != int64(i) {
				if err := l.refuseWaits(len(lists[w.On]), len(d.rows)); err != nil {
					return nil, l.refuseAt(i, err.Error(), "mend the rows that are left out")
				}
				for _, before := range lists[w.On] {
					before.Relation, before.DelayNS = w.Relation, bridgedDelay(before, w, l.TookNS)
					if !known[before] {
						lists[i] = append(lists[i], before)
						known[before] = true
					}
				}
			}
		}
	}
	for i, list := range lists {
		if l.unusable[int32(i)] {
			list = nil
		}
		out.add(list)
	}
	return out, nil
}

// bridgedDelay is the delay over a row that is left out: w is on that row, which itself waits for before.
func bridgedDelay(before, w Dependency, took []int64) int64 {
	if before.DelayNS < 0 || w.DelayNS < 0 || w.Trigger == OnCompletion && (took == nil || took[w.On] < 0) {
		return NoDelay
	}
	return sumOf(before.DelayNS, ended(w, took), w.DelayNS)
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
	return Fault{File: l.files[l.fileOf(l.Row[i])].name, Line: int(l.line[i]), What: what, Fix: fix}
}

// refuseAt is the error for a fault at a row that was kept, without which the file cannot be read either.
func (l *loader) refuseAt(i int32, what, fix string) error {
	return &LintError{Faults: []Fault{l.faultAt(i, what, fix)}}
}
