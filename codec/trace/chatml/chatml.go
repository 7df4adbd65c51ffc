// Package chatml spells out what a request asks as one text, as the ChatML template of many models does.
//
// It owns which members of a body are the prompt, and how messages become text. It does not own tokens, nor whether the
// server's own template is another one. Functions are pure.
package chatml

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strconv"

	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// Name is that of the template.
const Name = "chatml"

// Prompt is what a request asks.
type Prompt struct {
	// Pieces are the text in order. Each is tokenized by itself, so that a prompt that goes on from another begins with
	// its tokens.
	Pieces  []string
	Tokens  []int32 // in place of text, where it was sent as token ids
	NotText int     // images and other parts, which stand there as a digest
}

// Of returns what a request asks. It is an error if that is not one prompt, or is not all there.
func Of(v rows.Verbatim) (p Prompt, err error) {
	switch v.Kind {
	case rows.VerbatimText:
		p.say(string(rows.AppendUnquoted(nil, v.Content)))
	case rows.VerbatimMessages:
		list := fmt.Appendf(nil, "[%s]", v.Content)
		messages := rows.Object{Fault: &err}.With("messages", list)
		p.chat(messages, "messages", nil, v.Tools)
	case rows.VerbatimPayload:
		p.body(rows.ObjectOf(fmt.Appendf(nil, "{%s}", v.Content), &err))
	default:
		err = rows.Bad("no text", "a prompt of which only the length is known has no blocks to name")
	}
	return p, err
}

func (p *Prompt) say(text string) {
	if text != "" {
		p.Pieces = append(p.Pieces, text)
	}
}

// body finds the prompt in a body of one of the APIs: OpenAI's completions, chat and responses, Anthropic's messages,
// TGI's, SGLang's, vLLM's and Triton's generate.
func (p *Prompt) body(o rows.Object) {
	for _, key := range []string{BeforeKey, "conversation"} {
		if o.Has(key) && (key == BeforeKey || !o.Has("messages")) {
			o.Fail(key+": what was said before is in no row before this one",
				"only whole prompts can be named: leave the row out")
		}
	}
	for _, key := range []string{"prompt", "inputs", "input_ids", "token_ids", "text", "text_input"} {
		if value := o.Value(key); value != nil && o.OK() {
			p.plain(o, key, value)
			return
		}
	}
	tools := o.Value("tools")
	input := o.Value("input")
	switch {
	case o.Has("messages"):
		p.chat(o, "messages", o.Value("system"), tools)
	case input != nil && input[0] == '"':
		list := fmt.Appendf(nil, `[{"role":"user","content":%s}]`, input)
		p.chat(o.With("input", list), "input", o.Value("instructions"), tools)
	case input != nil:
		p.chat(o, "input", o.Value("instructions"), tools)
	default:
		o.Fail("no prompt", "known are messages, prompt, input, inputs, text, text_input, input_ids and token_ids")
	}
}

// plain takes a prompt that is no chat: a text or token ids, or a list of one such.
func (p *Prompt) plain(o rows.Object, key string, value []byte) {
	switch {
	case value[0] == '"':
		p.say(string(rows.TextOf(value)))
		return
	case value[0] != '[':
		o.Fail(key+" is "+rows.Clip(value)+", neither text nor token ids", "write it as it was sent")
		return
	}
	inner := 0
	o.Values(key, "[1,2,…]", func(i int, one []byte) {
		if one[0] == '"' || one[0] == '[' {
			inner++
			p.plain(o.With(key, one), key, one)
			return
		}
		token, err := strconv.ParseInt(string(one), 10, 32)
		if err != nil || token < 0 {
			o.Fail(fmt.Sprintf("%s[%d] is %s, no token id", key, i, rows.Clip(one)), "write it as it was sent")
		}
		p.Tokens = append(p.Tokens, int32(token))
	})
	switch {
	case inner > 1:
		o.Fail(fmt.Sprintf("%s has %d prompts", key, inner), "a row is one prompt: write a row for each")
	case p.Tokens != nil && p.Pieces != nil:
		o.Fail(key+" has text among token ids", "write it as it was sent")
	}
	if len(p.Tokens) == 0 && len(p.Pieces) == 0 {
		o.Fail(key+" is empty", "a request needs a prompt")
	}
}

// chat spells out messages, and asks for an answer.
func (p *Prompt) chat(o rows.Object, key string, system, tools []byte) {
	if system != nil {
		p.message("system", p.content(o.With("system", system), "system"))
	}
	if tools != nil {
		p.message("system", string(tools))
	}
	o.Each(key, func(_ int, m rows.Object) {
		role := m.TextOr("role", "tool")
		switch {
		case m.Is("type", "reasoning"):
		case m.Is("type", "function_call"):
			p.message("assistant", string(m.Text))
		case !m.Has("role") && !m.Has("type"):
			m.Need("role", "it names the speaker")
		default:
			p.message(role, p.said(m))
		}
	})
	if len(p.Pieces) == 0 {
		o.Fail(key+" is empty", "a request needs a prompt")
	}
	p.say("<|im_start|>assistant\n")
}

func (p *Prompt) message(role, text string) {
	p.say("<|im_start|>" + role + "\n")
	p.say(text)
	p.say("<|im_end|>\n")
}

// Said is what a message says, with the tools that it calls.
func Said(m rows.Object) string { return new(Prompt).said(m) }

func (p *Prompt) said(m rows.Object) string {
	key := "content"
	if m.Is("type", "function_call_output") {
		key = "output"
	}
	text := p.content(m, key)
	for _, calls := range []string{"tool_calls", "function_call"} {
		text += string(m.Value(calls))
	}
	return text
}

// content is the text under a key: a string, or a list of parts. What is no text is its digest.
func (p *Prompt) content(o rows.Object, key string) (text string) {
	value := o.Value(key)
	switch {
	case value == nil:
		return ""
	case value[0] == '"':
		return string(rows.TextOf(value))
	case value[0] != '[':
		o.Fail(key+" is "+rows.Clip(value)+", neither text nor a list of parts", "write it as it was sent")
		return ""
	}
	o.Each(key, func(_ int, part rows.Object) {
		switch {
		case part.Is("type", "text", "input_text", "output_text"):
			text += p.content(part, "text")
		case part.Is("type", "thinking", "reasoning"):
		case part.Is("type", "tool_use"):
			text += string(part.Text)
		case part.Is("type", "tool_result"):
			text += p.content(part, "content")
		default:
			p.NotText++
			text += fmt.Sprintf("<|%x|>", sha256.Sum256(bytes.TrimSpace(part.Text)))
		}
	})
	return text
}
