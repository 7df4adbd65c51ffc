package kvcache

import (
	"math"
	"math/bits"
)

const (
	// groupWords is how many words of marks one count stands for: with 8 the
	// counts of 20 million uses fit a second-level cache, and the words of a
	// group one line of it.
	groupWords = 8
	groupUses  = 64 * groupWords
)

// stack is an LRU stack that tells the depth of a block in O(log n). Every use
// has a place in the order of uses; a mark says that it is the latest of its
// block. What lies above a block are the marks behind its own: they are counted
// by a Fenwick tree of whole groups, and bit by bit inside the group.
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

// above is the number of blocks that were used after the latest use of this
// one.
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

// touch makes a block the most recently used one; -1 is a block that is never
// used again.
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
	if was := s.last[block]; was > 0 {
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
