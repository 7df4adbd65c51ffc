package mockllm

import (
	linked "container/list"
	"slices"
)

// maxPoolBlocks is what an int32 can number; number 0 is taken.
const maxPoolBlocks = 1<<31 - 2

// blockPool is a fixed number of blocks, as vLLM's v1 engine has them (vllm/v1/core/block_pool.py). A block is held by
// requests or stands in the queue of free blocks. A free block keeps what it holds, and can be found by its key, until
// it comes to the queue's head and is given away. Those without a hash, which nobody can find, stand before all others
// (since vLLM's pull request 42656).
//
// Blocks are numbers in one slice, so that the garbage collector has nothing to follow. Block 0 is the queue's ends.
// Blocks that were never used stand before all others and are made only when they are needed.
type blockPool struct {
	capacity int
	blocks   []poolBlock
	queued   int              // free blocks that were used before
	index    map[uint64]int32 // the first registered of the blocks with a key
}

// poolBlock is a block's place in two rings: the queue of free blocks, and those that hold the same.
type poolBlock struct {
	key                uint64
	prev, next         int32 // in the queue, while free
	prevSame, nextSame int32 // while registered; in the order of registration
	holders            int32
	registered         bool
	hashed             bool // full and computed
}

// free returns the number of blocks that nobody holds.
func (p *blockPool) free() int { return p.capacity - (len(p.blocks) - 1) + p.queued }

// begin looks up at most limit of the keys, holds the blocks that it finds, and then takes new ones, total in all. It
// returns how many were found, or ok = false when too few blocks are free; then nothing has changed.
func (p *blockPool) begin(l *lease, limit, total int) (found int, ok bool) {
	held := l.blocks[:0]
	idle := 0 // blocks found that nobody holds
	for _, key := range l.keys[:limit] {
		b, there := p.index[key]
		if !there {
			break
		}
		if p.blocks[b].holders == 0 {
			idle++
		}
		held = append(held, b)
	}
	l.blocks = held[:0]
	if total-len(held) > p.free()-idle {
		return 0, false
	}
	for _, b := range held {
		if p.blocks[b].holders == 0 {
			p.dequeue(b)
		}
		p.blocks[b].holders++
	}
	found = len(held)
	for len(held) < total {
		held = append(held, p.take())
	}
	l.blocks = held
	return found, true
}

// computed makes blocks findable by their keys.
func (p *blockPool) computed(blocks []int32, keys []uint64) {
	for i, key := range keys {
		p.register(blocks[i], key)
		p.blocks[blocks[i]].hashed = true
	}
}

// end gives back what l holds, the tail first, so that a prompt's head outlives it.
func (p *blockPool) end(l *lease) {
	for i := len(l.blocks) - 1; i >= 0; i-- {
		b := l.blocks[i]
		if p.blocks[b].holders--; p.blocks[b].holders > 0 {
			continue
		}
		if p.blocks[b].hashed {
			p.enqueue(b, 0)
		} else {
			p.enqueue(b, p.blocks[0].next)
		}
	}
	l.blocks = l.blocks[:0]
}

// clear forgets what all blocks hold. Who holds them goes on, and the order in which free ones are given away stays.
func (p *blockPool) clear() {
	clear(p.index)
	for i := range p.blocks {
		p.blocks[i].registered = false
		p.blocks[i].hashed = false
	}
}

// take gives away the free block at the queue's head.
func (p *blockPool) take() int32 {
	if len(p.blocks) <= p.capacity {
		p.blocks = append(p.blocks, poolBlock{holders: 1})
		return int32(len(p.blocks) - 1)
	}
	b := p.blocks[0].next
	p.dequeue(b)
	p.unregister(b)
	p.blocks[b].hashed = false
	p.blocks[b].holders = 1
	return b
}

// enqueue puts b before another free block, or to the queue's end before block 0.
func (p *blockPool) enqueue(b, next int32) {
	prev := p.blocks[next].prev
	p.blocks[b].prev = prev
	p.blocks[b].next = next
	p.blocks[prev].next = b
	p.blocks[next].prev = b
	p.queued++
}

func (p *blockPool) dequeue(b int32) {
	n := &p.blocks[b]
	p.blocks[n.prev].next = n.next
	p.blocks[n.next].prev = n.prev
	p.queued--
}

// register makes b findable. Where others hold the same, the one that was registered first is found, and b when those
// before it are gone.
func (p *blockPool) register(b int32, key uint64) {
	n := &p.blocks[b]
	n.key = key
	n.registered = true
	n.prevSame = b
	n.nextSame = b
	first, there := p.index[key]
	if !there {
		p.index[key] = b
		return
	}
	last := p.blocks[first].prevSame
	n.prevSame = last
	n.nextSame = first
	p.blocks[last].nextSame = b
	p.blocks[first].prevSame = b
}

func (p *blockPool) unregister(b int32) {
	n := &p.blocks[b]
	if !n.registered {
		return
	}
	n.registered = false
	if n.nextSame == b {
		delete(p.index, n.key)
		return
	}
	p.blocks[n.prevSame].nextSame = n.nextSame
	p.blocks[n.nextSame].prevSame = n.prevSame
	if p.index[n.key] == b {
		p.index[n.key] = n.nextSame
	}
}

// prefixCache holds the whole blocks of prompts and answers: all of them, or as many as a pool has room for beside the
// running requests. It belongs to the scheduler and is used under its lock.
type prefixCache struct {
	blockTokens int
	all         map[uint64]struct{} // without a limit: 8 bytes a block and the map's slack; nil = limited, or no cache
	pool        *blockPool          // nil = no limit, or no cache
	host        hostTier
	// Counted in tokens, as vLLM's metrics do.
	queries, hits, fromHost int64
}

func newPrefixCache(capacityTokens int64, blockTokens int) prefixCache {
	c := prefixCache{blockTokens: blockTokens}
	switch blocks := capacityTokens / int64(blockTokens); {
	case capacityTokens < 0:
		c.all = make(map[uint64]struct{})
	case blocks > 0:
		c.pool = &blockPool{
			capacity: int(min(blocks, maxPoolBlocks)),
			blocks:   make([]poolBlock, 1),
			index:    make(map[uint64]int32),
		}
	}
	return c
}

// begin looks up l's prompt and holds the blocks of the whole request. It returns how many tokens were cached, and how
// many of them in the second tier: whole blocks, never the whole prompt. If the pool has too few free blocks, ok is
// false and nothing has changed.
func (c *prefixCache) begin(l *lease) (cached, fromHost int, ok bool) {
	limit := min(len(l.keys), (l.prompt-1)/c.blockTokens)
	switch {
	case c.pool != nil:
		total := (l.prompt + l.output + c.blockTokens - 1) / c.blockTokens
		if l.found, ok = c.pool.begin(l, limit, total); !ok {
			return 0, 0, false
		}
	case c.all != nil:
		for l.found = 0; l.found < limit; l.found++ {
			if _, there := c.all[l.keys[l.found]]; !there {
				break
			}
		}
	}
	inDevice := l.found * c.blockTokens
	fromHost = c.host.prefix(l.keys[l.found:max(l.found, limit)]) * c.blockTokens
	c.queries += int64(l.prompt)
	c.hits += int64(inDevice)
	c.fromHost += int64(fromHost)
	return inDevice + fromHost, fromHost, true
}

// prefilled makes l's prompt findable.
func (c *prefixCache) prefilled(l *lease) { c.computed(l, l.found, l.keys[l.found:]) }

// answered makes the blocks findable that were full with tokens of l's answer when it ended. vLLM does so while the
// answer grows (vllm/v1/core/kv_cache_manager.py: allocate_slots caches whole blocks of the tokens computed). The last
// token was made, and never computed.
func (c *prefixCache) answered(l *lease) {
	full := (l.prompt + l.sent - 1) / c.blockTokens
	c.computed(l, len(l.keys), l.answer[:max(0, min(full-len(l.keys), len(l.answer)))])
}

// computed makes blocks of l findable, from one on, by their keys.
func (c *prefixCache) computed(l *lease, from int, keys []uint64) {
	for _, key := range slices.Backward(keys) { // a prompt's head outlives its tail
		c.host.use(key)
	}
	switch {
	case c.pool != nil:
		c.pool.computed(l.blocks[from:], keys)
	case c.all != nil:
		for _, key := range keys {
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
	c.host = hostTier{room: c.host.room}
	if c.pool != nil {
		c.pool.clear()
	}
}

// hostTier is a second tier of the cache: the blocks that were used last.
type hostTier struct {
	room   int          // blocks; 0 = there is no such tier
	latest *linked.List // keys, that used last in front
	at     map[uint64]*linked.Element
}

// prefix is how many of the keys it has, up to the first that it has not. These are used.
func (h *hostTier) prefix(keys []uint64) (n int) {
	for n < len(keys) && h.at[keys[n]] != nil {
		n++
	}
	for _, key := range slices.Backward(keys[:n]) {
		h.use(key)
	}
	return n
}

// use keeps a block, and lets go of the one that was used longest ago where there is no more room.
func (h *hostTier) use(key uint64) {
	if h.room == 0 {
		return
	}
	if h.at == nil {
		h.latest = linked.New()
		h.at = map[uint64]*linked.Element{}
	}
	if e := h.at[key]; e != nil {
		h.latest.MoveToFront(e)
		return
	}
	h.at[key] = h.latest.PushFront(key)
	if h.latest.Len() > h.room {
		oldest := h.latest.Back()
		h.latest.Remove(oldest)
		delete(h.at, oldest.Value.(uint64))
	}
}

// cacheStats is a moment of the cache, for /metrics.
type cacheStats struct {
	queries, hits, fromHost int64 // tokens
	held, capacity          int   // blocks; 0 where there is no limit
}

func (c *prefixCache) stats() cacheStats {
	s := cacheStats{queries: c.queries, hits: c.hits, fromHost: c.fromHost}
	if c.pool != nil {
		s.held = c.pool.capacity - c.pool.free()
		s.capacity = c.pool.capacity
	}
	return s
}
