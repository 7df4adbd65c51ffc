package kvcache

import "math"

// pool is a server's engine blocks, as runs of them. It costs a run and a node for each trace block, and not one of
// either for each engine block.
type pool struct {
	prefixes  *tree
	shelves   []shelf // by node
	runs      []run   // 0 is both ends of the queue of free runs
	spare     uint32  // a run not in use, which names the next one as its rest
	vacant    int64   // blocks that cannot be found by any tokens
	debt      int64   // blocks held beyond the capacity
	unlimited bool
}

// run is a range of engine blocks that were allocated together, end in one node, and are held by the same requests.
// Free, they leave from the end.
type run struct {
	node     uint32 // alone: no other prompt has such blocks
	from, to uint32 // places in the prompt: from <= i < to
	holders  uint32
	rest     uint32 // what was split off behind this run, while a holder of both is left

	older, newer uint32 // neighbours in the queue of free runs
	prev, next   uint32 // the node's runs that can be found, in a ring; 0 = cannot be found
}

// shelf is what the pool has of a node.
type shelf struct {
	first uint32 // the run that has been known longest; 0 = none can be found
	uses  uint32 // runs that end here and nodes that follow; at 0 the node goes
}

const (
	// alone is the node of blocks that belong to one request only.
	alone = math.MaxUint32
	// tail marks a parent whose child is a template's tail. Its id is the number of tokens that the text has in the
	// parent.
	tail = 1 << 31
)

// manyBlocks are more than an unlimited pool can lose.
const manyBlocks = math.MaxInt64 / 2

func newPool(blocks int64, unlimited bool) pool {
	if unlimited {
		blocks = manyBlocks
	}
	return pool{
		prefixes:  newTree(),
		shelves:   make([]shelf, 1),
		runs:      make([]run, 1),
		vacant:    blocks,
		unlimited: unlimited,
	}
}

// node returns the node of a block behind its parent. A new one has to get a run or a child before anything is
// discarded.
func (p *pool) node(parent uint32, id uint64) uint32 {
	number, seen := p.prefixes.extend(parent, id, 1)
	if seen == 0 {
		if int(number) == len(p.shelves) {
			p.shelves = append(p.shelves, shelf{})
		}
		p.shelves[parent&^tail].uses++
	}
	return number
}

// find returns the run in which engine block at is found, or 0. If several have it, find returns the one that has been
// known longest, up to its end. A run that begins behind at and has been known even longer is never held or freed
// without one that has at. With n runs known in the node, it looks at n at most; mostly the first is right.
func (p *pool) find(node, at uint32) (number uint32) {
	first := p.shelves[node].first
	for number = first; number != 0; {
		r := &p.runs[number]
		if r.from <= at && at < r.to {
			return number
		}
		if number = r.next; number == first {
			break
		}
	}
	return 0
}

// hold adds a holder to the blocks from <= i < end of a run. They become a run of their own, and hold returns its
// number.
func (p *pool) hold(number, from, end uint32) uint32 {
	if p.runs[number].from < from {
		p.split(number, from)
		number = p.runs[number].rest
	}
	if end < p.runs[number].to {
		p.split(number, end)
	}
	r := &p.runs[number]
	if r.holders == 0 {
		p.leaveQueue(r)
	}
	r.holders++
	return number
}

// split cuts a run that can be found in two. The number stays that of the front.
func (p *pool) split(number, at uint32) {
	front := &p.runs[number]
	back := *front
	back.from = at
	back.prev = number
	back.newer = number // the end leaves first
	rest := p.add(back)

	front = &p.runs[number]
	front.to = at
	front.rest = rest
	p.runs[front.next].prev = rest
	front.next = rest
	if front.holders == 0 {
		p.runs[front.older].newer = rest
		front.older = rest
	}
}

// release takes a holder from a run and from what was split off behind it, up to end, the end first.
func (p *pool) release(number, end uint32) {
	for from := p.runs[number].from; end > from; {
		last := number
		for p.runs[last].to < end {
			last = p.runs[last].rest
		}
		r := &p.runs[last]
		end = r.from
		r.holders--
		if r.holders == 0 {
			p.free(last)
		}
	}
}

// free puts a run that nobody holds to the queue's end.
func (p *pool) free(number uint32) {
	r := &p.runs[number]
	if p.unlimited && p.useless(r) {
		p.vacant += int64(r.to - r.from)
		p.discard(number)
		return
	}
	r.older = p.runs[0].older
	r.newer = 0
	p.runs[r.older].newer = number
	p.runs[0].older = number
}

// useless reports whether a run would not be found as long as nothing leaves the pool.
func (p *pool) useless(r *run) bool {
	if r.node == alone {
		return true
	}
	first := &p.runs[p.shelves[r.node].first]
	return first != r && first.from <= r.from && r.to <= first.to
}

func (p *pool) leaveQueue(r *run) {
	p.runs[r.older].newer = r.newer
	p.runs[r.newer].older = r.older
}

// allocate takes blocks for a request; what the pool has not is owed.
func (p *pool) allocate(blocks int64) {
	p.debt += blocks - p.take(blocks)
}

// take takes so many free blocks from use, or as many as there are.
func (p *pool) take(blocks int64) (taken int64) {
	taken = min(blocks, p.vacant)
	p.vacant -= taken
	for taken < blocks && p.runs[0].newer != 0 {
		oldest := p.runs[0].newer
		r := &p.runs[oldest]
		size := int64(r.to - r.from)
		if size > blocks-taken {
			r.to -= uint32(blocks - taken)
			return blocks
		}
		taken += size
		p.leaveQueue(r)
		p.discard(oldest)
	}
	return taken
}

// add makes a run.
func (p *pool) add(r run) (number uint32) {
	if r.node != alone {
		p.shelves[r.node].uses++
	}
	if number = p.spare; number != 0 {
		p.spare = p.runs[number].rest
		p.runs[number] = r
		return number
	}
	if uint64(len(p.runs)) == math.MaxUint32 {
		panic("BUG: kvcache: more than 4 billion runs of blocks")
	}
	p.runs = append(p.runs, r)
	return uint32(len(p.runs) - 1)
}

// discard forgets a run that is not in the queue, and its node if nothing else is there.
func (p *pool) discard(number uint32) {
	r := &p.runs[number]
	if r.next != 0 {
		p.unregister(number)
	}
	node := r.node
	*r = run{rest: p.spare}
	p.spare = number
	if node == alone {
		return
	}
	p.shelves[node].uses--
	for node != 0 && p.shelves[node].uses == 0 {
		node = p.prefixes.remove(node) &^ tail
		p.shelves[node].uses--
	}
}

// register makes a run known, after those that are.
func (p *pool) register(number uint32) {
	r := &p.runs[number]
	if r.node == alone {
		return
	}
	first := p.shelves[r.node].first
	if first == 0 {
		p.shelves[r.node].first = number
		r.prev = number
		r.next = number
		return
	}
	r.prev = p.runs[first].prev
	r.next = first
	p.runs[r.prev].next = number
	p.runs[first].prev = number
}

func (p *pool) unregister(number uint32) {
	r := &p.runs[number]
	s := &p.shelves[r.node]
	if r.next == number {
		s.first = 0
		return
	}
	p.runs[r.prev].next = r.next
	p.runs[r.next].prev = r.prev
	if s.first == number {
		s.first = r.next
	}
}
