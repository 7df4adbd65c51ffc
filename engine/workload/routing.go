package workload

import (
	"slices"

	"github.com/fastreplay/fastreplay/codec/kvcache"
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
	s := w.Servers()
	all := w.everyRequest()
	prompts := w.Prompts(all)
	caches := kvcache.NewFleet(prompts, w.BlockTokens(), s.Capacity)
	w.Places = make([]route.Place, w.Requests())
	for i, k := range route.ByPrefix(prompts, caches, w.Flow(all), s.Weights, w.Routing.Bound) {
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

// Prompts are the prompts of some requests as prefix caches know them.
func (w *Work) Prompts(of []int32) *kvcache.Prompts {
	blockTokens, head := w.Trace.BlockTokens, w.Overhead.Head
	made := slices.ContainsFunc(of, func(i int32) bool { return w.Made(int(i)) })
	if !made && w.Verbatim != nil {
		blockTokens, head = w.Verbatim.BlockTokens, 0
	}
	p := kvcache.NewPrompts(blockTokens, head)
	for _, i := range of {
		if c, ok := w.CachePrompt(int(i)); ok && c.blockTokens == blockTokens && c.Head == head {
			p.Add(c.Blocks, c.Tokens, c.Total)
		} else {
			p.AddText(w.Trace.Literal(int(i)).Content)
		}
	}
	return p
}

// Flow is how long some requests are in flight, as assumed.
func (w *Work) Flow(of []int32) route.Flow {
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

// BlockTokens is the block size of the instances' caches, which are taken to be alike.
func (w *Work) BlockTokens() int { return w.Cache(w.Targets[0].Peers[0]).BlockTokens }
