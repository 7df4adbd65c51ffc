package mockllm

import "fmt"

// messages is Anthropic's /v1/messages (docs.anthropic.com/en/api/messages-streaming). Like vLLM's
// (vllm/entrypoints/anthropic) it needs no anthropic-version, and ignores min_tokens, ignore_eos and cache_salt.
func messages() *protocol {
	const (
		message = `{"id":"msg_$id","type":"message","role":"assistant","model":"$model","content":[`
		// What was cached is not among the input tokens (docs.anthropic.com, prompt caching: their sum with both cache counts is
		// the prompt).
		usage  = `<told|,"usage":{"input_tokens":<cached|$uncached,"cache_creation_input_tokens":0,"cache_read_input_tokens":$cached|$prompt>,`
		reason = `"stop_reason":"<calls|tool_use|<cut|max_tokens|end_turn>>","stop_sequence":null`
		tool   = `{"type":"tool_use","id":"toolu_$id","name":"` + toolName + `","input":`
	)
	p := &protocol{
		name:         "messages",
		prompt:       "messages",
		conversation: true,
		read: func(d *decoder, b *requestBody) error {
			d.p.stream = b.Stream
			if d.p.maxTokens = optional(b.MaxTokens); d.p.maxTokens < 0 {
				return badRequest("max_tokens: Field required")
			}
			return d.conversation("messages", b.System, b.Messages)
		},
		open: []event{named("message_start", `,"message":`+message+`],"stop_reason":null,"stop_sequence":null`+usage+`"output_tokens":0}>}`)},
		finish: []event{
			named("message_delta", `,"delta":{`+reason+`}`+usage+`"output_tokens":$output}>`),
			named("message_stop", ""),
		},
		whole:   parseTemplate(message + `$items],` + reason + usage + `"output_tokens":$output}>$more}`),
		broken:  "event: content_block_delta\ndata: " + `{"type":"content_block_delta","index":0,"del`,
		refusal: anthropicError,
		failure: event{name: "error"},
	}
	p.addBlock(partReasoning, `{"type":"thinking","signature":"","thinking":""}`, `{"type":"thinking_delta","thinking":"$text"}`,
		`{"type":"thinking","signature":"bW9jaw==","thinking":"$thoughts"}`)
	p.addBlock(partText, `{"type":"text","text":""}`, `{"type":"text_delta","text":"$text"}`, `{"type":"text","text":"$content"}`)
	p.addBlock(partTool, tool+`{}}`, `{"type":"input_json_delta","partial_json":"$text"}`, tool+`{"text":"$argument"}}`)
	signature := named("content_block_delta", `,"index":$index,"delta":{"type":"signature_delta","signature":"bW9jaw=="}`)
	p.leave[partReasoning] = append([]event{signature}, p.leave[partReasoning]...)
	return p
}

// addBlock adds a content block: as it begins, a piece of it, and whole.
func (p *protocol) addBlock(of part, begins, delta, whole string) {
	p.item[of] = parseTemplate(whole)
	p.enter[of] = []event{
		named("content_block_start", `,"index":$index,"content_block":`+begins),
		named("ping", "").onlyIf("first"),
	}
	p.token[of] = named("content_block_delta", `,"index":$index,"delta":`+delta)
	p.leave[of] = []event{named("content_block_stop", `,"index":$index`)}
}

// anthropicError has the type of its status (docs.anthropic.com/en/api/errors).
func anthropicError(e *requestError) response {
	kind := "api_error"
	switch e.status {
	case 400, 415:
		kind = "invalid_request_error"
	case 401:
		kind = "authentication_error"
	case 404:
		kind = "not_found_error"
	case 413:
		kind = "request_too_large"
	case 429:
		kind = "rate_limit_error"
	case 503, 529:
		kind = "overloaded_error"
	}
	return response{status: e.status, body: fmt.Appendf(nil, `{"type":"error","error":{"type":"%s","message":"%s"}}`, kind, e.escaped())}
}
