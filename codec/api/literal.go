package api

import (
	"errors"
	"fmt"
)

// Form says what of a request is given word for word.
type Form uint8

// The forms of [Literal].
const (
	Made     Form = iota // nothing: the prompt is made of tokens
	Text                 // the prompt
	Messages             // the messages of a chat
	Payload              // the whole body
	forms
)

// Literal is a request of which more is given than a number of tokens. All of it is JSON and arrives as it stands.
type Literal struct {
	Form    Form
	Content []byte // inside of a string (Text), of an array (Messages) or of an object (Payload), without what is around it
	Tools   []byte // an array, beside messages; nil = none
	Extra   []byte // an object merged into the body at the top level, whose keys win over all others; nil = none
}

// openAI is a backend of the OpenAI family.
type openAI struct {
	body                // of prompts that are made
	o      Options      // of literals
	frames [forms]frame // around literal content; empty where the API does not take the form
	bodies [forms]body  // of literals without tools and extra
	extra  members      // of the run
}

func newOpenAI(o Options, frames [forms]frame) (*openAI, error) {
	b, err := newBody(o, frames[Made])
	if err != nil {
		return nil, err
	}
	a := &openAI{body: b, o: o, frames: frames}
	a.extra, _ = parseOurs(o.Extra) // newBody has found no fault
	for form, f := range frames {
		if f.open != "" {
			a.bodies[form] = frameBody(o, f, a.extra)
		}
	}
	return a, nil
}

// with is the same for made prompts beside which a row has extra members.
func (a *openAI) with(extra []byte) *openAI {
	b := *a
	b.body = *a.literalBody(Literal{Extra: extra})
	return &b
}

// Takes tells why the API cannot send a literal; nil if it can.
func (a *openAI) Takes(l Literal) error {
	if l.Form != Payload && a.frames[l.Form].open == "" {
		return errors.New("messages are for chats: use --api chat")
	}
	extra, err := parseObject(l.Extra)
	if err == nil && l.Form != Payload {
		err = extra.refuse(ownedByRow)
	}
	if err != nil {
		return fmt.Errorf("extra: %w", err)
	}
	return nil
}

// LiteralSize is the exact number of bytes that AppendLiteral appends.
func (a *openAI) LiteralSize(l Literal, outputTokens int) int {
	switch {
	case l.Form != Payload:
		return a.literalBody(l).Size(len(l.Content), outputTokens)
	case l.Extra == nil && len(a.extra) == 0:
		return len(l.Content) + len("{}")
	}
	return len(a.AppendLiteral(nil, l, outputTokens))
}

// AppendLiteral appends the body of a literal that the API takes. With 0 output tokens it asks for no number. A payload is
// left as it is, but for extra inputs: its own lengths count.
func (a *openAI) AppendLiteral(dst []byte, l Literal, outputTokens int) []byte {
	if l.Form == Payload {
		return a.appendPayload(dst, l)
	}
	b := a.literalBody(l)
	return b.AppendSuffix(append(append(dst, b.prefix...), l.Content...), outputTokens)
}

// literalBody is what stands around a literal's content.
func (a *openAI) literalBody(l Literal) *body {
	if l.Tools == nil && l.Extra == nil {
		return &a.bodies[l.Form]
	}
	extra := append(members(nil), a.extra...)
	if l.Tools != nil {
		extra = extra.set("tools", l.Tools)
	}
	b := frameBody(a.o, a.frames[l.Form], extra.merge(mustParse(l.Extra)))
	return &b
}

// appendPayload appends a body as it stands, or with the extra members put in.
func (a *openAI) appendPayload(dst []byte, l Literal) []byte {
	if l.Extra == nil && len(a.extra) == 0 {
		return payload(dst, l)
	}
	all := mustParse(payload(nil, l)).merge(a.extra).merge(mustParse(l.Extra))
	return all.append(dst)
}

func payload(dst []byte, l Literal) []byte {
	return append(append(append(dst, '{'), l.Content...), '}')
}

// mustParse takes apart what Takes has checked.
func mustParse(object []byte) members {
	ms, err := parseObject(object)
	if err != nil {
		panic("BUG: api: a literal that was not checked: " + err.Error())
	}
	return ms
}
