package trace

// slabBytes is the size of a slab.
const slabBytes = 1 << 20

// listStore keeps a list for each of many rows, such as block ids, in slabs, so that appending never moves what is stored.
type listStore[T uint64 | byte] struct {
	slabs [][]T
	rows  []span
	held  int // elements in all slabs
}

type (
	idStore   = listStore[uint64]
	textStore = listStore[byte]
)

// span is where a row's list lies.
type span struct{ slab, from, n uint32 }

// add appends a row.
func (s *listStore[T]) add(list []T) {
	last := len(s.slabs) - 1
	if last < 0 || cap(s.slabs[last])-len(s.slabs[last]) < len(list) {
		s.slabs = append(s.slabs, make([]T, 0, max(slabBytes/sizeOf[T](), len(list))))
		last++
	}
	s.rows = append(s.rows, span{uint32(last), uint32(len(s.slabs[last])), uint32(len(list))})
	s.slabs[last] = append(s.slabs[last], list...)
	s.held += len(list)
}

// addLonger appends a row that begins with the one added last, which shares its place where the slab has the room.
func (s *listStore[T]) addLonger(list []T) {
	last := len(s.slabs) - 1
	p := s.rows[len(s.rows)-1]
	more := list[p.n:]
	atEnd := int(p.slab) == last && int(p.from+p.n) == len(s.slabs[last])
	if !atEnd || cap(s.slabs[last])-len(s.slabs[last]) < len(more) {
		s.add(list)
		return
	}
	p.n += uint32(len(more))
	s.rows = append(s.rows, p)
	s.slabs[last] = append(s.slabs[last], more...)
	s.held += len(more)
}

// row returns the list of a row.
func (s *listStore[T]) row(i int) []T {
	p := s.rows[i]
	return s.slabs[p.slab][p.from : p.from+p.n : p.from+p.n]
}

// chosen is the store of the rows in order, row i cut to at most most(row) elements. It shares the slabs, unless most of
// what they hold would be kept for nothing.
func (s *listStore[T]) chosen(order []int32, most func(row int32) int) listStore[T] {
	out := listStore[T]{slabs: s.slabs, rows: make([]span, len(order)), held: s.held}
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
	var small listStore[T]
	for i := range out.rows {
		small.add(out.row(i))
	}
	return small
}

func sizeOf[T uint64 | byte]() int {
	var v T
	if _, wide := any(v).(uint64); wide {
		return 8
	}
	return 1
}
