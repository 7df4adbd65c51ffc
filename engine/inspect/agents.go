package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/codec/kvcache"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/codec/trace/agents"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/stats"
	"github.com/fastreplay/fastreplay/engine/workload"
	"github.com/fastreplay/fastreplay/sched"
)

// Agents is what agents did. A job is a task with all requests of its agents; an agent is a conversation. Where the
// trace does not have how long a request took, that follows from the assumed speed; see Sessions.
type Agents struct {
	Jobs            int64              `json:"jobs"`               // in the selection
	Requests        *stats.Percentiles `json:"requests_per_job"`   // rows of a job
	SubAgentsPerJob *stats.Percentiles `json:"sub_agents_per_job"` // its agents at depth 1 and deeper
	// most agents of a job that had a request in flight at one instant
	AtOnce *stats.Percentiles `json:"agents_at_once"`
	// rows by depth: depth 0 is the first agents of jobs, depth 1 their sub-agents, and so on
	Depths []Type `json:"depths"`
	Spawns int64  `json:"spawns"` // rows that begin a sub-agent
	Joins  int64  `json:"joins"`  // rows that wait for a sub-agent
	// first row of a job to the end of its last answer
	SpanS     *stats.Percentiles `json:"job_span_s"`
	IdleS     *stats.Percentiles `json:"job_idle_s"` // of that, with nothing of the job in flight
	IdleShare *float64           `json:"idle_share"` // idle time of all jobs as a share of their spans
	// row to the end of its answer, as recorded; null if no row has it
	TookS *stats.Percentiles `json:"recorded_took_s"`
	// row to its first token, as recorded; null if no row has it
	TTFTS *stats.Percentiles `json:"recorded_ttft_s"`
	// tokens of a follow-up turn's prompt behind what it shares with the turn before; null without block ids
	NewTokens *stats.Percentiles `json:"new_tokens_per_turn"`
	// follow-up turns that have less than 90 % of the blocks of the turn before at their begin
	Compactions    int64    `json:"compactions"`
	CompactedShare *float64 `json:"compacted_share"` // of the follow-up turns whose turn before has blocks
	// share of the input tokens that a cache without a limit would have held if each job had its own
	WithinJobs   *float64 `json:"hits_within_jobs"`
	AcrossJobs   *float64 `json:"hits_across_jobs"`  // what one cache for all would have held beyond that
	RecordedRows int64    `json:"recorded_hit_rows"` // rows of which the recorded server's hits are known
	// recorded hits as a share of the input tokens of these rows; null if there are none
	RecordedHits *float64 `json:"recorded_hits"`
	trace.SubAgents
}

// endOf is when request i had ended: as recorded, or else as assumed, since its arrival.
func endOf(t *trace.Trace, i int, a sched.AssumedLatency) int64 {
	return t.ArrivalNS[i] + workload.TookNS(t, int32(i), a)
}

// agentsOf is nil for a trace without jobs.
func agentsOf(t *trace.Trace, o Options, p *pictures) *Agents {
	if t.Job == nil {
		return nil
	}
	number, n := t.JobNumbers()
	rows := make([][]int32, n) // of each job
	for i, job := range number {
		rows[job] = append(rows[job], int32(i))
	}
	a := &Agents{Jobs: int64(n), SubAgents: t.SubAgents}
	a.jobs(t, rows, o.Assumed, p)
	a.depths(t)
	a.turns(t, p)
	a.recorded(t)
	return a
}

// jobs describes jobs by their rows.
func (a *Agents) jobs(t *trace.Trace, rows [][]int32, assumed sched.AssumedLatency, p *pictures) {
	var requests, subAgents, atOnce, spans, idle []int64
	var idleSum, spanSum int64
	for _, job := range rows {
		subs := map[int64]bool{}
		for _, i := range job {
			if t.Depth != nil && t.Depth[i] > 0 {
				subs[t.Session[i]] = true
			}
		}
		s := jobSpan(t, job, assumed)
		length := s.endNS - s.beginNS
		requests = append(requests, int64(len(job)))
		subAgents = append(subAgents, int64(len(subs)))
		atOnce = append(atOnce, s.atOnce)
		spans = append(spans, length)
		idle = append(idle, s.idleNS)
		idleSum += s.idleNS
		spanSum += length
	}
	a.Requests = stats.Describe(requests, 1)
	a.SubAgentsPerJob = stats.Describe(subAgents, 1)
	a.WithinJobs = hitsWithin(t, rows)
	if !t.Untimed {
		a.AtOnce = stats.Describe(atOnce, 1)
		a.SpanS = p.describe("Time of a job", "s", spans)
		a.IdleS = stats.Describe(idle, 1e9)
		a.IdleShare = new(share(idleSum, spanSum))
	}
}

// hitsWithin is the share of the input tokens that a cache of its own would have held for each job; nil without any.
func hitsWithin(t *trace.Trace, rows [][]int32) *float64 {
	if t.BlockRefs() == 0 {
		return nil
	}
	var held, tokens int64
	for _, job := range rows {
		cache := kvcache.NewInfinite(max(1, t.BlockTokens), 1)
		for _, i := range job {
			if !t.Made(int(i)) {
				continue
			}
			n := int(t.InputTokens[i])
			held += int64(cache.Expected(t.Blocks(int(i)), n, 0, n+1))
			tokens += int64(n)
		}
	}
	if tokens == 0 {
		return nil
	}
	return new(share(held, tokens))
}

// span is when a job was, and how busy.
type span struct{ beginNS, endNS, idleNS, atOnce int64 }

// jobSpan follows the begins and the ends of a job's requests in order of time.
func jobSpan(t *trace.Trace, rows []int32, assumed sched.AssumedLatency) span {
	type step struct {
		atNS int64
		by   int
		row  int32
	}
	var steps []step
	for _, i := range rows {
		begin := step{t.ArrivalNS[i], 1, i}
		steps = append(steps, begin, step{endOf(t, int(i), assumed), -1, i})
	}
	// begins first: a touch is not idle
	slices.SortStableFunc(steps, func(a, b step) int {
		return cmp.Or(cmp.Compare(a.atNS, b.atNS), b.by-a.by)
	})
	s := span{
		beginNS: steps[0].atNS,
		endNS:   steps[len(steps)-1].atNS,
	}
	inFlight := 0
	busy := map[int64]int{}
	for k, x := range steps {
		if inFlight == 0 && k > 0 {
			s.idleNS += x.atNS - steps[k-1].atNS
		}
		inFlight += x.by
		var agent int64
		if t.Session != nil {
			agent = t.Session[x.row]
		}
		busy[agent] += x.by
		if busy[agent] == 0 {
			delete(busy, agent)
		}
		s.atOnce = max(s.atOnce, int64(len(busy)))
	}
	return s
}

func (a *Agents) depths(t *trace.Trace) {
	depths := t.Depth
	var names []string
	if depths == nil {
		depths = make([]int32, t.Len())
	}
	for _, depth := range depths {
		for len(names) <= int(depth) {
			names = append(names, fmt.Sprint("depth ", len(names)))
		}
	}
	a.Depths = typesOf(t, names, func(i int) int {
		return int(depths[i])
	})
}

// turns counts how agents begin and end, and how prompts grow from turn to turn.
func (a *Agents) turns(t *trace.Trace, p *pictures) {
	var grown []int64
	graph := t.Graph(t.Len())
	var follow int64
	for i, before := range t.TurnsBefore(t.Len()) {
		has := func(relation trace.Relation) bool {
			return slices.ContainsFunc(graph.Of(i), func(w trace.Dependency) bool {
				return w.Relation == relation
			})
		}
		if has(trace.Spawn) {
			a.Spawns++
		}
		if has(trace.Join) {
			a.Joins++
		}
		if before == trace.NoTurn || len(t.Blocks(int(before))) == 0 {
			continue
		}
		was := t.Blocks(int(before))
		is := t.Blocks(i)
		same := agents.CommonPrefix(was, is)
		added := int64(t.InputTokens[i]) - int64(same*t.BlockTokens)
		grown = append(grown, max(0, added))
		follow++
		if 1000*same < keptPerMille*len(was) {
			a.Compactions++
		}
	}
	a.NewTokens = p.describe("New tokens of a follow-up turn", "", grown)
	if follow > 0 {
		a.CompactedShare = new(share(a.Compactions, follow))
	}
}

// keptPerMille is how much of the turn before a turn has at least at its begin, unless it was compacted. In Weka's
// traces 2 % of the follow-up turns have less.
const keptPerMille = 900

// recorded describes what the trace says of the server that was recorded.
func (a *Agents) recorded(t *trace.Trace) {
	known := func(ns []int64) []int64 {
		return slices.DeleteFunc(slices.Clone(ns), func(v int64) bool {
			return v < 0
		})
	}
	a.TookS = stats.Describe(known(t.TookNS), 1e9)
	a.TTFTS = stats.Describe(known(t.TTFTNS), 1e9)
	var hits, tokens int64
	for i, n := range t.Cached {
		if n >= 0 && t.InputTokens[i] > 0 {
			a.RecordedRows++
			hits += int64(n)
			tokens += int64(t.InputTokens[i])
		}
	}
	if tokens > 0 {
		a.RecordedHits = new(share(hits, tokens))
	}
}

// instants says what the instants of sub-agents were found to be.
func (a *Agents) instants() string {
	return strings.Join(format.Present(
		format.Some(a.EndedThen, "timed by their end"),
		format.Some(a.BegunThen, "timed by their begin"),
		format.Some(a.OwnClock, "on the job's clock"),
		format.Some(a.Background, "in the background"),
	), ", ")
}

// basis says what the times of sub-agents' requests count from, and how many show it; "" if there are none.
func (a *Agents) basis() string {
	if a.Basis == "" {
		return ""
	}
	all := a.EndedThen + a.BegunThen + a.OwnClock
	return fmt.Sprintf("%s: %d of %s", a.Basis, a.Shown, format.Many(all, "sub-agent"))
}

// inWords says how many jobs there are, and how deep their agents are.
func (a *Agents) inWords() string {
	jobs := format.Many(a.Jobs, "job")
	if a.SubAgentsPerJob.Max == 0 {
		return jobs
	}
	subAgents := format.Many(int64(a.SubAgentsPerJob.Max), "sub-agent")
	return jobs + " with up to " + subAgents + ", at most " + format.Count(len(a.Depths)-1) + " deep"
}
