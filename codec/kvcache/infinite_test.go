package kvcache

import (
	"math/rand/v2"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// token is one token as the oracle sees it: made anew for every position, equal exactly where the definition of prompts
// says so.
type token struct {
	kind     string
	id       uint64
	position int
}

// prompt is a request as a server gets it.
type prompt struct {
	blocks             []uint64
	tokens, head, tail int
}

func (p prompt) total() int { return p.head + p.tokens + p.tail }

// sequence writes the prompt out, token by token; row makes the unique ones.
func (p prompt) sequence(blockTokens, row int) []token {
	var all []token
	for i := range p.head {
		all = append(all, token{"head", 0, i})
	}
	for i := range p.tokens {
		if block := i / blockTokens; block < len(p.blocks) {
			all = append(all, token{"block", p.blocks[block], i % blockTokens})
		} else {
			all = append(all, token{"unique", uint64(row), i})
		}
	}
	for i := range p.tail {
		all = append(all, token{"tail", 0, i})
	}
	return all
}

// oracle compares every prompt with every earlier one.
type oracle struct {
	blockTokens, engineTokens int
	earlier                   [][]token
}

func (o *oracle) expected(p prompt) int {
	now := p.sequence(o.blockTokens, len(o.earlier))
	longest := 0
	for _, then := range o.earlier {
		n := 0
		for n < len(now) && n < len(then) && now[n] == then[n] {
			n++
		}
		longest = max(longest, n)
	}
	o.earlier = append(o.earlier, now)
	return max(0, min(longest, len(now)-1)) / o.engineTokens * o.engineTokens
}

// checkAll shows the prompts to a model and to the oracle.
func checkAll(t *testing.T, blockTokens, engineTokens int, prompts []prompt) {
	t.Helper()
	c := NewInfinite(blockTokens, engineTokens)
	o := oracle{blockTokens: blockTokens, engineTokens: engineTokens}
	for i, p := range prompts {
		got := c.Expected(p.blocks, p.tokens, p.head, p.total())
		must.Equal(t, got, o.expected(p), "blocks of %d, engine blocks of %d, prompt %d of %+v: expected tokens", blockTokens, engineTokens, i, prompts[:i+1])
	}
}

// TestExpected: what the oracle says of each rule, and so does the model. TestExpectedAgreesWithOracle has all others.
func TestExpected(t *testing.T) {
	type step struct {
		want, tokens int
		blocks       []uint64
	}
	for name, c := range map[string]struct {
		blockTokens, engineTokens, head, tail int
		steps                                 []step
	}{
		"chat of two turns": {512, 16, 0, 0, []step{
			{0, 1024, []uint64{1, 2}},
			{1024, 1500, []uint64{1, 2, 3}},
			{512, 1500, []uint64{1, 9, 3}}, // 3 does not count behind 9
		}},
		"last partial block": {512, 16, 0, 0, []step{
			{0, 512 + 100, []uint64{1, 2}},
			{608, 512 + 300, []uint64{1, 2}}, // 612 shared
			{800, 1500, []uint64{1, 2, 3}},   // 812 shared
			{560, 512 + 50, []uint64{1, 2}},  // 562, less one
			{1488, 1500, []uint64{1, 2, 3}},  // all but the last token
		}},
		"unique behind the blocks, surplus ids": {16, 16, 0, 0, []step{
			{0, 64, []uint64{1}},
			{16, 64, []uint64{1}},
			{0, 64, nil},
			{16, 20, []uint64{1, 2, 3}},
			{16, 48, []uint64{1, 2, 3}},
		}},
		"a template shifts the blocks": {16, 16, 14, 5, []step{
			{0, 16, []uint64{1}},
			{0, 16, []uint64{2}},     // 14 shared
			{16, 32, []uint64{1, 3}}, // 30 shared
			{48, 32, []uint64{1, 3}}, // all 51: equal texts share the tail too
		}},
	} {
		cache := NewInfinite(c.blockTokens, c.engineTokens)
		o := oracle{blockTokens: c.blockTokens, engineTokens: c.engineTokens}
		for i, s := range c.steps {
			p := prompt{s.blocks, s.tokens, c.head, c.tail}
			expect.Equal(t, o.expected(p), s.want, "%s, prompt %d: the oracle", name, i)
			expect.Equal(t, cache.Expected(p.blocks, p.tokens, p.head, p.total()), s.want, "%s, prompt %d: expected", name, i)
		}
	}
}

// Few ids and short prompts make every kind of meeting happen often.
func TestExpectedAgreesWithOracle(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		blockTokens := 1 + chance.IntN(6)
		engineTokens := 1 + chance.IntN(8)
		head, tail := chance.IntN(7), chance.IntN(4)
		var prompts []prompt
		for range 1 + chance.IntN(25) {
			blocks := make([]uint64, chance.IntN(5))
			for i := range blocks {
				blocks[i] = uint64(chance.IntN(3))
			}
			tokens := chance.IntN(len(blocks)*blockTokens + blockTokens + 1)
			prompts = append(prompts, prompt{blocks, tokens, head, tail})
		}
		checkAll(t, blockTokens, engineTokens, prompts)
	}
}

// Enough blocks for the table to grow often, with ids of any size.
func TestExpectedInALargeTree(t *testing.T) {
	chance := rand.New(rand.NewPCG(3, 4))
	c := NewInfinite(16, 16)
	var chains [][]uint64
	for range 2000 {
		chain := make([]uint64, 1+chance.IntN(60))
		for i := range chain {
			chain[i] = chance.Uint64()
		}
		if len(chains) > 0 { // goes on from an earlier chain
			old := chains[chance.IntN(len(chains))]
			from := chance.IntN(len(old) + 1)
			chain = append(append([]uint64(nil), old[:from]...), chain...)
			must.Equal(t, c.Expected(chain, 16*len(chain), 0, 16*len(chain)), 16*from, "expected tokens")
		} else {
			c.Expected(chain, 16*len(chain), 0, 16*len(chain))
		}
		chains = append(chains, chain)
	}
	for _, chain := range chains {
		must.Equal(t, c.Expected(chain, 16*len(chain), 0, 16*len(chain)), 16*len(chain)-16, "seen again: expected tokens")
	}
}

func FuzzExpected(f *testing.F) {
	f.Add(uint8(2), uint8(3), uint8(1), uint8(1), []byte{3, 1, 2, 7, 3, 1, 2, 9})
	f.Fuzz(func(t *testing.T, blockTokens, engineTokens, head, tail uint8, script []byte) {
		if len(script) > 400 {
			return
		}
		var prompts []prompt
		for len(script) > 0 {
			n := min(int(script[0]%6), len(script)-1)
			p := prompt{head: int(head % 20), tail: int(tail % 20), tokens: int(script[0] / 6)}
			for _, id := range script[1 : 1+n] {
				p.blocks = append(p.blocks, uint64(id%4))
			}
			script = script[1+n:]
			prompts = append(prompts, p)
		}
		checkAll(t, 1+int(blockTokens%10), 1+int(engineTokens%20), prompts)
	})
}

func TestHeadTotalsOutOfLineDoNotGoNegative(t *testing.T) {
	c := NewInfinite(16, 16)
	c.Expected([]uint64{1}, 16, 0, 16)
	for _, total := range []int{0, -5} {
		expect.Equal(t, c.Expected([]uint64{1}, 16, 0, total), 0, "total %d: expected", total)
	}
}
