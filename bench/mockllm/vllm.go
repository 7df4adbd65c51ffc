package mockllm

// vllmAPI is vLLM's endpoint of token ids in and token ids out, /inference/v1/generate of --enable-scale-out
// (vllm/entrypoints/scale_out/token_in_token_out/protocol.py and serving.py).
type vllmAPI struct{ openAI }

var vllmFields = with(commonFields, fields{
	"token_ids":      (*decoder).tokenIDs,
	"stream_options": orAbsent(streamOptions.read),
	"cache_salt":     (*decoder).salt,
	"sampling_params": fields{
		"max_tokens": readMaxTokens, "min_tokens": readMinTokens, "ignore_eos": readIgnoreEOS, "n": readN,
		"trace_decode_token_ids": orAbsent((*decoder).forcedTokens),
	}.read,
})

func (vllmAPI) traits() traits {
	return traits{
		name:   "vllm-generate",
		fields: vllmFields,
		prompt: "token_ids",
		broken: `data: {"request_id":"broken","choices":[{"index":0,"tok`,
	}
}

// tokenIDs reads a prompt that can only be ids.
func (d *decoder) tokenIDs() error {
	if err := d.oncePrompt("token_ids"); err != nil {
		return err
	}
	d.p.promptIDs = true
	return d.ids(d.hash)
}

// forcedTokens reads the tokens that the answer must have.
func (d *decoder) forcedTokens() error {
	d.p.forced = []int32{}
	return d.array(func() error {
		id, err := d.integer()
		if err == nil && (id < 0 || id > maxTokenID) {
			err = badRequest("trace_decode_token_ids: %d is no token id", id)
		}
		d.p.forced = append(d.p.forced, int32(id))
		return err
	})
}

// require makes a request with forced tokens one for as many at most that no end of text ends, as vLLM does
// (vllm/v1/engine/input_processor.py: _normalize_trace_replay_params).
func (vllmAPI) require(d *decoder) error {
	p := d.p
	switch {
	case p.forced == nil:
		return nil
	case len(p.forced) == 0:
		return badRequest("trace_decode_token_ids must be a non-empty list of token ids.")
	case d.cfg.NoTraceReplay:
		return badRequest("trace_decode_token_ids is set but trace replay is not enabled. " +
			"Start the engine with --enable-trace-replay to use it.")
	}
	if most := int64(len(p.forced)); p.maxTokens < 0 || p.maxTokens > most {
		p.maxTokens = most
	}
	p.minTokens, p.ignoreEOS = -1, true
	return nil
}

func (vllmAPI) tokens(r *reply, dst []byte, k, count int, now int64) []byte {
	dst = put(r.openData(dst), `{"request_id":"generate-tokens-%"`, r.id)
	if r.p.continuousUsage && r.p.usage && !r.hideUsage {
		dst = r.appendUsage(dst)
	} else {
		dst = append(dst, `,"usage":null`...)
	}
	return r.closeObject(vllmChoice(r, append(dst, `,"output_mode":"tokens"`...), k, count), now)
}

// vllmChoice appends the member that has the answer's tokens from k on.
func vllmChoice(r *reply, dst []byte, k, count int) []byte {
	reason := orNull("")
	if r.atEnd() {
		reason = orNull(r.finish)
	}
	dst = put(dst, `,"choices":[{"index":0,"finish_reason":%,"token_ids":[`, reason)
	dst = list(dst, count, func(dst []byte, i int) []byte { return put(dst, "%", r.tokenID(k+i)) })
	return append(dst, `],"routed_experts":null,"logprobs":null}]`...)
}

func (vllmAPI) finish(r *reply, dst []byte, _ int, now int64) ([]byte, bool) {
	if r.p.usage && !r.hideUsage {
		dst = r.appendUsage(put(r.openData(dst), `{"request_id":"generate-tokens-%"`, r.id))
		dst = r.closeObject(append(dst, `,"output_mode":"tokens","choices":[]`...), now)
	}
	return r.appendDone(dst), false
}

func (vllmAPI) whole(r *reply, dst []byte, now int64) []byte {
	dst = put(dst, `{"request_id":"generate-tokens-%","model":"%","created":%`, r.id, r.model(), r.createdS)
	if !r.hideUsage {
		dst = r.appendUsage(dst)
	}
	return r.closeObject(vllmChoice(r, append(dst, `,"output_mode":"tokens"`...), 0, r.total), now)
}

// refuse answers with an error object. Forced tokens are looked at by the engine, when the stream has begun: their
// refusal is an event.
func (a vllmAPI) refuse(p *params, e *requestError) response {
	if !p.stream || len(p.forced) == 0 || e.kind != kindBadRequest {
		return a.openAI.refuse(p, e)
	}
	return asEvent(appendOpenAIError(nil, e))
}
