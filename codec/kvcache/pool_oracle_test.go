package kvcache

import (
	"fmt"
	"slices"
)

// poolOracle is a server's block pool as one would write it down: every engine
// block on its own, known by the tokens before it, the free ones in a slice.
type poolOracle struct {
	blockTokens, engineTokens int
	capacity, blocks          int                       // engine blocks; capacity < 0: unlimited
	queue                     []*engineBlock            // free blocks, the next one taken first
	known                     map[string][]*engineBlock // by all tokens up to the last of the block
	started                   int
}

// engineBlock is a piece of the server's memory.
type engineBlock struct {
	tokens  string // what is in it and before it; "" = not to be found
	holders int
}

// poolRequest is a running request of a poolOracle.
type poolRequest struct {
	names  []string // of the whole blocks
	prompt int      // whole blocks of the prompt
	held   []*engineBlock
	found  int
	named  bool
}

func newPoolOracle(blockTokens, engineTokens int, capacityTokens int64) *poolOracle {
	o := &poolOracle{blockTokens: blockTokens, engineTokens: engineTokens, known: map[string][]*engineBlock{}}
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
	r := &poolRequest{prompt: p.total() / o.engineTokens}
	name := ""
	for i, t := range all {
		name += fmt.Sprint(t)
		if (i+1)%o.engineTokens == 0 {
			r.names = append(r.names, name)
		}
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
	if block.tokens != "" {
		same := o.known[block.tokens]
		at := slices.Index(same, block)
		if o.known[block.tokens] = slices.Delete(same, at, at+1); len(same) == 1 {
			delete(o.known, block.tokens)
		}
		block.tokens = ""
	}
	return block
}

func (o *poolOracle) prefilled(r *poolRequest) {
	r.named = true
	for i := r.found; i < len(r.names); i++ { // those of the answer too, which nobody asks for
		r.held[i].tokens = r.names[i]
		o.known[r.names[i]] = append(o.known[r.names[i]], r.held[i])
	}
}

func (o *poolOracle) finish(r *poolRequest) {
	var first, last []*engineBlock
	for _, block := range slices.Backward(r.held) {
		if block.holders--; block.holders > 0 {
			continue
		}
		if block.tokens == "" {
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
