package kvcache

import (
	"container/heap"
	"math"
	"slices"
)

// Policy decides which block a full cache lets go.
type Policy string

// The policies that [References.Follow] knows.
const (
	// PolicyLRU lets go of the block that was used longest ago.
	PolicyLRU Policy = "lru"
	// PolicyFIFO lets go of the block that came first.
	PolicyFIFO Policy = "fifo"
	// PolicyS3FIFO has a small queue of newcomers, a main queue, and a queue of the names of what it let go. (Yang et
	// al., "FIFO queues are all you need for cache eviction", SOSP 2023, algorithm 1.)
	PolicyS3FIFO Policy = "s3fifo"
	// PolicyBelady lets go of the block whose next use is last. It knows the future: for blocks of one size no policy
	// has more of them in all tiers together. (Belady, "A study of replacement algorithms for a virtual-storage
	// computer", IBM Systems Journal 5(2), 1966.)
	PolicyBelady Policy = "belady"
)

// Policies are all of them.
var Policies = []Policy{PolicyLRU, PolicyFIFO, PolicyS3FIFO, PolicyBelady}

// References are the blocks that prompts use, one prompt after another: what a [StackDistances] returned of each. They
// take 8 bytes each, and 4 for each distinct block.
type References struct {
	uses     []reference
	ends     []int    // of each prompt, in uses
	numbers  []uint32 // by Use.Block; 0 = not seen
	distinct uint32
}

// reference is one use of a block. Blocks count from 1, each one that is unique to its prompt has a number, too.
type reference struct {
	block uint32
	held  int32 // tokens of it that an earlier prompt had; 0 = a new block
}

// Add adds the next prompt's blocks.
func (r *References) Add(uses []Use) {
	for _, u := range uses {
		r.uses = append(r.uses, reference{
			block: r.number(u.Block),
			held:  int32(min(u.Held, u.Tokens)),
		})
	}
	r.ends = append(r.ends, len(r.uses))
}

func (r *References) number(block int) uint32 {
	if block < 0 {
		r.distinct++
		return r.distinct
	}
	for block >= len(r.numbers) {
		r.numbers = append(r.numbers, 0)
	}
	if r.numbers[block] == 0 {
		r.distinct++
		r.numbers[block] = r.distinct
	}
	return r.numbers[block]
}

// Follow shows all prompts to a cache of several tiers, the fastest first. A tier has room for so many blocks, 0 or
// more. Every tier is written through: it is given all blocks of every prompt, and keeps by its own policy what it can.
// A block is read from the first tier that has it, if all blocks before it in its prompt were found, too. A prompt
// looks all its blocks up first. Then it uses them from the last to the first, as vLLM frees them.
//
// After each prompt, each is called with its number and the tokens that it found in each tier; hit is valid until each
// returns.
func (r *References) Follow(policy Policy, slots []int64, each func(prompt int, hit []int64)) {
	tiers := make([]tier, len(slots))
	for i, n := range slots {
		tiers[i] = r.newTier(policy, n)
	}
	var next []int64
	if policy == PolicyBelady {
		next = r.nextUses()
	}
	hit := make([]int64, len(tiers))
	start := 0
	moment := int64(0)
	for prompt, end := range r.ends {
		clear(hit)
		for _, u := range r.uses[start:end] {
			from := slices.IndexFunc(tiers, func(t tier) bool { return t.has(u.block) })
			if from < 0 {
				break
			}
			hit[from] += int64(u.held)
		}
		for at := end - 1; at >= start; at-- {
			moment++
			rank := moment
			if next != nil {
				rank = -next[at]
			}
			for _, t := range tiers {
				t.use(r.uses[at].block, rank)
			}
		}
		each(prompt, hit)
		start = end
	}
}

// nextUses gives for each use which use of its block is next, counted from the first of all. Of a prompt's blocks,
// those behind are used again after those in front. So they are let go earlier; without those in front they are of no
// use.
func (r *References) nextUses() []int64 {
	next := make([]int64, len(r.uses))
	after := make([]int64, r.distinct+1) // by block
	for at, u := range slices.Backward(r.uses) {
		next[at] = after[u.block]
		if next[at] == 0 {
			next[at] = math.MaxInt64
		}
		after[u.block] = int64(at)
	}
	return next
}

// tier is a cache with room for a number of blocks.
type tier interface {
	has(block uint32) bool
	// use tells that a block is used, which the cache may keep or not. Of blocks with a rank, that of the least is let
	// go first. A rank is the moment of the use, or how far away the next use is, below 0.
	use(block uint32, rank int64)
}

func (r *References) newTier(policy Policy, slots int64) tier {
	switch policy {
	case PolicyLRU, PolicyFIFO, PolicyBelady:
		return &rankedTier{
			slots:   slots,
			arrival: policy == PolicyFIFO,
			ranks:   make([]int64, r.distinct+1),
		}
	case PolicyS3FIFO:
		return newS3FIFO(slots, r.distinct)
	}
	panic("BUG: kvcache: no policy " + string(policy))
}

// rankedTier lets go of the block of the least rank.
type rankedTier struct {
	slots   int64
	arrival bool    // a block keeps the rank of its first use
	ranks   []int64 // by block; 0 = not here
	held    int64
	queue   rankQueue
}

func (t *rankedTier) has(block uint32) bool { return t.ranks[block] != 0 }

func (t *rankedTier) use(block uint32, rank int64) {
	if t.has(block) {
		if t.arrival {
			return
		}
	} else {
		t.held++
	}
	t.ranks[block] = rank
	heap.Push(&t.queue, ranked{rank: rank, block: block})
	for t.held > t.slots {
		least := heap.Pop(&t.queue).(ranked)
		if !t.outdated(least) {
			t.ranks[least.block] = 0
			t.held--
		}
	}
	if int64(len(t.queue)) > 2*t.held+1000 { // most of it is outdated
		t.queue = slices.DeleteFunc(t.queue, t.outdated)
		heap.Init(&t.queue)
	}
}

// outdated reports whether a block is no longer here with that rank.
func (t *rankedTier) outdated(r ranked) bool { return t.ranks[r.block] != r.rank }

// rankQueue is a heap of blocks, that of the least rank first.
type rankQueue []ranked

type ranked struct {
	rank  int64
	block uint32
}

func (q rankQueue) Len() int           { return len(q) }
func (q rankQueue) Less(i, j int) bool { return q[i].rank < q[j].rank }
func (q rankQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *rankQueue) Push(r any)        { *q = append(*q, r.(ranked)) }
func (q *rankQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// s3FIFO is the cache of [PolicyS3FIFO]. A tenth of its slots is for newcomers.
type s3FIFO struct {
	slots       int64
	smallSlots  int64
	blocks      []s3Block // by block
	small, main []uint32  // the oldest first
	ghosts      []s3Ghost // let go as newcomers, the oldest first
	ghostCount  int64     // of them, those that have not come back
	turn        uint32    // counts ghosts
}

// s3Block is where a block is, and how often it was used since it came there, 3 at most.
type s3Block struct {
	place s3Place
	uses  uint8
	turn  uint32 // of its ghost
}

type s3Place uint8

const (
	s3Nowhere s3Place = iota
	s3Small
	s3Main
	s3IsGhost
)

type s3Ghost struct{ block, turn uint32 }

func newS3FIFO(slots int64, distinct uint32) *s3FIFO {
	return &s3FIFO{
		slots:      slots,
		smallSlots: slots / 10,
		blocks:     make([]s3Block, distinct+1),
	}
}

func (c *s3FIFO) has(block uint32) bool {
	place := c.blocks[block].place
	return place == s3Small || place == s3Main
}

func (c *s3FIFO) use(block uint32, _ int64) {
	b := &c.blocks[block]
	if c.has(block) {
		b.uses = min(b.uses+1, 3)
		return
	}
	if c.slots < 1 {
		return
	}
	for int64(len(c.small)+len(c.main)) >= c.slots {
		if int64(len(c.small)) >= max(1, c.smallSlots) {
			c.evictSmall()
		} else {
			c.evictMain()
		}
	}
	b.uses = 0
	if b.place == s3IsGhost { // evictions may have forgotten it
		c.ghostCount--
		b.place = s3Main
		c.main = append(c.main, block)
		return
	}
	b.place = s3Small
	c.small = append(c.small, block)
}

// evictSmall lets go of the oldest newcomer that was not used again and again. Those before it become residents.
func (c *s3FIFO) evictSmall() {
	for len(c.small) > 0 {
		block := c.small[0]
		c.small = c.small[1:]
		b := &c.blocks[block]
		if b.uses <= 1 {
			c.addGhost(block)
			return
		}
		if int64(len(c.main)) >= c.mainSlots() {
			c.evictMain()
		}
		*b = s3Block{place: s3Main}
		c.main = append(c.main, block)
	}
}

// evictMain lets go of the oldest resident that was not used since it was last looked at.
func (c *s3FIFO) evictMain() {
	for len(c.main) > 0 {
		block := c.main[0]
		c.main = c.main[1:]
		b := &c.blocks[block]
		if b.uses == 0 {
			b.place = s3Nowhere
			return
		}
		b.uses--
		c.main = append(c.main, block)
	}
}

func (c *s3FIFO) mainSlots() int64 { return c.slots - c.smallSlots }

// addGhost remembers the name of a newcomer that is let go. There are as many ghosts as residents at most.
func (c *s3FIFO) addGhost(block uint32) {
	c.turn++
	c.blocks[block] = s3Block{place: s3IsGhost, turn: c.turn}
	c.ghosts = append(c.ghosts, s3Ghost{block: block, turn: c.turn})
	c.ghostCount++
	for c.ghostCount > c.mainSlots() {
		oldest := c.ghosts[0]
		c.ghosts = c.ghosts[1:]
		b := &c.blocks[oldest.block]
		if b.place == s3IsGhost && b.turn == oldest.turn {
			b.place = s3Nowhere
			c.ghostCount--
		}
	}
}
