package engine

import (
	"net/netip"

	"github.com/fastreplay/fastreplay/codec/kvcache"
)

// IdealHits is what an ideal prefix cache of each request's instance would have held: unlimited, asked in planned order.
type IdealHits struct {
	Tokens []int64 // by request
	Bound  bool    // the most it could have held, since it is unknown how many of the server's own tokens come first
}

// IdealHits computes them for caches of engineBlock tokens a block, with head tokens of the server's before each prompt.
func (r *Recipe) IdealHits(w *Work, engineBlock, head int) IdealHits {
	caches := map[netip.AddrPort]*kvcache.Infinite{}
	hits := IdealHits{Tokens: make([]int64, w.Requests())}
	for i := range hits.Tokens {
		instance := w.peer(i)
		cache := caches[instance]
		if cache == nil {
			cache = kvcache.NewInfinite(w.Trace.BlockTokens, engineBlock)
			caches[instance] = cache
		}
		tokens := r.PromptTokens(int(w.Trace.InputTokens[i]))
		hits.Tokens[i] = int64(cache.Expected(w.Trace.Blocks(i), tokens, head, tokens+r.Overhead))
	}
	return hits
}
