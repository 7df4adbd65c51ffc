package inspect

// idTable knows every id that was seen, how many tokens it stood for and which id preceded it.
type idTable struct {
	seen map[uint64]seenID

	twoLengths, manyBefore int64
}

// seenID is an id at its first occurrence, and whether others differed.
type seenID struct {
	before      uint64 // the id in front of it, 0 where first is set
	tokens      int32
	first       bool // in its prompt
	otherLength bool
	otherBefore bool
}

// see notes the i-th id of a row, which stands for so many tokens there, and tells whether the id was seen before.
func (t *idTable) see(ids []uint64, i, tokens int) bool {
	now := seenID{tokens: int32(tokens), first: i == 0}
	if i > 0 {
		now.before = ids[i-1]
	}
	was, again := t.seen[ids[i]]
	if !again {
		t.seen[ids[i]] = now
		return false
	}
	if !was.otherLength && was.tokens != now.tokens {
		was.otherLength = true
		t.twoLengths++
		t.seen[ids[i]] = was
	}
	if !was.otherBefore && (was.first != now.first || was.before != now.before) {
		was.otherBefore = true
		t.manyBefore++
		t.seen[ids[i]] = was
	}
	return true
}
