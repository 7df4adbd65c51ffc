package workload

import (
	"net/netip"
	"slices"

	"github.com/fastreplay/fastreplay/codec/kvcache"
	"github.com/fastreplay/fastreplay/codec/record"
)

// IdealHits is what an ideal prefix cache of each request's instance would have held: unlimited, and asked by one
// request after the other. It holds the answers that servers are told, too, but none that are free.
type IdealHits struct {
	// tokens by request, record.None where the tokens of verbatim content are not known; nil where it is unknown how
	// many of the server's own tokens precede a prompt
	Expected []int64
	// Least and Most bound what a cold cache can have held. Most allows for servers that cache smaller pieces than is
	// assumed of them.
	Least, Most []int64
}

// IdealHits computes them for the instances' block sizes and the planned order.
func (w *Work) IdealHits() IdealHits {
	m := w.NewIdealModel()
	h := m.Room(w.Requests())
	for i := range w.Requests() {
		m.Observe(i, &h)
	}
	return h
}

// IdealModel is an ideal cache of each instance, shown requests one after the other.
type IdealModel struct {
	work        *Work
	least, most *idealCaches // most is nil where it is as least
}

// NewIdealModel returns a model that has seen no request yet.
func (w *Work) NewIdealModel() *IdealModel {
	low := w.Overhead.Head
	high := w.Overhead.Head
	if w.Overhead.HeadUnknown {
		low = 0
		high = w.Overhead.Tokens()
	}
	m := &IdealModel{
		work:  w,
		least: newIdealCaches(low, PrefixCache.block),
	}
	if w.assumesBlocks() || low != high {
		m.most = newIdealCaches(high, PrefixCache.FinestBlock)
	}
	return m
}

// Room is for the hits of n requests.
func (m *IdealModel) Room(n int) (h IdealHits) {
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

// Observe finds the hits of request i, which comes after all that were asked about before.
func (m *IdealModel) Observe(i int, h *IdealHits) {
	h.Least[i] = m.least.ask(m.work, i)
	if m.most != nil {
		h.Most[i] = m.most.ask(m.work, i)
	}
}

// PrimedTokens is how many tokens of prompts are in caches because requests that prepare have brought them there, if
// nothing else does. It is about requests that come after those, and that counts has. It is unknown, false, where ideal
// hits are.
func (w *Work) PrimedTokens(counts func(i int) bool) (tokens int64, known bool) {
	if w.Overhead.HeadUnknown {
		return 0, false
	}
	caches := newIdealCaches(w.Overhead.Head, PrefixCache.block)
	prepare := int(w.Plan.Dependencies.Prepare)
	for i := range prepare {
		caches.ask(w, i)
	}
	for i := prepare; i < w.Requests(); i++ {
		p, ok := w.CachePrompt(i)
		cache := caches.of[w.cacheKey(i)]
		if ok && cache != nil && counts(i) {
			tokens += int64(cache.Held(p.Blocks, p.Tokens, p.Head, p.Total))
		}
	}
	return tokens, true
}

// FillRecord puts what is expected of request i into its record.
func (h *IdealHits) FillRecord(i int, rec *record.Record) {
	if h.Most != nil {
		rec.LeastCachedTokens = h.Least[i]
		rec.MostCachedTokens = h.Most[i]
	}
	if h.Expected != nil {
		rec.ExpectedCachedTokens = h.Expected[i]
	}
}

func (c PrefixCache) block() int { return c.BlockTokens }

// FinestBlock is the smallest piece that the cache may hold.
func (c PrefixCache) FinestBlock() int {
	if c.Assumed {
		return 1
	}
	return c.BlockTokens
}

// assumesBlocks reports whether the block size of any instance is a guess.
func (w *Work) assumesBlocks() bool {
	return slices.ContainsFunc(w.Targets, func(t Target) bool {
		return slices.ContainsFunc(t.Endpoints, func(addr netip.AddrPort) bool {
			return w.Cache(addr).Assumed
		})
	})
}

// idealCaches are caches by instance, for templates with so many tokens before the text.
type idealCaches struct {
	head  int
	block func(PrefixCache) int
	of    map[cacheKey]*kvcache.Infinite
}

// cacheKey names a model cache: prompts that are made and verbatim ones have nothing in common but a template. A server
// keeps the blocks of each model apart, and those of each LoRA adapter.
type cacheKey struct {
	instance netip.AddrPort
	made     bool
	model    string
}

func (w *Work) cacheKey(i int) cacheKey {
	return cacheKey{w.Endpoint(i), w.Made(i), w.Trace.AskedModel(i)}
}

func newIdealCaches(head int, block func(PrefixCache) int) *idealCaches {
	return &idealCaches{head, block, map[cacheKey]*kvcache.Infinite{}}
}

func (c *idealCaches) ask(w *Work, i int) int64 {
	p, ok := w.CachePrompt(i)
	if !ok {
		return record.None
	}
	if w.Made(i) {
		p.Head = c.head
	}
	key := w.cacheKey(i)
	block := c.block(w.Cache(w.Endpoint(i)))
	cache := c.of[key]
	if cache == nil {
		cache = kvcache.NewInfinite(p.BlockTokens, block)
		c.of[key] = cache
	}
	held := cache.Expected(p.Blocks, p.Tokens, p.Head, p.Total)
	a, told := w.AnswerOf(i)
	if told && a.Text.Tokens > 0 { // no server computes the last token
		computed := min(a.Text.Tokens, a.From+a.Tokens-1)
		cache.Answered(w.cacheBlocks(a.Text), computed)
	}
	if !key.made && block < p.BlockTokens { // more of the next block may be shared than its hash shows
		held = min(held+p.BlockTokens-block, p.Total-1)
	}
	return int64(held)
}
