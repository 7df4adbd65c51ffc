package mockllm

// chatAPI is OpenAI's /v1/chat/completions as vLLM serves it (vllm/entrypoints/openai/chat_completion), with
// reasoning_content as DeepSeek and SGLang call it.
type chatAPI struct{ openAI }

func (chatAPI) traits() traits {
	return traits{name: "chat", conversation: true, thinks: true, calls: true, opens: true}
}

func (chatAPI) field(d *decoder, key []byte) error {
	if string(key) == "messages" {
		return d.messages()
	}
	return d.openAIField(key)
}

func (chatAPI) require(d *decoder) error { return d.needPrompt("messages") }

func (chatAPI) base(r *reply, dst []byte) []byte {
	if r.p.stream {
		return r.openAIBase(dst, "chatcmpl-", "chat.completion.chunk")
	}
	return r.openAIBase(dst, "chatcmpl-", "chat.completion")
}

// open appends the event that begins an answer.
func (chatAPI) open(r *reply, dst []byte, _ int, now int64) ([]byte, bool) {
	dst = append(r.openChoice(dst), `"delta":{"role":"assistant","content":""}`...)
	return r.closeChoice(dst, "", now), false
}

func (c chatAPI) tokens(r *reply, dst []byte, k, count int, now int64) []byte {
	dst = r.openChoice(dst)
	switch r.partAt(k) {
	case partReasoning:
		dst = append(dst, `"delta":{"reasoning_content":"`...)
		dst = append(r.appendText(dst, k, count), `"}`...)
	case partTool:
		dst = append(dst, `"delta":{"tool_calls":[{"index":0,`...)
		if k == r.tool { // the call's name with its first piece, so that a chunk stays a token
			dst = r.appendCallHead(dst)
		}
		dst = append(dst, `"function":{`...)
		if k == r.tool {
			dst = append(dst, `"name":"`+toolName+`",`...)
		}
		dst = append(dst, `"arguments":"`...)
		dst = append(r.appendArguments(dst, k, count), `"}}]}`...)
	default:
		dst = append(dst, `"delta":{"content":"`...)
		dst = append(r.appendText(dst, k, count), `"}`...)
	}
	return r.closeChoice(dst, r.chunkReason(c.reason(r)), now)
}

func (r *reply) appendCallHead(dst []byte) []byte {
	dst = appendEscaped(append(dst, `"id":"call_`...), r.id)
	return append(dst, `","type":"function",`...)
}

func (c chatAPI) finish(r *reply, dst []byte, step int, now int64) ([]byte, bool) {
	return r.finishOpenAI(dst, step, `"delta":{}`, c.reason(r), now)
}

// reason is the finish reason: vLLM says tool_calls whatever ended the answer.
func (chatAPI) reason(r *reply) string {
	if r.has(partTool) {
		return "tool_calls"
	}
	return r.finish
}

func (c chatAPI) whole(r *reply, dst []byte, now int64) []byte {
	dst = append(append(dst, r.base...), `{"index":0,"message":{"role":"assistant",`...)
	if r.has(partReasoning) {
		dst = append(dst, `"reasoning_content":"`...)
		dst = append(r.appendPart(dst, 0, r.reasoning), `",`...)
	}
	dst = append(dst, `"content":"`...)
	dst = append(r.appendPart(dst, r.reasoning, r.tool), '"')
	if r.has(partTool) {
		dst = r.appendCallHead(append(dst, `,"tool_calls":[{`...))
		dst = append(dst, `"function":{"name":"`+toolName+`","arguments":"`...)
		dst = append(r.appendCall(dst), `"}}]`...)
	}
	return r.closeWhole(append(dst, '}'), c.reason(r), now)
}

func (chatAPI) fail(r *reply, dst []byte, e *requestError) []byte { return r.failOpenAI(dst, e) }

func (chatAPI) broken() string { return `data: {"id":"broken","choices":[{"index":0,"delta":{"co` }
