package sched

import "fmt"

// Part is one of Count parts of a load. The zero value is a load that is not divided.
type Part struct {
	Index int // from 0
	Count int
}

// Leads reports whether the part does what only one may do: cold start, warm-up and reading the servers' metrics.
func (p Part) Leads() bool { return p.Index == 0 }

// Of is the part's share of n that are divided evenly, such as a number of requests in flight. The first shards have
// one more if they do not come out even.
func (p Part) Of(n int) int { return (n + p.Count - 1 - p.Index) / p.Count }

// String is the part as --shard has it.
func (p Part) String() string { return fmt.Sprintf("%d/%d", p.Index, p.Count) }
