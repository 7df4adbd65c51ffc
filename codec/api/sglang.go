package api

// sglang is SGLang's own generate API (python/sglang/srt/managers/io_struct.py: GenerateReqInput).
func sglang() kind {
	return kind{
		name: "sglang", path: "/generate", reads: sglangEvents,
		shape: shape{
			text: frame{`"text":"`, `"`}, tokenIDs: frame{`"input_ids":[`, `]`}, nest: "sampling_params",
			most: []string{"max_new_tokens"}, least: []string{"min_new_tokens"}, forced: members{{"ignore_eos", yes}},
			stream: members{{"stream", yes}},
		},
		traits: Traits{TokenIDs: true, Made: true, Forces: true, Generates: true, Streams: true, Marks: true, Counts: true},
	}
}

// sglangDocument reads an event, or a whole answer. The text of an event is all the text so far, so an event is as long as the
// answer up to it, unless the server runs with --incremental-streaming-output.
func (p *parser) sglangDocument() {
	var c content
	for key, ok := p.key(); ok; key, ok = p.key() {
		switch string(key) {
		case "text":
			p.carries(&c)
		case "output_ids":
			p.ids(&c)
		case "meta_info":
			p.metaInfo()
		default:
			p.common(key)
		}
	}
	p.weighChoice(c, false)
}

// ids notes that there are token ids; they are no text.
func (p *parser) ids(c *content) {
	for more := p.array() && p.element(); more; more = p.element() {
		p.skip()
		c.present = true
	}
}

func (p *parser) metaInfo() {
	for key, ok := p.firstKey(); ok; key, ok = p.key() {
		switch string(key) {
		case "finish_reason":
			p.finishObject()
		case "prompt_tokens":
			p.d.PromptTokens = p.count()
		case "completion_tokens":
			p.d.CompletionTokens = p.count()
		case "cached_tokens":
			p.d.CachedTokens = p.count()
		default:
			p.skip()
		}
	}
}

// finishObject reads {"type":"length",…}, as elder versions a plain reason, and the message of an abort.
func (p *parser) finishObject() {
	if p.peek() != '{' {
		p.finishReason()
		return
	}
	var message []byte
	for key, ok := p.firstKey(); ok; key, ok = p.key() {
		switch string(key) {
		case "type":
			p.finishReason()
		case "message":
			message, _, _ = p.text()
		default:
			p.skip()
		}
	}
	if p.d.Finish == "abort" && len(message) > 0 {
		p.d.IsError, p.d.Error = true, message
	}
}
