package audit

import (
	"maps"
	"slices"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/route"
	"github.com/fastreplay/fastreplay/engine/workload"
)

// CompareRouters compares where the requests went with where other routers would have sent them, in the plan's order.
// It compares by address or, behind gateways, by the instances that answers name. It is nil where there is one of
// either. Without fates, and their names, it takes all requests as sent.
func CompareRouters(w *workload.Work, fates []Fate, of *Names) *route.Oracle {
	s := w.Servers()
	q := route.Question{
		Targets:        s.Targets,
		Seed:           w.Routing.Seed,
		Bound:          route.DefaultBound,
		BlockTokens:    w.BlockTokens(),
		CapacityTokens: s.Capacity,
	}
	if w.Routing.Bound > 0 {
		q.Bound = w.Routing.Bound
	}
	var sent []int32
	if names := of.behindGateways(w, fates); len(names) > 1 {
		sent, q.Actual, q.CapacityTokens = of.byInstance(w, fates, names)
		each := slices.Repeat([]int{1}, len(names))
		q.Targets = route.Even(each)
	} else {
		for i := range w.Requests() {
			if fates == nil || fates[i].SentNS != record.None {
				sent = append(sent, int32(i))
				q.Actual = append(q.Actual, s.Of[w.Places[i]])
			}
		}
	}
	places, _ := route.Addresses(q.Targets)
	if len(places) < 2 || len(sent) == 0 {
		return nil
	}
	if fates != nil {
		for _, i := range sent {
			q.Failed = append(q.Failed, !fates[i].Profiled || fates[i].Outcome != record.OK)
		}
	}
	q.Prompts = w.Prompts(sent)
	q.Flow = w.Flow(sent)
	if w.Trace.Session != nil {
		for _, i := range sent {
			q.Sessions = append(q.Sessions, w.Trace.Session[i])
		}
	}
	return route.Ask(q)
}

// behindGateways are the instances that answers name, sorted; nil where each is an address of its own.
func (n *Names) behindGateways(w *workload.Work, fates []Fate) []string {
	var pairs route.Pairs
	names := map[string]bool{}
	for i := range fates {
		if name := n.list[fates[i].instance]; name != "" {
			names[name] = true
			pairs.Add(name, w.Endpoint(i).String())
		}
	}
	if pairs.OneByOne() {
		return nil
	}
	return slices.Sorted(maps.Keys(names))
}

// byInstance lists the requests that an instance answered, and that instance as an index of names, which are sorted.
// capacity is that of each instance's cache, taken from the address at which it answered first.
func (n *Names) byInstance(w *workload.Work, fates []Fate, names []string) (of, instances []int32, capacity []int64) {
	capacity = make([]int64, len(names))
	seen := make([]bool, len(names))
	for i := range fates {
		k, known := slices.BinarySearch(names, n.list[fates[i].instance])
		if !known {
			continue
		}
		of = append(of, int32(i))
		instances = append(instances, int32(k))
		if !seen[k] {
			seen[k] = true
			capacity[k] = w.Cache(w.Endpoint(i)).Tokens
		}
	}
	return of, instances, capacity
}
