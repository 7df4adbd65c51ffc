package trace

// slabIDs is the size of a slab: 1 MiB.
const slabIDs = 128 << 10

// idStore keeps the block ids of many rows in slabs, so that appending never moves what is stored.
type idStore struct {
	slabs [][]uint64
	rows  []idSpan
	held  int // ids in all slabs
}

// idSpan is where a row's ids lie.
type idSpan struct{ slab, from, n uint32 }

// add appends a row.
func (s *idStore) add(ids []uint64) {
	last := len(s.slabs) - 1
	if last < 0 || cap(s.slabs[last])-len(s.slabs[last]) < len(ids) {
		s.slabs = append(s.slabs, make([]uint64, 0, max(slabIDs, len(ids))))
		last++
	}
	s.rows = append(s.rows, idSpan{uint32(last), uint32(len(s.slabs[last])), uint32(len(ids))})
	s.slabs[last] = append(s.slabs[last], ids...)
	s.held += len(ids)
}

// row returns the ids of a row.
func (s *idStore) row(i int) []uint64 {
	p := s.rows[i]
	return s.slabs[p.slab][p.from : p.from+p.n : p.from+p.n]
}

// chosen is the store of the rows in order, row i cut to at most most(row) ids. It shares the slabs, unless most of
// what they hold would be kept for nothing.
func (s *idStore) chosen(order []int32, most func(row int32) int) idStore {
	out := idStore{slabs: s.slabs, rows: make([]idSpan, len(order)), held: s.held}
	used := 0
	for i, r := range order {
		p := s.rows[r]
		p.n = min(p.n, uint32(most(r)))
		out.rows[i] = p
		used += int(p.n)
	}
	if used >= s.held/2 {
		return out
	}
	var small idStore
	for i := range out.rows {
		small.add(out.row(i))
	}
	return small
}
