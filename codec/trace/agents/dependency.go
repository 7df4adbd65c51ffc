// Package agents finds out what the requests of agents waited for, and what their prompts have in common, where a trace
// does not say it.
//
// Its functions know nothing of files and formats. They are pure, but for the [Budget] and the [Scopes] that a caller
// hands on from one to the next.
package agents

import "math"

// Trigger is the moment of a request from which the delay of one that depends on it counts.
type Trigger uint8

// The triggers.
const (
	OnCompletion Trigger = iota // its answer has ended, or it has failed
	OnDispatch                  // it has been sent
)

// TriggerNames are the triggers' names in Dynamo's traces.
func TriggerNames() []string {
	return []string{OnCompletion: "completion", OnDispatch: "dispatch"}
}

// String is the trigger's name in Dynamo's traces.
func (t Trigger) String() string { return TriggerNames()[t] }

// Relation is why a request depends on another. It changes nothing about when the request is sent.
type Relation uint8

// The relations, as in version 2 of Dynamo's agentic Mooncake traces.
const (
	Sequence Relation = iota // it is the next turn of the same agent
	Spawn                    // it is the first request of a sub-agent
	Join                     // it needs the result of a sub-agent
	Barrier                  // it was only held back until the other's trigger
)

// RelationNames are the relations' names in Dynamo's traces.
func RelationNames() []string {
	return []string{
		Sequence: "sequence",
		Spawn:    "spawn",
		Join:     "join",
		Barrier:  "replay_barrier",
	}
}

// String is the relation's name in Dynamo's traces.
func (r Relation) String() string { return RelationNames()[r] }

// NoDelay is the delay of a dependency whose delay was not recorded.
const NoDelay = -1

// Dependency is what a request waits for.
type Dependency struct {
	DelayNS  int64 // from the trigger on, at least 0; NoDelay = not recorded
	On       int32 // the other request: its number where the dependency is kept
	Trigger  Trigger
	Relation Relation
}

// None is what is not known of a request: how long it took, or what it continues.
const None = -1

// NoTime is the instant of a request that has none.
const NoTime = math.MinInt64

// After adds durations to an instant; unknown ones, below 0, are 0. What is beyond 292 years is the end of time.
func After(at int64, durations ...int64) int64 {
	for _, d := range durations {
		d = max(0, d)
		if at > math.MaxInt64-d {
			return math.MaxInt64
		}
		at += d
	}
	return at
}

// CommonPrefix is how many ids two lists begin with alike.
func CommonPrefix(a, b []uint64) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
