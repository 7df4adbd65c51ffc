// Package route decides which instance gets which request.
//
// It owns the choice, and the comparison of routers by the prefix hits that they make possible: no sockets, no clock.
// Its functions are pure; Ask alone starts goroutines, which end with it.
//
// The package is not an API: any release may change it.
package route

import (
	"container/heap"
	"math"
	"math/rand/v2"

	"github.com/fastreplay/fastreplay/codec/kvcache"
)

// Place is one address of one target.
type Place struct {
	Target   int // index of the target
	Endpoint int // index among the target's addresses
}

// Target is a server that requests may go to.
type Target struct {
	Endpoints int     // its addresses, at least 1
	Weight    float64 // its share of the requests against that of the others; 0 = it gets none
}

// Even is targets of equal weight with so many addresses each.
func Even(endpoints []int) []Target {
	targets := make([]Target, len(endpoints))
	for i, n := range endpoints {
		targets[i] = Target{n, 1}
	}
	return targets
}

// RoundRobin gives n requests to the targets in turn, by their weights and as evenly spaced as possible (smooth
// weighted round robin, as in nginx). A target's requests go to its addresses in turn. With equal weights request i
// goes to target i mod T.
func RoundRobin(n int, targets []Target) []Place {
	places := make([]Place, n)
	next := inTurn(targets)
	credit := make([]float64, len(targets))
	total := totalWeight(targets)
	for i := range places {
		best := 0
		for j, t := range targets {
			credit[j] += t.Weight
			if credit[j] > credit[best] {
				best = j
			}
		}
		credit[best] -= total
		places[i] = next(best)
	}
	return places
}

// Random gives each of n requests to a random target, in the mean by the targets' weights. Equal seeds choose alike.
func Random(n int, targets []Target, seed uint64) []Place {
	places := make([]Place, n)
	next := inTurn(targets)
	draw := rand.New(rand.NewPCG(seed, routeStream))
	for i := range places {
		places[i] = next(byWeight(targets, draw.Float64()))
	}
	return places
}

// BySession gives all requests of a conversation to the same address. Which one follows from its number and the seed
// alone, as often as the weights ask for. If a target is added, only conversations move that go there. If one's weight
// becomes 0, only its own move. (Rendezvous hashing: Thaler and Ravishankar, IEEE/ACM ToN 6(1), 1998.)
func BySession(sessions []int64, targets []Target, seed uint64) []Place {
	all, weights := Addresses(targets)
	home := map[int64]Place{}
	places := make([]Place, len(sessions))
	for i, s := range sessions {
		place, known := home[s]
		if !known {
			place = all[rendezvous(seed, uint64(s), weights)]
			home[s] = place
		}
		places[i] = place
	}
	return places
}

// rendezvous is where a conversation goes. Each address draws a time for it, exponentially distributed with its weight
// as the rate. The first one wins, as often as its weight asks for.
func rendezvous(seed, session uint64, weights []float64) (first int) {
	draw := rand.New(rand.NewPCG(seed^routeStream, session))
	least := math.Inf(1)
	for k, weight := range weights {
		if at := draw.ExpFloat64() / weight; at < least {
			first = k
			least = at
		}
	}
	return first
}

// routeStream keeps these draws apart from others of the same seed.
const routeStream = 0x726f757465 // "route"

func totalWeight(targets []Target) float64 {
	total := 0.0
	for _, t := range targets {
		total += t.Weight
	}
	return total
}

// byWeight is the target at a share (0 to 1) of all weights.
func byWeight(targets []Target, share float64) int {
	left := share * totalWeight(targets)
	last := 0
	for i, t := range targets {
		if left -= t.Weight; left < 0 {
			return i
		}
		if t.Weight > 0 {
			last = i
		}
	}
	return last // rounding
}

// inTurn returns a function that takes a target's addresses in turn.
func inTurn(targets []Target) func(target int) Place {
	used := make([]int, len(targets))
	return func(target int) Place {
		used[target]++
		return Place{target, (used[target] - 1) % targets[target].Endpoints}
	}
}

// Pairs checks whether each name by which an instance answers belongs to one address, and each address to one name. If
// so, the requests were routed here; if not, a gateway routed them. The zero value is ready.
type Pairs struct {
	address map[string]string // by name
	name    map[string]string // by address
	mixed   bool
}

// Add counts an answer of the named instance at an address. It ignores an empty name or address.
func (p *Pairs) Add(name, address string) {
	if name == "" || address == "" || p.mixed {
		return
	}
	if p.address == nil {
		p.address = map[string]string{}
		p.name = map[string]string{}
	}
	knownAddress, known := p.address[name]
	knownName, knownToo := p.name[address]
	p.mixed = known && knownAddress != address || knownToo && knownName != name
	p.address[name] = address
	p.name[address] = name
}

// OneByOne reports whether no name has answered at two addresses, and no two names at one.
func (p *Pairs) OneByOne() bool { return !p.mixed }

// DefaultBound is how many times its share of the requests in flight an instance may have before a prefix-aware router
// passes it over. It is that of consistent hashing with bounded loads (Mirrokni, Thorup, Zadimoghaddam,
// arXiv:1608.01350) with ε = 0.25, as in liblb.
const DefaultBound = 1.25

// ByPrefix is the greedy prefix-aware router. Each request goes to the instance that holds the longest prefix of its
// prompt, in whole engine blocks, by what it was sent before. Of several it goes to the least loaded one: fewest in
// flight against its weight, then fewest so far, then the first. A prefix that is no longer than the template does not
// count. Instances of weight 0 are passed over. With a bound above 0, so is one that would have more than bound
// times its share of what is in flight. The caches must be empty, with as many instances as there are weights. went
// are the instances of the first requests, where that is settled. ByPrefix returns the instance of each request.
func ByPrefix(
	prompts *kvcache.Prompts, caches *kvcache.Fleet, f Flow, weights []float64, bound float64, went ...int32,
) []int32 {
	chosen := make([]int32, prompts.Len())
	among := kvcache.NewSet(len(weights))
	who := kvcache.NewSet(len(weights))
	for k, weight := range weights {
		if weight > 0 {
			among.Add(k)
		}
	}
	l := newLoad(f, weights)
	for i := range chosen {
		l.advance(i)
		best := 0
		if i < len(went) {
			best = int(went[i])
		} else {
			if bound > 0 {
				l.within(bound, among)
			}
			caches.Longest(i, among, who)
			best = l.least(who)
		}
		caches.Give(i, best)
		l.assign(i, best)
		chosen[i] = int32(best)
	}
	return chosen
}

// Addresses are the places of all addresses of the targets, in order, and the weight of each: its part of the target's.
func Addresses(targets []Target) (places []Place, weights []float64) {
	for t, target := range targets {
		for endpoint := range target.Endpoints {
			places = append(places, Place{t, endpoint})
			weights = append(weights, target.Weight/float64(target.Endpoints))
		}
	}
	return places, weights
}

// Flow is which requests are in flight together, as far as that is known before they are sent.
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
	given    []int   // so far
	ends     endings // of the requests in flight
}

func newLoad(f Flow, weights []float64) *load {
	l := &load{
		flow:     f,
		weights:  weights,
		inFlight: make([]int, len(weights)),
		given:    make([]int, len(weights)),
	}
	for _, w := range weights {
		l.total += w
	}
	return l
}

// advance ends what is not in flight any more when request i is released.
func (l *load) advance(i int) {
	now := int64(i)
	if l.flow.ReleaseNS != nil {
		now = l.flow.ReleaseNS[i]
	}
	for len(l.ends) > 0 && l.ends[0].at <= now {
		l.inFlight[heap.Pop(&l.ends).(ending).instance]--
	}
}

// assign notes that an instance has got request i.
func (l *load) assign(i, instance int) {
	end := int64(i + max(1, l.flow.Concurrency))
	if l.flow.ReleaseNS != nil {
		end = l.flow.ReleaseNS[i] + l.flow.LastNS[i]
	}
	heap.Push(&l.ends, ending{end, instance})
	l.inFlight[instance]++
	l.given[instance]++
}

// within sets set to the instances that may take one more request. Those then have no more than bound times their share
// of what is in flight, rounded up. There always is one.
func (l *load) within(bound float64, set kvcache.Set) {
	clear(set)
	for k, n := range l.inFlight {
		most := bound * float64(len(l.ends)+1) * l.weights[k] / l.total
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

// Lighter reports whether an instance is less loaded than another. It then has fewer requests in flight against its
// weight, or as many and got fewer so far.
func Lighter[N int | int64](inFlight, given N, weight float64, inFlight2, given2 N, weight2 float64) bool {
	x := float64(inFlight) * weight2
	y := float64(inFlight2) * weight
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

func (h endings) Len() int { return len(h) }
func (h endings) Less(i, j int) bool {
	return h[i].at < h[j].at
}
func (h endings) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
}
func (h *endings) Push(x any) { *h = append(*h, x.(ending)) }
func (h *endings) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}
