package agents

import (
	"math"

	"github.com/fastreplay/fastreplay/codec/trace/lists"
)

// Order returns an order of requests in which each comes after what it depends on: their own, but for what must come
// first. On is a place, below 0 for a request that is not there. Requests whose dependencies lead back to themselves
// are in circles too.
func Order(dependencies *lists.Store[Dependency]) (order, circles []int32) {
	const inOrder = math.MaxInt32
	n := dependencies.Len()
	looked := make([]int32, n) // dependencies of a request so far; none is left when it is in the order
	place := make([]int32, n)  // on the path, from 1; 0 = not seen, inOrder = in the order
	back := make([]int32, n)   // of a request on the path: the first place to which it leads back, or one after it does
	order = make([]int32, 0, n)
	var path []int32 // each depends on the next one
	enter := func(i int32) {
		path = append(path, i)
		place[i] = int32(len(path))
		back[i] = inOrder
	}
	for i := range int32(n) {
		if place[i] == 0 {
			enter(i)
		}
		for len(path) > 0 {
			at := path[len(path)-1]
			list := dependencies.Row(int(at))[looked[at]:]
			if len(list) > 0 {
				looked[at]++
				on := list[0].On
				if on >= 0 && place[on] == 0 {
					enter(on)
				} else if on >= 0 {
					back[at] = min(back[at], place[on])
				}
				continue
			}
			if back[at] <= place[at] {
				circles = append(circles, at)
			}
			path = path[:len(path)-1]
			if len(path) > 0 {
				before := path[len(path)-1]
				back[before] = min(back[before], back[at])
			}
			place[at] = inOrder
			order = append(order, at)
		}
	}
	return order, circles
}

// Bridge returns the dependencies without requests that are left out: what depended on one of those depends on what
// that one depended on. Order is that of [Order], tookNS is how long requests took, nil or None where it is not known.
// The error is a [*LimitError].
func Bridge(
	dependencies *lists.Store[Dependency], order []int32, leftOut map[int32]bool, tookNS []int64, budget *Budget,
) (*lists.Store[Dependency], error) {
	all := make([][]Dependency, dependencies.Len())
	for _, i := range order {
		known := map[Dependency]bool{}
		for _, d := range dependencies.Row(int(i)) {
			switch {
			case d.On < 0 || d.On == i:
			case !leftOut[d.On]:
				all[i] = append(all[i], d)
				known[d] = true
			default:
				if err := budget.Take(len(all[d.On]), i, len(all)); err != nil {
					return nil, err
				}
				for _, before := range all[d.On] {
					before.Relation = d.Relation
					before.DelayNS = bridgedDelay(before, d, tookNS)
					if !known[before] {
						all[i] = append(all[i], before)
						known[before] = true
					}
				}
			}
		}
	}
	out := new(lists.Store[Dependency])
	for i, list := range all {
		if leftOut[int32(i)] {
			list = nil
		}
		out.Add(list)
	}
	return out, nil
}

// bridgedDelay is the delay over a request that is left out: d is on that one, which itself waits for before.
func bridgedDelay(before, d Dependency, tookNS []int64) int64 {
	took := int64(0)
	if d.Trigger == OnCompletion {
		took = None
		if tookNS != nil {
			took = tookNS[d.On]
		}
	}
	if before.DelayNS < 0 || d.DelayNS < 0 || took < 0 {
		return NoDelay
	}
	return After(before.DelayNS, took, d.DelayNS)
}
