package kvcache

import "math"

// tree holds every distinct chain of blocks once. A node is a block in the context of those before it; node 0 is the
// root. Nodes are in one slice, in the order in which they were made. An open-addressing hash table of their numbers
// finds them. So 20 million blocks are two allocations and not 20 million pointers.
type tree struct {
	nodes  []node
	table  []uint32 // node numbers, 0 = empty; a power of two, at most half full
	unused []uint32 // numbers of removed nodes
}

// node is a block behind its parent.
type node struct {
	id      uint64
	parent  uint32
	longest uint32 // tokens of the block that were seen, at most
}

// gone is the parent of a removed node, and nobody's number.
const gone = math.MaxUint32

// mostNodes leaves users of the tree a bit to mark a parent with.
const mostNodes = 1 << 31

// smallestTable is the number of table slots of an empty tree.
const smallestTable = 1 << 10

func newTree() *tree {
	return &tree{
		nodes: make([]node, 1),
		table: make([]uint32, smallestTable),
	}
}

// extend returns the node of block id behind parent, which it makes if it is new. seen is how many tokens of it were
// seen before, 0 = new. Then at least tokens were.
func (t *tree) extend(parent uint32, id uint64, tokens uint32) (number, seen uint32) {
	number = t.find(parent, id)
	if number == 0 {
		return t.add(parent, id, tokens), 0
	}
	n := &t.nodes[number]
	seen = n.longest
	n.longest = max(seen, tokens)
	return number, seen
}

// find returns the node of block id behind parent, or 0.
func (t *tree) find(parent uint32, id uint64) uint32 {
	next := parent + 1
	if int(next) < len(t.nodes) && t.nodes[next].is(parent, id) {
		return next // a chain seen again mostly follows the one that made it
	}
	for slot := t.slot(parent, id); ; slot = t.after(slot) {
		number := t.table[slot]
		if number == 0 || t.nodes[number].is(parent, id) {
			return number
		}
	}
}

// add makes a node that is not there yet.
func (t *tree) add(parent uint32, id uint64, tokens uint32) (number uint32) {
	number = uint32(len(t.nodes))
	n := len(t.unused)
	if n > 0 {
		number = t.unused[n-1]
		t.unused = t.unused[:n-1]
	} else {
		if 2*len(t.nodes) > len(t.table) {
			t.grow()
		}
		if number == mostNodes {
			panic("BUG: kvcache: more than 2 billion distinct blocks")
		}
		t.nodes = append(t.nodes, node{})
	}
	t.nodes[number] = node{id: id, parent: parent, longest: tokens}
	t.link(number)
	return number
}

// remove takes out a node that has no children and returns its parent. Its number is used again.
func (t *tree) remove(number uint32) (parent uint32) {
	parent = t.nodes[number].parent
	hole := t.slot(parent, t.nodes[number].id)
	for t.table[hole] != number {
		hole = t.after(hole)
	}
	// Whoever stands behind the hole and would not be found past it moves into it.
	for slot := t.after(hole); t.table[slot] != 0; slot = t.after(slot) {
		n := &t.nodes[t.table[slot]]
		begin := t.slot(n.parent, n.id)
		if t.distance(begin, slot) >= t.distance(hole, slot) {
			t.table[hole] = t.table[slot]
			hole = slot
		}
	}
	t.table[hole] = 0
	t.nodes[number].parent = gone
	t.unused = append(t.unused, number)
	return parent
}

// grow doubles the table. No node is removed at that time.
func (t *tree) grow() {
	t.table = make([]uint32, 2*len(t.table))
	for number := 1; number < len(t.nodes); number++ {
		t.link(uint32(number))
	}
}

// link enters a node into the table.
func (t *tree) link(number uint32) {
	n := &t.nodes[number]
	slot := t.slot(n.parent, n.id)
	for t.table[slot] != 0 {
		slot = t.after(slot)
	}
	t.table[slot] = number
}

func (n *node) is(parent uint32, id uint64) bool {
	return n.parent == parent && n.id == id
}

// slot returns where the search for a node begins.
func (t *tree) slot(parent uint32, id uint64) uint64 {
	return mix(id^mix(uint64(parent))) & uint64(len(t.table)-1)
}

// distance is how many slots a search takes from one slot to another.
func (t *tree) distance(from, to uint64) uint64 {
	return (to - from) & uint64(len(t.table)-1)
}

func (t *tree) after(slot uint64) uint64 {
	return (slot + 1) & uint64(len(t.table)-1)
}

// mix is the finalizer of MurmurHash3 (Appleby): ids are often small and consecutive, and every bit of them has to
// reach the slot.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
