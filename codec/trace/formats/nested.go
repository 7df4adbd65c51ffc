package formats

import (
	"math"
	"slices"

	"github.com/fastreplay/fastreplay/codec/trace/agents"
)

// Basis is what the times of sub-agents' requests count from.
type Basis string

// The bases.
const (
	Absolute Basis = "absolute" // the begin of the job: all have one clock
	Relative Basis = "relative" // the begin of the sub-agent
)

// SubAgents counts the sub-agents of a file that says of each only one instant. It is about all files that are read,
// not the selection.
type SubAgents struct {
	// in the file: it is not known when it ended, so nothing waits for it
	Background int64 `json:"background_sub_agents"`
	// sub-agents in the file of which it has one instant, which the data show to be the end
	EndedThen int64 `json:"instant_was_the_end"`
	BegunThen int64 `json:"instant_was_the_begin"` // likewise the begin
	// sub-agents whose requests have times of the whole job, not since its begin
	OwnClock int64 `json:"requests_have_job_time"`
	// what the times of sub-agents' requests are taken to count from. absolute: the begin of the job. relative: that of
	// the sub-agent. "" if the file does not nest sub-agents
	Basis Basis `json:"times_basis"`
	Shown int64 `json:"times_basis_shown"` // sub-agents whose times fit that and not the other
}

// Nested is an agent of a job with its sub-agents, as a file nests them. The instants of a sub-agent and of its
// requests are as they stand there, until Place.
//
// Whether they are absolute or relative is one decision for all that is read, since one tool recorded it. Shown says
// what the times of each sub-agent show, and few of them show it alone.
type Nested struct {
	Agent  *agents.Node // its calls are places in the batch, and after Move those among all rows
	atNS   int64        // of a sub-agent
	tookNS int64        // agents.None = not recorded
	inside []*Nested
}

// Move adds to the places of all calls.
func (n *Nested) Move(by int32) {
	for i := range n.Agent.Calls {
		n.Agent.Calls[i] += by
	}
	for _, s := range n.inside {
		s.Move(by)
	}
}

// Shown adds the first call of each sub-agent to those that show the same basis, "" for none. Each counts alone, and
// does so only if its times cannot be of the other basis, or are much less likely.
func (n *Nested) Shown(calls []agents.Call, by map[Basis][]int32) {
	for _, s := range n.inside {
		s.Shown(calls, by)
		own := timesOf(calls, s.Agent)
		if len(own.begins) == 0 {
			continue
		}
		relative := s.fits(own, 0)
		absolute := s.fits(own, s.atNS)
		if s.tookNS >= 0 {
			absolute = max(absolute, s.fits(own, s.atNS-s.tookNS))
		}
		var shown Basis
		switch {
		case absolute > relative:
			shown = Absolute
		case relative > absolute:
			shown = Relative
		}
		by[shown] = append(by[shown], s.Agent.Calls[0])
	}
}

// fits is how well the requests of a sub-agent lie behind its begin. 0 = not, 1 = they do, 2 = the first one does so
// soon, as a sub-agent's does.
func (s *Nested) fits(own times, begin int64) int {
	const late = agents.SpawnTolerance + wekaClockSkewNS
	first := own.begins[0]
	last := own.ends[len(own.ends)-1]
	switch {
	case first < begin-wekaClockSkewNS, s.tookNS >= 0 && last > begin+s.tookNS+late:
		return 0
	case first > begin+late:
		return 1
	}
	return 2
}

// Place gives the calls of all sub-agents instants of the whole job, and counts them. The agent's own have such
// already; the instants of its sub-agents count from base, 0 for a job.
func (n *Nested) Place(calls []agents.Call, base int64, count *SubAgents) {
	own := timesOf(calls, n.Agent)
	for _, s := range n.inside {
		p := s.placement(own, timesOf(calls, s.Agent), base, count)
		for _, i := range s.Agent.Calls {
			calls[i].BeganNS += p.shift
		}
		if len(s.Agent.Calls) > 0 {
			*p.count++
		}
		s.Agent.EndNS = p.end
		if s.tookNS < 0 {
			s.Agent.EndNS = agents.NoTime
		}
		s.Place(calls, p.shift, count)
	}
}

// times are when the requests of an agent began and ended, each in order.
type times struct{ begins, ends []int64 }

func timesOf(calls []agents.Call, a *agents.Node) (own times) {
	for _, i := range a.Calls {
		own.begins = append(own.begins, calls[i].BeganNS)
		own.ends = append(own.ends, calls[i].EndNS())
	}
	slices.Sort(own.begins)
	slices.Sort(own.ends)
	return own
}

// anyWithin reports whether one of some instants in order lies from one instant on and before another.
func anyWithin(at []int64, from, before int64) bool {
	n, _ := slices.BinarySearch(at, from)
	return n < len(at) && at[n] < before
}

// placement is where a sub-agent may lie: when it began and ended, and what is added to the times of its requests.
type placement struct {
	begin, end, shift int64
	count             *int64
}

// placement decides what the instant of a sub-agent is. Its requests must lie between its begin and its end. Then it
// begins at the end of a request of its parent, and the next request of the parent comes after its end. Of 48
// sub-agents of the public set, which is relative, 44 have a duration, and their instant is the end by all three. The
// other 4 began at their instant.
func (s *Nested) placement(parent, own times, base int64, count *SubAgents) placement {
	const tolerance = agents.SpawnTolerance
	at := base + s.atNS
	ended := placement{at - s.tookNS, at, at - s.tookNS, &count.EndedThen}
	begun := placement{at, math.MaxInt64, at, &count.BegunThen}
	if s.tookNS >= 0 {
		begun.end = at + s.tookNS
	}
	possible := []placement{ended, begun}
	if count.Basis == Absolute {
		ended.shift = 0
		ended.count = &count.OwnClock
		begun.shift = 0
		begun.count = &count.OwnClock
		possible = []placement{begun, ended}
	}
	if s.tookNS < 0 {
		return begun
	}
	first := int64(maxSpanNS)
	last := int64(0)
	if len(own.begins) > 0 {
		first = min(first, own.begins[0])
		last = max(last, own.ends[len(own.ends)-1])
	}
	best := 0
	most := -1
	for n, p := range possible {
		fit := 0
		if last+p.shift <= p.end+tolerance && first+p.shift >= p.begin-tolerance {
			fit += 4
		}
		if anyWithin(parent.ends, p.begin-tolerance, p.begin+tolerance+1) {
			fit += 2
		}
		if !anyWithin(parent.begins, p.begin+1, p.end-tolerance) {
			fit++
		}
		if fit > most {
			best = n
			most = fit
		}
	}
	return possible[best]
}
