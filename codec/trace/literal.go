package trace

import (
	"bytes"
	"fmt"
	"slices"
)

// LiteralKind says what of a request a file has word for word.
type LiteralKind uint8

// The kinds of [Literal].
const (
	NoLiteral       LiteralKind = iota // nothing: a prompt of InputTokens tokens is to be made
	TextLiteral                        // the prompt
	MessagesLiteral                    // the messages of a chat
	PayloadLiteral                     // the whole body
)

// Literal is what a file has of a request word for word: JSON, as it stands there. The slices alias the trace and must not be
// changed.
type Literal struct {
	Kind LiteralKind
	// Content is the inside of a JSON string (TextLiteral), of an array (MessagesLiteral) or of an object (PayloadLiteral),
	// without the quotes or brackets around it.
	Content []byte
	Tools   []byte // an array, beside messages; nil = none
	Extra   []byte // an object whose members belong into the body, beside any kind; nil = none
}

// Literal is what the file has of request i word for word.
func (t *Trace) Literal(i int) Literal {
	if t.literals == nil {
		return Literal{}
	}
	return t.literals.row(i)
}

// Literals is how many requests have a prompt or a body word for word.
func (t *Trace) Literals() int {
	n := 0
	if t.literals != nil {
		for _, kind := range t.literals.kinds {
			if kind != NoLiteral {
				n++
			}
		}
	}
	return n
}

// HasMessages tells whether request i has the messages of a chat, or a body with such.
func (t *Trace) HasMessages(i int) bool {
	l := t.Literal(i)
	return l.Kind == MessagesLiteral || l.Kind == PayloadLiteral && slices.Contains(keysOf(slices.Concat([]byte("{"), l.Content, []byte("}")), 0), "messages")
}

// literal takes what is word for word as it stands.
func (p *rowParser) literal(f field, s *scanner) error {
	from := s.i
	if err := s.skip(1); err != nil {
		return err
	}
	return p.row.setLiteral(f, p.format.names[f], s.b[from:s.i])
}

// setLiteral notes a value of a kind that is word for word, which must be of the right sort.
func (r *row) setLiteral(f field, name string, value []byte) error {
	want := wantedLiteral(f)
	if value[0] != want.first {
		return &rowError{fmt.Sprintf("%s is %s, not %s", name, clip(value), want.what), "write it as " + want.example}
	}
	inside := value[1 : len(value)-1 : len(value)-1]
	if want.kind != NoLiteral {
		if len(inside) == 0 || f != textField && len(bytes.TrimSpace(inside)) == 0 {
			return &rowError{name + " is empty", "a request needs something to ask"}
		}
		r.literal.Kind, r.literal.Content = want.kind, inside
	}
	switch f {
	case toolsField:
		r.literal.Tools = value
	case extraField:
		r.literal.Extra = value
	}
	if want.first == '[' {
		return objectsOf(name, value, func(int, []byte) error { return nil })
	}
	return nil
}

// literalForm is what a value that is word for word must look like.
type literalForm struct {
	kind          LiteralKind
	first         byte
	what, example string
}

func wantedLiteral(f field) literalForm {
	switch f {
	case textField:
		return literalForm{TextLiteral, '"', "a string", `"…"`}
	case messagesField:
		return literalForm{MessagesLiteral, '[', "a list", `[{"role":"user","content":"…"},…]`}
	case payloadField:
		return literalForm{PayloadLiteral, '{', "an object", `{"model":"…",…}`}
	case toolsField:
		return literalForm{NoLiteral, '[', "a list", "[{…},…]"}
	case extraField:
		return literalForm{NoLiteral, '{', "an object", `{"temperature":0}`}
	}
	panic("BUG: a field that is not word for word")
}
