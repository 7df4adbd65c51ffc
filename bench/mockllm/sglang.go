package mockllm

// sglangAPI is SGLang's own /generate (sgl-project/sglang, python/sglang/srt/entrypoints/http_server.py and
// managers/tokenizer_manager.py). Text and ids of its events are cumulative, unless Config.Incremental is set.
type sglangAPI struct{ plain }

// sglangMaxNewTokens is the output length of a request that names none (sampling/sampling_params.py).
const sglangMaxNewTokens = 128

var sglangFields = fields{
	"text": orAbsent((*decoder).prompt), "input_ids": orAbsent((*decoder).prompt), "stream": readStream,
	"extra_key": (*decoder).salt, // keeps prompts apart in the prefix cache
	"sampling_params": orAbsent(fields{
		"max_new_tokens": readMaxTokens, "min_new_tokens": readMinTokens, "ignore_eos": readIgnoreEOS, "n": readN,
	}.read),
}

func (sglangAPI) traits() traits {
	return traits{name: "sglang", fields: sglangFields, noModel: true, maxTokens: sglangMaxNewTokens,
		broken: `data: {"text":" broken","output_ids":[10`}
}

func (sglangAPI) tokens(r *reply, dst []byte, k, count int, now int64) []byte {
	from := 0
	if r.cfg.Incremental {
		from = k
	}
	dst = put(r.openData(dst), `{"text":"%","output_ids":[`, tokenText{r, from, k + count})
	dst = list(dst, r.sent-from, func(dst []byte, i int) []byte { return put(dst, "%", r.tokenNumber(from+i)) })
	dst = put(dst, `],"meta_info":{"id":"%","finish_reason":`, r.id)
	switch {
	case !r.atEnd():
		dst = append(dst, "null"...)
	case r.finish == "length":
		dst = put(dst, `{"type":"length","length":%}`, r.total)
	default:
		dst = append(dst, `{"type":"stop","matched":2}`...)
	}
	dst = append(dst, `,"weight_version":"default"`...)
	if !r.hideUsage {
		dst = put(dst, `,"prompt_tokens":%,"completion_tokens":%`, r.promptTokens, r.sent)
		if r.showCached() {
			dst = put(dst, `,"cached_tokens":%`, r.cachedTokens)
		}
	}
	return r.closeObject(append(dst, '}'), now)
}

func (sglangAPI) finish(r *reply, dst []byte, _ int, _ int64) ([]byte, bool) {
	return r.appendDone(dst), false
}

func (sglangAPI) fail(r *reply, dst []byte, e *requestError) []byte {
	return r.appendDone(r.endEvent(appendSGLangError(append(dst, "data: "...), e)))
}

// refuse answers with an error object. A stream has begun when SGLang looks at a request: its refusals are events.
func (sglangAPI) refuse(p *params, e *requestError) response {
	if p.stream && e.kind == kindBadRequest {
		return asEvent(appendSGLangError(nil, e))
	}
	return response{status: e.status, body: appendSGLangError(nil, e)}
}

func appendSGLangError(dst []byte, e *requestError) []byte {
	return put(dst, `{"error":{"message":"%"}}`, e.message)
}
