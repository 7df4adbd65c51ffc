package kvcache

import (
	"math/bits"
	"slices"
)

// Set is a set of small numbers, a bit for each.
type Set []uint64

// NewSet makes an empty set with room for the numbers below n.
func NewSet(n int) Set { return make(Set, (n+63)/64) }

// Add puts a number into the set.
func (s Set) Add(k int) {
	s[k/64] |= 1 << (k % 64)
}

// Drop takes a number out of the set.
func (s Set) Drop(k int) {
	s[k/64] &^= 1 << (k % 64)
}

// Has reports whether a number is in the set.
func (s Set) Has(k int) bool {
	return s[k/64]>>(k%64)&1 != 0
}

// Next is the smallest number of the set that is not below k; -1 = none.
func (s Set) Next(k int) int {
	for w := k / 64; w < len(s); w++ {
		word := s[w]
		if w == k/64 {
			word &= ^uint64(0) << (k % 64)
		}
		if word != 0 {
			return 64*w + bits.TrailingZeros64(word)
		}
	}
	return -1
}

// Fleet is the prefix caches of several instances, each with room for a number of tokens or without a limit. They share
// one numbering of blocks, and each block has the set of instances that hold it. So one walk finds which instances hold
// the longest prefix of a prompt.
//
// A prompt is held from its arrival on, and its answer takes no room. A full cache drops the least recently used
// blocks. Of a prompt, the last block is the least recent, so a tail is dropped before its head. One goroutine uses a
// Fleet. It takes 8 bytes for each distinct block and 64 instances, and with a limit 24 more for each block that an
// instance holds.
type Fleet struct {
	prompts      *Prompts
	engineTokens int
	words        int      // of a set of instances
	masks        []uint64 // sets of instances, by block
	cut          []bool   // by block: some instance may hold less of it than some prompt has
	parts        map[part]int32
	recent       *recency // what was used when; nil where no instance has a limit
}

// part is a block of which an instance holds less than some prompt has.
type part struct {
	block    uint32
	instance int
}

// NewFleet makes empty caches of these capacities in tokens, 0 = unlimited. All prompts must have been added. The
// servers cache engineBlockTokens tokens at a time.
func NewFleet(p *Prompts, engineBlockTokens int, capacityTokens []int64) *Fleet {
	f := &Fleet{
		prompts:      p,
		engineTokens: engineBlockTokens,
		words:        len(NewSet(len(capacityTokens))),
		cut:          make([]bool, p.distinct()),
		parts:        map[part]int32{},
	}
	f.masks = make([]uint64, f.words*p.distinct())
	if slices.Max(capacityTokens) > 0 {
		f.recent = newRecency(p.distinct(), capacityTokens)
	}
	return f
}

// Longest finds the instances that hold the most of prompt i in whole engine blocks, among those of a set that is not
// empty. It puts them into who and returns how many tokens they hold. If none holds more than the template, all of them
// are in who.
func (f *Fleet) Longest(i int, among, who Set) (tokens int) {
	blocks := f.prompts.of(i)
	deepest := -1
	for deepest+1 < len(blocks) && meet(who, among, f.holders(blocks[deepest+1])) {
		deepest++
	}
	copy(who, among)
	if deepest < 0 {
		return 0
	}
	meet(who, among, f.holders(blocks[deepest]))
	from := f.prompts.upTo(i, deepest)
	size := f.prompts.upTo(i, deepest+1) - from
	most := 0 // of the deepest block
	for k := who.Next(0); k >= 0 && most < size; k = who.Next(k + 1) {
		held := f.held(blocks[deepest], k)
		most = max(most, min(held, size))
	}
	tokens = f.whole(i, from+most)
	if tokens <= f.prompts.headOf(i) {
		copy(who, among)
		return tokens
	}
	for from >= tokens {
		deepest--
		from = f.prompts.upTo(i, deepest)
	}
	b := blocks[deepest]
	meet(who, among, f.holders(b))
	if f.cut[b] {
		for k := who.Next(0); k >= 0; k = who.Next(k + 1) {
			if from+f.held(b, k) < tokens {
				who.Drop(k)
			}
		}
	}
	return tokens
}

// holders are the instances that have some of a block.
func (f *Fleet) holders(block uint32) Set {
	at := int(block) * f.words
	return f.masks[at : at+f.words]
}

// meet puts into both what a and b have in common, and reports whether that is anything.
func meet(both, a, b Set) bool {
	any := uint64(0)
	for w := range both {
		both[w] = a[w] & b[w]
		any |= both[w]
	}
	return any != 0
}

// Give returns how many tokens of prompt i an instance holds, in whole engine blocks and never all, then shows it the
// prompt.
func (f *Fleet) Give(i, instance int) (held int) {
	held = f.whole(i, f.shared(i, instance))
	blocks := f.prompts.of(i)
	limited := f.recent != nil && f.recent.capacity[instance] > 0
	from := f.prompts.upTo(i, len(blocks))
	for j := len(blocks) - 1; j >= 0; j-- { // the head becomes the most recent
		to := from
		from = f.prompts.upTo(i, j)
		grown := f.take(blocks[j], instance, int32(to-from))
		if limited {
			f.recent.touch(blocks[j], instance, int64(grown))
		}
	}
	if limited {
		f.shrink(instance)
	}
	return held
}

// whole returns what a server uses of prompt i if it holds so many tokens.
func (f *Fleet) whole(i, tokens int) int {
	return usable(tokens, int(f.prompts.ends[i].total), f.engineTokens)
}

// shared is how many tokens at the front of prompt i an instance holds.
func (f *Fleet) shared(i, instance int) int {
	blocks := f.prompts.of(i)
	for j, b := range blocks {
		if !f.holders(b).Has(instance) {
			return f.prompts.upTo(i, j)
		}
		if !f.cut[b] {
			continue
		}
		from := f.prompts.upTo(i, j)
		to := f.prompts.upTo(i, j+1)
		have := f.held(b, instance)
		if have < to-from {
			return from + have
		}
	}
	return f.prompts.upTo(i, len(blocks))
}

// held is how many tokens of a block an instance has that holds some.
func (f *Fleet) held(block uint32, instance int) int {
	if f.cut[block] {
		n, ok := f.parts[part{block, instance}]
		if ok {
			return int(n)
		}
	}
	return int(f.prompts.most(block))
}

// take gives an instance so many tokens of a block, and returns how many more these are than it had.
func (f *Fleet) take(block uint32, instance int, tokens int32) (grown int32) {
	had := int32(0)
	if f.holders(block).Has(instance) {
		had = int32(f.held(block, instance))
	}
	if tokens <= had {
		return 0
	}
	f.holders(block).Add(instance)
	f.setHeld(block, instance, tokens)
	return tokens - had
}

func (f *Fleet) setHeld(block uint32, instance int, tokens int32) {
	if tokens < f.prompts.most(block) {
		f.cut[block] = true
		f.parts[part{block, instance}] = tokens
	} else if f.cut[block] {
		delete(f.parts, part{block, instance})
	}
}

// shrink drops what an instance has no room for.
func (f *Fleet) shrink(instance int) {
	r := f.recent
	for r.used[instance] > r.capacity[instance] {
		block := r.oldest(instance)
		tokens := int64(f.held(block, instance))
		excess := r.used[instance] - r.capacity[instance]
		if tokens > excess {
			f.setHeld(block, instance, int32(tokens-excess))
			r.used[instance] -= excess
			return
		}
		r.drop(block, instance, tokens)
		f.holders(block).Drop(instance)
		if f.cut[block] {
			delete(f.parts, part{block, instance})
		}
	}
}

// recency is the blocks of instances with limits by their last use: a list for each instance, and a chain for each
// block.
type recency struct {
	capacity, used []int64  // tokens, by instance
	uses           []use    // the first ones, a number for each instance, are both ends of its list
	first          []uint32 // by block: the first of its chain; 0 = no instance has it
	spare          []uint32 // places not in use
}

// use is a block at an instance.
type use struct {
	block        uint32
	instance     int32
	older, newer uint32 // neighbours in the instance's list
	next         uint32 // the same block at another instance; 0 = none
}

func newRecency(blocks int, capacity []int64) *recency {
	n := len(capacity)
	r := &recency{
		capacity: capacity,
		used:     make([]int64, n),
		uses:     make([]use, n+1),
		first:    make([]uint32, blocks),
	}
	for k := range capacity {
		end := uint32(k + 1)
		r.uses[end] = use{
			instance: int32(k),
			older:    end,
			newer:    end,
		}
	}
	return r
}

// touch makes a block the most recently used one of an instance, where it has grown by so many tokens.
func (r *recency) touch(block uint32, instance int, grown int64) {
	r.used[instance] += grown
	place := r.first[block]
	for place != 0 && r.uses[place].instance != int32(instance) {
		place = r.uses[place].next
	}
	if place == 0 {
		place = r.add(block, instance)
	} else {
		r.unlink(place)
	}
	end := uint32(instance + 1)
	newest := r.uses[end].older
	r.uses[place].older = newest
	r.uses[place].newer = end
	r.uses[newest].newer = place
	r.uses[end].older = place
}

// add puts a block at an instance into the block's chain, and into no list yet.
func (r *recency) add(block uint32, instance int) (place uint32) {
	n := len(r.spare)
	if n > 0 {
		place = r.spare[n-1]
		r.spare = r.spare[:n-1]
	} else {
		place = uint32(len(r.uses))
		r.uses = append(r.uses, use{})
	}
	r.uses[place] = use{
		block:    block,
		instance: int32(instance),
		next:     r.first[block],
	}
	r.first[block] = place
	return place
}

func (r *recency) unlink(place uint32) {
	u := &r.uses[place]
	r.uses[u.older].newer = u.newer
	r.uses[u.newer].older = u.older
}

// oldest is the least recently used block of an instance that has any.
func (r *recency) oldest(instance int) uint32 {
	return r.uses[r.uses[instance+1].newer].block
}

// drop takes a block of so many tokens from an instance.
func (r *recency) drop(block uint32, instance int, tokens int64) {
	r.used[instance] -= tokens
	link := &r.first[block]
	for r.uses[*link].instance != int32(instance) {
		link = &r.uses[*link].next
	}
	place := *link
	*link = r.uses[place].next
	r.unlink(place)
	r.spare = append(r.spare, place)
}
