package mockllm

import "strings"

// tritonAPI is Triton's generate extension (triton-inference-server/server, docs/protocol/extension_generate.md), in front
// of either of two backends. The request decides which. If sampling parameters are in an object of their own, it is
// vLLM's (triton-inference-server/vllm_backend, src/utils/request.py). If max_tokens is beside the prompt, it is
// TensorRT-LLM's ensemble (NVIDIA/TensorRT-LLM, triton_backend/all_models/inflight_batcher_llm/ensemble/config.pbtxt).
//
// /generate_stream is a stream of one event unless the body has "stream": true; /generate is never one. Where a stream
// ends, the body ends.
type tritonAPI struct {
	plain
	streamed bool // the path is /generate_stream
}

// tritonParams is what a request wants to have in its answer.
type tritonParams struct {
	vllm                  bool // … of vLLM's backend
	stream                bool
	includeInput, exclude bool // exclude_input_in_output is false, or true
	finishReason          bool
	inputTokens           bool
	outputTokens          bool
}

// tritonParameters may stand beside the prompt or in "parameters".
var tritonParameters = fields{
	"max_tokens": readMaxTokens, "ignore_eos": readIgnoreEOS,
	"min_tokens": readMinTokens, "min_length": readMinTokens, // the second of older ensembles
	"end_id": func(d *decoder) error { // below 0: one that no token has
		var id int64
		err := d.optional(&id)
		d.p.ignoreEOS = d.p.ignoreEOS || id < 0
		return err
	},
	"stream": boolean(func(p *params) *bool { return &p.triton.stream }),
	"exclude_input_in_output": func(d *decoder) (err error) {
		d.p.triton.exclude, err = d.boolean()
		d.p.triton.includeInput = !d.p.triton.exclude
		return err
	},
	"return_finish_reason":     boolean(func(p *params) *bool { return &p.triton.finishReason }),
	"return_num_input_tokens":  boolean(func(p *params) *bool { return &p.triton.inputTokens }),
	"return_num_output_tokens": boolean(func(p *params) *bool { return &p.triton.outputTokens }),
}

var tritonFields = with(tritonParameters, fields{
	"text_input": echoedPrompt("text_input"),
	"parameters": func(d *decoder) error {
		d.p.triton.vllm = true
		return orAbsent(tritonParameters.read)(d)
	},
	"sampling_parameters": func(d *decoder) error { // the same as a JSON text
		d.p.triton.vllm = true
		text, err := d.text()
		if err != nil {
			return err
		}
		return tritonParameters.read(&decoder{scanner: scanner{b: text}, cfg: d.cfg, p: d.p, hash: d.hash})
	},
})

func (t tritonAPI) traits() traits {
	return traits{name: "triton", fields: tritonFields, prompt: "text_input", anyType: true, streams: t.streamed,
		broken: `data: {"model_name":"broken","text_out`}
}

func (t tritonAPI) require(d *decoder) error {
	p := &d.p.triton
	if model := string(d.p.model); model == "ensemble" || strings.HasPrefix(model, "tensorrt_llm") {
		p.vllm = false // only TensorRT-LLM's pipelines have such names
	}
	switch {
	case !t.streamed && p.stream:
		return &requestError{500, kindBadRequest, "generate expects model to produce exactly 1 response, " +
			"use generate stream for model that generates various number of responses"}
	case !p.vllm && d.p.maxTokens < 0:
		return badRequest("in ensemble '%s', input 'max_tokens' is missing", d.p.model)
	case p.vllm && p.stream && p.includeInput:
		return badRequest("Error generating stream: When streaming, `exclude_input_in_output` = False is not allowed.")
	}
	if p.vllm && !p.stream && !p.exclude {
		p.includeInput = true // vLLM's backend begins with the prompt unless the request excludes it
	}
	d.p.single = t.streamed && !p.stream
	d.p.fullText = p.includeInput && !p.stream
	return nil
}

func (tritonAPI) tokens(r *reply, dst []byte, k, count int, now int64) []byte {
	p := &r.p.triton
	before, after := raw(`"batch_index":0,"cum_log_probs":0.0,`),
		raw(`"output_log_probs":0.0,"sequence_end":false,"sequence_id":0,"sequence_index":0,"sequence_start":false,`)
	if p.vllm {
		before, after = "", ""
	}
	dst = put(r.openData(dst), `{%"model_name":"%","model_version":"1",%"text_output":"`, before, r.model(), after)
	if r.p.stream && !r.p.single {
		dst = r.appendText(dst, k, k+count)
	} else {
		dst = r.appendFullText(dst)
	}
	dst = append(dst, '"')
	if p.vllm && p.finishReason {
		reason := "None"
		if r.atEnd() {
			reason = r.finish
		}
		dst = put(dst, `,"finish_reason":"%"`, reason)
	}
	if p.inputTokens && !r.hideUsage {
		dst = put(dst, `,"num_input_tokens":%`, r.promptTokens)
	}
	if p.outputTokens && !r.hideUsage { // of this object, not of all so far
		dst = put(dst, `,"num_output_tokens":%`, count)
	}
	return r.closeObject(dst, now)
}

func (tritonAPI) fail(r *reply, dst []byte, e *requestError) []byte {
	return r.endEvent(appendTritonError(append(dst, "data: "...), e))
}

func (tritonAPI) refuse(_ *params, e *requestError) response {
	return response{status: e.status, body: appendTritonError(nil, e)}
}

func appendTritonError(dst []byte, e *requestError) []byte {
	return put(dst, `{"error":"%"}`, e.message)
}
