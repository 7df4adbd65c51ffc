package bench

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/must"
)

// arrival is a request as the server's log has it, with what the client says of its own lateness. All instants are ns
// since the run's start.
type arrival struct {
	due        // the play is what the client calls it; the instant is when it was to leave, by the client's record
	tree       int
	marker     string
	prepares   bool // it asks for one token
	came, last int64
	sent, done int64 // by the client's record
}

func (a *arrival) String() string {
	return fmt.Sprintf("play %d, tree %d, row %d (%s)", a.play, a.tree, a.row, a.phase)
}

func (a *arrival) move(by int64) {
	for _, at := range []*int64{&a.at, &a.sent, &a.came, &a.last, &a.done} {
		*at += by
	}
}

// logged is a line of the mock's log with the request's body.
type logged struct {
	served
	Body struct {
		MaxTokens int             `json:"max_tokens"`
		Prompt    json.RawMessage `json:"prompt"`
	} `json:"body"`
}

// claimed is what the client's records say of plays, besides a line. The first of a play has its name: a tail says how
// often the job was played before.
type claimed struct {
	ID    string `json:"request_id"`
	Phase string `json:"phase"`
	Job   int    `json:"job"`
	Name  string `json:"job_name"`

	Before  int    `json:"job_before"`
	Outcome string `json:"outcome"`
}

// read finds out which requests of the trees came to the server.
func (w *laneRun) read(t *testing.T, r *results, log string) (all []arrival) {
	t.Helper()
	type place struct{ tree, row int }
	byLength := map[int64]place{}
	for n := range w.trees {
		for i := range w.trees[n].rows {
			byLength[int64(w.trees[n].rows[i].in)] = place{n, i}
		}
	}
	records := map[string]line{}
	for _, l := range r.lines {
		records[l.ID] = l
	}
	claims := map[string]claimed{}
	before := map[int]int{}
	for _, l := range readLines[claimed](t, requestsFile(r.dir)) {
		claims[l.ID] = l
		if _, tail, again := strings.Cut(l.Name, "~"); again {
			before[l.Job] = must.Have(strconv.Atoi(tail))(t)
		}
	}
	origin := r.summary.Run.MonotonicStartNS
	begin := int64(math.MaxInt64)
	for _, s := range readLines[logged](t, log) {
		if strings.HasPrefix(s.ID, "mock-") {
			continue // a probe
		}
		marker := 0
		if w.recycle {
			marker = wekaBlock
		}
		at, known := byLength[s.Prompt-int64(marker)]
		l, measured := records[s.ID]
		if !known || !measured || s.Status != 200 {
			t.Fatalf("the server got a request of %d tokens, %+v, recorded as %+v", s.Prompt, s.served, l)
		}
		claim := claims[s.ID]
		all = append(all, arrival{
			due:      due{at.tree + before[claim.Job]*len(w.trees), at.row, claim.Phase, l.Planned},
			tree:     at.tree,
			marker:   markerOf(t, s.Body.Prompt, marker),
			prepares: s.Body.MaxTokens == 1,
			came:     s.Arrival - origin,
			last:     s.Last - origin,
			sent:     l.Sent,
			done:     l.Done,
		})
		begin = min(begin, l.Planned)
	}
	for i := range all { // so that the first one leaves at 0
		all[i].move(-begin)
	}
	w.barrier = -begin // it was at 0
	return all
}

// markerOf is the first tokens of a prompt.
func markerOf(t *testing.T, prompt json.RawMessage, tokens int) string {
	t.Helper()
	if tokens == 0 {
		return ""
	}
	if prompt[0] == '"' {
		var text string
		must.Do(t, json.Unmarshal(prompt, &text))
		marker, _, _ := strings.Cut(text, "\n\n")
		return marker
	}
	var ids []int
	must.Do(t, json.Unmarshal(prompt, &ids))
	return fmt.Sprint(ids[:tokens])
}

// tolerance is how far an instant may be from what it is to be, besides what the machine took, ns. What waits for others
// is planned by their recorded ends, whatever the machine took: it may only be rounded.
const (
	tolerance = 1_000_000
	rounded   = 10
)

// check returns what is wrong with a run, and what may be only due to a machine that was slower than the client says: it
// may come to an answer long after it has read it, and then cut less of an idle time, or begin plays in another order.
func (w *laneRun) check(all []arrival) (faults, late []string) {
	c := &check{laneRun: w, byPlace: map[due]*arrival{}}
	for i := range all {
		c.add(&all[i])
	}
	if len(c.faults) > 0 {
		return c.faults, nil // all else is judged by what came
	}
	c.markers(all)
	for play := range c.plays {
		c.early(play)
	}
	if w.snapshot {
		c.preparation(all)
	}
	c.instants(all)
	c.idle(all)
	return c.faults, c.late
}

// check is the state of a check.
type check struct {
	*laneRun
	byPlace map[due]*arrival // without instants
	plays   [][]*arrival
	worst   int64 // how late the client was, as it says or as the server's clock shows
	faults  []string
	late    []string // and what else a slow client may do
}

func (c *check) fault(format string, args ...any) {
	c.faults = append(c.faults, fmt.Sprintf(format, args...))
}

func (a *arrival) place() due { return due{play: a.play, row: a.row, phase: a.phase} }

// add notes an arrival: each request of a play comes once, before or behind the barrier.
func (c *check) add(a *arrival) {
	for _, phase := range []string{primer, warmUp, profile} {
		if c.byPlace[due{play: a.play, row: a.row, phase: phase}] != nil {
			c.fault("%v came a second time", a)
		}
	}
	c.byPlace[a.place()] = a
	for len(c.plays) <= a.play {
		c.plays = append(c.plays, nil)
	}
	c.plays[a.play] = append(c.plays[a.play], a)
	c.worst = max(c.worst, a.sent-a.at, a.came-a.sent, a.done-a.last)
	if a.tree != a.play%len(c.trees) {
		c.fault("%v is not of the tree that was next in the pool", a)
	}
	if a.prepares != (a.phase != profile) {
		c.fault("%v asks for one token: %v", a, a.prepares)
	}
	if a.came < a.at || a.sent < a.at || a.came < a.sent-clocksApart || a.done < a.last-clocksApart {
		c.fault("%v was planned at %d, sent at %d, came at %d, had ended at %d, which the client saw at %d", a, a.at, a.sent, a.came, a.last, a.done)
	}
}

// clocksApart is how far instants of client and server may seem out of order, ns.
const clocksApart = 2_000

// markers: a play has one marker, which no other has.
func (c *check) markers(all []arrival) {
	of := map[string]int{}
	for _, a := range all {
		if play, known := of[a.marker]; known && play != a.play && c.recycle {
			c.fault("%v has the marker of play %d", &a, play)
		}
		of[a.marker] = a.play
		if a.marker != c.plays[a.play][0].marker || (a.marker == "") == c.recycle {
			c.fault("%v has the marker %q, others of its play %q", &a, a.marker, c.plays[a.play][0].marker)
		}
	}
}

// early: by the server's log alone, no request came before what it waits for had ended, and unless idle times are cut
// it kept its distance.
func (c *check) early(play int) {
	for _, a := range c.plays[play] {
		for _, on := range c.trees[a.tree].rows[a.row].waits {
			before := c.byPlace[due{play: play, row: on.on, phase: a.phase}]
			if before == nil && a.phase == warmUp {
				before = c.byPlace[due{play: play, row: on.on, phase: primer}]
			}
			if before == nil || a.phase == primer {
				continue
			}
			since := before.last
			if on.dispatch {
				since = before.came
			}
			if a.phase == profile && c.treeIdle+c.allIdle == 0 {
				since += c.scaled(on.delay)
			}
			if a.came < since && !(on.dispatch && a.came >= before.sent) {
				c.fault("%v came %d ns before it may, after row %d", a, since-a.came, on.on)
			}
		}
	}
}

// preparation: each lane sends the last request before its snapshot of each agent that goes on, and the requests after
// it, before anything else; nothing that is measured comes before all of it has ended.
func (c *check) preparation(all []arrival) {
	begun, _ := c.begun()
	barrier := int64(math.MinInt64)
	for _, a := range all {
		if a.prepares {
			barrier = max(barrier, a.last)
		}
		if a.prepares && a.play >= len(begun) {
			c.fault("%v prepares, and its lane has warmed up", &a)
		}
	}
	for _, a := range all {
		if !a.prepares && a.came < barrier {
			c.fault("%v came %d ns before the barrier", &a, barrier-a.came)
		}
	}
	for lane := range c.lanes {
		tree := &c.trees[lane%len(c.trees)]
		low, high := c.bounds(lane)
		order := tree.inOrder()
		start := float64(tree.rows[order[0]].at)
		span := float64(tree.rows[order[len(order)-1]].at) - start
		if low > high || float64(high) < start+span/4-1 || float64(low) > start+span*3/4+1 {
			c.fault("lane %d: what was primed was not there at one instant in the middle of the tree: %d to %d", lane, low, high)
		}
	}
	for play, f := range begun {
		var primed, warmed []int
		began := int64(math.MaxInt64)
		for _, a := range c.play(play) {
			began = min(began, a.came)
			switch a.phase {
			case primer:
				primed = append(primed, a.row)
			case warmUp:
				warmed = append(warmed, a.row)
			}
		}
		if !sameRows(primed, f.primers) || !sameRows(warmed, f.warmUp) {
			c.fault("play %d, from %d on: primed %v and warmed up %v, want %v and %v", play, f.at, primed, warmed, f.primers, f.warmUp)
		}
		if f.after < 0 {
			continue
		}
		for _, a := range c.play(f.after) {
			if a.last > began {
				c.fault("play %d began %d ns before %v of its lane had ended", play, a.last-began, a)
			}
		}
	}
}

// play is what came of a play.
func (c *check) play(n int) []*arrival {
	if n >= len(c.plays) {
		return nil
	}
	return c.plays[n]
}

func sameRows(a, b []int) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

// bounds is between which instants of its tree a lane's snapshot lies, by what was primed and by what came later.
func (c *check) bounds(lane int) (low, high int64) {
	tree := &c.trees[lane%len(c.trees)]
	low, high = math.MinInt64, math.MaxInt64
	for _, a := range c.play(lane) {
		at := tree.rows[a.row].at
		if a.phase == primer {
			low = max(low, at+1)
		} else {
			high = min(high, at)
		}
	}
	return low, high
}

// instants: each request leaves when a simulation says, which is told how long all others took.
func (c *check) instants(all []arrival) {
	seen := map[due]bool{}
	end := c.barrier + c.duration
	prepared := int64(0)
	for _, a := range all {
		if a.prepares {
			prepared = max(prepared, a.done)
		}
	}
	if after := c.barrier - prepared; after < 0 {
		c.fault("the barrier came %d ns before all that prepares had ended", -after)
	} else if after > tolerance+c.worst {
		c.late = append(c.late, fmt.Sprintf("the barrier came %d ns after all that prepares", after))
	}
	c.simulate(func(d due, afterIdle bool) answer {
		place := due{play: d.play, row: d.row, phase: d.phase}
		a := c.byPlace[place]
		if a == nil {
			missing := fmt.Sprintf("row %d (%s) of play %d, due at %d, never came", d.row, d.phase, d.play, d.at)
			if c.duration > 0 && d.at > end-c.duration/4 { // a slow client may have come to it after the end
				c.late = append(c.late, missing)
			} else {
				c.fault("%s", missing)
			}
			return answer{d.at, d.at, math.MaxInt64}
		}
		seen[place] = true
		off := a.at - d.at
		begins := d.play >= c.lanes && len(c.trees[a.tree].rows[a.row].waits) == 0
		most := int64(rounded)
		if afterIdle || begins {
			most = tolerance + c.worst
		}
		if off < -most || off > most {
			wrong := fmt.Sprintf("%v left %d ns from %d", a, off, d.at)
			if begins || c.treeIdle+c.allIdle > 0 && !a.prepares {
				c.late = append(c.late, wrong)
			} else {
				c.fault("%s", wrong)
			}
		}
		return answer{a.at, a.sent, a.done}
	})
	for _, a := range all {
		switch {
		case seen[a.place()]:
		case c.duration > 0 && a.at > end-c.duration/4:
			c.late = append(c.late, fmt.Sprintf("%v came, and was not due", &a))
		default:
			c.fault("%v came, and was not due", &a)
		}
	}
}

// idle: nothing was idle for longer than it may be, by the server's log, but for what the machine took.
func (c *check) idle(all []arrival) {
	measured := slices.DeleteFunc(slices.Clone(all), func(a arrival) bool { return a.prepares })
	c.gaps(measured, c.allIdle, "everything")
	for play, list := range c.plays {
		measured = measured[:0]
		for _, a := range list {
			if !a.prepares {
				measured = append(measured, *a)
			}
		}
		c.gaps(measured, c.treeIdle, fmt.Sprint("play ", play))
	}
}

func (c *check) gaps(list []arrival, most int64, of string) {
	if most == 0 || len(list) == 0 {
		return
	}
	slices.SortFunc(list, func(a, b arrival) int { return int(max(-1, min(1, a.came-b.came))) })
	until := list[0]
	for _, a := range list[1:] {
		late := (a.came - a.at) + (until.done - until.last)
		if gap := a.came - until.last; gap > most+late+tolerance+c.worst {
			c.late = append(c.late, fmt.Sprintf("%s was idle for %d ns before %v", of, gap, &a))
		}
		if a.done > until.done {
			until = a
		}
	}
}

// takeUnreleased takes away the lines of requests for which the run had no time, after a check that each planned request
// has one line. It returns how many were planned.
func (r *results) takeUnreleased(t *testing.T) (planned int) {
	t.Helper()
	var plan struct {
		Load struct {
			Requests int `json:"requests"`
		} `json:"load"`
	}
	must.Do(t, json.Unmarshal(readFile(t, filepath.Join(r.dir, "run.json")), &plan))
	unreleased := map[string]bool{}
	for _, l := range readLines[claimed](t, requestsFile(r.dir)) {
		unreleased[l.ID] = l.Phase == "unreleased"
	}
	must.Equal(t, len(unreleased), plan.Load.Requests, "requests with a line of their own")
	must.Equal(t, len(r.lines), plan.Load.Requests, "lines")
	r.lines = slices.DeleteFunc(r.lines, func(l line) bool {
		return unreleased[l.ID] && l.Outcome == "not_sent" && l.Sent == absent && l.Planned == absent
	})
	return plan.Load.Requests
}

// numbers returns what is wrong with what a summary says of a run's jobs.
func (w *laneRun) numbers(r *results, all []arrival) (faults []string) {
	sent := map[int]int{} // by play
	rows := map[[2]int]bool{}
	measured, last := int64(0), int64(0)
	for i := range all {
		a := &all[i]
		sent[a.play]++
		if a.phase == profile {
			rows[[2]int{a.tree, a.row}] = true
			measured++
			last = max(last, a.done-w.barrier)
		}
	}
	whole, parts, cut, jobs := int64(0), int64(0), int64(0), int64(0)
	begun, _ := w.begun()
	for play, n := range sent {
		planned := len(w.trees[play%len(w.trees)].rows)
		amid := false
		if play < len(begun) && w.snapshot {
			f := begun[play]
			if len(f.others) == 0 {
				continue // nothing of it is measured
			}
			amid = len(f.others) < planned
			planned = len(f.primers) + len(f.warmUp) + len(f.others)
		}
		jobs++
		switch {
		case n < planned:
			cut++
		case amid:
			parts++
		default:
			whole++
		}
	}
	s := &r.summary
	for what, is := range map[string][2]int64{
		"requests": {s.Requests.Planned, measured}, "rows": {s.Jobs.Rows, int64(len(rows))}, "jobs": {s.Jobs.Jobs, jobs},
		"whole jobs": {s.Jobs.Finished, whole}, "parts": {s.Jobs.FinishedParts, parts}, "cut off": {s.Jobs.CutOff, cut},
		"ns until the last answer": {int64(math.Round(s.Run.AnsweredS * 1e9)), last}, "recycled": {s.Jobs.Recycled, max(0, int64(len(sent)-w.lanes))},
		"writes": {s.Writes.Whole + s.Writes.Partial, measured},
	} {
		if is[0] != is[1] {
			faults = append(faults, fmt.Sprintf("%s: the summary says %d, and there are %d", what, is[0], is[1]))
		}
	}
	return faults
}
