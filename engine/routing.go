package engine

import (
	"maps"
	"slices"

	"github.com/fastreplay/fastreplay/codec/kvcache"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/route"
	"github.com/fastreplay/fastreplay/sched"
)

// Routing is how the places of requests are found.
type Routing struct {
	Targets       []route.Target // the work's, with their weights
	Seed          uint64
	Bound         float64       // of the prefix-aware router; 0 = none
	Assumed       sched.Assumed // how long requests are in flight, as that router reckons
	LeastInFlight bool          // each request's place is decided when it leaves: till then it is a guess
}

// RouteByPrefix gives each request to the instance that holds the longest prefix of its prompt; see route.ByPrefix.
func (w *Work) RouteByPrefix() {
	s := w.servers()
	all := w.everyRequest()
	prompts := w.prompts(all)
	caches := kvcache.NewFleet(prompts, w.blockTokens(), s.capacity)
	w.Places = make([]route.Place, w.Requests())
	for i, k := range route.ByPrefix(prompts, caches, w.flow(all), s.weights, w.Routing.Bound) {
		w.Places[i] = s.places[k]
	}
}

func (w *Work) everyRequest() []int32 {
	all := make([]int32, w.Requests())
	for i := range all {
		all[i] = int32(i)
	}
	return all
}

// prompts are the prompts of some requests as prefix caches know them.
func (w *Work) prompts(of []int32) *kvcache.Prompts {
	blockTokens, head := w.Trace.BlockTokens, w.Overhead.Head
	made := slices.ContainsFunc(of, func(i int32) bool { return w.Made(int(i)) })
	if !made && w.Verbatim != nil {
		blockTokens, head = w.Verbatim.blockTokens, 0
	}
	p := kvcache.NewPrompts(blockTokens, head)
	for _, i := range of {
		if c, ok := w.cachePrompt(int(i)); ok && c.blockTokens == blockTokens && c.head == head {
			p.Add(c.blocks, c.tokens, c.total)
		} else {
			p.AddText(w.Trace.Literal(int(i)).Content)
		}
	}
	return p
}

// flow is how long some requests are in flight, as assumed.
func (w *Work) flow(of []int32) route.Flow {
	if !w.Plan.Open() {
		return route.Flow{Concurrency: w.Plan.Concurrency}
	}
	f := route.Flow{ReleaseNS: make([]int64, len(of)), LastNS: make([]int64, len(of))}
	for j, i := range of {
		f.ReleaseNS[j] = w.Plan.ReleaseNS[i]
		f.LastNS[j] = w.Routing.Assumed.LastNS(w.Trace.OutputTokens[i])
	}
	return f
}

// blockTokens is the block size of the instances' caches, which are taken to be alike.
func (w *Work) blockTokens() int { return w.cache(w.Targets[0].Peers[0]).BlockTokens }

// Oracle compares where the requests went with where other routers would have sent them, in the plan's order: by address, or where
// gateways stand there by the instances that answers name. It is nil where there is one of either. Call it after Do.
func (r *Run) Oracle() *route.Oracle {
	w := r.work
	s := w.servers()
	q := route.Question{Targets: s.targets, Seed: w.Routing.Seed, Bound: route.DefaultBound, BlockTokens: w.blockTokens(), CapacityTokens: s.capacity}
	if w.Routing.Bound > 0 {
		q.Bound = w.Routing.Bound
	}
	var of []int32
	if names := r.behindGateways(); len(names) > 1 {
		of, q.Actual, q.CapacityTokens = r.byInstance(names)
		q.Targets = route.Even(slices.Repeat([]int{1}, len(names)))
	} else {
		of, q.Actual = r.byAddress(&s)
	}
	if places, _ := route.Addresses(q.Targets); len(places) < 2 || len(of) == 0 {
		return nil
	}
	q.Prompts, q.Flow = w.prompts(of), w.flow(of)
	if w.Trace.Session != nil {
		for _, i := range of {
			q.Sessions = append(q.Sessions, w.Trace.Session[i])
		}
	}
	return route.Ask(q)
}

// behindGateways are the instances that answers name, sorted; nil where each is an address of its own.
func (r *Run) behindGateways() []string {
	var pairs route.Pairs
	names := map[string]bool{}
	for i := range r.records {
		if rec := &r.records[i]; rec.Instance != "" {
			names[rec.Instance] = true
			pairs.Add(rec.Instance, rec.Peer)
		}
	}
	if pairs.OneByOne() {
		return nil
	}
	return slices.Sorted(maps.Keys(names))
}

// byInstance is which requests an instance answered, which one, as an index of names, and the capacity of each one's cache, as the
// address has it at which it answered first.
func (r *Run) byInstance(names []string) (of, instances []int32, capacity []int64) {
	index := map[string]int32{}
	for k, name := range names {
		index[name] = int32(k)
	}
	capacity = make([]int64, len(names))
	seen := make([]bool, len(names))
	for i := range r.records {
		k, known := index[r.records[i].Instance]
		if !known {
			continue
		}
		of, instances = append(of, int32(i)), append(instances, k)
		if !seen[k] {
			seen[k], capacity[k] = true, r.work.cache(r.work.peer(i)).Tokens
		}
	}
	return of, instances, capacity
}

// byAddress is which requests were sent, and to which of the servers.
func (r *Run) byAddress(s *servers) (of, instances []int32) {
	for i := range r.records {
		if r.records[i].SentNS != record.None {
			of, instances = append(of, int32(i)), append(instances, s.of[r.work.Places[i]])
		}
	}
	return of, instances
}
