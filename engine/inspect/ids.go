package inspect

// idTable knows every id that was seen, how many tokens it stood for and which id preceded it. It is an open-addressing
// hash table of numbers into one slice, so that millions of ids are two allocations.
type idTable struct {
	seen  []seenID
	table []uint32 // numbers from 1, 0 = empty; a power of two, at most half full

	twoLengths, manyBefore int64
}

// seenID is an id at its first occurrence, and whether others differed.
type seenID struct {
	id, before  uint64 // before is the id in front of it, meaningless where first is set
	tokens      int32
	first       bool // in its prompt
	otherLength bool
	otherBefore bool
}

const smallestIDTable = 1 << 10

func newIDTable() *idTable { return &idTable{table: make([]uint32, smallestIDTable)} }

func (t *idTable) len() int { return len(t.seen) }

// see notes the i-th id of a row, which stands for so many tokens there, and tells whether the id was seen before.
func (t *idTable) see(ids []uint64, i, tokens int) bool {
	now := seenID{id: ids[i], tokens: int32(tokens), first: i == 0}
	if i > 0 {
		now.before = ids[i-1]
	}
	slot := t.find(now.id)
	if t.table[slot] == 0 {
		t.seen = append(t.seen, now)
		t.table[slot] = uint32(len(t.seen))
		if 2*len(t.seen) > len(t.table) {
			t.grow()
		}
		return false
	}
	was := &t.seen[t.table[slot]-1]
	if !was.otherLength && was.tokens != now.tokens {
		was.otherLength = true
		t.twoLengths++
	}
	if !was.otherBefore && (was.first != now.first || was.before != now.before) {
		was.otherBefore = true
		t.manyBefore++
	}
	return true
}

// find is the slot of an id, empty if it is new.
func (t *idTable) find(id uint64) uint64 {
	mask := uint64(len(t.table) - 1)
	slot := (id * 0x9e3779b97f4a7c15) >> 20 & mask // Fibonacci hashing (Knuth, TAOCP 3, 6.4): ids are often consecutive
	for t.table[slot] != 0 && t.seen[t.table[slot]-1].id != id {
		slot = (slot + 1) & mask
	}
	return slot
}

func (t *idTable) grow() {
	t.table = make([]uint32, 2*len(t.table))
	for i := range t.seen {
		t.table[t.find(t.seen[i].id)] = uint32(i + 1)
	}
}
