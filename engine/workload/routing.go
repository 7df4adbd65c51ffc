package workload

import (
	"net/netip"
	"slices"

	"github.com/fastreplay/fastreplay/codec/kvcache"
	"github.com/fastreplay/fastreplay/codec/trace/lists"
	"github.com/fastreplay/fastreplay/engine/route"
	"github.com/fastreplay/fastreplay/sched"
)

// Routing is how the places of requests are found.
type Routing struct {
	Router  string         // by its name in package route; another: the fewest requests in flight decide
	Targets []route.Target // the work's, with their weights
	Seed    uint64
	Bound   float64              // of the prefix-aware router; 0 = none
	Assumed sched.AssumedLatency // how long requests are in flight, as that router reckons
	Late    bool                 // each request's place is settled when it leaves: till then it is a guess
}

// Placed is the place of each request as the router plans it among some targets, which are the work's with weights of
// their own. Requests that have been released, in that order, keep their places; the router knows what they left in
// caches.
func (w *Work) Placed(targets []route.Target, released []int32) []route.Place {
	places := make([]route.Place, w.Requests())
	is := make([]bool, w.Requests())
	for _, i := range released {
		places[i] = w.Places[i]
		is[i] = true
	}
	open := lists.UpTo(w.Requests())
	open = slices.DeleteFunc(open, func(i int32) bool { return is[i] })
	var chosen []route.Place
	switch w.Routing.Router {
	case route.PrefixName:
		chosen = w.byPrefix(targets, released, open)
	case route.RandomName:
		chosen = route.Random(len(open), targets, w.Routing.Seed)
	case route.SessionName:
		chosen = route.BySession(lists.Pick(open, w.Trace.Session), targets, w.Routing.Seed)
	default:
		chosen = route.RoundRobin(len(open), targets)
	}
	for k, i := range open {
		places[i] = chosen[k]
	}
	return places
}

// byPrefix gives each open request to the instance that holds the longest prefix of its prompt; see route.ByPrefix.
func (w *Work) byPrefix(targets []route.Target, released, open []int32) (places []route.Place) {
	own := *w
	own.Routing.Targets = targets
	s := own.Servers()
	all := slices.Concat(released, open)
	prompts := w.Prompts(all)
	caches := kvcache.NewFleet(prompts, w.BlockTokens(), s.Capacity)
	var went []int32
	for _, i := range released {
		went = append(went, s.Of[w.Places[i]])
	}
	chosen := route.ByPrefix(prompts, caches, w.Flow(all), s.Weights, w.Routing.Bound, went...)
	for _, k := range chosen[len(released):] {
		places = append(places, s.places[k])
	}
	return places
}

// Prompts are the prompts of some requests as prefix caches know them.
func (w *Work) Prompts(of []int32) *kvcache.Prompts {
	blockTokens := w.Trace.BlockTokens
	head := w.Overhead.Head
	made := slices.ContainsFunc(of, func(i int32) bool {
		return w.Made(int(i))
	})
	if !made && w.Verbatim != nil {
		blockTokens = w.Verbatim.BlockTokens
		head = 0
	}
	p := kvcache.NewPrompts(blockTokens, head)
	for _, i := range of {
		c, known := w.CachePrompt(int(i))
		alike := c.BlockTokens == blockTokens && c.Head == head
		if known && alike {
			p.Add(c.Blocks, c.Tokens, c.Total)
		} else {
			p.AddText(w.Trace.Verbatim(int(i)).Content)
		}
	}
	return p
}

// Flow is how long some requests are in flight, as assumed.
func (w *Work) Flow(of []int32) route.Flow {
	if !w.Plan.Open() {
		return route.Flow{Concurrency: w.Plan.Concurrency}
	}
	f := route.Flow{ReleaseNS: lists.Pick(of, w.Plan.ReleaseNS)}
	for _, output := range lists.Pick(of, w.Trace.OutputTokens) {
		f.LastNS = append(f.LastNS, w.Routing.Assumed.LastNS(output))
	}
	return f
}

// BlockTokens is the block size of the instances' caches, which are taken to be alike.
func (w *Work) BlockTokens() int {
	return w.Cache(w.Targets[0].Endpoints[0]).BlockTokens
}

// Servers are the distinct addresses of a work's targets, each with a cache of its own: names may share one.
type Servers struct {
	Targets  []route.Target // that have these addresses, in order
	Weights  []float64
	places   []route.Place // the first of each
	Of       map[route.Place]int32
	Capacity []int64 // tokens of each one's cache; 0 = unlimited or unknown
}

// Servers lists the work's addresses, each once.
func (w *Work) Servers() Servers {
	places, weights := route.Addresses(w.Routing.Targets)
	s := Servers{
		Targets: w.Routing.Targets,
		Of:      make(map[route.Place]int32, len(places)),
	}
	index := map[netip.AddrPort]int32{}
	for k, place := range places {
		addr := w.Targets[place.Target].Endpoints[place.Endpoint]
		i, known := index[addr]
		if !known {
			i = int32(len(s.places))
			index[addr] = i
			s.places = append(s.places, place)
			s.Weights = append(s.Weights, 0)
			s.Capacity = append(s.Capacity, w.Cache(addr).Tokens)
		}
		s.Weights[i] += weights[k]
		s.Of[place] = i
	}
	if len(s.places) < len(places) {
		s.Targets = make([]route.Target, len(s.places))
		for i, weight := range s.Weights {
			s.Targets[i] = route.Target{
				Weight:    weight,
				Endpoints: 1,
			}
		}
	}
	return s
}
