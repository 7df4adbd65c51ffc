package mockllm

import "fmt"

// Ways to stream of TGI's paths.
const (
	tgiWhole  = iota // /generate never
	tgiStream        // /generate_stream always
	tgiEither        // / of the older API as the body says
)

// tgi is Text Generation Inference's protocol (huggingface/text-generation-inference, router/src/server.rs and
// router/src/lib.rs). Its events have no space after the colon (axum's json_data).
func tgi(path int) *protocol {
	const (
		token   = `{"id":$token,"text":"$text","logprob":-0.5,"special":<silent|true|false>}`
		details = `{"finish_reason":"<cut|length|eos_token>","generated_tokens":$output,"seed":null,`
		whole   = `{"generated_text":"$full"<listed|,"details":` + details +
			`"prefill":[<prefill|$prefill>],"tokens":[$tokens]}>$more}`
		last  = `"generated_text":"$full","details":<details|` + details + `"input_length":$prompt}|null>`
		times = "x-compute-time: $compute_s\r\nx-total-time: $total_ms\r\nx-validation-time: 0\r\n" +
			"x-queue-time: $queue_ms\r\nx-inference-time: $inference_ms\r\nx-time-per-token: $token_ms\r\n" +
			"<told|x-prompt-tokens: $prompt\r\nx-generated-tokens: $output\r\n>"
	)
	p := &protocol{
		name:      "tgi",
		prompt:    "inputs",
		noModel:   true,
		streams:   path == tgiStream,
		maxTokens: 100, // default_max_new_tokens in router/src/lib.rs
		read: func(d *decoder, b *requestBody) error {
			d.p.stream = path == tgiStream || path == tgiEither && b.Stream
			if o := b.Parameters; o != nil {
				d.p.maxTokens = optional(o.MaxNewTokens)
				d.p.ignoreEOS = o.IgnoreEOSToken // of forks; TGI cannot force a length
				d.p.details = o.Details
				d.p.prefill = o.PrefillDetails
				d.p.fullText = o.ReturnFullText
			}
			if d.p.stream && d.p.prefill {
				return badRequest("`decoder_input_details` == true is not supported when streaming tokens")
			}
			return d.echoed("inputs", b.Inputs)
		},
		token: [parts]event{partText: unnamed(`{"index":$place,"token":` + token +
			`,<end|` + last + `|"generated_text":null,"details":null>$more}`)},
		whole:   parseTemplate(whole),
		item:    [parts]template{partText: parseTemplate(token)},
		headers: parseTemplate("x-compute-type: cpu+mockllm\r\n<stream|x-accel-buffering: no\r\n|" + times + ">"),
		broken:  `data:{"index":1,"token":{"id":10`,
		data:    "data:",
		refusal: tgiError,
		inStream: func(p *params, e *requestError) bool {
			return p.stream && (e.kind == kindBadRequest || e.status == 503)
		},
	}
	if path == tgiEither {
		p.whole = parseTemplate(`[` + whole + `]`)
	}
	return p
}

// tgiError has TGI's status and its kind of error.
func tgiError(e *requestError) response {
	status := e.status
	message := e.escaped()
	kind := e.kind
	switch {
	case e.kind == kindInjected:
		message = "Request failed during generation: " + message
		kind = "generation"
	case e.status == 400:
		status = 422
		message = "Input validation error: " + message
		kind = "validation"
	case e.status == 503:
		status = 429
		message = "Model is overloaded"
		kind = "overloaded"
	}
	return response{status: status, body: fmt.Appendf(nil, `{"error":"%s","error_type":"%s"}`, message, kind)}
}
