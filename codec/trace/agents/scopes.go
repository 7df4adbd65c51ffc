package agents

// Scopes makes block ids that are local to a scope, such as a job, differ from those of all others. They are numbered
// anew in order of first appearance. The zero value has no scopes yet.
type Scopes struct {
	numbers map[string]map[uint64]uint64 // of scopes
	next    uint64
	scope   string   // of the list before
	before  []uint64 // that list, as it stood in the file
	made    []uint64 // and numbered anew
}

// Renumber numbers a list of the scope in place. What it begins with as the list before it did is not looked up.
func (s *Scopes) Renumber(scope string, ids []uint64) {
	if s.numbers == nil {
		s.numbers = map[string]map[uint64]uint64{}
	}
	known := s.numbers[scope]
	if known == nil {
		known = map[uint64]uint64{}
		s.numbers[scope] = known
	}
	same := 0
	if s.scope == scope {
		same = CommonPrefix(ids, s.before)
	}
	s.scope = scope
	s.before = append(s.before[:same], ids[same:]...)
	s.made = s.made[:same]
	for _, id := range ids[same:] {
		n, old := known[id]
		if !old {
			n = s.next
			known[id] = n
			s.next++
		}
		s.made = append(s.made, n)
	}
	copy(ids, s.made)
}

// Forget ends a scope that comes no more.
func (s *Scopes) Forget(scope string) { delete(s.numbers, scope) }
