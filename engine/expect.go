package engine

import (
	"net/netip"

	"github.com/fastreplay/fastreplay/codec/kvcache"
	"github.com/fastreplay/fastreplay/codec/record"
)

// IdealHits is what an ideal prefix cache of each request's instance would have held: unlimited, and asked in planned
// order, one request after the other.
type IdealHits struct {
	Expected []int64 // tokens by request, record.None of literals; nil where it is unknown how many of the server's own tokens precede a prompt
	// Least and Most bound what a cold cache can have held. Most allows for servers that cache smaller pieces than is
	// assumed of them.
	Least, Most []int64
}

// IdealHits computes them for the instances' block sizes.
func (w *Work) IdealHits() IdealHits {
	var h IdealHits
	low, high := w.Overhead.Head, w.Overhead.Head
	if w.Overhead.HeadUnknown {
		low, high = 0, w.Overhead.Tokens()
	}
	h.Least = w.idealHits(low, PrefixCache.block)
	h.Most = h.Least
	if w.assumesBlocks() || low != high {
		h.Most = w.idealHits(high, PrefixCache.finestBlock)
	}
	if !w.Overhead.HeadUnknown {
		h.Expected = h.Least
	}
	return h
}

func (c PrefixCache) block() int { return c.BlockTokens }

// finestBlock is the smallest piece that the cache may hold.
func (c PrefixCache) finestBlock() int {
	if c.Assumed {
		return 1
	}
	return c.BlockTokens
}

// assumesBlocks tells whether the block size of any instance is a guess.
func (w *Work) assumesBlocks() bool {
	for _, t := range w.Targets {
		for _, addr := range t.Peers {
			if w.cache(addr).Assumed {
				return true
			}
		}
	}
	return false
}

func (w *Work) idealHits(head int, block func(PrefixCache) int) []int64 {
	caches := map[netip.AddrPort]*kvcache.Infinite{}
	hits := make([]int64, w.Requests())
	for i := range hits {
		if !w.Made(i) {
			hits[i] = record.None
			continue
		}
		instance := w.peer(i)
		cache := caches[instance]
		if cache == nil {
			cache = kvcache.NewInfinite(w.Trace.BlockTokens, block(w.cache(instance)))
			caches[instance] = cache
		}
		hits[i] = int64(cache.Expected(w.Trace.Blocks(i), w.PromptTokens(i), head, w.builtTokens(i)))
	}
	return hits
}
