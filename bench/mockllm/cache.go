package mockllm

// prefixCache remembers the whole blocks of prompts: all of them, or as many as a pool of blocks has room for beside the
// requests that run. It belongs to the scheduler and is used under its lock.
type prefixCache struct {
	blockTokens int
	all         map[uint64]struct{} // without a limit: 8 bytes a block and the map's slack; nil = limited, or no cache
	pool        *blockPool          // nil = no limit, or no cache
	// Counted in tokens, as vLLM's metrics do.
	queries, hits int64
}

func newPrefixCache(capacityTokens int64, blockTokens int) prefixCache {
	c := prefixCache{blockTokens: blockTokens}
	switch blocks := capacityTokens / int64(blockTokens); {
	case capacityTokens < 0:
		c.all = make(map[uint64]struct{})
	case blocks > 0:
		c.pool = newBlockPool(int(min(blocks, maxPoolBlocks)))
	}
	return c
}

// begin looks up l's prompt and holds the blocks of the whole request. It returns how many tokens were cached: whole
// blocks, never the whole prompt. ok = false, and nothing done, when the pool has too few free blocks.
func (c *prefixCache) begin(l *lease) (cached int, ok bool) {
	limit := min(len(l.keys), (l.prompt-1)/c.blockTokens)
	switch {
	case c.pool != nil:
		total := (l.prompt + l.output + c.blockTokens - 1) / c.blockTokens
		if l.found, ok = c.pool.begin(l, limit, total); !ok {
			return 0, false
		}
	case c.all != nil:
		for l.found = 0; l.found < limit; l.found++ {
			if _, there := c.all[l.keys[l.found]]; !there {
				break
			}
		}
	}
	cached = l.found * c.blockTokens
	c.queries += int64(l.prompt)
	c.hits += int64(cached)
	return cached, true
}

// prefilled makes l's prompt findable.
func (c *prefixCache) prefilled(l *lease) {
	switch {
	case c.pool != nil:
		c.pool.prefilled(l, (l.prompt+l.output)/c.blockTokens)
	case c.all != nil:
		for _, key := range l.keys[l.found:] {
			c.all[key] = struct{}{}
		}
	}
}

// end gives back what l holds.
func (c *prefixCache) end(l *lease) {
	if c.pool != nil {
		c.pool.end(l)
	}
}

// clear empties the cache. Requests in prefill still enter it when they are done.
func (c *prefixCache) clear() {
	clear(c.all)
	if c.pool != nil {
		c.pool.clear()
	}
}

// cacheStats is a moment of the cache, for /metrics.
type cacheStats struct {
	queries, hits  int64 // tokens
	findable       int   // different blocks
	held, capacity int   // blocks; 0 where there is no limit
}

func (c *prefixCache) stats() cacheStats {
	s := cacheStats{queries: c.queries, hits: c.hits, findable: len(c.all)}
	if c.pool != nil {
		s.findable = len(c.pool.index)
		s.held, s.capacity = c.pool.capacity-c.pool.free(), c.pool.capacity
	}
	return s
}
