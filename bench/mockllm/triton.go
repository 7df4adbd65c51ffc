package mockllm

import (
	"cmp"
	"strings"
)

// triton is Triton's generate extension (triton-inference-server/server, docs/protocol/extension_generate.md), in front
// of either of two backends. The request decides which. If sampling parameters are in an object of their own, it is
// vLLM's (triton-inference-server/vllm_backend, src/utils/request.py). If max_tokens is beside the prompt, it is
// TensorRT-LLM's ensemble (NVIDIA/TensorRT-LLM, triton_backend/all_models/inflight_batcher_llm/ensemble/config.pbtxt).
//
// /generate_stream is a stream of one event unless the body has "stream": true; /generate is never one. Where a stream
// ends, the body ends.
func triton(streamed bool) *protocol {
	object := parseTemplate(`{<vllm||"batch_index":0,"cum_log_probs":0.0,>"model_name":"$model","model_version":"1",` +
		`<vllm||"output_log_probs":0.0,"sequence_end":false,"sequence_id":0,"sequence_index":0,` +
		`"sequence_start":false,>` +
		`"text_output":"<each|$text|$full>"<reason|,"finish_reason":"<end|$finish|None>">` +
		// The number of output tokens is of this object, not of all so far.
		`<inputs|,"num_input_tokens":$prompt><outputs|,"num_output_tokens":$count>$more}`)
	return &protocol{
		name:    "triton",
		prompt:  "text_input",
		anyType: true,
		streams: streamed,
		read: func(d *decoder, b *requestBody) error {
			return cmp.Or(d.triton(b, streamed), d.echoed("text_input", b.TextInput))
		},
		token:   [parts]event{partText: {data: object}},
		whole:   object,
		broken:  `data: {"model_name":"broken","text_out`,
		refusal: refusing(`{"error":"%s"}`),
	}
}

// tritonParams are what a request wants to have in its answer.
type tritonParams struct {
	vllm                  bool // … of vLLM's backend
	stream                bool
	includeInput, exclude bool // exclude_input_in_output is false, or true
	finishReason          bool
	inputTokens           bool
	outputTokens          bool
}

// addTriton takes what is given among options.
func (p *params) addTriton(o *options) {
	t := &p.triton
	p.maxTokens = max(p.maxTokens, optional(o.MaxTokens))
	p.minTokens = max(p.minTokens, optional(cmp.Or(o.MinTokens, o.MinLength))) // the second of older ensembles
	p.ignoreEOS = p.ignoreEOS || isTrue(o.IgnoreEOS) || o.EndID < 0            // an end that no token has
	t.stream = t.stream || o.Stream
	if o.ExcludeInput != nil {
		t.exclude = *o.ExcludeInput
		t.includeInput = !*o.ExcludeInput
	}
	t.finishReason = t.finishReason || o.ReturnFinishReason
	t.inputTokens = t.inputTokens || o.ReturnInputTokens
	t.outputTokens = t.outputTokens || o.ReturnOutputTokens
}

func (d *decoder) triton(b *requestBody, streamed bool) error {
	t := &d.p.triton
	d.p.addTriton(&b.options)
	if b.Parameters != nil {
		t.vllm = true
		d.p.addTriton(b.Parameters)
	}
	if b.SamplingParameters != nil { // the same as a JSON text
		t.vllm = true
		var o options
		if err := readJSON([]byte(*b.SamplingParameters), &o); err != nil {
			return err
		}
		d.p.addTriton(&o)
	}
	if d.p.model == "ensemble" || strings.HasPrefix(d.p.model, "tensorrt_llm") {
		t.vllm = false // only TensorRT-LLM's pipelines have such names
	}
	switch {
	case !streamed && t.stream:
		return &requestError{500, kindBadRequest, "generate expects model to produce exactly 1 response, " +
			"use generate stream for model that generates various number of responses"}
	case !t.vllm && d.p.maxTokens < 0:
		return badRequest("in ensemble '%s', input 'max_tokens' is missing", d.p.model)
	case t.vllm && t.stream && t.includeInput:
		return badRequest("Error generating stream: When streaming, `exclude_input_in_output` = False is not allowed.")
	}
	if t.vllm && !t.stream && !t.exclude {
		t.includeInput = true // vLLM's backend begins with the prompt unless the request excludes it
	}
	d.p.single = streamed && !t.stream
	d.p.fullText = t.includeInput && !t.stream
	return nil
}
