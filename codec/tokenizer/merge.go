package tokenizer

// gone marks a symbol that was merged into the one on its left.
const gone = int32(-2)

// symbol is a part of a word in a doubly linked list; -1 ends it.
type symbol struct{ id, prev, next int32 }

// candidate is a pair that may be merged: the symbol at position at with its
// right neighbour.
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

// mergeAll merges s.symbols: always the pair of the lowest rank, the leftmost
// of equals. It adds the ids of what is left to dst. A heap keeps a word of n
// characters at n log n.
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
		if now, ok := m.merge(left.id, right.id); !ok || now.id != top.id {
			continue // a neighbour changed since the pair was offered
		}
		left.id, left.next = top.id, right.next
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
	if found, ok := m.merge(left.id, s.symbols[left.next].id); ok {
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
	top, last := a[0], len(a)-1
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
