package mockllm

import (
	"container/heap"
	"sync"
)

// prefixCache remembers the whole blocks of the prompts whose prefill has ended. Blocks are inserted when somebody next
// looks, in the order in which the prefills ended: what a lookup at an instant finds depends on instants alone, not on
// which goroutine came first.
type prefixCache struct {
	mu       sync.Mutex
	store    blockStore // nil = no cache
	capacity int64      // tokens; negative = no limit
	pending  prefillHeap
	recycled []*prefill
	tickets  uint64
	// Counted in tokens, as vLLM's metrics do.
	queries, hits int64
}

// prefill is one prompt's blocks on their way into the cache.
type prefill struct {
	endNS   int64
	keys    []uint64
	dropped bool   // the request ended before its prefill did
	ticket  uint64 // which admission this is; prefills are reused
}

// maxRecycled bounds the prefills kept for reuse.
const maxRecycled = 256

func newPrefixCache(capacityTokens int64) *prefixCache {
	c := &prefixCache{capacity: capacityTokens}
	switch blocks := capacityTokens / BlockTokens; {
	case capacityTokens < 0:
		c.store = make(unboundedStore)
	case blocks > 0:
		c.store = newLRUStore(int(min(blocks, maxLRUBlocks)))
	}
	return c
}

// get returns an empty prefill to hash a prompt into.
func (c *prefixCache) get() *prefill {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.recycled)
	if n == 0 {
		return &prefill{}
	}
	p := c.recycled[n-1]
	c.recycled = c.recycled[:n-1]
	return p
}

// put takes back a prefill that was never admitted.
func (c *prefixCache) put(p *prefill) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recycle(p)
}

func (c *prefixCache) recycle(p *prefill) {
	*p = prefill{keys: p.keys[:0]}
	if len(c.recycled) < maxRecycled {
		c.recycled = append(c.recycled, p)
	}
}

// lookup returns how many of a prompt's tokens are cached at the instant now: whole blocks, never the whole prompt.
func (c *prefixCache) lookup(p *prefill, tokens int, salt uint64, now int64) int {
	for i := range p.keys { // after this a key names its salt too
		p.keys[i] ^= salt
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle(now)
	c.queries += int64(tokens)
	if c.store == nil {
		return 0
	}
	found := 0
	for found < len(p.keys) && c.store.touch(p.keys[found]) {
		found++
	}
	cached := min(found, (tokens-1)/BlockTokens) * BlockTokens
	c.hits += int64(cached)
	return cached
}

// admit hands in a prompt whose prefill ends at endNS. The caller gives p away and may drop it by the ticket.
func (c *prefixCache) admit(p *prefill, endNS int64) (ticket uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tickets++
	p.endNS, p.ticket = endNS, c.tickets
	heap.Push(&c.pending, p)
	return p.ticket
}

// drop says at the instant now that the request of a prefill that was admitted is gone. It does nothing when the
// prefill is over.
func (c *prefixCache) drop(p *prefill, ticket uint64, now int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.ticket == ticket && p.endNS > now {
		p.dropped = true
	}
}

// settle inserts what was prefilled by now.
func (c *prefixCache) settle(now int64) {
	for len(c.pending) > 0 && c.pending[0].endNS <= now {
		p := heap.Pop(&c.pending).(*prefill)
		if c.store != nil && !p.dropped {
			for _, k := range p.keys {
				c.store.insert(k)
			}
		}
		c.recycle(p)
	}
}

// flush empties the cache. Requests in prefill still enter it when they are done.
func (c *prefixCache) flush(now int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle(now)
	if c.store != nil {
		c.store.clear()
	}
}

// cacheStats is a moment of the cache, for /metrics. used is 0..1.
type cacheStats struct {
	queries, hits int64
	blocks        int
	used          float64
}

func (c *prefixCache) stats(now int64) cacheStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle(now)
	s := cacheStats{queries: c.queries, hits: c.hits}
	if c.store != nil {
		s.blocks = c.store.len()
		if c.capacity > 0 {
			s.used = float64(s.blocks) * BlockTokens / float64(c.capacity)
		}
	}
	return s
}

// prefillHeap orders prefills by their end, and by their admission where they end together.
type prefillHeap []*prefill

func (h prefillHeap) Len() int      { return len(h) }
func (h prefillHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *prefillHeap) Push(x any)   { *h = append(*h, x.(*prefill)) }
func (h prefillHeap) Less(i, j int) bool {
	return h[i].endNS < h[j].endNS || h[i].endNS == h[j].endNS && h[i].ticket < h[j].ticket
}
func (h *prefillHeap) Pop() any {
	old := *h
	p := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return p
}
