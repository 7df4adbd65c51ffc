package api

// messages is Anthropic's messages API with the prompt as one user message, as vLLM and SGLang serve it, too.
func messages() kind {
	return kind{
		name:    "messages",
		path:    "/v1/messages",
		reads:   messagesEvents,
		headers: []Header{{"anthropic-version", "2023-06-01"}},
		shape: shape{
			text:     frame{`"messages":[{"role":"user","content":"`, `"}]`},
			messages: frame{`"messages":[`, `]`},
			most:     "max_tokens",
			stream:   streamed,
			prepare:  systemApart,
		},
		traits: Traits{
			Template:  true,
			Made:      true,
			Model:     true,
			Generates: true,
			Streams:   true,
			Marks:     true,
			Counts:    true,
			Sized:     true,
			Key:       Key{Header: "x-api-key", Env: "ANTHROPIC_API_KEY"},
		},
	}
}

// messagesDocument reads an event, or a whole answer, which is a message.
func (p *parser) messagesDocument() {
	var event []byte
	var c content
	for key := range p.Keys() {
		switch string(key) {
		case "type":
			event, _, _ = p.Text()
		case "message":
			if !p.Object() { // an error's text, of servers that put it here
				continue
			}
			for key := range p.Members {
				p.messageMember(key)
			}
			p.d.CompletionTokens = -1 // of a message that has just begun
		case "delta":
			p.blockDelta(&c)
		case "content_block":
			p.blockStart(&c)
		default:
			p.messageMember(key)
		}
	}
	p.weighChoice(c, false)
	if string(event) == "message_stop" {
		p.d.Done = true
	}
}

// messageMember reads what the first event has in its message, and a whole answer at its top.
func (p *parser) messageMember(key []byte) {
	switch string(key) {
	case "stop_reason":
		p.finishReason()
	case "usage":
		p.messageUsage()
	case "content":
		for range p.Elements() {
			p.part()
		}
	default:
		p.common(key)
	}
}

// blockDelta reads a part of a content block: text, thinking or the input of a tool. The end of the message is a delta,
// too.
func (p *parser) blockDelta(c *content) {
	for key := range p.Keys() {
		switch string(key) {
		case "text":
			p.say(p.carries(c))
		case "partial_json":
			p.carries(c)
			p.d.Tool = true
		case "thinking":
			p.reasons(c)
		case "stop_reason":
			p.finishReason()
		}
	}
}

// blockStart reads what a content block begins with: mostly nothing, but the name of a tool is said by it.
func (p *parser) blockStart(c *content) {
	var start content
	for key := range p.Keys() {
		switch string(key) {
		case "text":
			p.say(p.carries(&start))
		case "type":
			p.partType()
		case "thinking":
			p.reasons(&start)
		case "name":
			p.carries(&start)
		}
	}
	if start.filled || start.reasoned {
		*c = start
	}
}

// messageUsage reads the counts. Input tokens are those that the cache neither gave nor took.
func (p *parser) messageUsage() {
	if !p.Object() {
		return
	}
	read := -1
	created := -1
	for key := range p.Members {
		switch string(key) {
		case "input_tokens":
			p.d.PromptTokens = p.Count()
		case "output_tokens":
			p.d.CompletionTokens = p.Count()
		case "cache_read_input_tokens":
			read = p.Count()
		case "cache_creation_input_tokens":
			created = p.Count()
		}
	}
	if p.d.PromptTokens >= 0 {
		p.d.PromptTokens += max(0, read) + max(0, created)
	}
	p.d.CachedTokens = read
}
