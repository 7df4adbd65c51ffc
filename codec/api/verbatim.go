package api

import (
	"errors"
	"fmt"
)

// Form is the part of a request that is given verbatim.
type Form uint8

// The forms of [Verbatim].
const (
	Made     Form = iota // nothing: the prompt is made of tokens
	Text                 // the prompt
	Messages             // the messages of a chat
	Payload              // the whole body
	forms
)

// Verbatim is a request of which more is given than a number of tokens. All of it is JSON and is sent unchanged.
type Verbatim struct {
	Form Form
	// inside of a string (Text), of an array (Messages) or of an object (Payload), without what is around it
	Content []byte
	Tools   []byte // an array, beside messages; nil = none
	Extra   []byte // an object merged as Options.Extra is, whose keys win over all others; nil = none
}

// around is what stands around content of a form; empty where the API does not take it.
func (s *server) around(form Form) frame {
	switch {
	case form == Messages:
		return s.kind.shape.messages
	case form == Made && s.o.TokenIDs:
		return s.kind.shape.tokenIDs
	}
	return s.kind.shape.text
}

// Takes returns why the API or its shape has no place for l; nil if it has.
func (s *server) Takes(l Verbatim) error {
	shape := &s.kind.shape
	switch {
	case l.Form != Payload && !s.kind.traits.Made:
		return fmt.Errorf("the %s API posts whole bodies, and this request has none", s.kind.name)
	case l.Tools != nil && shape.prepare != nil:
		return errors.New("this API takes no tools: use --api chat")
	case s.kind.traits.NoText && (l.Form == Text || l.Form == Made && !s.o.TokenIDs):
		return fmt.Errorf("the %s API takes token ids and no text", s.kind.name)
	case l.Form == Messages && shape.messages.open == "":
		return errors.New("this API takes no messages: use --api chat, messages or responses")
	}
	extra, err := parseObject(l.Extra)
	if err == nil && l.Form != Payload {
		err = errors.Join(extra.refuse(ownedByRow), shape.checkNest(extra))
	}
	if err != nil {
		return fmt.Errorf("extra: %w", err)
	}
	if l.Form == Messages && shape.prepare != nil {
		_, err = shape.prepare(l)
	}
	return err
}

// VerbatimSize is the exact number of bytes that AppendVerbatim appends.
func (s *server) VerbatimSize(l Verbatim, outputTokens int) int {
	switch {
	case l.Form == Payload && l.Extra == nil && len(s.extra) == 0:
		return len(l.Content) + len("{}")
	case l.Form == Payload || s.kind.shape.prepare != nil:
		return len(s.AppendVerbatim(nil, l, outputTokens))
	}
	return s.verbatimBody(l).Size(len(l.Content), outputTokens)
}

// AppendVerbatim appends the body of l, which the API takes. With 0 output tokens it asks for no number. A payload is
// left as it is, but for extra inputs: its own lengths count.
func (s *server) AppendVerbatim(dst []byte, l Verbatim, outputTokens int) []byte {
	switch {
	case l.Form == Payload:
		return s.appendPayload(dst, l)
	case l.Form == Messages && s.kind.shape.prepare != nil:
		l, _ = s.kind.shape.prepare(l) // Takes has found no fault
	}
	around := s.verbatimBody(l)
	return around.AppendSuffix(append(append(dst, around.prefix...), l.Content...), outputTokens)
}

// verbatimBody is what stands around l's content.
func (s *server) verbatimBody(l Verbatim) *body {
	if l.Tools == nil && l.Extra == nil {
		return &s.of[l.Form]
	}
	extra := append(members(nil), s.extra...)
	if l.Tools != nil {
		extra = extra.set("tools", l.Tools)
	}
	one := s.kind.shape.bodyOf(s.o, s.around(l.Form), extra.merge(mustParse(l.Extra)))
	return &one
}

// appendPayload appends a body as it stands, or with the extra members put in.
func (s *server) appendPayload(dst []byte, l Verbatim) []byte {
	if l.Extra == nil && len(s.extra) == 0 {
		return payload(dst, l)
	}
	all := mustParse(payload(nil, l)).merge(s.extra).merge(mustParse(l.Extra))
	return all.append(dst)
}

func payload(dst []byte, l Verbatim) []byte {
	return append(append(append(dst, '{'), l.Content...), '}')
}

// mustParse takes apart what Takes has checked.
func mustParse(object []byte) members {
	ms, err := parseObject(object)
	if err != nil {
		panic("BUG: api: verbatim content that was not checked: " + err.Error())
	}
	return ms
}
