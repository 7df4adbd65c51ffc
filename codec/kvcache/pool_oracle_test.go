package kvcache

import (
	"fmt"
	"slices"
)

// poolOracle is a server's block pool, written naively. Every engine block is an object of its own, found by the tokens
// before it. The free ones are in a slice.
type poolOracle struct {
	blockTokens, engineTokens int
	capacity, blocks          int            // engine blocks; capacity < 0: unlimited
	queue                     []*engineBlock // free blocks, the next one taken first
	names                     map[content]int
	known                     map[int][]*engineBlock // by name
	started                   int
}

// engineBlock is a piece of the server's memory.
type engineBlock struct {
	name    int // of what is in it and before it; 0 = not to be found
	holders int
}

// content is all tokens up to the last of a block.
type content struct {
	before int // the name of the block before
	tokens string
}

// poolRequest is a running request of a poolOracle.
type poolRequest struct {
	names []int // of the whole blocks
	held  []*engineBlock
	found int
	named bool
}

func newPoolOracle(blockTokens, engineTokens int, capacityTokens int64) *poolOracle {
	o := &poolOracle{blockTokens: blockTokens, engineTokens: engineTokens, names: map[content]int{}, known: map[int][]*engineBlock{}}
	o.capacity = int(capacityTokens) / engineTokens
	if capacityTokens == 0 {
		o.capacity = -1
		return o
	}
	for range o.capacity {
		o.queue = append(o.queue, o.newBlock())
	}
	return o
}

func (o *poolOracle) newBlock() *engineBlock {
	o.blocks++
	return &engineBlock{}
}

func (o *poolOracle) start(p prompt, outputTokens int) (*poolRequest, int) {
	o.started++
	all := p.sequence(o.blockTokens, o.started)
	for i := range outputTokens {
		all = append(all, token{"output", uint64(o.started), i})
	}
	r := &poolRequest{}
	for name := 0; len(all) >= (len(r.names)+1)*o.engineTokens; r.names = append(r.names, name) {
		from := len(r.names) * o.engineTokens
		name = o.name(name, all[from:from+o.engineTokens])
	}
	for r.found < (p.total()-1)/o.engineTokens && len(o.known[r.names[r.found]]) > 0 {
		block := o.known[r.names[r.found]][0]
		if block.holders == 0 {
			at := slices.Index(o.queue, block)
			o.queue = slices.Delete(o.queue, at, at+1)
		}
		block.holders++
		r.held = append(r.held, block)
		r.found++
	}
	for len(r.held)*o.engineTokens < len(all) {
		r.held = append(r.held, o.allocate())
	}
	return r, r.found * o.engineTokens
}

// name numbers what a block has, by all tokens from the prompt's first on.
func (o *poolOracle) name(before int, tokens []token) int {
	c := content{before, fmt.Sprint(tokens)}
	if o.names[c] == 0 {
		o.names[c] = len(o.names) + 1
	}
	return o.names[c]
}

func (o *poolOracle) allocate() *engineBlock {
	var block *engineBlock
	if o.capacity < 0 || len(o.queue) == 0 {
		block = o.newBlock()
	} else {
		block = o.takeFirst()
	}
	block.holders = 1
	return block
}

func (o *poolOracle) takeFirst() *engineBlock {
	block := o.queue[0]
	o.queue = o.queue[1:]
	if block.name != 0 {
		same := o.known[block.name]
		at := slices.Index(same, block)
		if o.known[block.name] = slices.Delete(same, at, at+1); len(same) == 1 {
			delete(o.known, block.name)
		}
		block.name = 0
	}
	return block
}

func (o *poolOracle) prefilled(r *poolRequest) {
	r.named = true
	for i := r.found; i < len(r.names); i++ { // those of the answer too, which nobody asks for
		r.held[i].name = r.names[i]
		o.known[r.names[i]] = append(o.known[r.names[i]], r.held[i])
	}
}

func (o *poolOracle) finish(r *poolRequest) {
	var first, last []*engineBlock
	for _, block := range slices.Backward(r.held) {
		if block.holders--; block.holders > 0 {
			continue
		}
		if block.name == 0 {
			first = append(first, block)
		} else {
			last = append(last, block)
		}
	}
	o.queue = slices.Concat(first, o.queue, last)
	for o.capacity >= 0 && o.blocks > o.capacity && len(o.queue) > 0 {
		o.takeFirst()
		o.blocks--
	}
}
