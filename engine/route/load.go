package route

import (
	"container/heap"
	"math"

	"github.com/fastreplay/fastreplay/codec/kvcache"
)

// Flow says which requests are in flight together, as far as that is known before they are sent.
type Flow struct {
	ReleaseNS   []int64 // planned instants, ascending; nil in a closed loop
	LastNS      []int64 // how long each request is taken to be in flight; nil in a closed loop
	Concurrency int     // of a closed loop: the last so many requests are in flight
}

// load is how many requests each instance has in flight while a flow goes by.
type load struct {
	flow     Flow
	weights  []float64
	total    float64 // of the weights
	inFlight []int
	given    []int // so far
	ends     endings
	all      int // requests in flight
}

func newLoad(f Flow, weights []float64) *load {
	l := &load{flow: f, weights: weights, inFlight: make([]int, len(weights)), given: make([]int, len(weights))}
	for _, w := range weights {
		l.total += w
	}
	return l
}

// come ends what is not in flight any more when request i is released.
func (l *load) come(i int) {
	now := int64(i)
	if l.flow.ReleaseNS != nil {
		now = l.flow.ReleaseNS[i]
	}
	for len(l.ends) > 0 && l.ends[0].at <= now {
		l.inFlight[heap.Pop(&l.ends).(ending).instance]--
		l.all--
	}
}

// give notes that an instance has got request i.
func (l *load) give(i, instance int) {
	end := int64(i + max(1, l.flow.Concurrency))
	if l.flow.ReleaseNS != nil {
		end = l.flow.ReleaseNS[i] + l.flow.LastNS[i]
	}
	heap.Push(&l.ends, ending{end, instance})
	l.inFlight[instance]++
	l.given[instance]++
	l.all++
}

// within puts into set the instances that may take one more request: those that then have no more than bound times their share
// of what is in flight, rounded up. There always is one.
func (l *load) within(bound float64, set kvcache.Set) {
	clear(set)
	for k, n := range l.inFlight {
		most := bound * float64(l.all+1) * l.weights[k] / l.total
		if float64(n+1) <= math.Ceil(most-rounding) {
			set.Add(k)
		}
	}
}

// rounding keeps what is whole but for the last bits of a float from being rounded up.
const rounding = 1e-9

// least is the instance of a set that is the least loaded.
func (l *load) least(set kvcache.Set) int {
	best := set.Next(0)
	for k := set.Next(best + 1); k >= 0; k = set.Next(k + 1) {
		if Lighter(l.inFlight[k], l.given[k], l.weights[k], l.inFlight[best], l.given[best], l.weights[best]) {
			best = k
		}
	}
	return best
}

// Lighter tells whether an instance is less loaded than another: it has fewer requests in flight against its weight, or as many
// and got fewer so far.
func Lighter[N int | int64](inFlight, given N, weight float64, inFlight2, given2 N, weight2 float64) bool {
	x, y := float64(inFlight)*weight2, float64(inFlight2)*weight
	if x != y {
		return x < y
	}
	return float64(given)*weight2 < float64(given2)*weight
}

// endings are the ends of requests, the first on top.
type endings []ending

type ending struct {
	at       int64
	instance int
}

func (h endings) Len() int           { return len(h) }
func (h endings) Less(i, j int) bool { return h[i].at < h[j].at }
func (h endings) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *endings) Push(x any)        { *h = append(*h, x.(ending)) }
func (h *endings) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}
