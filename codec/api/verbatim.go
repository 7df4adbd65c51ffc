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
	Form    Form
	Content []byte // inside of a string (Text), of an array (Messages) or of an object (Payload), without what is around it
	Tools   []byte // an array, beside messages; nil = none
	Extra   []byte // an object merged as Options.Extra is, whose keys win over all others; nil = none
}

// bodies are the bodies of a run.
type bodies struct {
	body  // of prompts that are made
	shape shape
	o     Options
	extra members     // of the run
	of    [forms]body // of verbatim content without tools and extra
}

func newBodies(s shape, o Options) (*bodies, error) {
	extra, err := parseOurs(o.Extra)
	if err == nil {
		err = s.checkNest(extra)
	}
	if err != nil {
		return nil, fmt.Errorf("extra inputs: %w", err)
	}
	if err := checkSalt(o.CacheSalt); err != nil {
		return nil, err
	}
	if !o.Stream && extra.find("stream") >= 0 {
		return nil, errors.New(`extra inputs: "stream" beside --no-stream: leave one of them out`)
	}
	b := &bodies{shape: s, o: o, extra: extra}
	for form := range forms {
		b.of[form] = s.bodyOf(o, b.around(form), extra)
	}
	b.body = b.of[Made]
	return b, nil
}

// around is what stands around content of a form; empty where the API does not take it.
func (b *bodies) around(form Form) frame {
	switch {
	case form == Messages:
		return b.shape.messages
	case form == Made && b.o.TokenIDs:
		return b.shape.tokenIDs
	}
	return b.shape.text
}

// with is the same for made prompts beside which a row has extra members.
func (b *bodies) with(extra []byte) *bodies {
	w := *b
	w.body = *b.verbatimBody(Verbatim{Extra: extra})
	return &w
}

// takes returns why the shape has no place for l; nil if it has.
func (b *bodies) takes(l Verbatim) error {
	if l.Form == Messages && b.shape.messages.open == "" {
		return errors.New("this API takes no messages: use --api chat, messages or responses")
	}
	extra, err := parseObject(l.Extra)
	if err == nil && l.Form != Payload {
		err = errors.Join(extra.refuse(ownedByRow), b.shape.checkNest(extra))
	}
	if err != nil {
		return fmt.Errorf("extra: %w", err)
	}
	if l.Form == Messages && b.shape.prepare != nil {
		_, err = b.shape.prepare(l)
	}
	return err
}

// VerbatimSize is the exact number of bytes that AppendVerbatim appends.
func (b *bodies) VerbatimSize(l Verbatim, outputTokens int) int {
	switch {
	case l.Form == Payload && l.Extra == nil && len(b.extra) == 0:
		return len(l.Content) + len("{}")
	case l.Form == Payload || b.shape.prepare != nil:
		return len(b.AppendVerbatim(nil, l, outputTokens))
	}
	return b.verbatimBody(l).Size(len(l.Content), outputTokens)
}

// AppendVerbatim appends the body of l, which the API takes. With 0 output tokens it asks for no number. A payload is
// left as it is, but for extra inputs: its own lengths count.
func (b *bodies) AppendVerbatim(dst []byte, l Verbatim, outputTokens int) []byte {
	switch {
	case l.Form == Payload:
		return b.appendPayload(dst, l)
	case l.Form == Messages && b.shape.prepare != nil:
		l, _ = b.shape.prepare(l) // Takes has found no fault
	}
	around := b.verbatimBody(l)
	return around.AppendSuffix(append(append(dst, around.prefix...), l.Content...), outputTokens)
}

// verbatimBody is what stands around l's content.
func (b *bodies) verbatimBody(l Verbatim) *body {
	if l.Tools == nil && l.Extra == nil {
		return &b.of[l.Form]
	}
	extra := append(members(nil), b.extra...)
	if l.Tools != nil {
		extra = extra.set("tools", l.Tools)
	}
	one := b.shape.bodyOf(b.o, b.around(l.Form), extra.merge(mustParse(l.Extra)))
	return &one
}

// appendPayload appends a body as it stands, or with the extra members put in.
func (b *bodies) appendPayload(dst []byte, l Verbatim) []byte {
	if l.Extra == nil && len(b.extra) == 0 {
		return payload(dst, l)
	}
	all := mustParse(payload(nil, l)).merge(b.extra).merge(mustParse(l.Extra))
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
