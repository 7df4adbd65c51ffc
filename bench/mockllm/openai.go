package mockllm

import "strconv"

// openAI is what OpenAI's protocols have in common, with vLLM's additions.
type openAI struct{ plain }

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
	dst = append(dst, `{"error":{"message":"`...)
	dst = appendEscaped(dst, e.message)
	dst = append(dst, `","type":"`...)
	dst = append(dst, e.kind...)
	dst = append(dst, `","param":null,"code":`...)
	dst = strconv.AppendInt(dst, int64(e.status), 10)
	return append(dst, "}}"...)
}

// openAIField reads what completions and chat requests have in common.
func (d *decoder) openAIField(key []byte) error {
	switch string(key) {
	case "stream_options":
		return d.streamOptions()
	case "max_tokens", "max_completion_tokens":
		return d.optional(&d.p.maxTokens)
	case "n":
		var n int64 = 1
		err := d.optional(&n)
		if err == nil && n != 1 {
			return badRequest("n = %d: this server gives one choice a request", n)
		}
		return err
	case "min_tokens", "ignore_eos", "cache_salt":
		return d.extra(key)
	}
	return d.commonField(key)
}

// commonField reads what nearly all requests have in common.
func (d *decoder) commonField(key []byte) (err error) {
	switch string(key) {
	case "model":
		d.p.model, err = d.text()
	case "stream":
		d.p.stream, err = d.boolean()
	default:
		err = d.skip(0)
	}
	return err
}

// extra reads a parameter that vLLM has and OpenAI has not.
func (d *decoder) extra(key []byte) (err error) {
	if d.cfg.RefuseExtras {
		return badRequest("Unrecognized request argument supplied: %s", key)
	}
	switch string(key) {
	case "min_tokens":
		return d.optional(&d.p.minTokens)
	case "ignore_eos":
		d.p.ignoreEOS, err = d.boolean()
		return err
	}
	return d.salt()
}

// salt reads what keeps a prompt apart from equal ones in the prefix cache, or null.
func (d *decoder) salt() error {
	if d.literal("null") {
		return nil
	}
	salt, err := d.text()
	if err != nil {
		return err
	}
	if len(salt) == 0 {
		return badRequest("Parameter 'cache_salt' must be a non-empty string if provided.")
	}
	if !d.cfg.IgnoreSalt {
		d.p.saltHash = hashBytes(salt)
	}
	return nil
}

func (d *decoder) streamOptions() error {
	if d.literal("null") {
		return nil
	}
	return d.object(func(key []byte) (err error) {
		switch string(key) {
		case "include_usage":
			d.p.usage, err = d.boolean()
		case "continuous_usage_stats":
			d.p.continuousUsage, err = d.boolean()
		default:
			err = d.skip(1)
		}
		return err
	})
}

// openAIBase prepares what the chunks and answers of completions and chat begin with.
func (r *reply) openAIBase(dst []byte, prefix, object string) []byte {
	dst = append(dst, `{"id":"`...)
	dst = append(dst, prefix...)
	dst = appendEscaped(dst, r.id)
	dst = append(dst, `","object":"`...)
	dst = append(dst, object...)
	dst = append(dst, `","created":`...)
	dst = strconv.AppendInt(dst, r.createdS, 10)
	dst = append(dst, `,"model":"`...)
	dst = r.appendModel(dst)
	return append(dst, `","choices":[`...)
}

// openChoice begins an event with a choice.
func (r *reply) openChoice(dst []byte) []byte {
	dst = append(r.openData(dst), r.base...)
	return append(dst, `{"index":0,`...)
}

// closeChoice ends it. reason is the finish reason, "" = none yet.
func (r *reply) closeChoice(dst []byte, reason string, now int64) []byte {
	dst = appendFinishReason(append(dst, `,"logprobs":null`...), reason)
	dst = append(dst, "}]"...)
	if r.p.continuousUsage && r.p.usage && !r.hideUsage {
		dst = r.appendUsage(append(dst, ','))
	}
	return r.closeEvent(dst, now)
}

func appendFinishReason(dst []byte, reason string) []byte {
	if reason == "" {
		return append(dst, `,"finish_reason":null`...)
	}
	dst = append(dst, `,"finish_reason":"`...)
	dst = append(dst, reason...)
	return append(dst, '"')
}

// chunkReason is the finish reason that the chunk of tokens carries which were just counted.
func (r *reply) chunkReason(reason string) string {
	if r.cfg.FinishChunk || !r.atEnd() {
		return ""
	}
	return reason
}

// finishOpenAI appends the finish reason in a chunk of its own, where there is to be one, then usage and [DONE].
func (r *reply) finishOpenAI(dst []byte, step int, content, reason string, now int64) ([]byte, bool) {
	if step == 0 && r.cfg.FinishChunk {
		dst = append(r.openChoice(dst), content...)
		return r.closeChoice(dst, reason, now), true
	}
	if r.p.usage && !r.hideUsage {
		dst = append(r.openData(dst), r.base...)
		dst = r.appendUsage(append(dst, `],`...))
		dst = r.closeEvent(dst, now)
	}
	return r.appendDone(dst), false
}

// closeWhole ends the one choice of an answer, and the answer.
func (r *reply) closeWhole(dst []byte, reason string, now int64) []byte {
	dst = appendFinishReason(append(dst, `,"logprobs":null`...), reason)
	dst = append(dst, "}]"...)
	if !r.hideUsage {
		dst = r.appendUsage(append(dst, ','))
	}
	return r.closeObject(dst, now)
}

func (r *reply) appendUsage(dst []byte) []byte {
	dst = appendInt(dst, `"usage":{"prompt_tokens":`, r.promptTokens)
	dst = appendInt(dst, `,"total_tokens":`, r.promptTokens+r.sent)
	dst = appendInt(dst, `,"completion_tokens":`, r.sent)
	if r.showCached() {
		dst = appendInt(dst, `,"prompt_tokens_details":{"cached_tokens":`, r.cachedTokens)
		dst = append(dst, '}')
	}
	return append(dst, '}')
}

// failOpenAI appends an error object as an event, and [DONE].
func (r *reply) failOpenAI(dst []byte, e *requestError) []byte {
	return r.appendDone(r.endEvent(appendOpenAIError(append(dst, "data: "...), e)))
}

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
