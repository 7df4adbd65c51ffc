package bench

import (
	"crypto/sha256"
	"fmt"
	"math"
	"math/big"
	"slices"
)

// laneRun is what lanes are to do with trees. Times are ns; those of the trace are scale times as long.
type laneRun struct {
	trees             []tree
	lanes             int
	scale             float64
	snapshot          bool // lanes begin between 25 % and 75 % of their first trees
	warmUp            int  // requests of a lane between its primers and the barrier
	recycle           bool
	seed              uint64
	treeIdle, allIdle int64 // 0 = any
	duration          int64 // since the barrier; 0 = until all has ended
	barrier           int64 // when it was passed, at the earliest
	most              int   // plays; 0 = any number
}

// beginning is where a play begins of which requests leave before the barrier.
type beginning struct {
	after                   int   // the play of its lane before; -1 = none
	at                      int64 // trace time; the lane is there when all others are at theirs
	primers, warmUp, others []int // rows in order of time
}

// inOrder are the rows of a tree in order of time.
func (w *tree) inOrder() []int {
	order := make([]int, len(w.rows))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, w.inTime)
	return order
}

// share is where in its first tree a lane begins, as the manual defines it.
func (w *laneRun) share(lane int) float64 {
	name := w.trees[lane%len(w.trees)].name
	sum := sha256.Sum256([]byte(fmt.Sprintf("snapshot %d %s %d\n", w.seed, name, lane)))
	draw := float64(new(big.Int).SetBytes(sum[:8]).Uint64()>>11) / (1 << 53)
	return 0.25 + draw/2
}

// first cuts the first tree of a lane.
func (w *laneRun) first(lane int) beginning {
	tree := &w.trees[lane%len(w.trees)]
	order := tree.inOrder()
	f := beginning{after: -1, at: tree.rows[order[0]].at, others: order}
	if !w.snapshot {
		return f
	}
	span := tree.rows[order[len(order)-1]].at - f.at
	f.at += int64(math.Round(w.share(lane) * float64(span)))
	n, _ := slices.BinarySearchFunc(order, f.at, func(i int, at int64) int { return int(max(-1, min(1, tree.rows[i].at-at))) })
	for k, i := range order[:n] {
		ofAgent := func(j int) bool { return tree.rows[j].agent == tree.rows[i].agent }
		if !slices.ContainsFunc(order[k+1:n], ofAgent) && slices.ContainsFunc(order[n:], ofAgent) {
			f.primers = append(f.primers, i)
		}
	}
	end := n + min(w.warmUp, len(order)-n-1)
	if w.recycle {
		end = min(n+w.warmUp, len(order))
	}
	f.warmUp = order[n:end]
	f.others = order[end:]
	return f
}

// begun are the plays of which requests leave before the barrier: the first of each lane, and the next ones of lanes
// whose trees are over before they have warmed up. ended is how many lanes have warmed up as a tree ended: these take
// the next one at the barrier.
func (w *laneRun) begun() (all []beginning, ended int) {
	for lane := range w.lanes {
		all = append(all, w.first(lane))
	}
	for lane := range w.lanes {
		last := lane
		left := w.warmUp - len(all[lane].warmUp)
		for w.recycle && w.snapshot && left > 0 && len(all[last].others) == 0 {
			tree := &w.trees[len(all)%len(w.trees)]
			order := tree.inOrder()
			n := min(left, len(order))
			all = append(all, beginning{after: last, at: tree.rows[order[0]].at, warmUp: order[:n], others: order[n:]})
			last = len(all) - 1
			left -= n
		}
		if len(all[last].others) == 0 {
			ended++
		}
	}
	return all, ended
}

// longestLead is how long before the snapshot a primer leaves at most, in ns of the replay.
const longestLead = 1_000_000_000

// scaled is a recorded time at the replay's speed.
func (w *laneRun) scaled(ns int64) int64 { return int64(math.Round(float64(ns) / w.scale)) }

// phases of a request of a play.
const (
	primer  = "primer"
	warmUp  = "warmup"
	profile = ""
)

// due is a request that a simulation releases.
type due struct {
	play, row int
	phase     string
	at        int64
}

// answer is when a request that was due left, was sent, and had ended.
type answer struct{ left, sent, ended int64 }

// simulation is a run in which ask says what became of a request, which may leave since an idle time was cut. Timers are
// due after their own time, which does not count what was cut.
type simulation struct {
	*laneRun
	ask     func(d due, afterIdle bool) answer
	plays   []*simulated
	flying  []flight
	since   int64 // when the last one in flight had ended
	cut     int64
	barrier int64
	moved   *int64     // what was cut last, if nothing has left since for which it was
	movedBy *simulated // whose idle time that was; nil = that of all
}

type flight struct {
	due
	ended int64
}

// simulated is a play of a simulation.
type simulated struct {
	tree     *tree
	pending  []int // waits of a row that are not over
	ready    []int64
	timers   map[int]int64
	flying   int
	left     int
	since    int64
	cut      int64
	measured []bool
}

// simulate runs a run to its end.
func (w *laneRun) simulate(ask func(d due, afterIdle bool) answer) *simulation {
	s := &simulation{laneRun: w, ask: ask, barrier: w.barrier}
	begun, ended := w.begun()
	s.prepare(begun)
	earliest := int64(math.MaxInt64)
	for play, f := range begun {
		if len(f.others) > 0 {
			earliest = min(earliest, w.trees[play%len(w.trees)].rows[f.others[0]].at-f.at)
		}
	}
	if ended > 0 {
		earliest = 0
	}
	s.since = s.barrier
	for _, f := range begun {
		s.begin(f.others, f.at+earliest, s.barrier)
	}
	for range ended {
		s.beginWhole(s.barrier)
	}
	for s.step() {
	}
	return s
}

// prepare sends what each lane sends before the barrier: all primers, and what comes after them without delays. Idle
// times are not cut.
func (s *simulation) prepare(begun []beginning) {
	aligned := int64(0) // when all lanes are at their snapshots
	var primers []due
	for play, f := range begun {
		for _, i := range f.primers {
			lead := min(longestLead, s.scaled(f.at-s.trees[play%len(s.trees)].rows[i].at))
			primers = append(primers, due{play, i, primer, -lead})
			aligned = max(aligned, lead)
		}
	}
	sent := map[due]answer{}
	for _, d := range primers {
		d.at += aligned
		a := s.ask(d, false)
		sent[due{play: d.play, row: d.row}] = a
		s.barrier = max(s.barrier, a.ended)
	}
	over := make([]int64, len(begun)) // when all that prepares of a play has ended
	for d, a := range sent {
		over[d.play] = max(over[d.play], a.ended)
	}
	for play, f := range begun {
		rows := s.trees[play%len(s.trees)].rows
		for _, i := range f.warmUp {
			waits := slices.DeleteFunc(slices.Clone(rows[i].waits), func(d awaited) bool {
				return !slices.Contains(f.warmUp, d.on)
			})
			for _, row := range f.primers {
				if len(waits) == 0 || !slices.Contains(f.warmUp, waits[0].on) {
					waits = append(waits, awaited{on: row})
				}
			}
			at := aligned
			if len(waits) == 0 && f.after >= 0 {
				at = max(at, over[f.after])
			}
			for _, d := range waits {
				on := sent[due{play: play, row: d.on}]
				if d.dispatch {
					on.ended = on.sent
				}
				at = max(at, on.ended)
			}
			a := s.ask(due{play, i, warmUp, at}, false)
			sent[due{play: play, row: i}] = a
			over[play] = max(over[play], a.ended)
			s.barrier = max(s.barrier, a.ended)
		}
	}
}

// begin begins the next play with some rows of its tree, of which those that wait for no other leave as long after now
// as they were recorded after from.
func (s *simulation) begin(rows []int, from, now int64) {
	tree := &s.trees[len(s.plays)%len(s.trees)]
	p := &simulated{
		tree:     tree,
		pending:  make([]int, len(tree.rows)),
		ready:    make([]int64, len(tree.rows)),
		measured: make([]bool, len(tree.rows)),
		timers:   map[int]int64{},
		left:     len(rows),
		since:    now,
	}
	for _, i := range rows {
		p.measured[i] = true
	}
	s.plays = append(s.plays, p)
	for _, i := range rows {
		for _, d := range tree.rows[i].waits {
			if p.measured[d.on] {
				p.pending[i]++
			}
		}
		if p.pending[i] == 0 {
			p.timers[i] = now + s.cut + s.scaled(max(0, tree.rows[i].at-from))
		}
	}
}

// step does what comes next: an answer ends, an idle time is over, or a request leaves.
func (s *simulation) step() bool {
	ends := int64(math.MaxInt64)
	if len(s.flying) > 0 {
		slices.SortStableFunc(s.flying, func(a, b flight) int { return int(max(-1, min(1, a.ended-b.ended))) })
		ends = s.flying[0].ended
	}
	next := due{at: math.MaxInt64}
	idlest := -1 // of the plays that are idle the one that is so for the longest time
	for n, p := range s.plays {
		for i, at := range p.timers {
			at -= s.cut + p.cut
			if at < next.at || at == next.at && (n < next.play || n == next.play && i < next.row) {
				next = due{n, i, profile, at}
			}
		}
		if s.treeIdle > 0 && p.flying == 0 && len(p.timers) > 0 && (idlest < 0 || p.since < s.plays[idlest].since) {
			if at := p.first() - s.cut; at > p.since+s.treeIdle {
				idlest = n
			}
		}
	}
	switch {
	case idlest >= 0 && s.cutsTree(s.plays[idlest].since+s.treeIdle, ends, next.at):
		p := s.plays[idlest]
		p.cut += p.first() - s.cut - p.since - s.treeIdle
		s.moved, s.movedBy = &p.cut, p
	case ends == math.MaxInt64 && (next.at == math.MaxInt64 || s.isOver(s.idleEnd(next.at))):
		return false
	case s.idleEnd(next.at) < next.at:
		s.cut += next.at - s.idleEnd(next.at)
		s.moved, s.movedBy = &s.cut, nil
	case ends <= next.at || s.isOver(next.at):
		s.end(s.flying[0])
		s.flying = s.flying[1:]
	default:
		s.send(next)
	}
	return true
}

// cutsTree reports whether the idle time of a tree that is over at an instant is the next to be cut.
func (s *simulation) cutsTree(at, ends, next int64) bool {
	return !s.isOver(at) && at <= min(ends, next, s.idleEnd(next))
}

// isOver reports whether nothing leaves at an instant any more.
func (s *simulation) isOver(at int64) bool { return s.duration > 0 && at >= s.barrier+s.duration }

// first is when the first timer of a play is due, but for what was cut of the whole.
func (p *simulated) first() int64 {
	at := int64(math.MaxInt64)
	for _, ready := range p.timers {
		at = min(at, ready-p.cut)
	}
	return at
}

// idleEnd is when the next request leaves at the latest, if it is due at an instant.
func (s *simulation) idleEnd(at int64) int64 {
	if s.allIdle == 0 || len(s.flying) > 0 {
		return at
	}
	return min(at, s.since+s.allIdle)
}

func (s *simulation) send(d due) {
	p := s.plays[d.play]
	delete(p.timers, d.row)
	p.flying++
	afterIdle := s.moved != nil && (s.movedBy == nil || s.movedBy == p)
	a := s.ask(d, afterIdle)
	if afterIdle { // what was cut too little has everything behind it leave later
		*s.moved -= a.left - d.at
		s.moved = nil
	}
	s.flying = append(s.flying, flight{d, a.ended})
	s.over(d, a.sent, true)
}

func (s *simulation) end(f flight) {
	p := s.plays[f.play]
	p.flying--
	p.left--
	p.since = f.ended
	s.since = f.ended
	s.over(f.due, f.ended, false)
	more := s.recycle || len(s.plays) < len(s.trees)
	if p.left == 0 && more && (s.most == 0 || len(s.plays) < s.most) && !s.isOver(f.ended) {
		s.beginWhole(f.ended)
	}
}

// beginWhole begins the next play with all rows of its tree.
func (s *simulation) beginWhole(now int64) {
	tree := &s.trees[len(s.plays)%len(s.trees)]
	rows := tree.inOrder()
	s.begin(rows, tree.rows[rows[0]].at, now)
}

// over ends the waits for a request's dispatch or end.
func (s *simulation) over(d due, at int64, dispatch bool) {
	p := s.plays[d.play]
	for i, r := range p.tree.rows {
		for _, on := range r.waits {
			if !p.measured[i] || on.on != d.row || on.dispatch != dispatch {
				continue
			}
			p.ready[i] = max(p.ready[i], at+s.cut+p.cut+s.scaled(on.delay))
			if p.pending[i]--; p.pending[i] == 0 {
				p.timers[i] = p.ready[i]
			}
		}
	}
}
