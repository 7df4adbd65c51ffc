package api

// tgi is the API of Hugging Face's Text Generation Inference. It cannot be made to go on beyond the end of a text
// (router/src/lib.rs: GenerateParameters).
func tgi() kind {
	return kind{
		name: "tgi", path: "/generate", stream: "/generate_stream", reads: tgiEvents,
		shape: shape{
			text: frame{`"inputs":"`, `"`}, nest: "parameters", most: []string{"max_new_tokens"}, fixed: members{{"details", yes}},
		},
		traits: Traits{Made: true, Generates: true, Streams: true, Marks: true, StreamCounts: true, CountHeader: "x-prompt-tokens"},
	}
}

// tgiDocument reads an event, or a whole answer.
func (p *parser) tgiDocument() {
	var c content
	for key, ok := p.key(); ok; key, ok = p.key() {
		switch string(key) {
		case "token":
			p.tgiToken(&c)
		case "details":
			p.tgiDetails()
		default:
			p.common(key)
		}
	}
	p.weighChoice(c, false)
}

func (p *parser) tgiToken(c *content) {
	for key, ok := p.firstKey(); ok; key, ok = p.key() {
		if string(key) == "text" {
			p.carries(c)
		} else {
			p.skip()
		}
	}
}

// tgiDetails reads what the last event and a whole answer say of the end; only the event counts the prompt, a header that of a whole answer.
func (p *parser) tgiDetails() {
	for key, ok := p.firstKey(); ok; key, ok = p.key() {
		switch string(key) {
		case "finish_reason":
			p.finishReason()
		case "generated_tokens":
			p.d.CompletionTokens = p.count()
		case "input_length":
			p.d.PromptTokens = p.count()
		default:
			p.skip()
		}
	}
}
