package workload

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/sched"
)

// Pool is how lanes take jobs. A play is one run through a job by a lane. Lanes take plays in the order of their
// numbers: play i is of job i in the order of the trace.
type Pool struct {
	Lanes    int
	Snapshot *Snapshot // where in their first jobs lanes begin; nil = with the first request
	// After its last job the pool begins anew. Each play has a marker before its prompts, a block of its own, so that
	// plays share nothing in a cache.
	Recycle bool
	// WarmUp is with how many requests each lane goes on from its snapshot before anything is measured. If its job has
	// fewer, the lane goes on with its next jobs, or without Recycle leaves one request of its job to measure.
	WarmUp int
	Seed   uint64 // of snapshots and markers
	Follow FollowPolicy

	// Plays are planned as long as lanes may need them within RunNS, however fast servers are, but not beyond
	// MostRequests.
	RunNS        int64
	IdleNS       int64 // the longest idle time that the run leaves to a job
	MostRequests int
}

// Snapshot bounds the instant in its job at which a lane begins: shares of the time from the job's first request to its
// last.
type Snapshot struct{ From, To float64 }

// Plays are the requests of plays, those first that prepare caches.
type Plays struct {
	Trace   *trace.Trace
	Primers int // so many requests, the first, bring into caches what was there at the snapshots
	Prepare int // so many, with the primers, are sent before any other
	Count   int
	// Begun are the plays of which requests may leave before the barrier. They are the first one of each lane, in
	// order, and those that lanes take while they warm up.
	Begun []BegunPlay
	// of requests of plays that begin at snapshots: how many of their job came before and are not among those; else 0
	Before []int32
	Short  bool // MostRequests has left out plays that lanes may need

	after     []int32 // as FollowPolicy has it; likewise barrierNS
	barrierNS int64
}

// BegunPlay is a play with which a lane begins.
type BegunPlay struct {
	Lane   int
	After  int // the play of its lane before; -1 = none
	Job    string
	AtNS   int64 // the snapshot, from the job's first request on; likewise SpanNS, the last request
	SpanNS int64
	// of the job's requests: primers, as many as there are agents at work, warm-up requests, and measured ones
	Primers, WarmUp, Measured int
}

// longestLead is how long before a snapshot a primer can leave, at the speed of the replay.
const longestLead = time.Second

// Of makes plays of the jobs of a trace. They follow from the trace and the pool alone.
func (p Pool) Of(t *trace.Trace) (*Plays, error) {
	if p.Recycle && p.Lanes > p.MostRequests {
		return nil, fmt.Errorf("there is memory for %d requests, fewer than %d lanes", p.MostRequests, p.Lanes)
	}
	d := newDraft(p, t)
	d.beginLanes()
	d.goOn()
	byTime := func(a, b playRow) int {
		return cmp.Compare(a.atNS, b.atNS)
	}
	slices.SortStableFunc(d.primers, byTime)
	slices.SortStableFunc(d.measured, byTime)
	var list trace.Plays
	var before []int32
	requests := slices.Concat(d.primers, d.warmUp, d.measured)
	for _, r := range requests {
		earlier := 0
		if r.play < len(d.begun) {
			b := d.begun[r.play]
			earlier = len(d.rowsOf(r.play)) - b.Primers - b.WarmUp - b.Measured
		}
		before = append(before, int32(earlier))
		list.Source = append(list.Source, r.row)
		list.Again = append(list.Again, int32(r.play/len(d.jobs)))
		list.ArrivalNS = append(list.ArrivalNS, r.atNS)
		list.OutputTokens = append(list.OutputTokens, r.output)
		if p.Recycle {
			marker := drawn("marker", p.Seed, d.name(r.play), r.play)
			list.Markers = append(list.Markers, marker)
		}
	}
	played, err := t.Plays(list)
	if err != nil {
		return nil, err
	}
	return &Plays{
		Trace:     played,
		Primers:   len(d.primers),
		Prepare:   len(d.primers) + len(d.warmUp),
		Count:     d.plays,
		Begun:     d.begun,
		Before:    before,
		Short:     d.short,
		after:     d.after(played, requests),
		barrierNS: d.barrierNS,
	}, nil
}

// after is FollowPolicy.After of the plays, whose jobs have numbers in the order of their first requests.
func (d *draft) after(played *trace.Trace, requests []playRow) []int32 {
	number := map[int]int32{-1: -1} // of a play
	jobs, _ := played.JobNumbers()
	for i, r := range requests {
		number[r.play] = jobs[i]
	}
	after := make([]int32, len(d.begun))
	for play, b := range d.begun {
		after[number[play]] = number[b.After]
	}
	return after
}

// Follow is a policy by which the requests of the plays follow each other.
func (p *Plays) Follow(policy FollowPolicy) FollowPolicy {
	policy.Primers = p.Primers
	policy.Prepare = p.Prepare
	policy.BarrierNS = p.barrierNS
	policy.After = p.after
	return policy
}

// drawn is a random number that follows from what it is for. It is the first 8 bytes, the highest first, of the SHA-256
// of the words, with spaces between them and a line's end.
func drawn(words ...any) uint64 {
	sum := sha256.Sum256([]byte(fmt.Sprintln(words...)))
	return binary.BigEndian.Uint64(sum[:])
}

// draft is plays that are being planned.
type draft struct {
	Pool
	t      *trace.Trace
	jobs   [][]int32           // rows in order
	follow *sched.Dependencies // of the rows, with delays that are no longer than IdleNS
	plays  int
	short  bool

	primers, warmUp, measured []playRow
	freeNS                    []int64 // when lanes may have ended their plays at the earliest, ascending in goOn
	begun                     []BegunPlay
	barrierNS, begunNS        int64 // when all lanes are at their snapshots, and have begun, in time of the plays
}

// playRow is a request of a play.
type playRow struct {
	row    int32
	play   int
	atNS   int64
	output int32
}

func newDraft(p Pool, t *trace.Trace) *draft {
	d := &draft{Pool: p, t: t}
	job, n := t.JobNumbers()
	d.jobs = make([][]int32, n)
	for i, k := range job {
		d.jobs[k] = append(d.jobs[k], int32(i))
	}
	if !p.Recycle {
		d.Lanes = min(d.Lanes, n)
	}
	d.follow = p.Follow.Dependencies(t, t.Len())
	CapDelays(d.follow, p.IdleNS)
	return d
}

// rowsOf are the rows of a play's job.
func (d *draft) rowsOf(play int) []int32 {
	return d.jobs[play%len(d.jobs)]
}

// name is that of a play's job, or its number where it has none.
func (d *draft) name(play int) string {
	name := d.t.JobName(int(d.rowsOf(play)[0]))
	return cmp.Or(name, fmt.Sprint(play%len(d.jobs)))
}

// cutPlay is a play of which requests may leave before the barrier.
type cutPlay struct {
	lane, after             int
	atNS                    int64 // the snapshot, or the job's first request
	primers, warmUp, others []int32
}

// firstPlay cuts the first job of a lane.
func (d *draft) firstPlay(lane int) cutPlay {
	at := d.t.ArrivalNS
	rows := d.rowsOf(lane)
	first := at[rows[0]]
	f := cutPlay{lane: lane, after: -1, atNS: first, others: rows}
	if d.Snapshot == nil {
		return f
	}
	span := at[rows[len(rows)-1]] - first
	draw := float64(drawn("snapshot", d.Seed, d.name(lane), lane)>>11) / (1 << 53)
	share := d.Snapshot.From + draw*(d.Snapshot.To-d.Snapshot.From)
	f.atNS += min(span, int64(math.Round(share*float64(span)))) // floats round long spans up
	n := slices.IndexFunc(rows, func(row int32) bool {
		return at[row] >= f.atNS
	})
	f.primers = d.lastOfAgents(rows[:n], rows[n:])
	most := len(rows) - n
	if !d.Recycle {
		most--
	}
	warmUp := n + min(d.WarmUp, most)
	f.warmUp = rows[n:warmUp]
	f.others = rows[warmUp:]
	return f
}

// cutPlays are the first plays of all lanes, then those that lanes take whose jobs have too few requests to warm up.
func (d *draft) cutPlays() (all []cutPlay) {
	for lane := range d.Lanes {
		all = append(all, d.firstPlay(lane))
	}
	planned := 0
	for lane := range d.Lanes {
		last := lane
		for left := d.WarmUp; d.Recycle && d.Snapshot != nil; {
			left -= len(all[last].warmUp)
			if left == 0 || len(all[last].others) > 0 {
				break
			}
			rows := d.rowsOf(len(all))
			if planned += len(rows); planned > d.MostRequests {
				d.short = true
				break
			}
			n := min(left, len(rows))
			all = append(all, cutPlay{
				lane:   lane,
				after:  last,
				atNS:   d.t.ArrivalNS[rows[0]],
				warmUp: rows[:n],
				others: rows[n:],
			})
			last = len(all) - 1
		}
		d.freeNS = append(d.freeNS, d.quickest(all[last].others))
	}
	return all
}

// lastOfAgents is the last request before a snapshot of each agent that sends more after it.
func (d *draft) lastOfAgents(before, after []int32) (last []int32) {
	agent := func(row int32) int64 {
		if d.t.Session == nil {
			return 0
		}
		return d.t.Session[row]
	}
	goesOn := map[int64]bool{}
	for _, row := range after {
		goesOn[agent(row)] = true
	}
	for _, row := range slices.Backward(before) {
		if goesOn[agent(row)] {
			last = append(last, row)
			goesOn[agent(row)] = false
		}
	}
	slices.Reverse(last)
	return last
}

// beginLanes plans what lanes begin with. All lanes are at their snapshots at one instant. The first request that is
// measured leaves at the barrier, the others of these plays as long after it as they were recorded. A lane that ends a
// job as it has warmed up takes the next one at the barrier.
func (d *draft) beginLanes() {
	at := d.t.ArrivalNS
	plays := d.cutPlays()
	longest := int64(float64(longestLead) * d.Follow.Speed)
	lead := func(c cutPlay, row int32) int64 {
		return min(c.atNS-at[row], longest)
	}
	earliest := int64(math.MaxInt64) // since the snapshot
	ended := map[int]bool{}          // lanes
	for _, c := range plays {
		if ended[c.lane] = len(c.others) == 0; !ended[c.lane] {
			earliest = min(earliest, at[c.others[0]]-c.atNS)
		}
		for _, row := range c.primers {
			d.barrierNS = max(d.barrierNS, lead(c, row))
		}
	}
	for _, free := range ended { // its next job begins at once
		if free {
			earliest = 0
		}
	}
	for play, c := range plays {
		for _, row := range c.primers {
			d.primers = append(d.primers, playRow{row, play, d.barrierNS - lead(c, row), 1})
		}
		for _, row := range c.warmUp {
			d.warmUp = append(d.warmUp, playRow{row, play, d.barrierNS, 1})
		}
		fromNS := c.atNS + earliest - d.barrierNS
		d.measure(play, c.others, fromNS)
		rows := d.rowsOf(play)
		d.begun = append(d.begun, BegunPlay{
			Lane:     c.lane,
			After:    c.after,
			Job:      d.name(play),
			AtNS:     c.atNS - at[rows[0]],
			SpanNS:   at[rows[len(rows)-1]] - at[rows[0]],
			Primers:  len(c.primers),
			WarmUp:   len(c.warmUp),
			Measured: len(c.others),
		})
		if len(c.others) > 0 {
			d.begunNS = max(d.begunNS, at[c.others[0]]-fromNS)
		}
	}
	d.begunNS = max(d.begunNS, d.barrierNS)
	d.plays = len(plays)
}

// measure plans requests of a play at their own instants, counted from fromNS.
func (d *draft) measure(play int, rows []int32, fromNS int64) {
	for _, row := range rows {
		d.measured = append(d.measured, playRow{row, play, d.t.ArrivalNS[row] - fromNS, d.t.OutputTokens[row]})
	}
}

// goOn plans whole jobs, as many as lanes can need.
func (d *draft) goOn() {
	took := make([]int64, len(d.jobs))
	slices.Sort(d.freeNS)
	for ; d.Recycle || d.plays < len(d.jobs); d.plays++ {
		rows := d.rowsOf(d.plays)
		nowNS := d.freeNS[0]
		if nowNS >= d.RunNS {
			return
		}
		if len(d.primers)+len(d.warmUp)+len(d.measured)+len(rows) > d.MostRequests {
			d.short = true
			return
		}
		atNS := d.begunNS + int64(float64(nowNS)*d.Follow.Speed)
		d.measure(d.plays, rows, d.t.ArrivalNS[rows[0]]-atNS)
		job := d.plays % len(d.jobs)
		if took[job] == 0 {
			took[job] = d.quickest(rows)
		}
		endNS := nowNS + took[job]
		at, _ := slices.BinarySearch(d.freeNS, endNS)
		copy(d.freeNS, d.freeNS[1:at])
		d.freeNS[at-1] = endNS
	}
}

// No server is as much faster than what is assumed of it, and none answers in less.
const (
	mostFaster    = 100
	leastAnswerNS = int64(time.Millisecond)
)

// QuickestNS is how long an answer of so many tokens takes at least.
func QuickestNS(assumed sched.AssumedLatency, output int32) int64 {
	return max(leastAnswerNS, assumed.LastNS(output)/mostFaster)
}

// quickest is how long at least rows of one job take in a replay.
func (d *draft) quickest(rows []int32) (busyNS int64) {
	type request struct{ beginNS, endNS int64 }
	done := make(map[int32]request, len(rows))
	for _, row := range rows {
		own := d.t.ArrivalNS[row] - d.t.ArrivalNS[rows[0]]
		beginNS := int64(-1)
		for _, w := range d.follow.Of(row) {
			on, known := done[w.On]
			switch {
			case !known:
			case w.Dispatch:
				beginNS = max(beginNS, on.beginNS+w.DelayNS)
			default:
				beginNS = max(beginNS, on.endNS+w.DelayNS)
			}
		}
		if beginNS < 0 {
			beginNS = min(d.Follow.scaled(own), busyNS+d.IdleNS)
		}
		endNS := beginNS + QuickestNS(d.Follow.Assumed, d.t.OutputTokens[row])
		done[row] = request{beginNS, endNS}
		busyNS = max(busyNS, endNS)
	}
	return busyNS
}
