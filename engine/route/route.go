// Package route decides which instance gets which request.
//
// It owns the choice, and the comparison of routers by the prefix hits that they make possible: no sockets, no clock. Its functions
// are pure; Ask alone starts goroutines, which end with it.
package route

import "math/rand/v2"

// Place is one address of one target.
type Place struct {
	Target   int // index of the target
	Endpoint int // index among the target's addresses
}

// Target is a server that requests may go to.
type Target struct {
	Endpoints int     // its addresses, at least 1
	Weight    float64 // its share of the requests against that of the others, above 0
}

// Even is targets of equal weight with so many addresses each.
func Even(endpoints []int) []Target {
	targets := make([]Target, len(endpoints))
	for i, n := range endpoints {
		targets[i] = Target{n, 1}
	}
	return targets
}

// RoundRobin gives n requests to the targets in turn, by their weights and as evenly spaced as possible (smooth weighted
// round robin, as in nginx). A target's requests go to its addresses in turn. With equal weights request i goes to
// target i mod T.
func RoundRobin(n int, targets []Target) []Place {
	places, next := make([]Place, n), inTurn(targets)
	credit, total := make([]float64, len(targets)), totalWeight(targets)
	for i := range places {
		best := 0
		for j, t := range targets {
			if credit[j] += t.Weight; credit[j] > credit[best] {
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
	places, next := make([]Place, n), inTurn(targets)
	draw := rand.New(rand.NewPCG(seed, routeStream))
	for i := range places {
		places[i] = next(byWeight(targets, draw.Float64()))
	}
	return places
}

// BySession gives all requests of a conversation to the same address. Which one follows from its number and the seed alone, as
// often as the targets' weights ask for.
func BySession(sessions []int64, targets []Target, seed uint64) []Place {
	places := make([]Place, len(sessions))
	for i, s := range sessions {
		draw := rand.New(rand.NewPCG(seed^routeStream, uint64(s)))
		t := byWeight(targets, draw.Float64())
		places[i] = Place{t, draw.IntN(targets[t].Endpoints)}
	}
	return places
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
	for i, t := range targets {
		if left -= t.Weight; left < 0 {
			return i
		}
	}
	return len(targets) - 1 // rounding
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
		p.address, p.name = map[string]string{}, map[string]string{}
	}
	knownAddress, known := p.address[name]
	knownName, knownToo := p.name[address]
	p.mixed = known && knownAddress != address || knownToo && knownName != name
	p.address[name], p.name[address] = address, name
}

// OneByOne reports whether no name has answered at two addresses, and no two names at one.
func (p *Pairs) OneByOne() bool { return !p.mixed }
