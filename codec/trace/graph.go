package trace

import (
	"github.com/fastreplay/fastreplay/codec/trace/agents"
	"github.com/fastreplay/fastreplay/codec/trace/formats"
)

// Dependency is what a request waits for: from which moment of another one, and why. Where it is from a [Graph], On is
// the other request's place in the trace.
type (
	Dependency = agents.Dependency
	Trigger    = agents.Trigger
	Relation   = agents.Relation
)

// The triggers and the relations of dependencies, and the delay of one whose delay was not recorded.
const (
	OnCompletion = agents.OnCompletion
	OnDispatch   = agents.OnDispatch

	Sequence = agents.Sequence
	Spawn    = agents.Spawn
	Join     = agents.Join
	Barrier  = agents.Barrier

	NoDelay = agents.NoDelay
)

// SubAgents counts those of a file that says of each only one instant.
type SubAgents = formats.SubAgents

// Agents are the columns of a trace of agents: jobs, and what was recorded of each request. A job is a task that was
// given to an agent, with all requests of that agent and of its sub-agents. A conversation, see Trace.Session, is what
// one agent or sub-agent said. Columns that a file does not have are nil.
type Agents struct {
	Job   []int32 // index into Jobs, -1 = none
	Jobs  []string
	Depth []int32 // 0 = the job's first agent, 1 = its sub-agents, 2 = theirs
	// a bound on when the request is sent beside its dependencies, ns since the first selected request; -1 = none
	NotBeforeNS []int64
	TookNS      []int64 // from the request to the end of its answer, as recorded; -1 = not recorded
	TTFTNS      []int64 // from the request to the first token, as recorded; -1 = not recorded
	Cached      []int32 // tokens of the prompt that the recorded server had in its cache; -1 = not recorded
	SubAgents   SubAgents
}

// JobNumbers returns the number of each request's job, from 0 in order of arrival, and how many jobs there are. If the
// file has no jobs, each conversation is one; a request without either is a job of its own. Clones and repetitions, see
// [Trace.Repeat], are jobs of their own.
func (t *Trace) JobNumbers() (job []int32, n int) {
	type key struct {
		of    int64
		job   bool // of is a number of a job, else of a conversation
		clone int32
		again int32 // which repetition
	}
	keys := make([]key, t.Len())
	var seen map[uint64]int32 // repetitions of rows
	if t.repeated {
		seen = make(map[uint64]int32, t.Len())
	}
	for i := range keys {
		switch {
		case t.Job != nil && t.Job[i] >= 0:
			keys[i] = key{of: int64(t.Job[i]), job: true}
		case t.Session != nil:
			keys[i] = key{of: t.Session[i]}
		default:
			keys[i] = key{of: noSession(int(t.Row[i]))}
		}
		if t.Clone != nil {
			keys[i].clone = t.Clone[i]
		}
		if t.repeated {
			keys[i].again = seen[t.Unique(i)]
			seen[t.Unique(i)]++
		}
	}
	return inNumbers(keys)
}

// Streams numbers the conversations of the trace's first n requests, from 0 in order of arrival: an agent has one. Nil
// if the file has none.
func (t *Trace) Streams(n int) (of []int32) {
	if t.Session != nil {
		of, _ = inNumbers(t.Session[:n])
	}
	return of
}

// JobName returns the name of request i's job in the file, or else of its conversation; "" if neither has one.
func (t *Trace) JobName(i int) string {
	if t.Job != nil && t.Job[i] >= 0 {
		return t.Jobs[t.Job[i]]
	}
	name, _ := t.Conversation(i)
	return name
}

// HasDependencies reports whether the file says which requests depend on which. Else a request depends on the turn
// before it in its conversation.
func (t *Trace) HasDependencies() bool { return t.dependencies != nil }

// Dependencies are those of request i as the file has them, on rows by their numbers. The slice aliases the trace and
// must not be changed.
func (t *Trace) Dependencies(i int) []Dependency {
	if t.dependencies == nil {
		return nil
	}
	return t.dependencies.Row(i)
}

// Graph has what each of a trace's requests waits for.
type Graph struct {
	first        []int32 // request i has dependencies[first[i]:first[i+1]]
	dependencies []Dependency
}

// Of returns what request i waits for, requests before it in the trace. The slice must not be changed.
func (g *Graph) Of(i int) []Dependency {
	return g.dependencies[g.first[i]:g.first[i+1]]
}

// Len is the number of requests.
func (g *Graph) Len() int { return len(g.first) - 1 }

// Waits reports whether any request waits.
func (g *Graph) Waits() bool { return len(g.dependencies) > 0 }

// Graph returns what each of the trace's first n requests waits for. A dependency on a request that is not among those
// before it is left out. Without dependencies in the file, a request waits for the end of the turn before it, for the
// delay in DelayNS.
func (t *Trace) Graph(n int) *Graph {
	g := &Graph{first: make([]int32, n+1)}
	if t.Parent == nil {
		return g
	}
	latest := make(map[uint64]int32, n) // by row and clone, or by chat id
	for i := range n {
		key := uint64(t.Chat[i])
		if t.HasDependencies() {
			key = t.Unique(i)
		}
		for _, d := range t.Dependencies(i) {
			if on, known := latest[key>>32<<32|uint64(d.On)]; known {
				d.On = on
				g.dependencies = append(g.dependencies, d)
			}
		}
		on, known := latest[uint64(t.Parent[i])]
		if known && t.Parent[i] >= 0 && !t.HasDependencies() {
			d := Dependency{On: on, DelayNS: NoDelay}
			if t.DelayNS != nil {
				d.DelayNS = t.DelayNS[i]
			}
			g.dependencies = append(g.dependencies, d)
		}
		g.first[i+1] = int32(len(g.dependencies))
		latest[key] = int32(i)
	}
	return g
}
