package mockllm

// blockStore is a set of block keys.
type blockStore interface {
	touch(key uint64) bool // reports whether key is there, and marks it as used
	insert(key uint64)
	clear()
	len() int
}

// unboundedStore keeps everything: 8 bytes a block and the map's slack.
type unboundedStore map[uint64]struct{}

func (s unboundedStore) touch(key uint64) bool { _, ok := s[key]; return ok }
func (s unboundedStore) insert(key uint64)     { s[key] = struct{}{} }
func (s unboundedStore) clear()                { clear(s) }
func (s unboundedStore) len() int              { return len(s) }

// maxLRUBlocks is what an int32 can number.
const maxLRUBlocks = 1<<31 - 2

// lruStore keeps the most recently used blocks. Nodes are numbers in one slice, so that the garbage collector has
// nothing to follow; node 0 is the ring's head: its next is the most recent block, its prev the oldest.
type lruStore struct {
	capacity int
	index    map[uint64]int32
	nodes    []lruNode
}

type lruNode struct {
	key        uint64
	prev, next int32
}

func newLRUStore(capacityBlocks int) *lruStore {
	s := &lruStore{capacity: capacityBlocks}
	s.clear()
	return s
}

func (s *lruStore) clear() {
	s.index = make(map[uint64]int32)
	s.nodes = make([]lruNode, 1)
}

func (s *lruStore) len() int { return len(s.index) }

func (s *lruStore) touch(key uint64) bool {
	i, ok := s.index[key]
	if ok {
		s.unlink(i)
		s.linkFirst(i)
	}
	return ok
}

func (s *lruStore) insert(key uint64) {
	if s.touch(key) {
		return
	}
	var i int32
	if len(s.index) < s.capacity {
		i = int32(len(s.nodes))
		s.nodes = append(s.nodes, lruNode{})
	} else { // the oldest makes room
		i = s.nodes[0].prev
		s.unlink(i)
		delete(s.index, s.nodes[i].key)
	}
	s.nodes[i].key = key
	s.index[key] = i
	s.linkFirst(i)
}

func (s *lruStore) unlink(i int32) {
	n := s.nodes[i]
	s.nodes[n.prev].next = n.next
	s.nodes[n.next].prev = n.prev
}

func (s *lruStore) linkFirst(i int32) {
	first := s.nodes[0].next
	s.nodes[i].prev, s.nodes[i].next = 0, first
	s.nodes[first].prev = i
	s.nodes[0].next = i
}
