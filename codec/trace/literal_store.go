package trace

import "bytes"

// literalStore keeps the literals of many rows.
type literalStore struct {
	kinds    []LiteralKind
	contents textStore
	tools    []int32 // place in values, -1 = none
	extras   []int32
	values   [][]byte // tools and extras, each once
	places   map[string]int32
}

// absent is the place of no value.
const absent = -1

// upTo adds rows without a literal until there are n.
func (s *literalStore) upTo(n int) {
	for len(s.kinds) < n {
		s.add(Literal{})
	}
}

func (s *literalStore) add(l Literal) {
	s.contents.add(l.Content)
	s.addRest(l)
}

// addLonger adds a row whose content begins with that of the row added last.
func (s *literalStore) addLonger(l Literal) {
	s.contents.addLonger(l.Content)
	s.addRest(l)
}

func (s *literalStore) addRest(l Literal) {
	s.kinds = append(s.kinds, l.Kind)
	s.tools, s.extras = append(s.tools, s.place(l.Tools)), append(s.extras, s.place(l.Extra))
}

// place is where a value is kept, or absent for none.
func (s *literalStore) place(value []byte) int32 {
	if value == nil {
		return absent
	}
	if at, known := s.places[string(value)]; known {
		return at
	}
	if s.places == nil {
		s.places = map[string]int32{}
	}
	at := int32(len(s.values))
	s.values = append(s.values, bytes.Clone(value))
	s.places[string(value)] = at
	return at
}

func (s *literalStore) row(i int) Literal {
	return Literal{Kind: s.kinds[i], Content: s.contents.row(i), Tools: s.value(s.tools[i]), Extra: s.value(s.extras[i])}
}

func (s *literalStore) value(place int32) []byte {
	if place == absent {
		return nil
	}
	return s.values[place]
}

// chosen is the store of the rows in order; nil stays nil.
func (s *literalStore) chosen(order []int32) *literalStore {
	if s == nil {
		return nil
	}
	return &literalStore{
		kinds: gather(order, s.kinds), contents: s.contents.chosen(order, func(row int32) int { return int(s.contents.rows[row].n) }),
		tools: gather(order, s.tools), extras: gather(order, s.extras), values: s.values,
	}
}

// keepLiteral appends what is word for word, if there is anything.
func (l *loader) keepLiteral(r *row) {
	if l.literal == nil {
		if r.literal.Kind == NoLiteral && r.literal.Extra == nil {
			return
		}
		l.literal = &literalStore{}
		l.literal.upTo(len(l.timeNS))
	}
	if r.longer {
		l.literal.addLonger(r.literal)
	} else {
		l.literal.add(r.literal)
	}
}
