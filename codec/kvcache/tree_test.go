package kvcache

import (
	"math/rand/v2"
	"testing"
)

// place is what the tree finds a node by.
type place struct {
	parent uint32
	id     uint64
}

// So many nodes come and go in a small table that searches run into each other.
func TestTreeAgreesWithMap(t *testing.T) {
	chance := rand.New(rand.NewPCG(11, 12))
	tr := newTree()
	numbers := map[place]uint32{}
	var present []place
	for range 200_000 {
		p := place{uint32(chance.IntN(4)), uint64(chance.IntN(300))}
		if got := tr.find(p.parent, p.id); got != numbers[p] {
			t.Fatalf("%+v is node %d, want %d", p, got, numbers[p])
		}
		if len(present) == 500 || len(present) > 0 && chance.IntN(2) == 0 {
			i := chance.IntN(len(present))
			p := present[i]
			if parent := tr.remove(numbers[p]); parent != p.parent {
				t.Fatalf("removed %+v: parent %d", p, parent)
			}
			delete(numbers, p)
			present[i] = present[len(present)-1]
			present = present[:len(present)-1]
			continue
		}
		number, seen := tr.extend(p.parent, p.id, 1)
		if old, there := numbers[p]; there != (seen > 0) || there && old != number {
			t.Fatalf("%+v is node %d (seen: %d tokens), want %d (%t)", p, number, seen, old, there)
		} else if !there {
			numbers[p] = number
			present = append(present, p)
		}
	}
	if len(tr.table) != smallestTable || len(tr.nodes) > 501 {
		t.Errorf("%d slots and %d nodes for 500 at a time", len(tr.table), len(tr.nodes))
	}
}
