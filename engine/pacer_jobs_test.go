package engine

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/fastreplay/fastreplay/sched"
)

// lanesLoad is a random plan of jobs with preparation, or of requests with instants of their own, how long servers take
// for each request, and which they refuse since its context is too long.
type lanesLoad struct {
	plan    sched.Plan
	job     []int32 // of requests; one holds all that have instants of their own
	boundNS []int64 // when requests are released at the earliest, since their job's time 0
	took    []int64
	refused []bool
	lookNS  int64   // how long after all has been prepared the barrier comes
	seenNS  []int64 // how long after the end of each request the client sees it
}

// What stands in place of instants.
const neverNS, takenOut = int64(math.MinInt64), int64(math.MinInt64 + 1)

// randomLanes draws a load. Some jobs of those that prepare may do nothing else; others begin when these have ended.
func randomLanes(t *testing.T, rng *rand.Rand) *lanesLoad {
	for range 1000 {
		if l, err := drawLanes(rng); err == nil {
			return l
		}
	}
	t.Fatal("no load in 1,000 can be planned")
	return nil
}

func drawLanes(rng *rand.Rand) (*lanesLoad, error) {
	n, lanes, jobs := 3+rng.IntN(40), 1+rng.IntN(4), 1+rng.IntN(8)
	open := rng.IntN(3) == 0
	d := &sched.Dependencies{Think: !open || rng.IntN(2) == 0}
	if !open && rng.IntN(4) > 0 {
		d.Prepare = int32(rng.IntN(1 + n/2))
	}
	short := rng.IntN(3) // jobs that may do nothing but prepare
	numbers, members := map[int]int32{}, map[int32][]int32{}
	own := make([]int64, n)
	l := &lanesLoad{took: make([]int64, n), refused: make([]bool, n), seenNS: make([]int64, n)}
	for i := range int32(n) {
		key := rng.IntN(jobs)
		if i < d.Prepare {
			key %= lanes + short
		} else if key < short {
			key = short + rng.IntN(jobs)
		}
		if _, known := numbers[key]; !known {
			numbers[key] = int32(len(numbers))
		}
		job := numbers[key]
		var waits []sched.Dependency
		if before := members[0]; i < d.Prepare && job > 0 && len(members[job]) == 0 && short > 0 && rng.IntN(2) == 0 {
			for _, on := range before { // the first job, if it is one of the short ones
				waits = append(waits, sched.Dependency{On: on})
			}
		}
		for range rng.IntN(3) {
			if before := members[job]; len(before) > 0 {
				w := sched.Dependency{On: before[rng.IntN(len(before))], DelayNS: rng.Int64N(2) * rng.Int64N(9e9)}
				if rng.IntN(4) == 0 {
					w.Dispatch, w.DelayNS = true, 1+w.DelayNS
				}
				if !d.Think {
					w.DelayNS = 0
				}
				waits = append(waits, w)
			}
		}
		d.Add(waits...)
		l.job, d.Stream = append(l.job, job), append(d.Stream, int32(rng.IntN(3)))
		d.NotBeforeNS = append(d.NotBeforeNS, rng.Int64N(3)*rng.Int64N(9e9))
		own[i] = rng.Int64N(int64(n) * 1e9)
		members[job] = append(members[job], i)
		l.took[i], l.refused[i] = 1+rng.Int64N(4e9), rng.IntN(12) == 0
	}
	l.boundNS = slices.Clone(d.NotBeforeNS)
	l.lookNS = rng.Int64N(2) * rng.Int64N(3e9)
	end := rng.Int64N(2) * (1 + rng.Int64N(40e9))
	if d.Think {
		d.IdleNS = rng.Int64N(2) * (1 + rng.Int64N(3e9))
	}
	var err error
	if open {
		slices.Sort(own)
		for i := range l.boundNS {
			if !d.Think || len(d.Of(int32(i))) == 0 {
				l.boundNS[i] = own[i]
			}
		}
		clear(l.job)
		d.Stream = nil
		l.plan, err = sched.FromTrace(own, 1, 0)
	} else {
		if rng.IntN(3) == 0 {
			d.Stream = nil
		}
		d.Job, d.TreeIdleNS = l.job, rng.Int64N(2)*(1+rng.Int64N(6e9))
		l.plan, err = sched.Closed(n, lanes, 0)
	}
	if err == nil {
		l.plan, err = l.plan.Following(d)
	}
	if !open {
		l.plan.Concurrency = lanes
	}
	if end > 0 {
		l.plan.EndNS = end
	}
	return l, err
}

// lanesResult is what became of a load.
type lanesResult struct {
	released, ended []int64
	barrier         int64
	all, ofTrees    IdleCut
}

// drive runs the queue on the load, in time of its own.
func (l *lanesLoad) drive(t *testing.T) (r lanesResult) {
	n := l.plan.Requests
	q := newQueue(l.plan, new(atomic.Bool))
	r.released, r.ended = slices.Repeat([]int64{neverNS}, n), slices.Repeat([]int64{neverNS}, n)
	inFlight := map[int32]int64{} // when their ends are seen
	barrier := int64(math.MaxInt64)
	clock := int64(0) // what a client that sees an end late releases is in the past, and may end in the past
	send := func(now int64, list []release) {
		clock = max(clock, now)
		for ; len(list) > 0; list = list[1:] {
			x := list[0]
			if x.atNS > clock || r.released[x.request] != neverNS {
				t.Fatalf("request %d is released for %d at %d, and was at %d", x.request, x.atNS, clock, r.released[x.request])
			}
			r.released[x.request] = x.atNS
			inFlight[x.request] = x.atNS + l.took[x.request] + l.seenNS[x.request]
			list = append(list, q.sent(x.request, x.atNS)...)
		}
	}
	end := func(i int32, now int64) {
		r.ended[i] = now
		leaving, prepared := q.ended(nil, i, now)
		send(now+l.seenNS[i], leaving)
		if prepared && l.lookNS == 0 {
			send(now, q.passBarrier(now))
		} else if prepared {
			barrier = now + l.lookNS
		}
	}
	if !l.plan.Open() {
		send(0, q.begin(0))
	}
	for over := false; ; {
		now := barrier
		if !over {
			due, left := q.nextDue()
			if now = min(now, due); left != count(r.released, neverNS) {
				t.Fatalf("%d requests are to come, of %v", left, r.released)
			}
		}
		for _, at := range inFlight {
			now = min(now, at)
		}
		if now >= q.planEndNS() && !over {
			over = true
			if q.rest(); len(inFlight) > 0 {
				continue
			}
		}
		if now == math.MaxInt64 {
			r.barrier, r.all, r.ofTrees = q.barrierNS.Load(), q.idle.all, q.idle.ofTrees
			return r
		}
		for i, at := range inFlight {
			if at != now {
				continue
			}
			delete(inFlight, i)
			at -= l.seenNS[i]
			var lost []int32
			if l.refused[i] {
				lost = q.cutStream(i)
			}
			end(i, at)
			for _, k := range lost {
				r.released[k] = takenOut
				end(k, at)
			}
		}
		if now == barrier {
			barrier = math.MaxInt64
			send(now, q.passBarrier(now))
		}
		if !over {
			send(now, q.due(now))
		}
	}
}

func count(list []int64, value int64) (n int) {
	for _, v := range list {
		if v == value {
			n++
		}
	}
	return n
}

// simulation has the same by the rules, in the clock's own time: it goes from event to event, and looks at all
// requests each time.
type simulation struct {
	*lanesLoad
	d         *sched.Dependencies
	r         lanesResult
	nowNS     int64
	ready     []int64         // of each request: what the waits that are over allow
	over      map[[2]int]bool // waits, by request and place
	lost      []bool          // requests: refused or taken out
	begun     []int64         // of each job: its time 0; below 0 = it has not begun
	idleSince []int64         // of each job
	quietNS   int64           // since when nothing is in flight
	barrierNS int64           // when the barrier comes, as far as it is known
}

func (l *lanesLoad) simulate() lanesResult {
	n, d := l.plan.Requests, l.plan.Dependencies
	s := &simulation{lanesLoad: l, d: d, ready: make([]int64, n), over: map[[2]int]bool{}, lost: make([]bool, n)}
	s.r.released, s.r.ended = slices.Repeat([]int64{neverNS}, n), slices.Repeat([]int64{neverNS}, n)
	s.begun, s.idleSince = slices.Repeat([]int64{neverNS}, max(1, d.Jobs())), make([]int64, max(1, d.Jobs()))
	s.barrierNS = math.MaxInt64
	if d.Prepare > 0 {
		s.r.barrier = -1
	}
	s.startJobs()
	s.release()
	for s.next() {
		s.endRequests()
		if s.nowNS == s.barrierNS {
			s.passBarrier()
		}
		s.release()
		s.capTrees()
		s.release()
		s.capAll()
		s.release()
	}
	for i, at := range s.r.released { // these end after the plan
		if at >= 0 {
			s.r.ended[i] = at + l.took[i]
		}
	}
	return s.r
}

// isOver reports whether nothing more is released.
func (s *simulation) isOver(atNS int64) bool {
	return s.r.barrier >= 0 && s.plan.EndNS < math.MaxInt64 && atNS >= s.r.barrier+s.plan.EndNS
}

func (s *simulation) isPrepared() bool { return s.r.barrier >= 0 }

// inFlight counts requests of a job, -1 = of all.
func (s *simulation) inFlight(job int32) (n int) {
	for i, at := range s.r.released {
		if at >= 0 && s.r.ended[i] < 0 && (job < 0 || s.job[i] == job) {
			n++
		}
	}
	return n
}

// left counts requests of a job that have not ended.
func (s *simulation) left(job int32) (n int) {
	for i, at := range s.r.ended {
		if at < 0 && s.job[i] == job {
			n++
		}
	}
	return n
}

// fires is when request i is released by what is known; math.MaxInt64 = nobody knows.
func (s *simulation) fires(i int) int64 {
	job := s.job[i]
	waits := false
	for k := range s.d.Of(int32(i)) {
		waits = waits || !s.over[[2]int{i, k}]
	}
	if waits || s.r.released[i] != neverNS || s.begun[job] == neverNS || int32(i) >= s.d.Prepare && !s.isPrepared() {
		return math.MaxInt64
	}
	return max(s.ready[i], s.begun[job]+s.boundNS[i])
}

// firstOf is when the first request of a job is released, -1 = of all.
func (s *simulation) firstOf(job int32) int64 {
	first := int64(math.MaxInt64)
	for i := range s.ready {
		if job < 0 || s.job[i] == job {
			first = min(first, s.fires(i))
		}
	}
	return first
}

// idles reports whether a job waits for the clock alone.
func (s *simulation) idles(job int32) bool {
	return s.d.TreeIdleNS > 0 && s.isPrepared() && s.begun[job] != neverNS && s.left(job) > 0 && s.inFlight(job) == 0
}

// next goes to the next event; false = there is none before the end.
func (s *simulation) next() bool {
	at := s.firstOf(-1)
	if !s.isPrepared() {
		at = min(at, s.barrierNS)
	}
	for i, released := range s.r.released {
		if released >= 0 && s.r.ended[i] < 0 {
			at = min(at, released+s.took[i])
		}
	}
	for job := range s.begun {
		if due := s.idleSince[job] + s.d.TreeIdleNS; s.idles(int32(job)) && due > s.nowNS {
			at = min(at, due)
		}
	}
	due := s.quietNS + s.d.IdleNS
	if s.d.IdleNS > 0 && s.isPrepared() && s.inFlight(-1) == 0 && due > s.nowNS && at < math.MaxInt64 {
		at = min(at, due)
	}
	if at == math.MaxInt64 || s.isOver(at) {
		return false
	}
	s.nowNS = at
	return true
}

// wait notes that request on was sent or has ended, for those that wait for it.
func (s *simulation) wait(on int, dispatch bool) {
	for i := range s.ready {
		if int32(i) >= s.d.Prepare && !s.isPrepared() {
			continue
		}
		for k, w := range s.d.Of(int32(i)) {
			if at := [2]int{i, k}; int(w.On) == on && w.Dispatch == dispatch && !s.over[at] {
				s.over[at] = true
				s.ready[i] = max(s.ready[i], s.nowNS+w.DelayNS)
			}
		}
	}
}

// release releases what is due.
func (s *simulation) release() {
	for again := true; again; {
		again = false
		for i := range s.ready {
			if s.fires(i) <= s.nowNS {
				s.r.released[i], again = s.nowNS, true
				s.wait(i, true)
			}
		}
	}
}

func (s *simulation) endRequests() {
	for i, released := range s.r.released {
		if released < 0 || s.r.ended[i] >= 0 || released+s.took[i] != s.nowNS {
			continue
		}
		ending := []int{i}
		if s.refused[i] && s.d.Stream != nil {
			ending = append(ending, s.loseStream(i)...)
		}
		for _, k := range ending {
			s.r.ended[k], s.quietNS, s.idleSince[s.job[k]] = s.nowNS, s.nowNS, s.nowNS
			s.wait(k, true)
			s.wait(k, false)
		}
		if s.barrierNS == math.MaxInt64 && s.d.Prepare > 0 && !slices.Contains(s.r.ended[:s.d.Prepare], neverNS) {
			s.barrierNS = s.nowNS + s.lookNS
		}
		s.startJobs()
	}
}

// loseStream takes out what the refusal of request i takes out.
func (s *simulation) loseStream(i int) (out []int) {
	s.lost[i] = true
	for again := true; again; {
		again = false
		for k := range s.ready {
			if s.r.released[k] != neverNS || s.lost[k] {
				continue
			}
			first, after := true, false
			for j := range k {
				if s.job[j] == s.job[k] && s.d.Stream[j] == s.d.Stream[k] {
					first, after = false, after || s.lost[j]
				}
			}
			waits := s.d.Of(int32(k))
			only, ofJob := first, false
			for _, w := range waits {
				only = only && s.lost[w.On]
				ofJob = ofJob || s.job[w.On] == s.job[k]
			}
			if after || only && ofJob {
				s.lost[k], s.r.released[k], again = true, takenOut, true
				out = append(out, k)
			}
		}
	}
	return out
}

func (s *simulation) passBarrier() {
	s.r.barrier, s.quietNS = s.nowNS, s.nowNS
	for job := range s.begun {
		if s.begun[job] != neverNS {
			s.begun[job], s.idleSince[job] = s.nowNS, s.nowNS
		}
	}
	for i, ended := range s.r.ended {
		if ended != neverNS {
			s.wait(i, true)
			s.wait(i, false)
		}
	}
	s.startJobs()
}

// startJobs starts the next jobs on lanes that have none.
func (s *simulation) startJobs() {
	running := 0
	for job := range int32(len(s.begun)) {
		prepares := slices.Contains(s.job[:s.d.Prepare], job)
		switch {
		case s.begun[job] != neverNS && s.left(job) > 0:
			running++
		case s.begun[job] == neverNS && (prepares || s.isPrepared() && running < max(1, s.plan.Concurrency)):
			running++
			s.begun[job], s.idleSince[job] = s.nowNS, s.nowNS
		}
	}
}

// moveUp moves what is to come of a job, -1 = of all, so that the first of it comes now.
func (s *simulation) moveUp(job int32, count *IdleCut) {
	by := s.firstOf(job) - s.nowNS
	if by <= 0 || s.firstOf(job) == math.MaxInt64 {
		return
	}
	for i := range s.ready {
		if job < 0 || s.job[i] == job {
			s.ready[i] -= by
		}
	}
	for j := range s.begun {
		if s.begun[j] != neverNS && (job < 0 || int32(j) == job) {
			s.begun[j] -= by
		}
	}
	count.add(by)
}

func (s *simulation) capTrees() {
	for job := range int32(len(s.begun)) {
		if s.idles(job) && s.idleSince[job]+s.d.TreeIdleNS == s.nowNS {
			s.moveUp(job, &s.r.ofTrees)
		}
	}
}

func (s *simulation) capAll() {
	if s.d.IdleNS > 0 && s.isPrepared() && s.inFlight(-1) == 0 && s.quietNS+s.d.IdleNS == s.nowNS {
		s.moveUp(-1, &s.r.all)
	}
}

// graphs is how many random graphs a test takes: FASTREPLAY_LANES, or so many.
func graphs(usual uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv("FASTREPLAY_LANES"), 10, 32); err == nil {
		return n
	}
	if raceDetector() {
		return usual / 10
	}
	return usual
}

// seeLate has the client see ends late, but before the next idle time is over and in an order in which lanes take the
// same jobs.
func (l *lanesLoad) seeLate(rng *rand.Rand) {
	d := l.plan.Dependencies
	clear(l.refused)
	l.plan.EndNS = math.MaxInt64
	most := int64(2e9)
	for _, limit := range []int64{d.IdleNS, d.TreeIdleNS} {
		if limit > 0 {
			most = min(most, limit)
		}
	}
	each := rng.Int64N(most)
	for i := int(d.Prepare); i < len(l.seenNS); i++ {
		if l.seenNS[i] = each; l.plan.Concurrency == 1 || d.Jobs() <= l.plan.Concurrency {
			l.seenNS[i] = rng.Int64N(most)
		}
	}
}

// TestLateEyesMoveNothing: however late the client sees that requests have ended, all others are planned for the same
// instants.
func TestLateEyesMoveNothing(t *testing.T) {
	for seed := range graphs(600) {
		rng := rand.New(rand.NewPCG(seed, 32))
		l := randomLanes(t, rng)
		l.seeLate(rng)
		if got, want := l.drive(t), l.simulate(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("seed %d: %+v\n%+v\n got %+v\nwant %+v", seed, l.plan, l.plan.Dependencies, got, want)
		}
	}
}

// TestLanesAsSimulated: with a barrier, both caps of idle times, refusals and an end, and at instants of their own,
// requests of random graphs are released, end and are taken out when a simulation by the rules says.
func TestLanesAsSimulated(t *testing.T) {
	var barriers, all, trees, cut int
	rounds := graphs(2000)
	for seed := range rounds {
		l := randomLanes(t, rand.New(rand.NewPCG(seed, 31)))
		got, want := l.drive(t), l.simulate()
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("seed %d: %+v\n%+v\n got %+v\nwant %+v", seed, l.plan, l.plan.Dependencies, got, want)
		}
		barriers, all, trees = barriers+min(1, int(l.plan.Dependencies.Prepare)), all+got.all.Times, trees+got.ofTrees.Times
		cut += count(got.released, takenOut)
	}
	t.Logf("%d graphs: %d barriers, %d idle times of all cut, %d of jobs, %d requests taken out", rounds, barriers, all, trees, cut)
}
