package route

import "github.com/fastreplay/fastreplay/codec/kvcache"

// DefaultBound is how many times its share of the requests in flight an instance may have before a prefix-aware router passes it
// over: consistent hashing with bounded loads (Mirrokni, Thorup, Zadimoghaddam, arXiv:1608.01350) with ε = 0.25, as liblb has it.
const DefaultBound = 1.25

// ByPrefix is the greedy prefix-aware router. Each request goes to the instance that holds the longest prefix of its prompt, in
// whole engine blocks, by what it was sent before; of several to the least loaded one: fewest in flight against its weight, then
// fewest so far, then the first. A prefix that is no longer than the template is none. With a bound above 0 an instance that
// would have more than bound times its share of what is in flight is passed over. The caches are empty before, of equally many
// instances as there are weights; it returns the instance of each request.
func ByPrefix(prompts *kvcache.Prompts, caches *kvcache.Fleet, f Flow, weights []float64, bound float64) []int32 {
	chosen := make([]int32, prompts.Len())
	among, who := kvcache.NewSet(len(weights)), kvcache.NewSet(len(weights))
	for k := range weights {
		among.Add(k)
	}
	l := newLoad(f, weights)
	for i := range chosen {
		l.come(i)
		if bound > 0 {
			l.within(bound, among)
		}
		caches.Longest(i, among, who)
		best := l.least(who)
		caches.Give(i, best)
		l.give(i, best)
		chosen[i] = int32(best)
	}
	return chosen
}

// Addresses are the places of all addresses of the targets, in order, and the weight of each: its part of the target's.
func Addresses(targets []Target) (places []Place, weights []float64) {
	for t, target := range targets {
		for peer := range target.Peers {
			places = append(places, Place{t, peer})
			weights = append(weights, target.Weight/float64(target.Peers))
		}
	}
	return places, weights
}
