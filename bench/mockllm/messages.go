package mockllm

// messagesAPI is Anthropic's /v1/messages (docs.anthropic.com/en/api/messages-streaming). Like vLLM's
// (vllm/entrypoints/anthropic) it needs no anthropic-version, and ignores min_tokens, ignore_eos and cache_salt.
type messagesAPI struct{ plain }

var messagesFields = with(commonFields, fields{
	"messages": laterMessages, "system": laterSystem, "max_tokens": readMaxTokens,
})

func (messagesAPI) traits() traits {
	return traits{
		name:         "messages",
		fields:       messagesFields,
		prompt:       "messages",
		conversation: true,
		thinks:       true,
		calls:        true,
		opens:        true,
		broken:       "event: content_block_delta\ndata: " + `{"type":"content_block_delta","index":0,"del`,
	}
}

func (messagesAPI) require(d *decoder) error {
	if d.p.maxTokens < 0 {
		return badRequest("max_tokens: Field required")
	}
	return nil
}

func (p messagesAPI) open(r *reply, dst []byte, _ int, now int64) ([]byte, bool) {
	dst = append(p.event(r, dst, "message_start"), `,"message":`...)
	dst = p.openMessage(r, dst)
	dst = append(dst, `],"stop_reason":null,"stop_sequence":null`...)
	dst = append(p.usage(r, dst, 0), '}')
	return r.closeObject(dst, now), false
}

// event begins an event.
func (messagesAPI) event(r *reply, dst []byte, name string) []byte {
	return put(r.openNamed(dst, name), `{"type":"%"`, raw(name))
}

func (messagesAPI) openMessage(r *reply, dst []byte) []byte {
	return put(dst, `{"id":"msg_%","type":"message","role":"assistant","model":"%","content":[`, r.id, r.model())
}

// usage appends it, unless a fault hides it. What was cached is not among the input tokens (docs.anthropic.com, prompt
// caching: their sum with both cache counts is the prompt).
func (messagesAPI) usage(r *reply, dst []byte, output int) []byte {
	switch {
	case r.hideUsage:
		return dst
	case r.showCached():
		return put(
			dst,
			`,"usage":{"input_tokens":%,"cache_creation_input_tokens":0,"cache_read_input_tokens":%,"output_tokens":%}`,
			r.promptTokens-r.cachedTokens,
			r.cachedTokens,
			output,
		)
	}
	return put(dst, `,"usage":{"input_tokens":%,"output_tokens":%}`, r.promptTokens, output)
}

func (p messagesAPI) turn(r *reply, dst []byte, to part, step int, now int64) ([]byte, bool) {
	leaves, enters := 1, 1
	switch r.part {
	case partNone:
		leaves, enters = 0, 2 // the first block's begin, and a ping
	case partReasoning:
		leaves = 2 // a signature, and the block's end
	}
	if to == partNone {
		enters = 0
	}
	switch {
	case step < leaves-1:
		dst = p.blockEvent(r, dst, "content_block_delta", r.part)
		dst = append(dst, `,"delta":{"type":"signature_delta","signature":"bW9jaw=="}`...)
	case step < leaves:
		dst = p.blockEvent(r, dst, "content_block_stop", r.part)
	case step == leaves:
		dst = append(p.blockEvent(r, dst, "content_block_start", to), `,"content_block":`...)
		dst = p.block(r, dst, to, true)
	default:
		dst = p.event(r, dst, "ping")
	}
	return r.closeObject(dst, now), step+1 < leaves+enters
}

// blockEvent begins an event about a part's block.
func (p messagesAPI) blockEvent(r *reply, dst []byte, name string, of part) []byte {
	return put(p.event(r, dst, name), `,"index":%`, r.partIndex(of))
}

// block appends a content block: as it begins, or whole.
func (messagesAPI) block(r *reply, dst []byte, of part, begins bool) []byte {
	from, to := r.span(of)
	text := tokenText{r, from, to}
	if begins {
		text.to = from
	}
	switch {
	case of == partTool && begins:
		return put(dst, `{"type":"tool_use","id":"toolu_%","name":"`+toolName+`","input":{}}`, r.id)
	case of == partTool:
		return put(dst, `{"type":"tool_use","id":"toolu_%","name":"`+toolName+`","input":{"text":"%"}}`, r.id, text)
	case of == partText:
		return put(dst, `{"type":"text","text":"%"}`, text)
	case begins:
		return append(dst, `{"type":"thinking","signature":"","thinking":""}`...)
	}
	return put(dst, `{"type":"thinking","signature":"bW9jaw==","thinking":"%"}`, text)
}

func (p messagesAPI) tokens(r *reply, dst []byte, k, count int, now int64) []byte {
	of := r.partAt(k)
	dst = p.blockEvent(r, dst, "content_block_delta", of)
	switch of {
	case partTool:
		dst = put(dst, `,"delta":{"type":"input_json_delta","partial_json":"%"}`, arguments{r, k, k + count})
	case partReasoning:
		dst = put(dst, `,"delta":{"type":"thinking_delta","thinking":"%"}`, tokenText{r, k, k + count})
	default:
		dst = put(dst, `,"delta":{"type":"text_delta","text":"%"}`, tokenText{r, k, k + count})
	}
	return r.closeObject(dst, now)
}

func (p messagesAPI) finish(r *reply, dst []byte, step int, now int64) ([]byte, bool) {
	if step > 0 {
		return r.closeObject(p.event(r, dst, "message_stop"), now), false
	}
	dst = put(p.event(r, dst, "message_delta"), `,"delta":{"stop_reason":"%","stop_sequence":null}`, p.reason(r))
	return r.closeObject(p.usage(r, dst, r.sent), now), true
}

// reason is the stop reason.
func (messagesAPI) reason(r *reply) string {
	switch {
	case r.has(partTool):
		return "tool_use"
	case r.finish == "length":
		return "max_tokens"
	}
	return "end_turn"
}

func (p messagesAPI) whole(r *reply, dst []byte, now int64) []byte {
	dst = p.openMessage(r, dst)
	for of := range r.parts {
		if r.partIndex(of) > 0 {
			dst = append(dst, ',')
		}
		dst = p.block(r, dst, of, false)
	}
	dst = put(dst, `],"stop_reason":"%","stop_sequence":null`, p.reason(r))
	return r.closeObject(p.usage(r, dst, r.sent), now)
}

// fail appends an error event, the stream's last.
func (messagesAPI) fail(r *reply, dst []byte, e *requestError) []byte {
	return r.endEvent(appendAnthropicError(r.openNamed(dst, "error"), e))
}

func (messagesAPI) refuse(_ *params, e *requestError) response {
	return response{status: e.status, body: appendAnthropicError(nil, e)}
}

// appendAnthropicError appends an error object with the type of its status (docs.anthropic.com/en/api/errors).
func appendAnthropicError(dst []byte, e *requestError) []byte {
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
	return put(dst, `{"type":"error","error":{"type":"%","message":"%"}}`, kind, e.message)
}
