package mockllm

// openAI is what OpenAI's protocols have in common, with vLLM's additions.
type openAI struct{ plain }

// openAIFields are what completions and chat requests have in common.
var openAIFields = with(commonFields, fields{
	"stream_options": orAbsent(streamOptions.read),
	"max_tokens":     readMaxTokens, "max_completion_tokens": readMaxTokens,
	"n":          readN,
	"min_tokens": extra("min_tokens", readMinTokens), "ignore_eos": extra("ignore_eos", readIgnoreEOS),
	"cache_salt": extra("cache_salt", (*decoder).salt),
})

var streamOptions = fields{
	"include_usage":          boolean(func(p *params) *bool { return &p.usage }),
	"continuous_usage_stats": boolean(func(p *params) *bool { return &p.continuousUsage }),
}

// readN reads the number of answers that a request wants, which must be 1.
func readN(d *decoder) error {
	var n int64 = 1
	err := d.optional(&n)
	if err == nil && n != 1 {
		return badRequest("n = %d: this server gives one choice a request", n)
	}
	return err
}

// refuse answers with an error object as vLLM sends it (vllm/entrypoints/openai/engine/protocol.py, ErrorResponse).
func (openAI) refuse(_ *params, e *requestError) response { return openAIError(e) }

// openAIError is also the answer to what is not known to be of another protocol.
func openAIError(e *requestError) response {
	if e.status == 401 { // its AuthenticationMiddleware (vllm/entrypoints/openai/server_utils.py)
		return response{status: 401, body: []byte(`{"error":"Unauthorized"}`)}
	}
	return response{status: e.status, body: appendOpenAIError(nil, e)}
}

func appendOpenAIError(dst []byte, e *requestError) []byte {
	return put(dst, `{"error":{"message":"%","type":"%","param":null,"code":%}}`, e.message, e.kind, e.status)
}

// fail appends an error object as an event, and [DONE].
func (openAI) fail(r *reply, dst []byte, e *requestError) []byte {
	return r.appendDone(r.endEvent(appendOpenAIError(append(dst, "data: "...), e)))
}

// openChoices begins a chunk, or a whole answer. All chunks of a reply begin alike.
func (r *reply) openChoices(dst []byte) []byte {
	if len(r.base) > 0 {
		return append(r.openData(dst), r.base...)
	}
	prefix, object := raw("cmpl-"), raw("text_completion")
	if _, chat := r.api.(chatAPI); chat {
		prefix, object = "chatcmpl-", "chat.completion"
		if r.p.stream {
			object = "chat.completion.chunk"
		}
	}
	r.base = put(
		r.base,
		`{"id":"%%","object":"%","created":%,"model":"%","choices":[`,
		prefix,
		r.id,
		object,
		r.createdS,
		r.model(),
	)
	return append(r.openData(dst), r.base...)
}

// openChoice begins a chunk, or a whole answer, with a choice.
func (r *reply) openChoice(dst []byte) []byte { return append(r.openChoices(dst), `{"index":0,`...) }

// closeChoice ends it. reason is the finish reason, "" = none yet.
func (r *reply) closeChoice(dst []byte, reason string, now int64) []byte {
	dst = put(dst, `,"logprobs":null,"finish_reason":%}]`, orNull(reason))
	if !r.hideUsage && (!r.p.stream || r.p.continuousUsage && r.p.usage) {
		dst = r.appendUsage(dst)
	}
	return r.closeObject(dst, now)
}

// reasonNow is the finish reason that the chunk carries whose tokens were just counted.
func (r *reply) reasonNow(reason string) string {
	if r.p.stream && r.cfg.FinishChunk || !r.atEnd() {
		return ""
	}
	return reason
}

// finishOpenAI appends the finish reason in a chunk of its own, if the server has one, then usage and [DONE].
func (r *reply) finishOpenAI(dst []byte, step int, content, reason string, now int64) ([]byte, bool) {
	if step == 0 && r.cfg.FinishChunk {
		return r.closeChoice(append(r.openChoice(dst), content...), reason, now), true
	}
	if r.p.usage && !r.hideUsage {
		dst = r.appendUsage(append(r.openChoices(dst), ']'))
		dst = r.closeObject(dst, now)
	}
	return r.appendDone(dst), false
}

func (r *reply) appendUsage(dst []byte) []byte {
	dst = put(
		dst,
		`,"usage":{"prompt_tokens":%,"total_tokens":%,"completion_tokens":%`,
		r.promptTokens,
		r.promptTokens+r.sent,
		r.sent,
	)
	if r.showCached() {
		dst = put(dst, `,"prompt_tokens_details":{"cached_tokens":%}`, r.cachedTokens)
	}
	return append(dst, '}')
}

// completionsAPI is OpenAI's /v1/completions as vLLM serves it (vllm/entrypoints/openai/completion).
type completionsAPI struct{ openAI }

var completionsFields = with(openAIFields, fields{"prompt": (*decoder).prompt})

func (completionsAPI) traits() traits {
	return traits{
		name:   "completions",
		fields: completionsFields,
		prompt: "prompt",
		broken: `data: {"id":"broken","choices":[{"index":0,"te`,
	}
}

func (completionsAPI) tokens(r *reply, dst []byte, k, count int, now int64) []byte {
	dst = put(r.openChoice(dst), `"text":"%"`, tokenText{r, k, k + count})
	return r.closeChoice(dst, r.reasonNow(r.finish), now)
}

func (completionsAPI) finish(r *reply, dst []byte, step int, now int64) ([]byte, bool) {
	return r.finishOpenAI(dst, step, `"text":""`, r.finish, now)
}

// chatAPI is OpenAI's /v1/chat/completions as vLLM serves it (vllm/entrypoints/openai/chat_completion), with
// reasoning_content as DeepSeek and SGLang call it.
type chatAPI struct{ openAI }

var chatFields = with(openAIFields, fields{"messages": laterMessages})

func (chatAPI) traits() traits {
	return traits{
		name:         "chat",
		fields:       chatFields,
		prompt:       "messages",
		conversation: true,
		thinks:       true,
		calls:        true,
		opens:        true,
		broken:       `data: {"id":"broken","choices":[{"index":0,"delta":{"co`,
	}
}

// open appends the event that begins an answer.
func (chatAPI) open(r *reply, dst []byte, _ int, now int64) ([]byte, bool) {
	dst = append(r.openChoice(dst), `"delta":{"role":"assistant","content":""}`...)
	return r.closeChoice(dst, "", now), false
}

func (c chatAPI) tokens(r *reply, dst []byte, k, count int, now int64) []byte {
	dst = r.openChoice(dst)
	switch of := r.partAt(k); {
	case of == partReasoning:
		dst = put(dst, `"delta":{"reasoning_content":"%"}`, tokenText{r, k, k + count})
	case of != partTool:
		dst = put(dst, `"delta":{"content":"%"}`, tokenText{r, k, k + count})
	case k == r.tool: // the call's name with its first piece, so that a chunk stays a token
		dst = put(
			dst,
			`"delta":{"tool_calls":[{"index":0,"id":"call_%","type":"function","function":{"name":"`+toolName+`","arguments":"%"}}]}`,
			r.id,
			arguments{r, k, k + count},
		)
	default:
		dst = put(dst, `"delta":{"tool_calls":[{"index":0,"function":{"arguments":"%"}}]}`, arguments{r, k, k + count})
	}
	return r.closeChoice(dst, r.reasonNow(c.reason(r)), now)
}

func (c chatAPI) finish(r *reply, dst []byte, step int, now int64) ([]byte, bool) {
	return r.finishOpenAI(dst, step, `"delta":{}`, c.reason(r), now)
}

// reason is the finish reason: vLLM's is tool_calls whatever ended the answer.
func (chatAPI) reason(r *reply) string {
	if r.has(partTool) {
		return "tool_calls"
	}
	return r.finish
}

func (c chatAPI) whole(r *reply, dst []byte, now int64) []byte {
	dst = append(r.openChoice(dst), `"message":{"role":"assistant",`...)
	if r.has(partReasoning) {
		dst = put(dst, `"reasoning_content":"%",`, tokenText{r, 0, r.reasoning})
	}
	dst = put(dst, `"content":"%"`, tokenText{r, r.reasoning, r.tool})
	if r.has(partTool) {
		dst = put(
			dst,
			`,"tool_calls":[{"id":"call_%","type":"function","function":{"name":"`+toolName+`","arguments":"%"}}]`,
			r.id,
			arguments{r, r.tool, r.total},
		)
	}
	return r.closeChoice(append(dst, '}'), c.reason(r), now)
}
