package api

import "bytes"

// responses is OpenAI's responses API with the prompt as its input. vLLM takes ignore_eos and cache_salt there, and no
// min_tokens (vllm/entrypoints/openai/responses/protocol.py).
func responses() kind {
	k := openAI("responses", "/v1/responses")
	k.reads = responsesEvents
	k.shape = shape{
		text:     frame{`"input":"`, `"`},
		messages: frame{`"input":[`, `]`},
		most:     "max_output_tokens",
		forced:   ignoreEOS,
		stream:   streamed,
		prepare: func(l Verbatim) (Verbatim, error) { // it refuses messages that mean something else than in a chat
			_, err := readMessages(l.Content)
			return l, err
		},
	}
	k.traits.Template = true
	k.traits.Least = 16
	k.traits.Stateful = true
	return k
}

// response is how a response object describes its end.
type response struct{ status, reason []byte }

// responsesDocument reads an event, or a whole answer, which is a response object.
func (p *parser) responsesDocument() {
	var c, item content
	var event, said []byte
	var r response
	for key := range p.Keys() {
		switch string(key) {
		case "type":
			event, _, _ = p.Text()
		case "delta":
			said = p.carries(&c)
		case "item": // mostly it says nothing, but the name of a tool does
			for range p.Only("name") {
				p.carries(&item)
			}
			item.present = item.filled
		case "output":
			for range p.Elements() {
				p.wholeItem()
			}
		case "response":
			for key := range p.Keys() {
				p.responseMember(key, &r)
			}
		default:
			p.responseMember(key, &r)
		}
	}
	p.d.Tool = p.d.Tool || bytes.HasPrefix(event, []byte("response.function_call"))
	if string(event) == "response.output_text.delta" {
		p.say(said)
	}
	switch {
	case bytes.HasSuffix(event, []byte(".delta")):
		if bytes.HasPrefix(event, []byte("response.reasoning")) {
			c.filled, c.reasoned = false, c.filled
		}
		p.weighChoice(c, false)
	case string(event) == "response.output_item.added":
		item.tool = item.filled
		p.weighChoice(item, false)
	case string(event) == "error":
		p.failed = true
	}
	p.weighResponse(r)
}

// wholeItem reads an element of a whole answer's output. What an event repeats of it at the end is left out.
func (p *parser) wholeItem() {
	for key := range p.Keys() {
		switch string(key) {
		case "type":
			kind, _, _ := p.Text()
			p.d.Tool = p.d.Tool || string(kind) == "function_call"
		case "content":
			for range p.Elements() {
				p.part()
			}
		}
	}
}

// responseMember reads what an event has in its response, and a whole answer at its top.
func (p *parser) responseMember(key []byte, r *response) {
	switch string(key) {
	case "status":
		r.status, _, _ = p.Text()
	case "incomplete_details":
		for range p.Only("reason") {
			r.reason, _, _ = p.Text()
		}
	case "usage":
		p.inputUsage()
	default:
		p.common(key)
	}
}

// weighResponse applies a status; one that is still in progress changes nothing.
func (p *parser) weighResponse(r response) {
	switch string(r.status) {
	case "completed":
		p.d.Finish = intern(r.status)
	case "incomplete":
		if len(r.reason) == 0 {
			r.reason = r.status
		}
		p.d.Finish = intern(r.reason)
	case "failed", "cancelled":
		if !p.d.IsError {
			p.reject(r.status)
		}
	}
}

// inputUsage reads the counts of the responses API.
func (p *parser) inputUsage() {
	for key := range p.Keys() {
		switch string(key) {
		case "input_tokens":
			p.d.PromptTokens = p.Count()
		case "output_tokens":
			p.d.CompletionTokens = p.Count()
		case "input_tokens_details":
			p.promptDetails()
		case "output_tokens_details":
			p.outputDetails()
		}
	}
}

// part reads a part of an answer's content: a text, or a call of a tool. It is for APIs whose whole answers have parts.
func (p *parser) part() {
	var text []byte
	said := false
	for key := range p.Keys() {
		switch string(key) {
		case "type":
			said = p.partType()
		case "text":
			text, _, _ = p.Text()
		}
	}
	if said {
		p.say(text)
	}
}

// partType reports whether the type of a part, which comes next, is that of an answer's text.
func (p *parser) partType() bool {
	switch kind, _, _ := p.Text(); string(kind) {
	case "text", "output_text":
		return true
	case "tool_use":
		p.d.Tool = true
	}
	return false
}

// say adds to the answer's text. A second piece allocates: events have one, and most whole answers.
func (p *parser) say(text []byte) {
	if len(p.d.Content) == 0 {
		p.d.Content = text
		return
	}
	p.d.Content = append(p.d.Content[:len(p.d.Content):len(p.d.Content)], text...)
}
