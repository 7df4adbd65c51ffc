package rows

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

// verbatim reads a value that is kept unchanged.
func (p *Reader) verbatim(f Field, s *Scanner) error {
	value, err := s.Value()
	if err != nil {
		return err
	}
	return p.row.SetVerbatim(f, p.layout.Names[f], value)
}

// SetVerbatim stores the verbatim value of a field called name. It must be of the right kind.
func (r *Row) SetVerbatim(f Field, name string, value []byte) error {
	want := wantedVerbatim(f)
	if value[0] != want.first {
		return &Error{fmt.Sprintf("%s is %s, not %s", name, Clip(value), want.what), "write it as " + want.example}
	}
	inside := value[1 : len(value)-1 : len(value)-1]
	if want.kind != NoVerbatim {
		if len(inside) == 0 || f != TextField && len(bytes.TrimSpace(inside)) == 0 {
			return &Error{name + " is empty", "a request needs a prompt"}
		}
		r.Verbatim.Kind = want.kind
		r.Verbatim.Content = inside
	}
	switch f {
	case ToolsField:
		r.Verbatim.Tools = value
	case ExtraField:
		r.Verbatim.Extra = value
	}
	if want.first == '[' {
		s := Scan(value)
		return s.List(func(i int, value []byte) error {
			return IsObject(name, i, value)
		})
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
func wantedVerbatim(f Field) verbatimForm {
	return [...]verbatimForm{
		{VerbatimText, '"', "a string", `"…"`},
		{VerbatimMessages, '[', "a list", `[{"role":"user","content":"…"},…]`},
		{VerbatimPayload, '{', "an object", `{"model":"…",…}`},
		{NoVerbatim, '[', "a list", "[{…},…]"},
		{NoVerbatim, '{', "an object", `{"temperature":0}`},
	}[f-TextField]
}

// HasMessages reports whether it is the messages of a chat, or a body with such.
func (v Verbatim) HasMessages() bool {
	return v.Kind == VerbatimMessages || v.Kind == VerbatimPayload &&
		slices.Contains(Keys(slices.Concat([]byte("{"), v.Content, []byte("}"))), "messages")
}
