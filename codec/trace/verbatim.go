package trace

import (
	"bytes"
	"fmt"
	"slices"
)

// VerbatimKind is the part of a request that a file has verbatim.
type VerbatimKind uint8

// The kinds of [Verbatim].
const (
	NoVerbatim       VerbatimKind = iota // nothing: a prompt of InputTokens tokens is to be made
	VerbatimText                         // the prompt
	VerbatimMessages                     // the messages of a chat
	VerbatimPayload                      // the whole body
)

// Verbatim is what a file has of a request, as JSON and unchanged. The slices alias the trace and must not be changed.
type Verbatim struct {
	Kind VerbatimKind
	// Content is the inside of a JSON string (VerbatimText), of an array (VerbatimMessages) or of an object
	// (VerbatimPayload), without the quotes or brackets around it.
	Content []byte
	Tools   []byte // an array, beside messages; nil = none
	Extra   []byte // an object whose members belong into the body, beside any kind; nil = none
}

// Verbatim returns what the file has of request i, unchanged.
func (t *Trace) Verbatim(i int) Verbatim {
	if t.verbatims == nil {
		return Verbatim{}
	}
	return t.verbatims.row(i)
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
	l := t.Verbatim(i)
	return l.Kind == VerbatimMessages || l.Kind == VerbatimPayload &&
		slices.Contains(keysOf(slices.Concat([]byte("{"), l.Content, []byte("}"))), "messages")
}

// verbatim reads a value that is kept unchanged.
func (p *rowParser) verbatim(f field, s *scanner) error {
	from := s.At
	if err := s.skip(); err != nil {
		return err
	}
	return p.row.setVerbatim(f, p.format.names[f], s.Data[from:s.At])
}

// setVerbatim stores a verbatim value, which must be of the right kind.
func (r *row) setVerbatim(f field, name string, value []byte) error {
	want := wantedVerbatim(f)
	if value[0] != want.first {
		return &rowError{fmt.Sprintf("%s is %s, not %s", name, clip(value), want.what), "write it as " + want.example}
	}
	inside := value[1 : len(value)-1 : len(value)-1]
	if want.kind != NoVerbatim {
		if len(inside) == 0 || f != textField && len(bytes.TrimSpace(inside)) == 0 {
			return &rowError{name + " is empty", "a request needs a prompt"}
		}
		r.verbatim.Kind, r.verbatim.Content = want.kind, inside
	}
	switch f {
	case toolsField:
		r.verbatim.Tools = value
	case extraField:
		r.verbatim.Extra = value
	}
	if want.first == '[' {
		s := scan(value)
		return s.list(func(i int, value []byte) error { return isObject(name, i, value) })
	}
	return nil
}

// verbatimForm is the form that a verbatim value must have.
type verbatimForm struct {
	kind          VerbatimKind
	first         byte
	what, example string
}

// wantedVerbatim is that of a field from textField on.
func wantedVerbatim(f field) verbatimForm {
	return [...]verbatimForm{
		{VerbatimText, '"', "a string", `"…"`},
		{VerbatimMessages, '[', "a list", `[{"role":"user","content":"…"},…]`},
		{VerbatimPayload, '{', "an object", `{"model":"…",…}`},
		{NoVerbatim, '[', "a list", "[{…},…]"},
		{NoVerbatim, '{', "an object", `{"temperature":0}`},
	}[f-textField]
}

// verbatimStore keeps the verbatim content of many rows.
type verbatimStore struct {
	kinds    []VerbatimKind
	contents textStore
	tools    []int32 // place in values, -1 = none
	extras   []int32
	values   [][]byte // tools and extras, each once
	places   map[string]int32
}

// add adds a row. The content of one that is longer begins with that of the row added last.
func (s *verbatimStore) add(l Verbatim, longer bool) {
	if longer {
		s.contents.addLonger(l.Content, len(s.contents.rows)-1)
	} else {
		s.contents.add(l.Content)
	}
	s.kinds = append(s.kinds, l.Kind)
	s.tools, s.extras = append(s.tools, s.place(l.Tools)), append(s.extras, s.place(l.Extra))
}

// place is where a value is kept, or noValue for none.
func (s *verbatimStore) place(value []byte) int32 {
	if value == nil {
		return noValue
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

func (s *verbatimStore) row(i int) Verbatim {
	return Verbatim{Kind: s.kinds[i], Content: s.contents.row(i), Tools: s.value(s.tools[i]), Extra: s.value(s.extras[i])}
}

func (s *verbatimStore) value(place int32) []byte {
	if place == noValue {
		return nil
	}
	return s.values[place]
}

// chosen is the store of the rows in order; nil stays nil.
func (s *verbatimStore) chosen(order []int32) *verbatimStore {
	if s == nil {
		return nil
	}
	return &verbatimStore{
		kinds: gather(order, s.kinds), contents: *s.contents.whole(order),
		tools: gather(order, s.tools), extras: gather(order, s.extras), values: s.values,
	}
}

// keepVerbatim appends a row's verbatim content, if there is any.
func (l *loader) keepVerbatim(r *row) {
	if l.verbatims == nil {
		if r.verbatim.Kind == NoVerbatim && r.verbatim.Extra == nil {
			return
		}
		l.verbatims = &verbatimStore{}
		for range l.ArrivalNS {
			l.verbatims.add(Verbatim{}, false)
		}
	}
	l.verbatims.add(r.verbatim, r.longer)
}
