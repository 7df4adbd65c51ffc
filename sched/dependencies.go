package sched

import (
	"cmp"
	"errors"
	"fmt"
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
	// NotBeforeNS bounds, with Think, when requests that wait are released, and with Job all requests. It is in ns
	// since the run's start, with Job since the start of the job. Nil = no bounds.
	NotBeforeNS []int64
	// Job is which job a request belongs to, jobs numbered in the order of their first requests. A plan with jobs is
	// closed and thinks: Concurrency jobs run at a time. When all requests of a job have ended, the next job starts.
	// Nil = no jobs.
	Job []int32
	// Stream is, with Job, which agent of its job a request is part of; agents of different jobs may have the same
	// number. If a server refuses a request since its context is too long, those of its stream that come later are not
	// released. Nor are those that wait for a request that is not released. Nil = no such refusal ends anything.
	Stream []int32
	// Prepare is, with Job, how many requests at the plan's front prepare what comes after them. When all of these have
	// ended, which is the barrier, the others may be released. The jobs of the preparing requests begin at the run's
	// start, at once. Those of them that go on behind the barrier are no more than Concurrency. For requests after the
	// barrier NotBeforeNS of these jobs, delays after a preparing request, and the plan's EndNS count from the barrier.
	// 0 = none.
	Prepare int32
	// Primers is how many of these, at the front, fill servers' caches. If one of them fails, the run is over.
	Primers int32
	// IdleNS is, with Think, how long nothing may be in flight after the barrier: then all that is still to come comes
	// earlier. 0 = any time.
	IdleNS int64
	// TreeIdleNS is, with Job, the same for each job after the barrier. When nothing of it has been in flight for so
	// long, all that is still to come of it comes earlier, until something leaves. 0 = any time.
	TreeIdleNS int64
}

// validate returns why a plan of so many requests, with concurrency jobs at a time, cannot have d; nil if it can.
func (d *Dependencies) validate(requests, concurrency int) error {
	switch {
	case d.Job == nil && (d.Prepare > 0 || d.TreeIdleNS > 0 || d.Stream != nil):
		return errors.New("preparation, idle times of jobs and streams need jobs")
	case d.Primers < 0 || d.Primers > d.Prepare || int(d.Prepare) > requests:
		return fmt.Errorf("%d of %d requests prepare, %d of them as primers", d.Prepare, requests, d.Primers)
	case d.IdleNS < 0 || d.TreeIdleNS < 0:
		return fmt.Errorf("idle times of at most %d and %d ns; want at least 0", d.IdleNS, d.TreeIdleNS)
	case d.Stream != nil && len(d.Stream) < requests:
		return fmt.Errorf("%d requests have streams; want all %d", len(d.Stream), requests)
	}
	return d.validateJobs(concurrency)
}

// validateJobs refuses a preparation of more jobs than may run behind it.
func (d *Dependencies) validateJobs(concurrency int) error {
	prepares := make([]bool, d.Jobs())
	goesOn := make([]bool, d.Jobs())
	for i, job := range d.Job {
		if int32(i) < d.Prepare {
			prepares[job] = true
		} else {
			goesOn[job] = true
		}
	}
	running := 0
	for job := range prepares {
		if prepares[job] && goesOn[job] {
			running++
		}
		if running > concurrency {
			return fmt.Errorf("job %d prepares and goes on; want only %d to", job, concurrency)
		}
	}
	return nil
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
// waited for, with its own delay. How long the missing one would have taken is not known.
func (d *Dependencies) only(order []int32) *Dependencies {
	some := &Dependencies{Think: d.Think, IdleNS: d.IdleNS, TreeIdleNS: d.TreeIdleNS}
	place := slices.Repeat([]int32{-1}, len(d.First)-1) // in order; -1 = missing
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
		if d.Stream != nil {
			some.Stream = append(some.Stream, d.Stream[i])
		}
		if int32(i) < d.Prepare {
			some.Prepare++
		}
		if int32(i) < d.Primers {
			some.Primers++
		}
	}
	some.renumberJobs()
	return some
}

// longest keeps of several waits for the same the longest one.
func longest(waits []Dependency) []Dependency {
	slices.SortFunc(waits, func(a, b Dependency) int {
		if a.Dispatch != b.Dispatch && a.On == b.On {
			if a.Dispatch {
				return 1
			}
			return -1
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
