package mockllm

import (
	"cmp"
	"slices"
)

// vllmTokens is vLLM's endpoint of token ids in and token ids out, /inference/v1/generate of --enable-scale-out
// (vllm/entrypoints/scale_out/token_in_token_out/protocol.py and serving.py).
func vllmTokens() *protocol {
	const (
		id     = `{"request_id":"generate-tokens-$id",`
		choice = `,"output_mode":"tokens","choices":[{"index":0,"finish_reason":<end|"$finish"|null>,` +
			`"token_ids":[$ids],"routed_experts":null,"logprobs":null}]$more}`
	)
	usage := openAIUsage[1:] // without its comma
	return &protocol{
		name:   "vllm-generate",
		prompt: "token_ids",
		read: func(d *decoder, b *requestBody) error {
			d.p.stream = b.Stream
			d.p.usage = b.StreamOptions.IncludeUsage
			d.p.continuousUsage = b.StreamOptions.ContinuousUsage
			if given(b.TokenIDs) {
				d.p.hasPrompt = true
				d.p.promptIDs = true
				if err := d.hash.ids(b.TokenIDs); err != nil {
					return err
				}
			}
			if err := d.salt(b.CacheSalt); err != nil || b.SamplingParams == nil {
				return err
			}
			o := b.SamplingParams
			d.p.maxTokens = optional(o.MaxTokens)
			d.p.minTokens = optional(o.MinTokens)
			d.p.ignoreEOS = isTrue(o.IgnoreEOS)
			return cmp.Or(one(o.N), d.force(o.ForcedTokens))
		},
		token:   [parts]event{partText: unnamed(id + `<now|` + usage + `|"usage":null>` + choice)},
		finish:  []event{unnamed(id + usage + `,"output_mode":"tokens","choices":[]$more}`).onlyIf("wanted")},
		done:    true,
		whole:   parseTemplate(id + `"model":"$model","created":$created<told|` + openAIUsage + `>` + choice),
		broken:  `data: {"request_id":"broken","choices":[{"index":0,"tok`,
		refusal: openAIError,
		// Forced tokens are looked at by the engine, when the stream has begun.
		inStream: func(p *params, e *requestError) bool {
			return p.stream && len(p.forced) > 0 && e.kind == kindBadRequest
		},
	}
}

// force makes a request with forced tokens one for as many at most that no end of text ends, as vLLM does
// (vllm/v1/engine/input_processor.py: _normalize_trace_replay_params).
func (d *decoder) force(tokens []int32) error {
	p := d.p
	p.forced = tokens
	switch {
	case tokens == nil:
		return nil
	case len(tokens) == 0:
		return badRequest("trace_decode_token_ids must be a non-empty list of token ids.")
	case slices.Min(tokens) < 0:
		return badRequest("trace_decode_token_ids: %d is no token id", slices.Min(tokens))
	case d.cfg.NoTraceReplay:
		return badRequest("trace_decode_token_ids is set but trace replay is not enabled. " +
			"Start the engine with --enable-trace-replay to use it.")
	}
	if most := int64(len(tokens)); p.maxTokens < 0 || p.maxTokens > most {
		p.maxTokens = most
	}
	p.minTokens = -1
	p.ignoreEOS = true
	return nil
}
