package keyed

import (
	"slices"
	"strconv"

	"github.com/fastreplay/fastreplay/codec/blockhash"
)

// mostAlike bounds the prompts that end alike and are remembered, the latest of them.
const mostAlike = 16

// guesser finds sessions where none are recorded. A prompt that goes on from all tokens of an earlier one is a turn of
// its session. Of several earlier ones the longest counts, and of these the latest. A system prompt in common is not
// enough, since no earlier prompt ends with it.
type guesser struct {
	once  blockhash.Key // of the names
	chain *blockhash.Chain
	ends  map[uint64][]end // by the id of the last whole block
	first []int32          // row that begins the session of a row
	size  []int32          // rows of the session that a row begins
}

// name is that of the session of a row.
func (g *guesser) name(row int) string {
	return g.once.Pseudonym("guessed", strconv.Itoa(int(g.first[row])))
}

// end is where a prompt ends.
type end struct {
	row    int
	tokens int
	id     uint64 // of its last block, which may be partial
}

// take notes a row, and from which it goes on.
func (g *guesser) take(row int, tokens []int32, ids []uint64) {
	for len(g.first) <= row {
		g.first = append(g.first, int32(len(g.first)))
		g.size = append(g.size, 0)
	}
	if before, found := g.find(tokens, ids); found {
		g.first[row] = g.first[before]
	}
	g.size[g.first[row]]++
	whole := len(tokens) / blockhash.BlockTokens
	if whole == 0 {
		return
	}
	key := ids[whole-1]
	alike := append(g.ends[key], end{row, len(tokens), ids[len(ids)-1]})
	g.ends[key] = alike[max(0, len(alike)-mostAlike):]
}

// find is the row whose whole prompt a prompt begins with and goes on from.
func (g *guesser) find(tokens []int32, ids []uint64) (row int, found bool) {
	for whole := len(tokens) / blockhash.BlockTokens; whole > 0; whole-- {
		longest := 0
		for _, e := range slices.Backward(g.ends[ids[whole-1]]) {
			if e.tokens <= longest || e.tokens >= len(tokens) {
				continue
			}
			to := g.chain.Append(slices.Clone(ids[:whole]), tokens[:e.tokens])
			if to[len(to)-1] == e.id {
				longest = e.tokens
				row = e.row
			}
		}
		if longest > 0 {
			return row, true
		}
	}
	return 0, false
}
