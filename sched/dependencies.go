package sched

import (
	"cmp"
	"slices"
)

// Dependencies make requests of a plan wait for others that come before them in it: the turns of conversations, and the
// requests of agents. A request may be released when all that it waits for has happened.
type Dependencies struct {
	// First and List are what requests wait for: request i for List[First[i]:First[i+1]].
	First []int32
	List  []Dependency
	// Think: a request that waits is released as soon as its waits are over, whatever its own instant. Otherwise it
	// is released at its own instant, or when its waits are over if that is later.
	Think bool
	// NotBeforeNS bounds, with Think, when requests that wait are released, and with Job all requests; ns since the
	// run's start, with Job since the start of the job. Nil = no bounds.
	NotBeforeNS []int64
	// Job is which job a request belongs to, jobs numbered in the order of their first requests. A plan with jobs is
	// closed and thinks: Concurrency jobs run at a time. When all requests of a job have ended, the next job starts.
	// Nil = no jobs.
	Job []int32
	// IdleNS is, with Think, how long nothing may be in flight: then all that is still to come comes earlier. 0 = any
	// time.
	IdleNS int64
}

// Dependency is what a request waits for.
type Dependency struct {
	DelayNS  int64 // from then on, at least 0
	On       int32 // the other request
	Dispatch bool  // when the other one has been sent, not when it has ended
}

// Of returns what request i waits for.
func (d *Dependencies) Of(i int32) []Dependency { return d.List[d.First[i]:d.First[i+1]] }

// Add appends a request that waits for these.
func (d *Dependencies) Add(waits ...Dependency) {
	if d.First == nil {
		d.First = []int32{0}
	}
	d.List = append(d.List, waits...)
	d.First = append(d.First, int32(len(d.List)))
}

// Jobs is how many jobs there are; 0 without.
func (d *Dependencies) Jobs() (n int) {
	for _, job := range d.Job {
		n = max(n, int(job)+1)
	}
	return n
}

// only is d of some requests, in ascending order. A request that waited for a missing one waits for what that one
// waited for, with its own delay: how long the missing one would have taken is not known.
func (d *Dependencies) only(order []int32) *Dependencies {
	some := &Dependencies{Think: d.Think, IdleNS: d.IdleNS}
	place := make([]int32, len(d.First)-1) // in order; -1 = missing
	for i := range place {
		place[i] = -1
	}
	for k, i := range order {
		place[i] = int32(k)
	}
	instead := make([][]Dependency, len(place)) // what stands for a missing request
	for i := range place {
		var waits []Dependency
		for _, w := range d.Of(int32(i)) {
			if place[w.On] >= 0 {
				waits = append(waits, Dependency{w.DelayNS, place[w.On], w.Dispatch})
				continue
			}
			for _, other := range instead[w.On] {
				waits = append(waits, Dependency{w.DelayNS, other.On, other.Dispatch})
			}
		}
		waits = longest(waits)
		if place[i] < 0 {
			instead[i] = waits
			continue
		}
		some.Add(waits...)
		if d.NotBeforeNS != nil {
			some.NotBeforeNS = append(some.NotBeforeNS, d.NotBeforeNS[i])
		}
		if d.Job != nil {
			some.Job = append(some.Job, d.Job[i])
		}
	}
	some.renumberJobs()
	return some
}

// longest keeps of several waits for the same the longest one.
func longest(waits []Dependency) []Dependency {
	slices.SortFunc(waits, func(a, b Dependency) int {
		if a.Dispatch != b.Dispatch && a.On == b.On {
			return map[bool]int{true: 1, false: -1}[a.Dispatch]
		}
		return cmp.Or(cmp.Compare(a.On, b.On), cmp.Compare(b.DelayNS, a.DelayNS))
	})
	return slices.CompactFunc(waits, func(a, b Dependency) bool { return a.On == b.On && a.Dispatch == b.Dispatch })
}

// renumberJobs numbers the jobs that are left in the order of their first requests.
func (d *Dependencies) renumberJobs() {
	numbers := map[int32]int32{}
	for i, job := range d.Job {
		if _, known := numbers[job]; !known {
			numbers[job] = int32(len(numbers))
		}
		d.Job[i] = numbers[job]
	}
}
