package mockllm

// sglangAPI is SGLang's own /generate (sgl-project/sglang, python/sglang/srt/entrypoints/http_server.py and
// managers/tokenizer_manager.py). Text and ids of its events are cumulative, unless the server was told otherwise.
type sglangAPI struct{ plain }

// sglangMaxNewTokens is what a request gets that names none (sampling/sampling_params.py).
const sglangMaxNewTokens = 128

func (sglangAPI) traits() traits {
	return traits{name: "sglang", noModel: true, maxTokens: sglangMaxNewTokens}
}

func (sglangAPI) field(d *decoder, key []byte) (err error) {
	switch string(key) {
	case "text", "input_ids":
		if d.literal("null") {
			return nil
		}
		return d.prompt()
	case "sampling_params":
		if d.literal("null") {
			return nil
		}
		return d.object(d.sglangParameter)
	case "stream":
		d.p.stream, err = d.boolean()
		return err
	case "extra_key": // keeps prompts apart in the prefix cache
		return d.salt()
	}
	return d.skip(0)
}

func (d *decoder) sglangParameter(key []byte) (err error) {
	switch string(key) {
	case "max_new_tokens":
		return d.optional(&d.p.maxTokens)
	case "min_new_tokens":
		return d.optional(&d.p.minTokens)
	case "ignore_eos":
		d.p.ignoreEOS, err = d.boolean()
	case "n":
		var n int64 = 1
		if err = d.optional(&n); err == nil && n != 1 {
			return badRequest("n = %d: this server gives one answer a request", n)
		}
	default:
		err = d.skip(1)
	}
	return err
}

func (sglangAPI) require(d *decoder) error {
	if !d.p.hasPrompt {
		return badRequest("Either text, input_ids or input_embeds should be provided.")
	}
	return nil
}

// base is the id, escaped.
func (sglangAPI) base(r *reply, dst []byte) []byte { return appendEscaped(dst, r.id) }

func (s sglangAPI) tokens(r *reply, dst []byte, k, count int, now int64) []byte {
	from := 0
	if r.cfg.Incremental {
		from = k
	}
	dst = append(r.openData(dst), `{"text":"`...)
	dst = r.appendPart(dst, from, k+count)
	return r.closeEvent(s.rest(r, dst, from, r.atEnd()), now)
}

// rest appends what comes after the text: the ids from one on, and what is known of the request.
func (sglangAPI) rest(r *reply, dst []byte, from int, end bool) []byte {
	dst = append(dst, `","output_ids":[`...)
	for k := from; k < r.sent; k++ {
		if k > from {
			dst = append(dst, ',')
		}
		dst = appendInt(dst, "", r.tokenNumber(k))
	}
	dst = append(append(dst, `],"meta_info":{"id":"`...), r.base...)
	dst = append(dst, `","finish_reason":`...)
	switch {
	case !end:
		dst = append(dst, "null"...)
	case r.finish == "length":
		dst = appendInt(dst, `{"type":"length","length":`, r.total)
		dst = append(dst, '}')
	default:
		dst = append(dst, `{"type":"stop","matched":2}`...)
	}
	dst = append(dst, `,"weight_version":"default"`...)
	if !r.hideUsage {
		dst = appendInt(dst, `,"prompt_tokens":`, r.promptTokens)
		dst = appendInt(dst, `,"completion_tokens":`, r.sent)
		if r.showCached() {
			dst = appendInt(dst, `,"cached_tokens":`, r.cachedTokens)
		}
	}
	return append(dst, '}')
}

func (sglangAPI) finish(r *reply, dst []byte, _ int, _ int64) ([]byte, bool) {
	return r.appendDone(dst), false
}

func (s sglangAPI) whole(r *reply, dst []byte, now int64) []byte {
	dst = r.appendPart(append(dst, `{"text":"`...), 0, r.total)
	return r.closeObject(s.rest(r, dst, 0, true), now)
}

func (sglangAPI) fail(r *reply, dst []byte, e *requestError) []byte {
	return r.appendDone(r.endEvent(appendSGLangError(append(dst, "data: "...), e)))
}

// refuse answers with an error object. A stream has begun when SGLang looks at a request: its refusals are events.
func (sglangAPI) refuse(p *params, e *requestError) response {
	a := response{status: e.status, body: appendSGLangError(nil, e)}
	if p.stream && e.kind == kindBadRequest {
		a.status, a.contentType = 200, "text/event-stream; charset=utf-8"
		a.body = append(append([]byte("data: "), a.body...), "\n\ndata: [DONE]\n\n"...)
	}
	return a
}

func appendSGLangError(dst []byte, e *requestError) []byte {
	dst = appendEscaped(append(dst, `{"error":{"message":"`...), e.message)
	return append(dst, `"}}`...)
}

func (sglangAPI) broken() string { return `data: {"text":" broken","output_ids":[10` }
