package engine

import (
	"net/netip"

	"github.com/fastreplay/fastreplay/codec/kvcache"
	"github.com/fastreplay/fastreplay/codec/record"
)

// IdealHits is what an ideal prefix cache of each request's instance would have held: unlimited, and asked in planned
// order, one request after the other.
type IdealHits struct {
	Expected []int64 // tokens by request, record.None where a literal's tokens are not known; nil where it is unknown how many of the server's own tokens precede a prompt
	// Least and Most bound what a cold cache can have held. Most allows for servers that cache smaller pieces than is
	// assumed of them.
	Least, Most []int64
}

// IdealHits computes them for the instances' block sizes.
func (w *Work) IdealHits() IdealHits {
	m := w.newIdealModel()
	h := m.room(w.Requests())
	for i := range w.Requests() {
		m.ask(i, &h)
	}
	return h
}

// idealModel is an ideal cache of each instance, shown requests one after the other.
type idealModel struct {
	work        *Work
	least, most *idealCaches // most is nil where it is as least
}

func (w *Work) newIdealModel() *idealModel {
	low, high := w.Overhead.Head, w.Overhead.Head
	if w.Overhead.HeadUnknown {
		low, high = 0, w.Overhead.Tokens()
	}
	m := &idealModel{work: w, least: newIdealCaches(low, PrefixCache.block)}
	if w.assumesBlocks() || low != high {
		m.most = newIdealCaches(high, PrefixCache.finestBlock)
	}
	return m
}

// room is for the hits of n requests.
func (m *idealModel) room(n int) (h IdealHits) {
	h.Least = make([]int64, n)
	h.Most = h.Least
	if m.most != nil {
		h.Most = make([]int64, n)
	}
	if !m.work.Overhead.HeadUnknown {
		h.Expected = h.Least
	}
	return h
}

// ask finds the hits of request i, which comes after all that were asked about before.
func (m *idealModel) ask(i int, h *IdealHits) {
	h.Least[i] = m.least.ask(m.work, i)
	if m.most != nil {
		h.Most[i] = m.most.ask(m.work, i)
	}
}

// note puts what is expected of request i into its record.
func (h *IdealHits) note(i int, rec *record.Record) {
	if h.Most != nil {
		rec.LeastCachedTokens, rec.MostCachedTokens = h.Least[i], h.Most[i]
	}
	if h.Expected != nil {
		rec.ExpectedCachedTokens = h.Expected[i]
	}
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

// idealCaches are caches by instance, for templates with so many tokens before the text.
type idealCaches struct {
	head  int
	block func(PrefixCache) int
	of    map[cacheKey]*kvcache.Infinite
}

// cacheKey names a model cache: prompts that are made and those that are there word for word have nothing in common but a template.
type cacheKey struct {
	instance netip.AddrPort
	made     bool
}

func newIdealCaches(head int, block func(PrefixCache) int) *idealCaches {
	return &idealCaches{head, block, map[cacheKey]*kvcache.Infinite{}}
}

func (c *idealCaches) ask(w *Work, i int) int64 {
	p, ok := w.cachePrompt(i)
	if !ok {
		return record.None
	}
	if w.Made(i) {
		p.head = c.head
	}
	key, block := cacheKey{w.peer(i), w.Made(i)}, c.block(w.cache(w.peer(i)))
	cache := c.of[key]
	if cache == nil {
		cache = kvcache.NewInfinite(p.blockTokens, block)
		c.of[key] = cache
	}
	held := cache.Expected(p.blocks, p.tokens, p.head, p.total)
	if !key.made && block < p.blockTokens { // more of the next block may be shared than its hash tells
		held = min(held+p.blockTokens-block, p.total-1)
	}
	return int64(held)
}
