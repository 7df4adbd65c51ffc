package lists

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestContentIsShared: the turns of a conversation that begin alike are kept once.
func TestContentIsShared(t *testing.T) {
	var s Store[byte]
	s.Add([]byte("abc"))
	s.AddLonger([]byte("abcdef"), 0)
	s.Add([]byte("x"))
	s.AddLonger([]byte("x"), s.Len()-1)
	if string(s.Row(0)) != "abc" || string(s.Row(1)) != "abcdef" || string(s.Row(2)) != "x" || string(s.Row(3)) != "x" || s.held != 7 {
		t.Errorf("%q %q %q %q, %d bytes held", s.Row(0), s.Row(1), s.Row(2), s.Row(3), s.held)
	}
}

// TestInterleavedContentIsShared: of conversations that grow beside each other most is kept once, and each row stays
// what it was.
func TestInterleavedContentIsShared(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	var s Store[uint64]
	lists, latest := make([][]uint64, 20), slices.Repeat([]int{-1}, 20)
	var all [][]uint64
	refs := 0
	for range 2000 {
		c := rng.IntN(len(lists))
		list := slices.Clone(lists[c])
		switch rng.IntN(20) {
		case 0: // it is rewritten from some place on
			list = list[:rng.IntN(len(list)+1)]
		case 1: // it ends earlier this once
			list = list[:rng.IntN(len(list)+1)]
		}
		for range rng.IntN(30) {
			list = append(list, rng.Uint64())
		}
		s.AddShared(list, latest[c])
		lists[c], latest[c], all = list, len(all), append(all, list)
		refs += len(list)
	}
	for i, list := range all {
		if !slices.Equal(s.Row(i), list) {
			t.Fatalf("row %d is %v, want %v", i, s.Row(i), list)
		}
	}
	if t.Logf("%d ids in rows, %d held", refs, s.held); s.held > refs/3 {
		t.Errorf("%d ids are held, of %d in rows", s.held, refs)
	}
}
