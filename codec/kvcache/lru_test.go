package kvcache

import (
	"math/rand/v2"
	"testing"
)

// ran sends a request through, from its start to its end, and returns what was
// found.
func ran(c *LRU, blocks []uint64, total, outputTokens int) int {
	r, cached := c.Start(blocks, total, 0, total, outputTokens)
	c.Prefilled(r)
	c.Finish(r)
	return cached
}

// The end of a prompt goes first.
func TestLRUEvictsTheEndFirst(t *testing.T) {
	c := NewLRU(16, 16, 4*16)
	ran(c, []uint64{1, 2, 3, 4}, 64, 0)
	ran(c, []uint64{9}, 16, 0) // takes the room of 4
	if got := ran(c, []uint64{1, 2, 3, 4}, 64, 0); got != 48 {
		t.Errorf("%d tokens found, want 48", got)
	}
}

// An answer takes room.
func TestLRUHoldsAnswers(t *testing.T) {
	c := NewLRU(16, 16, 4*16)
	ran(c, []uint64{1, 2, 3}, 48, 0)
	ran(c, []uint64{9}, 16, 17) // 33 tokens, 3 blocks
	if got := ran(c, []uint64{1, 2, 3}, 48, 0); got != 16 {
		t.Errorf("%d tokens found, want 16", got)
	}
}

// Blocks are found from the end of the prefill on, even when all have finished.
func TestLRUFindsWhatIsPrefilled(t *testing.T) {
	c := NewLRU(16, 16, 0)
	a, _ := c.Start([]uint64{1, 2}, 32, 0, 32, 8)
	if _, got := c.Start([]uint64{1, 2, 3}, 48, 0, 48, 8); got != 0 {
		t.Errorf("%d tokens found during the prefill, want 0", got)
	}
	c.Prefilled(a)
	if _, got := c.Start([]uint64{1, 2, 3}, 48, 0, 48, 8); got != 32 {
		t.Errorf("%d tokens found behind the prefill, want 32", got)
	}
	c.Finish(a)
	if _, got := c.Start([]uint64{1, 2, 3}, 48, 0, 48, 8); got != 32 {
		t.Errorf("%d tokens found behind the end, want 32", got)
	}
}

// What failed in its prefill is never found.
func TestLRUNeverFindsWhatFailed(t *testing.T) {
	c := NewLRU(16, 16, 0)
	r, _ := c.Start([]uint64{1, 2}, 32, 0, 32, 8)
	c.Finish(r)
	if got := ran(c, []uint64{1, 2}, 33, 0); got != 0 {
		t.Errorf("%d tokens found, want 0", got)
	}
}

// A copy takes room, and is found when the first is gone.
func TestLRUHoldsCopies(t *testing.T) {
	c := NewLRU(16, 16, 3*16)
	a, _ := c.Start([]uint64{1}, 16, 0, 16, 0)
	b, _ := c.Start([]uint64{1}, 16, 0, 16, 0)
	c.Prefilled(a)
	c.Prefilled(b)
	c.Finish(a)
	c.Finish(b)
	ran(c, []uint64{8, 9}, 32, 0) // takes what was vacant and the copy of a
	if got := ran(c, []uint64{1}, 17, 0); got != 16 {
		t.Errorf("%d tokens found, want those of the second copy", got)
	}
}

// Of a copy found in its middle, the end goes first.
func TestLRUSplitsCopies(t *testing.T) {
	c := NewLRU(8, 1, 13)
	a, _ := c.Start([]uint64{1}, 5, 0, 5, 0)
	b, _ := c.Start([]uint64{1}, 8, 0, 8, 0)
	c.Prefilled(a)
	c.Prefilled(b)
	c.Finish(a)
	c.Finish(b)
	r, got := c.Start([]uint64{1}, 7, 0, 7, 0) // 5 of a, 1 of b, and in the place of b's last one its own
	if got != 6 {
		t.Errorf("%d tokens found, want 6", got)
	}
	c.Finish(r)
	if got := ran(c, []uint64{1}, 9, 0); got != 7 {
		t.Errorf("%d tokens found, want 7", got)
	}
}

// Running requests may hold more than there is room.
func TestLRUBeyondItsRoom(t *testing.T) {
	c := NewLRU(16, 16, 2*16)
	ran(c, []uint64{7}, 16, 0)
	r, _ := c.Start([]uint64{1, 2, 3, 4}, 64, 0, 64, 100)
	c.Prefilled(r)
	if got := ran(c, []uint64{7}, 17, 0); got != 0 {
		t.Errorf("%d tokens found beside a request that needs more than all, want 0", got)
	}
	if got := ran(c, []uint64{1, 2}, 32, 0); got != 16 {
		t.Errorf("%d tokens of the running request found, want 16", got)
	}
	c.Finish(r)
	if got := ran(c, []uint64{1, 2, 3, 4}, 65, 0); got != 32 {
		t.Errorf("%d tokens found in a pool of 32, want all", got)
	}
}

// Nodes and runs are of the living, not of all that ever were.
func TestLRUForgetsWhatIsEvicted(t *testing.T) {
	c := NewLRU(16, 16, 1000*16)
	for i := range 5000 {
		chain := []uint64{1, uint64(i), uint64(i), 4, 5}
		ran(c, chain, 80, 20)
	}
	if nodes, runs := len(c.pool.prefixes.nodes), len(c.pool.runs); nodes > 1100 || runs > 1400 {
		t.Errorf("%d nodes and %d runs for 1,000 blocks", nodes, runs)
	}
}

func TestLRUOutOfLineNumbers(t *testing.T) {
	for _, total := range []int{-5, 0, 3, 40, 1 << 40} {
		for _, head := range []int{-3, 0, 17, 100} {
			for _, tokens := range []int{-1, 0, 33, 1000} {
				c := NewLRU(16, 16, 160)
				for range 3 {
					r, _ := c.Start([]uint64{1, 2, 3}, tokens, head, total, -7)
					c.Prefilled(r)
					c.Finish(r)
				}
			}
		}
	}
}

func TestLRURefusesARequestThatEnded(t *testing.T) {
	c := NewLRU(16, 16, 160)
	r, _ := c.Start(nil, 20, 0, 20, 0)
	c.Finish(r)
	defer func() {
		if recover() == nil {
			t.Error("finished twice without a word")
		}
	}()
	c.Finish(r)
}

// Once its slices have grown, a pool that evicts all the time allocates
// nothing.
func TestLRUAllocatesNothingOnceGrown(t *testing.T) {
	c := NewLRU(64, 16, 1000*16)
	chance := rand.New(rand.NewPCG(9, 10))
	chain := make([]uint64, 40)
	var running []Running
	step := func() {
		from := chance.IntN(len(chain))
		for i := range chain[from:] {
			chain[from+i] = chance.Uint64()
		}
		r, _ := c.Start(chain, 64*len(chain)-5, 3, 64*len(chain)+2, 100)
		c.Prefilled(r)
		running = append(running, r)
		if len(running) == 4 {
			c.Finish(running[0])
			running = append(running[:0], running[1:]...)
		}
	}
	for range 2000 {
		step()
	}
	if n := testing.AllocsPerRun(2000, step); n > 0 {
		t.Errorf("%g allocations a request", n)
	}
}

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
