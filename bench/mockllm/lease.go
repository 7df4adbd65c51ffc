package mockllm

import "sync"

// lease is one request's stay in the scheduler. Its keys belong to the connection until the request asks for a slot;
// from then on everything but endNS is the scheduler's.
type lease struct {
	keys           []uint64 // one for each whole block of the prompt
	prompt, output int      // tokens

	blocks    []int32 // what it holds of a limited pool: the prompt's blocks in order, then its output's
	found     int     // how many of them were there before it
	prefillNS int64   // when its prompt's own blocks can be found
	prefills  bool    // that is still to come
	ended     bool

	endNS int64 // written once, before endList.add
}

// reset makes a lease ready for another request, and keeps its memory.
func (l *lease) reset() { *l = lease{keys: l.keys[:0], blocks: l.blocks[:0]} }

// endList collects the requests that have ended until the scheduler looks at them, so that a pacer that ends a reply
// never waits for somebody's look-up.
type endList struct {
	mu      sync.Mutex
	list    []*lease
	waiting bool // somebody waits for what these give back
}

// add reports whether somebody waits.
func (e *endList) add(l *lease) (waiting bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, l)
	return e.waiting
}

// take returns what was added since and keeps the memory of spare for what comes. From that moment on add reports
// waiting.
func (e *endList) take(spare []*lease, waiting bool) []*lease {
	e.mu.Lock()
	defer e.mu.Unlock()
	list := e.list
	e.list, e.waiting = spare[:0], waiting
	return list
}
