package trace

import (
	"bytes"

	"github.com/fastreplay/fastreplay/codec/trace/lists"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// Verbatim is what a file has of a request, unchanged.
type Verbatim = rows.Verbatim

// The kinds of [Verbatim].
const (
	NoVerbatim       = rows.NoVerbatim
	VerbatimText     = rows.VerbatimText
	VerbatimMessages = rows.VerbatimMessages
	VerbatimPayload  = rows.VerbatimPayload
)

// Verbatim returns what the file has of request i, unchanged.
func (t *Trace) Verbatim(i int) Verbatim {
	if t.verbatims == nil {
		return Verbatim{}
	}
	return t.verbatims.row(i)
}

// Made reports whether request i has nothing verbatim: its prompt is to be made of tokens.
func (t *Trace) Made(i int) bool {
	return t.verbatims == nil || t.verbatims.kinds[i] == NoVerbatim
}

// Verbatims returns how many requests have a prompt or a body verbatim.
func (t *Trace) Verbatims() int {
	n := 0
	if t.verbatims != nil {
		for _, kind := range t.verbatims.kinds {
			if kind != NoVerbatim {
				n++
			}
		}
	}
	return n
}

// HasMessages reports whether request i has the messages of a chat, or a body with such.
func (t *Trace) HasMessages(i int) bool {
	return t.Verbatim(i).HasMessages()
}

// verbatimStore keeps the verbatim content of many rows.
type verbatimStore struct {
	kinds    []rows.VerbatimKind
	contents lists.Store[byte]
	tools    []int32 // place in values
	extras   []int32
	values   [][]byte // tools and extras, each once; the first is nil, for none
	places   map[string]int32
}

// add adds a row. The content of one that is longer begins with that of the row added last.
func (s *verbatimStore) add(l Verbatim, longer bool) {
	if longer {
		s.contents.AddLonger(l.Content, s.contents.Len()-1)
	} else {
		s.contents.Add(l.Content)
	}
	s.kinds = append(s.kinds, l.Kind)
	s.tools = append(s.tools, s.place(l.Tools))
	s.extras = append(s.extras, s.place(l.Extra))
}

func newVerbatimStore() *verbatimStore {
	return &verbatimStore{values: [][]byte{nil}, places: map[string]int32{}}
}

// place is where a value is kept.
func (s *verbatimStore) place(value []byte) int32 {
	if value == nil {
		return 0
	}
	if at, known := s.places[string(value)]; known {
		return at
	}
	at := int32(len(s.values))
	s.values = append(s.values, bytes.Clone(value))
	s.places[string(value)] = at
	return at
}

func (s *verbatimStore) row(i int) Verbatim {
	return Verbatim{
		Kind:    s.kinds[i],
		Content: s.contents.Row(i),
		Tools:   s.values[s.tools[i]],
		Extra:   s.values[s.extras[i]],
	}
}

// chosen is the store of the rows in order; nil stays nil.
func (s *verbatimStore) chosen(order []int32) *verbatimStore {
	if s == nil {
		return nil
	}
	return &verbatimStore{
		kinds:    lists.Pick(order, s.kinds),
		contents: *s.contents.ChooseWhole(order),
		tools:    lists.Pick(order, s.tools),
		extras:   lists.Pick(order, s.extras),
		values:   s.values,
	}
}
