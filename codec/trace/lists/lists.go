// Package lists keeps a list for each of many rows, such as block ids, in large pieces of memory. It also picks values
// of some rows out of a column.
//
// A [Store] is for one goroutine while lists are added; then any number may read it.
package lists

import (
	"reflect"
	"slices"
)

// slabBytes is the size of a slab, but for one that holds a longer list.
const slabBytes = 1 << 20

// Store keeps a list for each of many rows in slabs, so that appending never moves what is stored. The zero value is
// empty.
type Store[T comparable] struct {
	slabs [][]T
	rows  []span
	held  int // elements in all slabs
	room  map[place]room
}

// place is where a list begins.
type place struct{ slab, from uint32 }

// span is where a row's list lies.
type span struct {
	place
	n uint32
}

func (p span) end() uint32 {
	return p.from + p.n
}

// room is what is free behind a list in the midst of a slab.
type room struct{ from, to uint32 }

// Len is the number of rows.
func (s *Store[T]) Len() int {
	return len(s.rows)
}

// Size is how many elements the list of row i has.
func (s *Store[T]) Size(i int) int {
	return int(s.rows[i].n)
}

// Total is how many elements all lists have.
func (s *Store[T]) Total() int {
	n := 0
	for _, r := range s.rows {
		n += int(r.n)
	}
	return n
}

// Held is for how many elements there is memory.
func (s *Store[T]) Held() int {
	return s.held
}

// Row returns the list of row i. The slice aliases the store and must not be appended to.
func (s *Store[T]) Row(i int) []T {
	p := s.rows[i]
	slab := s.slabs[p.slab]
	return slab[p.from:p.end():p.end()]
}

// Add appends a row. It copies the list.
func (s *Store[T]) Add(list []T) {
	n := len(list)
	last := len(s.slabs) - 1
	if last < 0 || free(s.slabs[last]) < n {
		usual := slabBytes / int(reflect.TypeFor[T]().Size())
		slab := make([]T, 0, max(usual, n))
		s.slabs = append(s.slabs, slab)
		last++
	}
	slab := s.slabs[last]
	at := place{uint32(last), uint32(len(slab))}
	s.rows = append(s.rows, span{at, uint32(n)})
	s.slabs[last] = append(slab, list...)
	s.held += n
}

// free is for how many elements a slab has room at its end.
func free[T any](slab []T) int {
	return cap(slab) - len(slab)
}

// AddShared appends a row that shares the place of an earlier one, before, if one of the two begins with the other. The
// prompts of an agent mostly do: 11 million ids of Weka's traces take 9 MB then, not 88 MB. -1 is no row.
func (s *Store[T]) AddShared(list []T, before int) {
	var old []T
	if before >= 0 {
		old = s.Row(before)
	}
	n := min(len(old), len(list))
	alike := slices.Equal(old[:n], list[:n])
	switch {
	case n == 0 || !alike:
		s.Add(list)
	case n == len(list):
		s.addSpan(before, n)
	default:
		s.AddLonger(list, before)
	}
}

// addSpan appends a row of n elements that begins where an earlier one does.
func (s *Store[T]) addSpan(before, n int) {
	at := s.rows[before].place
	s.rows = append(s.rows, span{at, uint32(n)})
}

// AddLonger appends a row that begins with an earlier one, whose place it shares where there is room behind that. If
// others came between, there will be room for half as much again.
func (s *Store[T]) AddLonger(list []T, before int) {
	p := s.rows[before]
	more := list[p.n:]
	end := p.end() + uint32(len(more))
	slab := s.slabs[p.slab]
	behind, inside := s.room[p.place]
	switch {
	case inside && behind.from == p.end() && end <= behind.to:
		copy(slab[p.end():], more)
		s.room[p.place] = room{end, behind.to}
	case int(p.end()) == len(slab) && len(more) <= free(slab):
		s.slabs[p.slab] = append(slab, more...)
		s.held += len(more)
	default:
		s.Add(list)
		if before < len(s.rows)-2 {
			s.leaveRoom()
		}
		return
	}
	s.addSpan(before, len(list))
}

// leaveRoom leaves room behind the list that was added last.
func (s *Store[T]) leaveRoom() {
	p := s.rows[len(s.rows)-1]
	slab := s.slabs[p.slab]
	more := min(int(p.n)/2, free(slab))
	slab = slab[:len(slab)+more]
	s.slabs[p.slab] = slab
	s.held += more
	if s.room == nil {
		s.room = map[place]room{}
	}
	behind := room{
		from: p.end(),
		to:   uint32(len(slab)),
	}
	s.room[p.place] = behind
}

// Fork returns a store without rows that shares the memory of s, for [Store.AddFrom]. What is added to one is not in
// the other.
func (s *Store[T]) Fork(rows int) Store[T] {
	out := Store[T]{
		slabs: slices.Clone(s.slabs),
		rows:  make([]span, 0, rows),
		held:  s.held,
	}
	n := len(out.slabs)
	if n > 0 {
		last := &out.slabs[n-1]
		*last = slices.Clip(*last) // what comes behind is not its own
	}
	return out
}

// AddFrom appends a row with the first most elements, or fewer, of row i of the store from which s was forked.
func (s *Store[T]) AddFrom(of *Store[T], i, most int) {
	p := of.rows[i]
	p.n = min(p.n, uint32(most))
	s.rows = append(s.rows, p)
}

// Choose returns the store of the rows in order, row i cut to at most most(row) elements. It shares the memory of s,
// unless most of that would be kept for nothing.
func (s *Store[T]) Choose(order []int32, most func(row int32) int) Store[T] {
	out := s.Fork(len(order))
	for _, row := range order {
		n := most(row)
		out.AddFrom(s, int(row), n)
	}
	if out.Total() >= s.held/2 {
		return out
	}
	var small Store[T]
	for i := range out.rows {
		small.Add(out.Row(i))
	}
	return small
}

// ChooseWhole is Choose without cuts; nil stays nil.
func (s *Store[T]) ChooseWhole(order []int32) *Store[T] {
	if s == nil {
		return nil
	}
	whole := func(row int32) int {
		return s.Size(int(row))
	}
	out := s.Choose(order, whole)
	return &out
}

// Pick is values[order[0]], values[order[1]], …; nil of nil.
func Pick[T any](order []int32, values []T) []T {
	if values == nil {
		return nil
	}
	out := make([]T, len(order))
	for i, row := range order {
		out[i] = values[row]
	}
	return out
}

// UpTo lists 0 to n-1.
func UpTo(n int) []int32 {
	all := make([]int32, n)
	for i := range all {
		all[i] = int32(i)
	}
	return all
}
