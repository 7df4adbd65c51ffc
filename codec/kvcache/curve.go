package kvcache

import (
	"math"
	"math/bits"
)

// StackDistances follows the blocks of prompts that arrive one after another, and finds for each how far back its last
// use lies. A cache holds a block if it has more slots than other blocks were used since. So one pass gives what LRU
// caches of every capacity would have held. (Mattson et al., "Evaluation techniques for storage hierarchies", IBM
// Systems Journal 9(2), 1970.)
//
// A block is an id together with all ids before it, as in a server's cache. Each block takes a slot of its own, also a
// last partial one and one without an id. A capacity of n tokens has ⌊n / tokens a block⌋ slots. Prompts count from
// their arrival, and what is generated takes no room. A reference hits only if all blocks before it in its prompt hit.
// That needs no rule of its own: a prompt that used a block used all blocks before it. So these lie no deeper in the
// stack, in either order. A hit counts those of its tokens that some earlier prompt had there.
//
// One goroutine uses a StackDistances. It takes about 70 bytes for each distinct block and a quarter of a byte for each
// of n block references. Its time is O(n log n).
type StackDistances struct {
	blockTokens int
	prefixes    *tree
	inOrder     stack
	tailFirst   stack
	uses        []Use // scratch
}

// Order is the order in which a prompt's blocks become the most recently used ones.
type Order int

// The orders that [StackDistances.Curve] accepts.
const (
	// InOrder looks a block up and touches it before the next one: the last block is the most recent.
	InOrder Order = iota
	// TailFirst looks all blocks up when the prompt arrives, then touches them from the last to the first, as vLLM
	// frees them. So the first block is the most recent, and a prompt's tail is evicted before its head.
	TailFirst
)

// Use is one block of a prompt.
type Use struct {
	// Block numbers the distinct blocks from 0 in order of their first use; -1 is one without an id, unique to its
	// prompt.
	Block int
	// Tokens that the prompt has of it, and Held the most that an earlier prompt had of it, 0 = a new block.
	Tokens, Held int
	// StackDistance is how many other blocks were used, in order, since its last use; -1 = a new block.
	StackDistance int
}

// NewStackDistances makes a StackDistances of blocks of so many tokens, at least 1.
func NewStackDistances(blockTokens int) *StackDistances {
	if blockTokens < 1 {
		panic("BUG: kvcache: a block of less than one token")
	}
	return &StackDistances{blockTokens: blockTokens, prefixes: newTree()}
}

// Add adds the next prompt. It has so many tokens and begins with the blocks of those ids. What lies beyond them is
// unique to it; ids beyond its length are ignored. Add returns the prompt's blocks, valid until the next call.
func (d *StackDistances) Add(ids []uint64, tokens int) []Use {
	d.uses = d.uses[:0]
	parent := uint32(0)
	for i := 0; i*d.blockTokens < tokens; i++ {
		n := min(d.blockTokens, tokens-i*d.blockTokens)
		u := Use{Block: -1, Tokens: n, StackDistance: -1}
		if i < len(ids) {
			node, seen := d.prefixes.extend(parent, ids[i], uint32(n))
			u.Block = int(node) - 1
			u.Held = int(seen)
			parent = node
		}
		d.uses = append(d.uses, u)
	}
	d.touchInOrder()
	d.touchTailFirst()
	return d.uses
}

func (d *StackDistances) touchInOrder() {
	s := &d.inOrder
	for i := range d.uses {
		u := &d.uses[i]
		if u.Held > 0 {
			u.StackDistance = s.above(u.Block)
			s.hit(u.StackDistance, min(u.Tokens, u.Held))
		}
		s.miss(u.Tokens)
		s.touch(u.Block)
	}
}

func (d *StackDistances) touchTailFirst() {
	s := &d.tailFirst
	for _, u := range d.uses {
		if u.Held > 0 {
			s.hit(s.above(u.Block), min(u.Tokens, u.Held))
		}
		s.miss(u.Tokens)
	}
	for i := len(d.uses) - 1; i >= 0; i-- {
		s.touch(d.uses[i].Block)
	}
}

// Distinct is the number of distinct blocks with an id.
func (d *StackDistances) Distinct() int {
	return len(d.prefixes.nodes) - 1
}

// Curve is what LRU caches would have held of the prompts so far.
func (d *StackDistances) Curve(o Order) *Curve {
	s := &d.inOrder
	if o == TailFirst {
		s = &d.tailFirst
	}
	c := &Curve{
		blockTokens: int64(d.blockTokens),
		blocks:      s.blocks,
		tokens:      s.tokens,
		hits:        make([]hits, len(s.hits)+1),
	}
	for between, h := range s.hits {
		h.blocks += c.hits[between].blocks
		h.tokens += c.hits[between].tokens
		c.hits[between+1] = h
	}
	return c
}

// Curve is the hits of LRU caches by capacity; see [StackDistances] for what a hit is. Any number of goroutines may use
// it.
type Curve struct {
	blockTokens    int64
	blocks, tokens int64  // of all prompts
	hits           []hits // by slots; more slots than that hit no more
}

// hits counts block references and their tokens.
type hits struct{ blocks, tokens int64 }

// at is the hits of a cache of so many tokens.
func (c *Curve) at(capacityTokens int64) hits {
	slots := max(0, capacityTokens) / c.blockTokens
	most := int64(len(c.hits) - 1)
	return c.hits[min(slots, most)]
}

// BlockRatio is the share 0..1 of all blocks that a cache of so many tokens would have held; 0 without blocks.
func (c *Curve) BlockRatio(capacityTokens int64) float64 {
	return ratio(c.at(capacityTokens).blocks, c.blocks)
}

// TokenRatio is the share 0..1 of all prompt tokens that a cache of so many tokens would have held; 0 without tokens.
func (c *Curve) TokenRatio(capacityTokens int64) float64 {
	return ratio(c.at(capacityTokens).tokens, c.tokens)
}

// Distances gives, in rising order, how many other blocks were used between two uses of a block, and how often.
func (c *Curve) Distances(yield func(blocks int, times int64) bool) {
	for i := range c.hits[1:] {
		times := c.hits[i+1].blocks - c.hits[i].blocks
		if times > 0 && !yield(i, times) {
			return
		}
	}
}

// SaturationTokens is the smallest capacity in tokens that holds as much as an unlimited one.
func (c *Curve) SaturationTokens() int64 {
	return int64(len(c.hits)-1) * c.blockTokens
}

func ratio(part, all int64) float64 {
	if all == 0 {
		return 0
	}
	return float64(part) / float64(all)
}

const (
	// groupWords is how many words of marks one count covers. With 8, the counts of 20 million uses fit a second-level
	// cache, and the words of a group fit one of its lines.
	groupWords = 8
	groupUses  = 64 * groupWords
)

// stack is an LRU stack that finds the depth of a block in O(log n). Every use has a place in the order of uses; a mark
// means that it is the latest of its block. The blocks above a block are the marks behind its own. A Fenwick tree
// counts those of whole groups; those inside the group are counted bit by bit.
type stack struct {
	last   []uint32 // by block: place of its latest use, from 1; 0 = none
	marks  []uint64 // a bit for each use
	counts []uint32 // Fenwick tree over groups of marks; counts[i] ends with group i
	marked int      // marks in all

	used           uint32
	blocks, tokens int64  // of all uses
	hits           []hits // by the other blocks used since
}

// hit counts a reference that caches with more slots than that hold.
func (s *stack) hit(between, tokens int) {
	for between >= len(s.hits) {
		s.hits = append(s.hits, hits{})
	}
	s.hits[between].blocks++
	s.hits[between].tokens += int64(tokens)
}

// miss counts a reference, whether it hits or not.
func (s *stack) miss(tokens int) {
	s.blocks++
	s.tokens += int64(tokens)
}

// above is the number of blocks that were used after the latest use of this one.
func (s *stack) above(block int) int {
	place := s.last[block] - 1
	group := place / groupUses
	upTo := 0
	for i := group; i > 0; i &= i - 1 { // the groups before
		upTo += int(s.counts[i-1])
	}
	word := place / 64
	for _, w := range s.marks[group*groupWords : word] {
		upTo += bits.OnesCount64(w)
	}
	upTo += bits.OnesCount64(s.marks[word] << (63 - place%64))
	return s.marked - upTo
}

// touch makes a block the most recently used one; -1 is a block that is never used again.
func (s *stack) touch(block int) {
	if s.used == math.MaxUint32 {
		panic("BUG: kvcache: more than 4 billion block references")
	}
	place := s.used
	s.used++
	if place%groupUses == 0 {
		s.grow()
	}
	s.set(place, 1)
	if block < 0 {
		return
	}
	for block >= len(s.last) {
		s.last = append(s.last, 0)
	}
	was := s.last[block]
	if was > 0 {
		s.set(was-1, -1)
	}
	s.last[block] = place + 1
}

// grow makes room for the marks of one more group.
func (s *stack) grow() {
	s.marks = append(s.marks, make([]uint64, groupWords)...)
	i := uint32(len(s.counts)) + 1 // the new count's number from 1 covers the last i&-i groups
	sum := uint32(0)
	for j := i - 1; j > i-i&-i; j &= j - 1 {
		sum += s.counts[j-1]
	}
	s.counts = append(s.counts, sum)
}

// set sets a mark (+1) or takes it away (-1).
func (s *stack) set(place uint32, by int) {
	s.marks[place/64] ^= 1 << (place % 64)
	s.marked += by
	for i := place/groupUses + 1; int(i) <= len(s.counts); i += i & -i {
		s.counts[i-1] += uint32(by)
	}
}
