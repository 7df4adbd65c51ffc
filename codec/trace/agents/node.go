package agents

import "slices"

// Node is an agent or a sub-agent of a job.
type Node struct {
	Name   string  // unique among all nodes
	Kind   string  // of agent, such as Explore; "" = not said
	Calls  []int32 // places of its requests among all; [Link] brings them into order of time
	EndNS  int64   // when its result came back to its parent; NoTime = not known, so nothing waits for it
	Parent *Node   // nil = the job's first agent
	Subs   []*Node

	Root   *Node // the job's first agent; nil = Climb was not called
	Depth  int32 // below the root
	Circle bool  // it comes from itself, or from one that does
}

// MostDepth is how deep agents may start each other: a hand-over from session to session may go on for long. Functions
// call themselves for each. Weka's public trace of 48 jobs goes 1 deep.
const MostDepth = 1 << 16

// Climb finds Root, Depth and Circle from the parents. A node whose parents lead back to itself is as a first one.
func (n *Node) Climb() {
	var path []*Node
	at := n
	for ; at.Root == nil && at.Parent != nil; at = at.Parent {
		at.Root = at // until it is known
		path = append(path, at)
	}
	if at.Root == nil {
		at.Root = at
	}
	at.Circle = at.Circle || slices.Contains(path, at)
	for _, below := range slices.Backward(path) {
		below.Circle = below.Parent.Circle
		if !below.Circle {
			below.Root = below.Parent.Root
			below.Depth = below.Parent.Depth + 1
		}
	}
}
