package kvcache

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/fastreplay/fastreplay/bench/must"
)

// request is a prompt of a naive cache: the names of its blocks and how long each is.
type request struct {
	names   []string
	lengths []int
}

// naiveLRU is a list of slots, the most recent first.
type naiveLRU struct {
	slots int
	list  []string
}

func (c *naiveLRU) holds(name string) bool { return slices.Contains(c.list, name) }

func (c *naiveLRU) touch(name string) {
	if at := slices.Index(c.list, name); at >= 0 {
		c.list = slices.Delete(c.list, at, at+1)
	}
	c.list = slices.Insert(c.list, 0, name)
	c.list = c.list[:min(len(c.list), c.slots)]
}

// replayNaive runs requests through a list and counts hit blocks and tokens.
func replayNaive(requests []request, slots int, o Order) (blocks, tokens int) {
	c := &naiveLRU{slots: slots}
	longest := map[string]int{}
	for _, r := range requests {
		whole := true
		for i, name := range r.names {
			if whole = whole && c.holds(name); whole {
				blocks++
				tokens += min(r.lengths[i], longest[name])
			}
			if o == InOrder {
				c.touch(name)
			}
		}
		for i, name := range slices.Backward(r.names) {
			longest[name] = max(longest[name], r.lengths[i])
			if o == TailFirst {
				c.touch(name)
			}
		}
	}
	return blocks, tokens
}

// named writes a prompt's blocks as the definition says: an id with all before it, or something unique.
func named(ids []uint64, tokens, blockTokens, row int) request {
	var r request
	for i := 0; i*blockTokens < tokens; i++ {
		name := fmt.Sprintf("row %d, block %d", row, i)
		if i < len(ids) {
			name = fmt.Sprint(ids[:i+1])
		}
		r.names = append(r.names, name)
		r.lengths = append(r.lengths, min(blockTokens, tokens-i*blockTokens))
	}
	return r
}

// checkCurve compares the curves of prompts with lists of every capacity that matters.
func checkCurve(t *testing.T, blockTokens int, ids [][]uint64, tokens []int) {
	t.Helper()
	r := NewStackDistances(blockTokens)
	var requests []request
	blocks, all := 0, 0
	for i := range ids {
		q := named(ids[i], tokens[i], blockTokens, i)
		uses := r.Add(ids[i], tokens[i])
		checkUses(t, requests, q, ids[i], uses)
		requests = append(requests, q)
		blocks, all = blocks+len(q.names), all+tokens[i]
	}
	for _, o := range []Order{InOrder, TailFirst} {
		c := r.Curve(o)
		for slots := range blocks + 2 {
			wantBlocks, wantTokens := replayNaive(requests, slots, o)
			for _, capacity := range []int{slots * blockTokens, slots*blockTokens + blockTokens - 1} {
				gotBlocks, gotTokens := c.BlockRatio(int64(capacity))*float64(blocks), c.TokenRatio(int64(capacity))*float64(all)
				if math.Abs(gotBlocks-float64(wantBlocks)) > 1e-6 || math.Abs(gotTokens-float64(wantTokens)) > 1e-6 {
					t.Fatalf("order %d, %d tokens: %.3f blocks and %.3f tokens, want %d and %d\n%v %v", o, capacity, gotBlocks, gotTokens, wantBlocks, wantTokens, ids, tokens)
				}
			}
		}
		unlimited, enough := c.TokenRatio(math.MaxInt64), c.SaturationTokens()
		if c.TokenRatio(enough) != unlimited || enough > 0 && c.BlockRatio(enough-1) == c.BlockRatio(enough) {
			t.Fatalf("order %d: %d tokens are not just enough", o, enough)
		}
	}
}

// checkUses compares what Add returns with a search through all earlier requests.
func checkUses(t *testing.T, earlier []request, q request, ids []uint64, uses []Use) {
	t.Helper()
	must.Equal(t, len(uses), len(q.names), "blocks")
	var list []string // an unlimited cache
	longest := map[string]int{}
	c := naiveLRU{slots: math.MaxInt}
	for _, e := range earlier {
		for i, name := range e.names {
			c.touch(name)
			longest[name] = max(longest[name], e.lengths[i])
		}
	}
	for i, name := range q.names {
		list = c.list
		want := Use{Block: uses[i].Block, Tokens: q.lengths[i], Held: longest[name], StackDistance: slices.Index(list, name)}
		if uses[i] != want || (uses[i].Block < 0) != (i >= len(ids)) {
			t.Fatalf("block %d: %+v, want %+v", i, uses[i], want)
		}
		c.touch(name)
	}
}

func TestCurveAgreesWithLists(t *testing.T) {
	chance := rand.New(rand.NewPCG(5, 6))
	for range 400 {
		blockTokens := 1 + chance.IntN(5)
		var ids [][]uint64
		var tokens []int
		for range 1 + chance.IntN(14) {
			chain := make([]uint64, chance.IntN(5))
			for i := range chain {
				chain[i] = uint64(chance.IntN(3))
			}
			ids = append(ids, chain)
			tokens = append(tokens, chance.IntN(len(chain)*blockTokens+2*blockTokens))
		}
		checkCurve(t, blockTokens, ids, tokens)
	}
}

// Many groups of marks: depths against a list, over some ten thousand uses.
func TestDepthsInALongStack(t *testing.T) {
	chance := rand.New(rand.NewPCG(7, 8))
	r := NewStackDistances(16)
	c := naiveLRU{slots: math.MaxInt}
	for i := range 30_000 {
		id := uint64(chance.IntN(1 + chance.IntN(700)))
		name := fmt.Sprint(id)
		want := slices.Index(c.list, name)
		if chance.IntN(10) == 0 { // a prompt that nobody repeats
			r.Add(nil, 16)
			c.touch(fmt.Sprint("unique ", i))
			continue
		}
		must.Equal(t, r.Add([]uint64{id}, 16)[0].StackDistance, want, "use %d of block %d: blocks between", i, id)
		c.touch(name)
	}
}

func TestCurveOfNothing(t *testing.T) {
	c := NewStackDistances(16).Curve(InOrder)
	if c.BlockRatio(1e6) != 0 || c.TokenRatio(1e6) != 0 || c.SaturationTokens() != 0 {
		t.Errorf("an empty curve: %+v", c)
	}
}

// What Add needs per prompt is kept between prompts.
func TestAddAllocatesOnlyToGrow(t *testing.T) {
	r := NewStackDistances(16)
	ids := []uint64{1, 2, 3, 4}
	for range 10_000 {
		r.Add(ids, 64)
	}
	if n := testing.AllocsPerRun(1000, func() { r.Add(ids, 64) }); n >= 0.1 {
		t.Errorf("%v allocations a prompt", n)
	}
}

func FuzzCurve(f *testing.F) {
	f.Add(uint8(2), []byte{3, 1, 2, 7, 3, 1, 2, 9})
	f.Fuzz(func(t *testing.T, blockTokens uint8, script []byte) {
		if len(script) > 60 {
			return
		}
		var ids [][]uint64
		var tokens []int
		for len(script) > 0 {
			n := min(int(script[0]%6), len(script)-1)
			var chain []uint64
			for _, id := range script[1 : 1+n] {
				chain = append(chain, uint64(id%4))
			}
			ids, tokens = append(ids, chain), append(tokens, int(script[0]/6))
			script = script[1+n:]
		}
		checkCurve(t, 5+int(blockTokens%10), ids, tokens)
	})
}
