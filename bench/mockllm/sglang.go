package mockllm

import (
	"cmp"
)

// sglang is SGLang's own /generate (sgl-project/sglang, python/sglang/srt/entrypoints/http_server.py and
// managers/tokenizer_manager.py). Text and ids of its events are cumulative, unless Config.Incremental is set.
func sglang() *protocol {
	object := parseTemplate(`{"text":"$text","output_ids":[$ids],"meta_info":{"id":"$id","finish_reason":` +
		`<end|<cut|{"type":"length","length":$output}|{"type":"stop","matched":2}>|null>,"weight_version":"default"` +
		`<told|,"prompt_tokens":$prompt,"completion_tokens":$output<cached|,"cached_tokens":$cached` +
		`<tiers|,"cached_tokens_details":{"device":$local,"host":$host}>>>}$more}`)
	return &protocol{
		name:      "sglang",
		prompt:    "text or input_ids",
		noModel:   true,
		maxTokens: 128, // sampling/sampling_params.py
		read: func(d *decoder, b *requestBody) error {
			d.p.stream = b.Stream
			if o := b.SamplingParams; o != nil {
				d.p.maxTokens = optional(o.MaxNewTokens)
				d.p.minTokens = optional(o.MinNewTokens)
				d.p.ignoreEOS = isTrue(o.IgnoreEOS)
				if err := one(o.N); err != nil {
					return err
				}
			}
			if given(b.Text) == given(b.InputIDs) {
				return badRequest("Either text, input_ids or input_embeds should be provided.")
			}
			return cmp.Or(d.salt(b.ExtraKey), d.prompt(b.Text), d.prompt(b.InputIDs)) // the key keeps prompts apart
		},
		token:      [parts]event{partText: {data: object}},
		cumulative: true,
		whole:      object,
		done:       true,
		broken:     `data: {"text":" broken","output_ids":[10`,
		refusal:    refusing(`{"error":{"message":"%s"}}`),
		inStream:   func(p *params, e *requestError) bool { return p.stream && e.kind == kindBadRequest },
	}
}
