package kvcache

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// TestLRU plays what happens to a server in order: the model finds the tokens that are given here, and so does the
// oracle.
func TestLRU(t *testing.T) {
	start := func(output, tokens int, ids ...uint64) event {
		return event{kind: startPrompt, prompt: prompt{blocks: ids, tokens: tokens}, outputTokens: output}
	}
	prefilled := func(running int) event { return event{kind: endPrefill, choice: running} }
	end := func(running int) event { return event{kind: finish, choice: running} }
	// ran sends a request through, from its start to its end, beside so many that are running.
	ran := func(beside, output, tokens int, ids ...uint64) []event {
		return []event{start(output, tokens, ids...), prefilled(beside), end(beside)}
	}
	for _, c := range []struct {
		name                      string
		blockTokens, engineTokens int
		capacityTokens            int64
		events                    []event
		found                     []int // tokens, by start
	}{
		{"the end of a prompt goes first", 16, 16, 4 * 16,
			slices.Concat(ran(0, 0, 64, 1, 2, 3, 4), ran(0, 0, 16, 9) /* takes the room of 4 */, ran(0, 0, 64, 1, 2, 3, 4)), []int{0, 0, 48}},
		{"an answer takes room", 16, 16, 4 * 16,
			slices.Concat(ran(0, 0, 48, 1, 2, 3), ran(0, 17, 16, 9) /* 33 tokens, 3 blocks */, ran(0, 0, 48, 1, 2, 3)), []int{0, 0, 16}},
		{"blocks are found from the end of the prefill on, also after the end", 16, 16, 0, []event{
			start(8, 32, 1, 2), start(8, 48, 1, 2, 3), prefilled(0), start(8, 48, 1, 2, 3), end(0), start(8, 48, 1, 2, 3),
		}, []int{0, 0, 32, 32}},
		{"what failed in its prefill is never found", 16, 16, 0,
			append([]event{start(8, 32, 1, 2), end(0)}, ran(0, 0, 33, 1, 2)...), []int{0, 0}},
		{"a copy takes room, and is found when the first is gone", 16, 16, 3 * 16, slices.Concat(
			[]event{start(0, 16, 1), start(0, 16, 1), prefilled(0), prefilled(1), end(0), end(0)},
			ran(0, 0, 32, 8, 9), // takes what was vacant and the first copy
			ran(0, 0, 17, 1)), []int{0, 0, 0, 16}},
		{"of a copy found in its middle, the end goes first", 8, 1, 13, slices.Concat(
			[]event{start(0, 5, 1), start(0, 8, 1), prefilled(0), prefilled(1), end(0), end(0)},
			[]event{start(0, 7, 1), end(0)}, // 5 of the first, 1 of the second, and in the place of the latter's last one its own
			ran(0, 0, 9, 1)), []int{0, 0, 6, 7}},
		{"running requests may hold more than there is room", 16, 16, 2 * 16, slices.Concat(
			ran(0, 0, 16, 7), []event{start(100, 64, 1, 2, 3, 4), prefilled(0)},
			ran(1, 0, 17, 7), ran(1, 0, 32, 1, 2), []event{end(0)}, ran(0, 0, 65, 1, 2, 3, 4)), []int{0, 0, 0, 16, 32}},
	} {
		s := newServer(c.blockTokens, c.engineTokens, c.capacityTokens)
		var found []int
		for _, e := range c.events {
			got, want := s.do(e)
			expect.Equal(t, got, want, "%s: %+v: tokens found", c.name, e)
			if e.kind == startPrompt {
				found = append(found, got)
			}
		}
		expect.List(t, found, c.found, "%s: tokens found", c.name)
	}
}

// Nodes and runs are of the living, not of all that ever were.
func TestLRUForgetsWhatIsEvicted(t *testing.T) {
	c := NewLRU(16, 16, 1000*16)
	for i := range 5000 {
		r, _ := c.Start([]uint64{1, uint64(i), uint64(i), 4, 5}, 80, 0, 80, 20)
		c.Prefilled(r)
		c.Finish(r)
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

// Once its slices have grown, a pool that evicts all the time allocates nothing.
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
		must.Equal(t, tr.find(p.parent, p.id), numbers[p], "%+v is node", p)
		if len(present) == 500 || len(present) > 0 && chance.IntN(2) == 0 {
			i := chance.IntN(len(present))
			p := present[i]
			must.Equal(t, tr.remove(numbers[p]), p.parent, "removed %+v: parent", p)
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
