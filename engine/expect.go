package engine

import (
	"net/netip"

	"github.com/fastreplay/fastreplay/codec/kvcache"
)

// IdealHits is what an ideal prefix cache of each request's instance would have held: unlimited, and asked in planned
// order, one request after the other.
type IdealHits struct {
	// Tokens by request: the least and the most that it could have held. They are one slice where it is known how many
	// of the server's own tokens precede a prompt.
	Least, Most []int64
	Known       bool
}

// IdealHits computes them for the instances' block sizes.
func (w *Work) IdealHits() IdealHits {
	if w.Overhead.HeadUnknown {
		return IdealHits{Least: w.idealHits(0), Most: w.idealHits(w.Overhead.Tokens())}
	}
	hits := w.idealHits(w.Overhead.Head)
	return IdealHits{Least: hits, Most: hits, Known: true}
}

func (w *Work) idealHits(head int) []int64 {
	caches := map[netip.AddrPort]*kvcache.Infinite{}
	hits := make([]int64, w.Requests())
	for i := range hits {
		instance := w.peer(i)
		cache := caches[instance]
		if cache == nil {
			cache = kvcache.NewInfinite(w.Trace.BlockTokens, w.cache(instance).BlockTokens)
			caches[instance] = cache
		}
		hits[i] = int64(cache.Expected(w.Trace.Blocks(i), w.PromptTokens(i), head, w.builtTokens(i)))
	}
	return hits
}
