package mockllm

// messagesAPI is Anthropic's /v1/messages (docs.anthropic.com/en/api/messages-streaming). Like vLLM's
// (vllm/entrypoints/anthropic) it needs no anthropic-version, and it knows no min_tokens, ignore_eos and cache_salt.
type messagesAPI struct{ plain }

func (messagesAPI) traits() traits {
	return traits{name: "messages", conversation: true, thinks: true, calls: true, opens: true}
}

func (messagesAPI) field(d *decoder, key []byte) error {
	switch string(key) {
	case "messages":
		return d.later(&d.messagesAt)
	case "system":
		return d.later(&d.systemAt)
	case "max_tokens":
		return d.optional(&d.p.maxTokens)
	}
	return d.commonField(key)
}

func (messagesAPI) require(d *decoder) error {
	if err := d.assemble("messages"); err != nil {
		return err
	}
	if err := d.needPrompt("messages"); err != nil {
		return err
	}
	if d.p.maxTokens < 0 {
		return badRequest("max_tokens: Field required")
	}
	return nil
}

// base is the id that those of the message and of its tool call end with.
func (messagesAPI) base(r *reply, dst []byte) []byte { return appendEscaped(dst, r.id) }

func (p messagesAPI) open(r *reply, dst []byte, _ int, now int64) ([]byte, bool) {
	dst = append(p.event(r, dst, "message_start"), `,"message":`...)
	dst = p.openMessage(r, dst)
	dst = append(dst, `],"stop_reason":null,"stop_sequence":null`...)
	dst = append(p.usage(r, dst, 0), '}')
	return r.closeEvent(dst, now), false
}

// event begins an event.
func (messagesAPI) event(r *reply, dst []byte, name string) []byte {
	dst = append(r.openNamed(dst, name), `{"type":"`...)
	dst = append(dst, name...)
	return append(dst, '"')
}

func (messagesAPI) openMessage(r *reply, dst []byte) []byte {
	dst = append(append(dst, `{"id":"msg_`...), r.base...)
	dst = r.appendModel(append(dst, `","type":"message","role":"assistant","model":"`...))
	return append(dst, `","content":[`...)
}

// usage appends it, if it is to be seen. What was cached is not among the input tokens (docs.anthropic.com, prompt
// caching: their sum with both cache counts is the prompt).
func (messagesAPI) usage(r *reply, dst []byte, output int) []byte {
	if r.hideUsage {
		return dst
	}
	input := r.promptTokens
	if r.showCached() {
		input -= r.cachedTokens
	}
	dst = appendInt(dst, `,"usage":{"input_tokens":`, input)
	if r.showCached() {
		dst = appendInt(dst, `,"cache_creation_input_tokens":0,"cache_read_input_tokens":`, r.cachedTokens)
	}
	dst = appendInt(dst, `,"output_tokens":`, output)
	return append(dst, '}')
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
	return r.closeEvent(dst, now), step+1 < leaves+enters
}

// blockEvent begins an event about a part's block.
func (p messagesAPI) blockEvent(r *reply, dst []byte, name string, of part) []byte {
	return appendInt(p.event(r, dst, name), `,"index":`, r.partIndex(of))
}

// block appends a content block: as it begins, or whole.
func (messagesAPI) block(r *reply, dst []byte, of part, begins bool) []byte {
	switch of {
	case partTool:
		dst = append(append(dst, `{"type":"tool_use","id":"toolu_`...), r.base...)
		dst = append(dst, `","name":"`+toolName+`","input":`...)
		if begins {
			return append(dst, "{}}"...)
		}
		dst = r.appendPart(append(dst, argumentsOpen...), r.tool, r.total)
		return append(dst, argumentsClose+"}"...)
	case partReasoning:
		dst = append(dst, `{"type":"thinking","signature":"`...)
		if !begins {
			dst = append(dst, "bW9jaw=="...)
		}
		dst = append(dst, `","thinking":"`...)
	default:
		dst = append(dst, `{"type":"text","text":"`...)
	}
	if !begins {
		from, to := r.span(of)
		dst = r.appendPart(dst, from, to)
	}
	return append(dst, `"}`...)
}

func (p messagesAPI) tokens(r *reply, dst []byte, k, count int, now int64) []byte {
	of := r.partAt(k)
	dst = p.blockEvent(r, dst, "content_block_delta", of)
	switch of {
	case partTool:
		dst = r.appendArguments(append(dst, `,"delta":{"type":"input_json_delta","partial_json":"`...), k, count)
	case partReasoning:
		dst = r.appendText(append(dst, `,"delta":{"type":"thinking_delta","thinking":"`...), k, count)
	default:
		dst = r.appendText(append(dst, `,"delta":{"type":"text_delta","text":"`...), k, count)
	}
	return r.closeEvent(append(dst, `"}`...), now)
}

func (p messagesAPI) finish(r *reply, dst []byte, step int, now int64) ([]byte, bool) {
	if step > 0 {
		return r.closeEvent(p.event(r, dst, "message_stop"), now), false
	}
	dst = append(p.event(r, dst, "message_delta"), `,"delta":{"stop_reason":"`...)
	dst = append(append(dst, p.reason(r)...), `","stop_sequence":null}`...)
	return r.closeEvent(p.usage(r, dst, r.sent), now), true
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
	for of := partReasoning; of <= partTool; of++ {
		if r.has(of) {
			if r.partIndex(of) > 0 {
				dst = append(dst, ',')
			}
			dst = p.block(r, dst, of, false)
		}
	}
	dst = append(append(dst, `],"stop_reason":"`...), p.reason(r)...)
	dst = append(dst, `","stop_sequence":null`...)
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
	dst = append(append(dst, `{"type":"error","error":{"type":"`...), kind...)
	dst = appendEscaped(append(dst, `","message":"`...), e.message)
	return append(dst, `"}}`...)
}

func (messagesAPI) broken() string {
	return "event: content_block_delta\ndata: " + `{"type":"content_block_delta","index":0,"del`
}
