package mockllm

// completionsAPI is OpenAI's /v1/completions as vLLM serves it (vllm/entrypoints/openai/completion).
type completionsAPI struct{ openAI }

func (completionsAPI) traits() traits { return traits{name: "completions"} }

func (completionsAPI) field(d *decoder, key []byte) error {
	if string(key) == "prompt" {
		return d.prompt()
	}
	return d.openAIField(key)
}

func (completionsAPI) require(d *decoder) error { return d.needPrompt("prompt") }

func (completionsAPI) base(r *reply, dst []byte) []byte {
	return r.openAIBase(dst, "cmpl-", "text_completion")
}

func (completionsAPI) tokens(r *reply, dst []byte, k, count int, now int64) []byte {
	dst = append(r.openChoice(dst), `"text":"`...)
	dst = append(r.appendText(dst, k, count), '"')
	return r.closeChoice(dst, r.chunkReason(r.finish), now)
}

func (completionsAPI) finish(r *reply, dst []byte, step int, now int64) ([]byte, bool) {
	return r.finishOpenAI(dst, step, `"text":""`, r.finish, now)
}

func (completionsAPI) whole(r *reply, dst []byte, now int64) []byte {
	dst = append(append(dst, r.base...), `{"index":0,"text":"`...)
	dst = append(r.appendPart(dst, 0, r.total), '"')
	return r.closeWhole(dst, r.finish, now)
}

func (completionsAPI) fail(r *reply, dst []byte, e *requestError) []byte { return r.failOpenAI(dst, e) }

func (completionsAPI) broken() string { return `data: {"id":"broken","choices":[{"index":0,"te` }
