package tokenizer

import "strings"

// gone marks a symbol that was merged into the one on its left.
const gone = int32(-2)

// symbol is a part of a word in a doubly linked list; -1 ends it.
type symbol struct{ id, prev, next int32 }

// candidate is a pair that may be merged: the symbol at position at with its right neighbour.
type candidate struct{ rank, at, id int32 }

func (s *scratch) addSymbol(id int32) {
	n := int32(len(s.symbols))
	if n > 0 {
		s.symbols[n-1].next = n
	}
	s.symbols = append(s.symbols, symbol{id: id, prev: n - 1, next: -1})
}

// merger looks up what becomes of two neighbours; false if they do not merge.
type merger interface {
	merge(left, right int32) (merge, bool)
}

// mergeAll merges s.symbols: always the pair of the lowest rank, the leftmost of equals. It adds the ids of what is
// left to dst. A heap keeps a word of n characters at n log n.
func (s *scratch) mergeAll(dst []int32, m merger) []int32 {
	s.heap = s.heap[:0]
	for i := range len(s.symbols) - 1 {
		s.offer(m, int32(i))
	}
	for len(s.heap) > 0 {
		top := s.heap.pop()
		left := &s.symbols[top.at]
		if left.id == gone || left.next < 0 {
			continue
		}
		right := &s.symbols[left.next]
		now, ok := m.merge(left.id, right.id)
		if !ok || now.id != top.id {
			continue // a neighbour changed since the pair was offered
		}
		left.id = top.id
		left.next = right.next
		right.id = gone
		if left.next >= 0 {
			s.symbols[left.next].prev = top.at
		}
		if left.prev >= 0 {
			s.offer(m, left.prev)
		}
		if left.next >= 0 {
			s.offer(m, top.at)
		}
	}
	for i := range s.symbols {
		if s.symbols[i].id != gone {
			dst = append(dst, s.symbols[i].id)
		}
	}
	return dst
}

// offer puts the pair at a position into the heap if it has a rank.
func (s *scratch) offer(m merger, at int32) {
	left := s.symbols[at]
	found, ok := m.merge(left.id, s.symbols[left.next].id)
	if ok {
		s.heap.push(candidate{rank: found.rank, at: at, id: found.id})
	}
}

// candidates is a binary heap, the lowest rank and then the leftmost on top.
type candidates []candidate

func (c candidate) before(d candidate) bool {
	return c.rank < d.rank || c.rank == d.rank && c.at < d.at
}

func (h *candidates) push(c candidate) {
	*h = append(*h, c)
	a := *h
	for i := len(a) - 1; i > 0; {
		parent := (i - 1) / 2
		if !a[i].before(a[parent]) {
			return
		}
		a[i], a[parent] = a[parent], a[i]
		i = parent
	}
}

func (h *candidates) pop() candidate {
	a := *h
	top := a[0]
	last := len(a) - 1
	a[0] = a[last]
	a = a[:last]
	*h = a
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(a); child++ {
			if a[child].before(a[least]) {
				least = child
			}
		}
		if least == i {
			return top
		}
		a[i], a[least] = a[least], a[i]
		i = least
	}
}

// Limits of the memory of one encoding. Words longer than maxCachedBytes are too rarely repeated, and a full cache is
// emptied. A cache of 65,536 words is more than a prompt's vocabulary and takes about 8 MB with their tokens.
const (
	maxCachedBytes = 128
	maxCachedWords = 1 << 16
)

// scratch is what one call of Append works with. It goes back to a pool, with the words that it remembers.
type scratch struct {
	words   map[string]span
	ids     []int32 // of the words remembered
	symbols []symbol
	heap    candidates
	nodes   []node
	word    []byte   // of a built-in vocabulary
	now     []string // pieces between two pre-tokenizers
	next    []string
}

type span struct{ from, end int32 }

// pool keeps what was worked with for the next call. Unlike sync.Pool it does not forget at every garbage collection,
// which would cost the caches.
type pool chan *scratch

// newPool keeps at most 64; more are in use only with as many goroutines.
func newPool() pool { return make(pool, 64) }

func (p pool) take() *scratch {
	select {
	case s := <-p:
		return s
	default:
		return newScratch()
	}
}

func (p pool) give(s *scratch) {
	select {
	case p <- s:
	default:
	}
}

func newScratch() *scratch { return &scratch{words: make(map[string]span)} }

// append adds the tokens of a word or of a part of one, which it remembers.
func (s *scratch) append(dst []int32, word string, m model) []int32 {
	if at, known := s.words[word]; known {
		return append(dst, s.ids[at.from:at.end]...)
	}
	from := len(dst)
	dst = m.append(dst, word, s)
	if len(word) > maxCachedBytes {
		return dst
	}
	if len(s.words) >= maxCachedWords {
		clear(s.words)
		s.ids = s.ids[:0]
	}
	kept := int32(len(s.ids))
	s.ids = append(s.ids, dst[from:]...)
	s.words[strings.Clone(word)] = span{from: kept, end: int32(len(s.ids))}
	return dst
}
