package engine

import (
	"math/bits"
	"sync/atomic"
)

// idSet is a lock-free set of small ids. The lowest id is taken first, so that the connections in use stay few and warm and
// the others grow old and are closed by the server, rather than raced against. Taking looks at one word for every 64 ids.
type idSet struct {
	words []atomic.Uint64 // bit id%64 of word id/64
	count atomic.Int64
}

func newIDSet(capacity int) *idSet { return &idSet{words: make([]atomic.Uint64, (capacity+63)/64)} }

// put adds id; adding it again changes nothing.
func (s *idSet) put(id uint32) {
	bit := uint64(1) << (id % 64)
	if s.words[id/64].Or(bit)&bit == 0 {
		s.count.Add(1)
	}
}

// drop removes id if it is there.
func (s *idSet) drop(id uint32) {
	bit := uint64(1) << (id % 64)
	if s.words[id/64].And(^bit)&bit != 0 {
		s.count.Add(-1)
	}
}

// take removes the lowest id; false when the set is empty.
func (s *idSet) take() (id uint32, ok bool) {
	for w := range s.words {
		word := &s.words[w]
		for {
			old := word.Load()
			if old == 0 {
				break
			}
			if word.CompareAndSwap(old, old&(old-1)) {
				s.count.Add(-1)
				return uint32(w*64 + bits.TrailingZeros64(old)), true
			}
		}
	}
	return 0, false
}

// len is how many ids the set has.
func (s *idSet) len() int64 { return s.count.Load() }
