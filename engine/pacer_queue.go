package engine

import (
	"cmp"
	"container/heap"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/fastreplay/fastreplay/engine/stats"
	"github.com/fastreplay/fastreplay/sched"
)

// queue has which requests may be released, of a plan that does not only follow the clock. That is a closed loop, a
// cap, or one in which requests wait for others. It reads no clock and sends nothing: those who call it say what has
// happened, and when. Any goroutine may call it. The mutex guards what changes.
type queue struct {
	plan       sched.Plan
	turns      *sched.Dependencies // of the plan; empty if no request waits for another
	stop       *atomic.Bool        // if set, nothing more is released
	first      []int32             // request i is waited for by dependents[first[i]:first[i+1]]
	dependents []dependent
	// how many connections request i needs as it is released, for itself and for those that follow its sending
	start []int32
	end   []int32   // and how many as it ends, besides its own
	roots [][]int32 // of each job, the requests that wait for nothing
	next  []int32   // of each request, the next one of its stream, -1 = none; nil without streams

	mu      sync.Mutex
	state   []requestState
	left    int             // requests that have not been released
	delayed delayedReleases // requests whose waits are over, and that wait for their instant
	// how long after their own instants requests that were held back or that wait were released, ns
	heldFor *stats.Distribution

	// the own instants of the requests before this one have come; in a closed loop, their turns in the order
	inOrder int
	waiting []int32 // in a closed loop or under a cap: requests that may be released, in order
	free    int     // likewise: how many more may be in flight

	jobs    []jobState
	nextJob int   // jobs before this one have started
	lanes   int   // how many more may run
	taken   int32 // how many jobs had started when rest was called

	preparing int32          // preparing requests that have not ended
	barrierNS atomic.Int64   // when the barrier was passed; -1 before, 0 without preparation
	cut       map[int32]bool // refused requests that have ended their streams, and what cutStream has taken out

	inFlight int // requests that were released and have not ended
	fanOut   int // connections that are needed as they end, besides their own
	idle     idleTime
	idleJobs []idleJob // in order; not those that are idle no longer, of which some may be left
}

// idleTime is what was cut out of a run in which nothing was in flight for too long. The queue counts time as if
// nothing had been cut.
type idleTime struct {
	sinceNS      int64 // when the last request in flight ended
	cutNS        int64
	all, ofTrees IdleCut // after the barrier alone
}

// IdleCut is how often nothing was in flight for so long that what was still to come came earlier, and by how much in
// all.
type IdleCut struct {
	Times int
	NS    int64
}

func (c *IdleCut) add(ns int64) {
	c.Times++
	c.NS += ns
}

// idleJob is a job that has nothing in flight since an instant of the clock.
type idleJob struct {
	sinceNS int64
	job     int32
}

// dependent is a request that waits for another one.
type dependent struct {
	delayNS  int64
	request  int32
	dispatch bool
}

type requestState struct {
	readyNS             int64 // when the waits that are over allow it
	heldNS              int64 // for how long a cap has held it back
	pending             int32 // waits that are not over
	leads               bool  // it is the first of its stream
	sent, due, released bool
}

type jobState struct {
	startNS  int64
	cutNS    int64 // of its own idle times: of its requests, time counts as if nothing had been cut
	idleNS   int64 // when the last of its requests ended, as the clock counts, or since when it may be idle
	left     int32 // requests that have not ended
	inFlight int32
	prepares bool // some of its requests do
}

func newQueue(p sched.Plan, stop *atomic.Bool) *queue {
	n := p.Requests
	turns := p.Dependencies
	if turns == nil {
		turns = &sched.Dependencies{First: make([]int32, n+1)}
	}
	q := &queue{
		plan:       p,
		turns:      turns,
		stop:       stop,
		first:      make([]int32, n+2),
		dependents: make([]dependent, len(turns.List)),
		state:      make([]requestState, n),
		left:       n,
		free:       p.Cap,
		heldFor:    stats.NewHistogram(),
		preparing:  turns.Prepare,
	}
	if q.preparing > 0 {
		q.barrierNS.Store(-1)
	}
	for _, w := range turns.List {
		q.first[w.On+2]++
	}
	for i := range n {
		q.first[i+2] += q.first[i+1]
	}
	for i := range int32(n) { // in order, so that the lists are; first[j+1] is where the next one of j goes
		for _, w := range turns.Of(i) {
			q.dependents[q.first[w.On+1]] = dependent{w.DelayNS, i, w.Dispatch}
			q.first[w.On+1]++
			q.state[i].pending++
		}
	}
	q.countConnections()
	q.jobs = make([]jobState, turns.Jobs())
	q.roots = make([][]int32, turns.Jobs())
	for i, job := range turns.Job {
		q.jobs[job].left++
		q.jobs[job].prepares = q.jobs[job].prepares || q.prepares(int32(i))
		if q.state[i].pending == 0 {
			q.roots[job] = append(q.roots[job], int32(i))
		}
	}
	q.orderStreams()
	return q
}

// orderStreams fills next, and finds the first request of each stream.
func (q *queue) orderStreams() {
	q.next = slices.Repeat([]int32{-1}, len(q.turns.Stream))
	last := map[[2]int32]int32{}
	for i := range q.next {
		key := [2]int32{q.turns.Job[i], q.turns.Stream[i]}
		if before, known := last[key]; known {
			q.next[before] = int32(i)
		} else {
			q.state[i].leads = true
		}
		last[key] = int32(i)
	}
}

// countConnections fills start and end. Of several requests that one waits for, the last in the plan counts.
func (q *queue) countConnections() {
	q.start, q.end = slices.Repeat([]int32{1}, len(q.state)), slices.Repeat([]int32{-1}, len(q.state))
	for i := int32(len(q.state)) - 1; i >= 0; i-- {
		sent := int32(-1)
		ended := int32(-1)
		for _, w := range q.turns.Of(i) {
			if w.Dispatch {
				sent = max(sent, w.On)
			} else {
				ended = max(ended, w.On)
			}
		}
		switch q.end[i] = max(0, q.end[i]); {
		case ended >= 0:
			q.end[ended] += q.start[i]
		case sent >= 0:
			q.start[sent] += q.start[i]
		}
	}
}

// delayedReleases is a heap of requests by their time of release, the earliest on top. Of equal ones the first in the
// plan is on top.
type delayedReleases []release

type release struct {
	atNS    int64
	request int32
}

func (h delayedReleases) Len() int { return len(h) }
func (h delayedReleases) Less(i, j int) bool {
	return h[i].atNS < h[j].atNS || h[i].atNS == h[j].atNS && h[i].request < h[j].request
}
func (h delayedReleases) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *delayedReleases) Push(x any)   { *h = append(*h, x.(release)) }
func (h *delayedReleases) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}

// before returns how many connections the releases of the heap, from place k down, need that lie before atNS.
func (h delayedReleases) before(atNS int64, k int, start []int32) int {
	if k >= len(h) || h[k].atNS >= atNS {
		return 0
	}
	return int(start[h[k].request]) + h.before(atNS, 2*k+1, start) + h.before(atNS, 2*k+2, start)
}

// inJobs reports whether whole jobs are released.
func (q *queue) inJobs() bool { return q.turns.Job != nil }

// waits reports whether request i waits for another one.
func (q *queue) waits(i int32) bool { return len(q.turns.Of(i)) > 0 }

// isDelayed reports whether request i is released some time after others, not at its own instant.
func (q *queue) isDelayed(i int32) bool { return q.turns.Think && q.waits(i) }

// prepares reports whether request i belongs before the barrier.
func (q *queue) prepares(i int32) bool { return i < q.turns.Prepare }

// isOpen reports whether the barrier was passed, or there is none.
func (q *queue) isOpen() bool { return q.barrierNS.Load() >= 0 }

// dependentsOf returns who waits for request i.
func (q *queue) dependentsOf(i int32) []dependent { return q.dependents[q.first[i]:q.first[i+1]] }

// jobCutNS is what was cut of idle times of request i's job.
func (q *queue) jobCutNS(i int32) int64 {
	if !q.inJobs() {
		return 0
	}
	return q.jobs[q.turns.Job[i]].cutNS
}

// announces reports whether a request waits for the sending of request i.
func (q *queue) announces(i int32) bool {
	for _, f := range q.dependentsOf(i) {
		if f.dispatch {
			return true
		}
	}
	return false
}

// release adds request i to list, as released at atNS.
func (q *queue) release(list []release, i int32, atNS int64) []release {
	if q.plan.Open() {
		own := q.plan.ReleaseNS[i]
		by := max(0, atNS-own)
		if q.plan.Cap > 0 { // its instant stays the planned one
			q.state[i].heldNS = by
			atNS = own
		}
		if by > 0 || q.waits(i) {
			q.heldFor.Add(by)
		}
	}
	q.take(i)
	return append(list, release{atNS - q.idle.cutNS, i})
}

// take counts request i as released.
func (q *queue) take(i int32) {
	q.state[i].released = true
	q.left--
	q.inFlight++
	q.fanOut += int(q.end[i])
	if q.inJobs() {
		q.jobs[q.turns.Job[i]].inFlight++
	}
}

// soon returns how many requests may be released before horizonNS that need a connection which nothing in flight has
// now.
func (q *queue) soon(horizonNS int64) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	horizonNS += q.idle.cutNS
	n := q.delayed.before(horizonNS, 0, q.start) + q.fanOut
	for i := q.inOrder; q.plan.Open() && i < q.plan.Requests && q.plan.ReleaseNS[i] < horizonNS; i++ {
		if !q.isDelayed(int32(i)) {
			n += int(q.start[i])
		}
	}
	// the first jobs, then one at a time
	for job := q.nextJob; job < min(max(q.nextJob+1, q.plan.Concurrency), len(q.jobs)); job++ {
		for _, i := range q.roots[job] {
			n += int(q.start[i])
		}
	}
	return n
}

// heldNS returns for how long a cap has held request i back.
func (q *queue) heldNS(i int32) int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.state[i].heldNS
}

// planEndNS is the end of the plan, as far as it is known: its time counts from the barrier. What a cap holds back
// leaves after it.
func (q *queue) planEndNS() int64 {
	barrier := q.barrierNS.Load()
	if q.plan.Cap > 0 || barrier < 0 || q.plan.EndNS > math.MaxInt64-barrier {
		return math.MaxInt64
	}
	return barrier + q.plan.EndNS
}

// endNS is the end of the plan, as the queue counts time.
func (q *queue) endNS() int64 {
	if end := q.planEndNS(); end < math.MaxInt64 {
		return end + q.idle.cutNS
	}
	return math.MaxInt64
}

// sent notes that request i was sent, at sentNS, and returns the requests that this releases.
func (q *queue) sent(i int32, sentNS int64) (leaving []release) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.state[i].sent {
		return nil // it is sent once more
	}
	q.state[i].sent = true
	return q.trigger(nil, i, sentNS+q.idle.cutNS, true)
}

// ended notes that request i has ended, at endNS, and adds to leaving the requests that this releases. Those that
// waited for its sending no longer wait either. If it was the last one that prepares, the caller passes the barrier. A
// request that ended earlier may be noted later.
func (q *queue) ended(leaving []release, i int32, endNS int64) (all []release, prepared bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := &q.state[i]
	nowNS := endNS + q.idle.cutNS
	q.inFlight--
	q.fanOut -= int(q.end[i])
	q.idle.sinceNS = max(q.idle.sinceNS, nowNS)
	if !s.sent {
		s.sent = true
		leaving = q.trigger(leaving, i, nowNS, true)
	}
	leaving = q.trigger(leaving, i, nowNS, false)
	if !q.inJobs() {
		return q.fill(leaving, 1, nowNS), false
	}
	job := &q.jobs[q.turns.Job[i]]
	job.inFlight--
	job.idleNS = max(job.idleNS, endNS)
	if job.left--; job.left == 0 {
		leaving = q.startJobs(leaving, 1, job.idleNS+q.idle.cutNS)
	}
	q.watchIdle(q.turns.Job[i], job.idleNS)
	if q.prepares(i) {
		q.preparing--
		prepared = q.preparing == 0
	}
	return leaving, prepared
}

// passBarrier returns what leaves at the barrier, which is at nowNS.
func (q *queue) passBarrier(nowNS int64) (leaving []release) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.barrierNS.Store(nowNS)
	clockNS := nowNS
	nowNS += q.idle.cutNS
	q.idle.sinceNS = nowNS
	for job := range q.nextJob {
		q.jobs[job].startNS = nowNS
		leaving = q.startRoots(leaving, job, nowNS)
	}
	over := q.turns.Prepare
	if len(q.cut) > 0 {
		over = int32(q.plan.Requests)
	}
	for i := range over {
		if q.prepares(i) || q.cut[i] && q.state[i].sent { // sent: it has ended
			leaving = q.trigger(leaving, i, nowNS, true)
			leaving = q.trigger(leaving, i, nowNS, false)
		}
	}
	for job := range q.nextJob {
		q.watchIdle(int32(job), clockNS)
	}
	return q.startJobs(leaving, 0, nowNS)
}

// watchIdle notes that nothing of a job is in flight at clockNS, if that is so.
func (q *queue) watchIdle(job int32, clockNS int64) {
	j := &q.jobs[job]
	if q.turns.TreeIdleNS > 0 && q.isOpen() && j.inFlight == 0 && j.left > 0 {
		j.idleNS = clockNS
		at, _ := slices.BinarySearchFunc(q.idleJobs, clockNS+1, func(x idleJob, sinceNS int64) int {
			return cmp.Compare(x.sinceNS, sinceNS)
		})
		q.idleJobs = slices.Insert(q.idleJobs, at, idleJob{clockNS, job})
	}
}

// treeDue is when the first of the jobs that have nothing in flight has been idle for long enough; math.MaxInt64 if
// there is none.
func (q *queue) treeDue() int64 {
	for ; len(q.idleJobs) > 0; q.idleJobs = q.idleJobs[1:] {
		x := q.idleJobs[0]
		if j := &q.jobs[x.job]; j.inFlight == 0 && j.left > 0 && j.idleNS == x.sinceNS {
			return x.sinceNS + q.turns.TreeIdleNS
		}
	}
	return math.MaxInt64
}

// cutTrees moves what is still to come of each job that has been idle for long enough until nowNS. The first of it then
// leaves at the end of that time.
func (q *queue) cutTrees(nowNS int64) {
	for at := q.treeDue(); at <= nowNS; at = q.treeDue() {
		job := q.idleJobs[0].job
		q.idleJobs = q.idleJobs[1:]
		first := int64(math.MaxInt64)
		for _, x := range q.delayed {
			if q.turns.Job[x.request] == job {
				first = min(first, x.atNS)
			}
		}
		by := first - at - q.idle.cutNS
		if first == math.MaxInt64 || by <= 0 {
			continue
		}
		for k, x := range q.delayed {
			if q.turns.Job[x.request] == job {
				q.delayed[k].atNS -= by
			}
		}
		heap.Init(&q.delayed)
		q.jobs[job].cutNS += by
		q.idle.ofTrees.add(by)
	}
}

// cutStream takes out of the plan what only a good answer to request i leads to. That is what comes after it in its
// stream, and streams whose first request waits for nothing else. It returns what it has taken out, in order of
// release. These requests count as released: they must be ended.
func (q *queue) cutStream(i int32) (list []int32) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.next) == 0 {
		return nil
	}
	if q.cut == nil {
		q.cut = map[int32]bool{}
	}
	q.cut[i] = true
	list = q.cutFrom(nil, q.next[i])
	for k := -1; k < len(list); k++ {
		lost := i
		if k >= 0 {
			lost = list[k]
		}
		for _, f := range q.dependentsOf(lost) {
			first := &q.state[f.request]
			elsewhere := func(w sched.Dependency) bool { return !q.cut[w.On] }
			ofJob := q.turns.Job[f.request] == q.turns.Job[i]
			if ofJob && first.leads && !first.released && !slices.ContainsFunc(q.turns.Of(f.request), elsewhere) {
				list = q.cutFrom(list, f.request)
			}
		}
	}
	q.delayed = slices.DeleteFunc(q.delayed, func(x release) bool { return q.state[x.request].released })
	heap.Init(&q.delayed)
	return list
}

// cutFrom adds to list request i, -1 = none, and those that come after it in its stream.
func (q *queue) cutFrom(list []int32, i int32) []int32 {
	for ; i >= 0; i = q.next[i] {
		if !q.state[i].released {
			q.take(i)
			q.cut[i] = true
			list = append(list, i)
		}
	}
	return list
}

// trigger ends the waits for request i's sending or end. It adds to list the requests that this releases. Those behind
// the barrier wait for it instead.
func (q *queue) trigger(list []release, i int32, nowNS int64, dispatch bool) []release {
	for _, f := range q.dependentsOf(i) {
		if f.dispatch != dispatch || q.prepares(f.request) == q.isOpen() {
			continue
		}
		s := &q.state[f.request]
		s.readyNS = max(s.readyNS, nowNS+f.delayNS+q.jobCutNS(f.request))
		if s.pending--; s.pending == 0 {
			list = q.ready(list, f.request, nowNS)
		}
	}
	return list
}

// ready decides what becomes of request i, whose waits are over: it is released now, later, or has its place in a
// closed loop.
func (q *queue) ready(list []release, i int32, nowNS int64) []release {
	s := &q.state[i]
	if s.released || q.stop.Load() {
		return list
	}
	at := max(s.readyNS, q.boundNS(i)) - q.jobCutNS(i)
	switch {
	case q.turns.Think && at > nowNS:
		heap.Push(&q.delayed, release{at, i})
	case !q.turns.Think && !s.due: // its own instant is to come
	case q.plan.Open() || q.inJobs():
		if at < q.endNS() {
			list = q.release(list, i, at)
		}
	default:
		q.waiting = append(q.waiting, i)
	}
	return list
}

// boundNS is the instant before which request i is not released, whatever has ended.
func (q *queue) boundNS(i int32) int64 {
	t := q.turns
	switch {
	case !t.Think && q.plan.Open():
		return q.plan.ReleaseNS[i]
	case q.inJobs() && t.NotBeforeNS == nil:
		return q.jobs[t.Job[i]].startNS
	case q.inJobs():
		return q.jobs[t.Job[i]].startNS + max(0, t.NotBeforeNS[i])
	case t.NotBeforeNS == nil:
		return 0
	}
	return t.NotBeforeNS[i]
}

// skip counts the requests whose own instants lie before fromNS as released, and returns them. They must be ended.
func (q *queue) skip(fromNS int64) (list []int32) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for ; q.plan.Open() && q.inOrder < q.plan.Requests && q.plan.ReleaseNS[q.inOrder] < fromNS; q.inOrder++ {
		if i := int32(q.inOrder); !q.isDelayed(i) {
			q.take(i)
			q.free--
			list = append(list, i)
		}
	}
	return list
}

// begin returns what a closed loop releases at its start.
func (q *queue) begin(nowNS int64) []release {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.inJobs() {
		return q.startJobs(nil, q.plan.Concurrency, nowNS)
	}
	return q.fill(nil, q.plan.Concurrency, nowNS)
}

// startJobs lets n more jobs run, and starts the next ones: before the barrier all those that prepare, and no others. A
// job may end as it starts only if it has no requests, which none has.
func (q *queue) startJobs(list []release, n int, nowNS int64) []release {
	q.lanes += n
	for ; q.nextJob < len(q.jobs) && nowNS < q.endNS(); q.lanes-- {
		job := q.nextJob
		if q.isOpen() && q.lanes <= 0 || !q.isOpen() && !q.jobs[job].prepares {
			break
		}
		q.nextJob++
		q.jobs[job].startNS = nowNS
		list = q.startRoots(list, job, nowNS)
		q.watchIdle(int32(job), nowNS-q.idle.cutNS)
	}
	return list
}

// startRoots releases of a job what waits for nothing, on this side of the barrier.
func (q *queue) startRoots(list []release, job int, nowNS int64) []release {
	for _, i := range q.roots[job] {
		if q.prepares(i) != q.isOpen() {
			list = q.ready(list, i, nowNS)
		}
	}
	return list
}

// fill lets freed more requests be in flight, and adds those it releases to list. Waiting ones come first, then in a
// closed loop the next in the order.
func (q *queue) fill(list []release, freed int, nowNS int64) []release {
	if q.free += freed; q.stop.Load() || nowNS >= q.endNS() {
		return list
	}
	for q.free > 0 {
		i := int32(-1)
		if len(q.waiting) > 0 {
			i = q.waiting[0]
			q.waiting = q.waiting[1:]
		} else if i = q.nextInOrder(); i < 0 {
			break
		}
		q.free--
		list = q.release(list, i, max(nowNS, q.state[i].readyNS))
	}
	return list
}

// nextInOrder returns the next request in the order that may be released now; -1 = none. Those that it skips are
// released when their waits are over.
func (q *queue) nextInOrder() int32 {
	for !q.plan.Open() && q.inOrder < q.plan.Requests {
		i := int32(q.inOrder)
		q.inOrder++
		if !q.isDelayed(i) && q.state[i].pending == 0 {
			return i
		}
		q.state[i].due = true
	}
	return -1
}

// due returns the requests that the clock releases: those whose own instants have come, unless they must wait, and
// those that have waited long enough. It releases none after the end of the plan.
func (q *queue) due(nowNS int64) (leaving []release) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.cutTrees(min(nowNS, q.planEndNS()-1))
	nowNS += q.idle.cutNS
	last := min(nowNS, q.endNS()-1)
	for len(q.delayed) > 0 && q.delayed[0].atNS <= last {
		x := heap.Pop(&q.delayed).(release)
		if q.plan.Open() || q.inJobs() {
			leaving = q.release(leaving, x.request, x.atNS)
		} else {
			q.waiting = append(q.waiting, x.request)
		}
	}
	for q.plan.Open() && q.inOrder < q.plan.Requests && q.plan.ReleaseNS[q.inOrder] <= last {
		i := int32(q.inOrder)
		q.inOrder++
		switch {
		case q.isDelayed(i): // others release it
		case q.plan.Cap > 0 && (len(q.waiting) > 0 || q.free == 0):
			q.waiting = append(q.waiting, i)
		case q.state[i].pending == 0:
			q.free--
			leaving = q.release(leaving, i, max(q.plan.ReleaseNS[i], q.state[i].readyNS))
		default:
			q.state[i].due = true
		}
	}
	if !q.inJobs() {
		leaving = q.fill(leaving, 0, nowNS)
	}
	return leaving
}

// nextDue returns the next known instant at which the clock releases something, math.MaxInt64 if there is none, and
// how many requests are still to be released.
func (q *queue) nextDue() (atNS int64, left int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	atNS = math.MaxInt64
	if len(q.delayed) > 0 {
		atNS = q.delayed[0].atNS
	}
	for q.plan.Open() && q.inOrder < q.plan.Requests && q.isDelayed(int32(q.inOrder)) {
		q.inOrder++ // others release it
	}
	if q.plan.Open() && q.inOrder < q.plan.Requests {
		atNS = min(atNS, q.plan.ReleaseNS[q.inOrder])
	}
	if atNS == math.MaxInt64 {
		return atNS, q.left
	}
	tree := q.treeDue()
	if most := q.turns.IdleNS; most > 0 && q.inFlight == 0 && q.isOpen() {
		over := q.idle.sinceNS + most
		if atNS > over && over < q.endNS() && tree > over-q.idle.cutNS { // else a job comes earlier first
			q.idle.cutNS += atNS - over
			q.idle.all.add(atNS - over)
			q.idle.sinceNS = atNS - most
		}
	}
	return min(tree, atNS-q.idle.cutNS), q.left
}

// rest returns the requests that were not released, in ascending order, and releases none of them any more.
func (q *queue) rest() (list []int32) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range q.state {
		if !q.state[i].released {
			q.state[i].released = true
			list = append(list, int32(i))
		}
	}
	q.inOrder = q.plan.Requests
	q.taken = int32(q.nextJob)
	q.nextJob = len(q.jobs)
	q.left = 0
	return list
}
