package engine

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/sched"
)

// agents is a random load of jobs whose requests wait for each other.
type agents struct {
	own   []int64 // instants, ascending
	job   []int32
	waits [][]sched.Dependency // within jobs
	bound []int64              // not before, since the start
}

func randomAgents(rng *rand.Rand, n, jobs int) (a agents) {
	a.own, a.job, a.waits, a.bound = make([]int64, n), make([]int32, n), make([][]sched.Dependency, n), make([]int64, n)
	for i := range n {
		a.own[i] = rng.Int64N(int64(n) * 1e9)
	}
	slices.Sort(a.own)
	members := map[int32][]int32{}
	numbers := map[int]int32{} // in the order of their first requests
	for i := range int32(n) {
		key := rng.IntN(jobs)
		if _, known := numbers[key]; !known {
			numbers[key] = int32(len(numbers))
		}
		job := numbers[key]
		a.job[i] = job
		if before := members[job]; len(before) > 0 {
			for range rng.IntN(4) {
				w := sched.Dependency{On: before[rng.IntN(len(before))], DelayNS: rng.Int64N(3) * rng.Int64N(2e9)}
				if rng.IntN(4) == 0 {
					w.Dispatch, w.DelayNS = true, 1+w.DelayNS
				}
				a.waits[i] = append(a.waits[i], w)
			}
		}
		if rng.IntN(5) == 0 {
			a.bound[i] = a.own[i] + rng.Int64N(4e9) - 2e9
		}
		members[job] = append(members[job], i)
	}
	return a
}

// plan is the load in a mode.
func (a *agents) plan(t testing.TB, mode string, lanes int) sched.Plan {
	plan, err := sched.FromTrace(a.own, 1, 0)
	if mode == "lanes" {
		plan, err = sched.Closed(len(a.own), lanes, 0)
	}
	must.Do(t, err)
	turns := &sched.Dependencies{Think: mode != "gated"}
	begins := map[int32]int64{}
	for i, waits := range a.waits {
		if mode == "gated" {
			waits = slices.Clone(waits)
			for k := range waits {
				waits[k].DelayNS = 0
			}
		}
		turns.Add(waits...)
		bound := max(0, a.bound[i])
		if mode == "lanes" {
			if _, known := begins[a.job[i]]; !known {
				begins[a.job[i]] = a.own[i]
			}
			if bound = a.bound[i] - begins[a.job[i]]; len(waits) == 0 {
				bound = a.own[i] - begins[a.job[i]]
			}
		}
		turns.NotBeforeNS = append(turns.NotBeforeNS, max(0, bound))
	}
	if mode == "lanes" {
		turns.Job = a.job
	}
	if slices.Max(turns.NotBeforeNS) == 0 {
		turns.NotBeforeNS = nil
	}
	if plan, err = plan.Following(turns); err != nil {
		t.Fatal(err)
	}
	return plan
}

// fixedServer serves requests in order of arrival, so many at a time, each as long as the others.
type fixedServer struct {
	free    []int64 // when each of its places is
	service int64
}

func (s *fixedServer) serve(atNS int64) (endNS int64) {
	k := 0
	for j := range s.free {
		if s.free[j] < s.free[k] {
			k = j
		}
	}
	s.free[k] = max(atNS, s.free[k]) + s.service
	return s.free[k]
}

// drive runs a queue in time of its own against a server, and returns when requests were released and when they ended.
func drive(t testing.TB, p sched.Plan, s *fixedServer) (released, ended []int64) {
	t.Helper()
	q := newQueue(p, new(atomic.Bool))
	released, ended = make([]int64, p.Requests), make([]int64, p.Requests)
	type event struct{ atNS, request int64 }
	var ends []event
	send := func(now int64, list []release) {
		for len(list) > 0 { // of those at one instant the first in the plan comes first
			slices.SortFunc(list, func(a, b release) int { return int(a.request) - int(b.request) })
			x := list[0]
			if x.atNS > now || ended[x.request] != 0 {
				t.Fatalf("request %d is released for %d at %d, and had ended at %d", x.request, x.atNS, now, ended[x.request])
			}
			released[x.request], ended[x.request] = x.atNS, s.serve(x.atNS)
			ends = append(ends, event{ended[x.request], int64(x.request)})
			list = append(list[1:], q.sent(x.request, x.atNS)...)
		}
	}
	if !p.Open() {
		send(0, q.begin(0))
	}
	for {
		now, left := q.nextDue()
		for _, e := range ends {
			now = min(now, e.atNS)
		}
		if now == math.MaxInt64 || left == 0 && len(ends) == 0 {
			if left > 0 {
				t.Fatalf("%d requests are never released", left)
			}
			return released, ended
		}
		var list []release
		ends = slices.DeleteFunc(ends, func(e event) bool {
			if e.atNS == now {
				leaving, prepared := q.ended(nil, int32(e.request), now)
				if list = append(list, leaving...); prepared {
					list = append(list, q.passBarrier(now)...)
				}
			}
			return e.atNS == now
		})
		send(now, append(list, q.due(now)...))
	}
}

// cutIdle is when requests are released if times in which nothing is in flight last no longer than most.
func cutIdle(released, ended []int64, most int64) []int64 {
	order := make([]int, len(released))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(released[a], released[b]) })
	out, busy, cut := make([]int64, len(released)), int64(0), int64(0)
	for _, i := range order {
		cut += max(0, released[i]-busy-most)
		out[i] = released[i] - cut
		busy = max(busy, ended[i])
	}
	return out
}

// simulate is when requests are released and end by the rules themselves: of those whose waits are known to end, the
// one that leaves first leaves next.
func (a *agents) simulate(mode string, lanes int, s *fixedServer) (released, ended []int64) {
	n := len(a.own)
	released, ended = slices.Repeat([]int64{-1}, n), slices.Repeat([]int64{-1}, n)
	jobs := int(slices.Max(a.job)) + 1
	first := make([]int64, jobs) // own instant of a job's first request
	for i := n - 1; i >= 0; i-- {
		first[a.job[i]] = a.own[i]
	}
	jobStart := func(job int32) (int64, bool) {
		if int(job) < lanes {
			return 0, true
		}
		var known []int64
		for k := range int32(jobs) {
			end := int64(0)
			for i := range n {
				if a.job[i] == k && ended[i] < 0 {
					end = math.MaxInt64
				} else if a.job[i] == k {
					end = max(end, ended[i])
				}
			}
			if end < math.MaxInt64 {
				known = append(known, end)
			}
		}
		slices.Sort(known)
		if int(job)-lanes >= len(known) {
			return 0, false
		}
		return known[int(job)-lanes], true
	}
	for range n {
		best, bestAt := -1, int64(math.MaxInt64)
		for i := range n {
			if released[i] >= 0 {
				continue
			}
			at, open := int64(0), true
			for _, w := range a.waits[i] {
				since, delay := ended[w.On], w.DelayNS
				if w.Dispatch {
					since = released[w.On]
				}
				if mode == "gated" {
					delay = 0
				}
				at, open = max(at, since+delay), open && since >= 0
			}
			switch {
			case mode == "strict":
				at, open = a.own[i], true
			case mode == "gated" || mode == "think" && len(a.waits[i]) == 0:
				at = max(at, a.own[i])
			case mode == "think":
				at = max(at, a.bound[i])
			case open:
				var start int64
				start, open = jobStart(a.job[i])
				begin := first[a.job[i]]
				if at = max(at, start, start+a.bound[i]-begin); len(a.waits[i]) == 0 {
					at = start + a.own[i] - begin
				}
			}
			if open && at < bestAt {
				best, bestAt = i, at
			}
		}
		released[best], ended[best] = bestAt, s.serve(bestAt)
	}
	return released, ended
}

// TestQueueAsSimulated: in each mode requests of random graphs are released, and end, when a simulation by the rules
// says.
func TestQueueAsSimulated(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	rounds := 200
	if raceDetector() {
		rounds = 40
	}
	for round := range rounds {
		a := randomAgents(rng, 5+rng.IntN(40), 1+rng.IntN(8))
		places, lanes, service := 1+rng.IntN(6), 1+rng.IntN(4), 5e8+rng.Int64N(3e9)
		for _, mode := range []string{"gated", "think", "lanes"} {
			gotReleased, gotEnded := drive(t, a.plan(t, mode, lanes), &fixedServer{make([]int64, places), service})
			released, ended := a.simulate(mode, lanes, &fixedServer{make([]int64, places), service})
			if !slices.Equal(gotReleased, released) || !slices.Equal(gotEnded, ended) {
				t.Fatalf("round %d, %s, %d lanes, %d places of %d ns: %+v\nreleased %v\n    want %v\nended %v\n want %v", round, mode, lanes, places, service, a, gotReleased, released, gotEnded, ended)
			}
			if mode == "gated" {
				continue
			}
			capped := a.plan(t, mode, lanes)
			capped.Dependencies.IdleNS = 1 + rng.Int64N(1e9)
			if got, _ := drive(t, capped, &fixedServer{make([]int64, places), service}); !slices.Equal(got, cutIdle(released, ended, capped.Dependencies.IdleNS)) {
				t.Fatalf("round %d, %s, at most %d ns idle: released %v\nwant %v of %v", round, mode, capped.Dependencies.IdleNS, got, cutIdle(released, ended, capped.Dependencies.IdleNS), released)
			}
		}
	}
}

// TestStrictShowsTheQueue: twice as much comes as a server of one place can do. Request i then waits i half services.
// One lane never has anything wait, whatever the trace's instants say.
func TestStrictShowsTheQueue(t *testing.T) {
	const n, service = 200, int64(time.Millisecond)
	a := agents{own: make([]int64, n), job: make([]int32, n), waits: make([][]sched.Dependency, n), bound: make([]int64, n)}
	for i := range n {
		a.own[i], a.job[i] = int64(i)*service/2, int32(i/4)
		if i%4 > 0 {
			a.waits[i] = []sched.Dependency{{On: int32(i - 1)}}
		}
	}
	latencies := func(released, ended []int64) (sum int64, each []int64) {
		for i := range released {
			each = append(each, ended[i]-released[i])
			sum += ended[i] - released[i]
		}
		return sum, each
	}
	sum, each := latencies(a.simulate("strict", 0, &fixedServer{make([]int64, 1), service}))
	for i, took := range each {
		must.Equal(t, took, service+int64(i)*service/2, "strict: request %d took", i)
	}
	laned, each := latencies(drive(t, a.plan(t, "lanes", 1), &fixedServer{make([]int64, 1), service}))
	if slices.Max(each) != service || sum < 50*laned {
		t.Errorf("in a lane requests took up to %d ns, want %d; in all %d, strict %d", slices.Max(each), service, laned, sum)
	}
}

// TestConnectionsAreReadyForAll: before anything is released, the queue has counted each request that leaves within a
// time, those that are released by others' ends, and those by others' sending.
func TestConnectionsAreReadyForAll(t *testing.T) {
	turns := &sched.Dependencies{Think: true, Job: []int32{0, 0, 0, 0, 0, 1, 1, 1}}
	turns.Add() // 0
	turns.Add(sched.Dependency{On: 0})
	turns.Add(sched.Dependency{On: 0})
	turns.Add(sched.Dependency{On: 0, DelayNS: 50})
	turns.Add(sched.Dependency{On: 2}, sched.Dependency{On: 3})
	turns.Add() // 5
	turns.Add(sched.Dependency{On: 5, Dispatch: true})
	turns.Add(sched.Dependency{On: 6, Dispatch: true})
	plan, err := sched.Closed(8, 2, 0)
	must.Do(t, err)
	plan.Concurrency = 1
	if plan, err = plan.Following(turns); err != nil {
		t.Fatal(err)
	}
	q := newQueue(plan, new(atomic.Bool))
	ends := func(i int32, now int64) int {
		leaving, _ := q.ended(nil, i, now)
		return len(leaving)
	}
	for _, step := range []struct {
		what string
		do   func() int // requests that leave
		left int
		soon int // within 10 ns
	}{
		{"before the start", func() int { return 0 }, 0, 1},
		{"0 leaves; as it ends 1, 2 and 3 may, one on its connection; the next job needs 3", func() int { return len(q.begin(0)) }, 1, 2 + 3},
		{"0 ends, 3 is delayed", func() int { return ends(0, 5) }, 2, 3},
		{"1 ends, 3 is due soon", func() int { return ends(1, 46) }, 0, 1 + 3},
		{"3 leaves", func() int { return len(q.due(55)) }, 1, 3},
		{"2 and 3 end, 4 leaves", func() int { return ends(2, 60) + ends(3, 60) }, 1, 3},
		{"the next job begins", func() int { return ends(4, 70) }, 1, 0},
	} {
		now := map[string]int64{"1 ends, 3 is due soon": 46}[step.what]
		if left := step.do(); left != step.left || q.soon(now+10) != step.soon {
			t.Errorf("%s: %d left and %d soon; want %d and %d", step.what, left, q.soon(now+10), step.left, step.soon)
		}
	}
}
