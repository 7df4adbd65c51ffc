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
	work      *Work
	caches    idealCaches
	low, high int  // bounds of the template's tokens before a prompt that is made
	bounds    bool // least and most may differ
}

// NewIdealModel returns a model that has seen no request yet.
func (w *Work) NewIdealModel() *IdealModel {
	m := &IdealModel{
		work:   w,
		caches: idealCaches{},
		low:    w.Overhead.Head,
		high:   w.Overhead.Head,
	}
	if w.Overhead.HeadUnknown {
		m.low = 0
		m.high = w.Overhead.Tokens()
	}
	m.bounds = w.assumesBlocks() || m.low != m.high
	return m
}

// Room is for the hits of n requests.
func (m *IdealModel) Room(n int) (h IdealHits) {
	h.Least = make([]int64, n)
	h.Most = h.Least
	if m.bounds {
		h.Most = make([]int64, n)
	}
	if !m.work.Overhead.HeadUnknown {
		h.Expected = h.Least
	}
	return h
}

// Observe finds the hits of request i, which comes after all that were asked about before.
func (m *IdealModel) Observe(i int, h *IdealHits) {
	p, known := m.work.CachePrompt(i)
	if !known {
		h.Least[i] = record.None
		h.Most[i] = record.None
		return
	}
	found := m.caches.show(m.work, i, &p)
	cache := m.work.Cache(m.work.Endpoint(i))
	h.Least[i] = m.held(i, &p, found, m.low, cache.BlockTokens)
	if m.bounds {
		h.Most[i] = m.held(i, &p, found, m.high, cache.FinestBlock())
	}
}

// held is what a cache of such blocks has of the prompt of request i, behind a template of head tokens.
func (m *IdealModel) held(i int, p *cachePrompt, found kvcache.Found, head, block int) int64 {
	made := m.work.Made(i)
	if !made {
		head = p.Head
	}
	held := found.Usable(head, p.Total, block)
	if !made && block < p.BlockTokens { // more of the next block may be shared than its hash shows
		held = min(held+p.BlockTokens-block, p.Total-1)
	}
	return int64(held)
}

// PrimedTokens is how many tokens of prompts are in caches because requests that prepare have brought them there, if
// nothing else does. It is about requests that come after those, and that counts has. It is unknown, false, where ideal
// hits are.
func (w *Work) PrimedTokens(counts func(i int) bool) (tokens int64, known bool) {
	if w.Overhead.HeadUnknown {
		return 0, false
	}
	caches := idealCaches{}
	prepare := int(w.Plan.Dependencies.Prepare)
	for i := range prepare {
		p, ok := w.CachePrompt(i)
		if ok {
			caches.show(w, i, &p)
		}
	}
	for i := prepare; i < w.Requests(); i++ {
		p, ok := w.CachePrompt(i)
		cache := caches[w.cacheKey(i)]
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

// idealCaches are caches by instance.
type idealCaches map[cacheKey]*kvcache.Infinite

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

// show lets a cache remember the prompt of request i and the answer that the server is told. It returns what the cache
// held of the prompt.
func (c idealCaches) show(w *Work, i int, p *cachePrompt) kvcache.Found {
	key := w.cacheKey(i)
	cache := c[key]
	if cache == nil {
		cache = kvcache.NewInfinite(p.BlockTokens, w.Cache(key.instance).BlockTokens)
		c[key] = cache
	}
	found := cache.Remember(p.Blocks, p.Tokens)
	a, told := w.AnswerOf(i)
	if told && a.Text.Tokens > 0 { // no server computes the last token
		computed := min(a.Text.Tokens, a.From+a.Tokens-1)
		cache.Answered(w.cacheBlocks(a.Text), computed)
	}
	return found
}
