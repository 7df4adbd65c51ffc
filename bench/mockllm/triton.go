package mockllm

import "bytes"

// tritonAPI is Triton's generate extension (triton-inference-server/server, docs/protocol/extension_generate.md), in front
// of either of two backends, which are told apart by the request: sampling parameters in an object of their own are for
// vLLM's (triton-inference-server/vllm_backend, src/utils/request.py), max_tokens beside the prompt is for TensorRT-LLM's
// ensemble (NVIDIA/TensorRT-LLM, triton_backend/all_models/inflight_batcher_llm/ensemble/config.pbtxt).
//
// /generate_stream is a stream of one event unless the body has "stream": true; /generate is never one. Where a stream
// ends, the body ends.
type tritonAPI struct {
	plain
	streamed bool // it was asked at /generate_stream
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

func (t tritonAPI) traits() traits {
	return traits{name: "triton", anyType: true, streams: t.streamed}
}

func (tritonAPI) field(d *decoder, key []byte) (err error) {
	switch string(key) {
	case "text_input":
		d.p.echo, err = d.echoedPrompt("text_input")
		return err
	case "parameters":
		d.p.triton.vllm = true
		if d.literal("null") {
			return nil
		}
		return d.object(d.tritonParameter)
	case "sampling_parameters": // the same as a JSON text
		d.p.triton.vllm = true
		text, err := d.text()
		if err != nil {
			return err
		}
		inner := decoder{scanner: scanner{b: text}, cfg: d.cfg, p: d.p, hash: d.hash}
		return inner.object(inner.tritonParameter)
	}
	return d.tritonParameter(key)
}

// tritonParameter reads an input or a parameter, which may stand beside the prompt or in "parameters".
func (d *decoder) tritonParameter(key []byte) (err error) {
	p := &d.p.triton
	switch string(key) {
	case "max_tokens":
		return d.optional(&d.p.maxTokens)
	case "min_tokens", "min_length": // the second of elder ensembles
		return d.optional(&d.p.minTokens)
	case "ignore_eos":
		d.p.ignoreEOS, err = d.boolean()
	case "end_id": // one that no token has
		var id int64
		err = d.optional(&id)
		d.p.ignoreEOS = d.p.ignoreEOS || id < 0
	case "stream":
		p.stream, err = d.boolean()
	case "exclude_input_in_output":
		p.exclude, err = d.boolean()
		p.includeInput = !p.exclude
	case "return_finish_reason":
		p.finishReason, err = d.boolean()
	case "return_num_input_tokens":
		p.inputTokens, err = d.boolean()
	case "return_num_output_tokens":
		p.outputTokens, err = d.boolean()
	default:
		err = d.skip(1)
	}
	return err
}

func (t tritonAPI) require(d *decoder) error {
	p := &d.p.triton
	p.vllm = p.vllm && !isEnsemble(d.p.model)
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
		p.includeInput = true // vLLM's backend begins with the prompt unless told otherwise
	}
	d.p.single = t.streamed && !p.stream
	d.p.fullText = p.includeInput && !p.stream
	return d.needPrompt("text_input")
}

// isEnsemble reports whether a model has a name that only TensorRT-LLM's pipelines have.
func isEnsemble(model []byte) bool {
	return string(model) == "ensemble" || bytes.HasPrefix(model, []byte("tensorrt_llm"))
}

// base is everything before the text.
func (tritonAPI) base(r *reply, dst []byte) []byte {
	dst = append(dst, '{')
	if !r.p.triton.vllm {
		dst = append(dst, `"batch_index":0,"cum_log_probs":0.0,`...)
	}
	dst = append(r.appendModel(append(dst, `"model_name":"`...)), `","model_version":"1",`...)
	if !r.p.triton.vllm {
		dst = append(dst, `"output_log_probs":0.0,"sequence_end":false,"sequence_id":0,"sequence_index":0,"sequence_start":false,`...)
	}
	return append(dst, `"text_output":"`...)
}

func (t tritonAPI) tokens(r *reply, dst []byte, k, count int, now int64) []byte {
	dst = append(r.openData(dst), r.base...)
	if r.p.single {
		dst = r.appendFullText(dst)
	} else {
		dst = r.appendText(dst, k, count)
	}
	return r.closeEvent(t.rest(r, append(dst, '"'), count), now)
}

// rest appends what was asked for beside the text, for an object of count tokens.
func (tritonAPI) rest(r *reply, dst []byte, count int) []byte {
	p := &r.p.triton
	if p.vllm && p.finishReason {
		reason := "None"
		if r.atEnd() {
			reason = r.finish
		}
		dst = append(append(dst, `,"finish_reason":"`...), reason...)
		dst = append(dst, '"')
	}
	if p.inputTokens && !r.hideUsage {
		dst = appendInt(dst, `,"num_input_tokens":`, r.promptTokens)
	}
	if p.outputTokens && !r.hideUsage { // of this object, not of all so far
		dst = appendInt(dst, `,"num_output_tokens":`, count)
	}
	return dst
}

func (t tritonAPI) whole(r *reply, dst []byte, now int64) []byte {
	dst = r.appendFullText(append(dst, r.base...))
	return r.closeObject(t.rest(r, append(dst, '"'), r.total), now)
}

func (tritonAPI) fail(r *reply, dst []byte, e *requestError) []byte {
	return r.endEvent(appendTritonError(append(dst, "data: "...), e))
}

func (tritonAPI) refuse(_ *params, e *requestError) response {
	return response{status: e.status, body: appendTritonError(nil, e)}
}

func appendTritonError(dst []byte, e *requestError) []byte {
	return append(appendEscaped(append(dst, `{"error":"`...), e.message), `"}`...)
}

func (tritonAPI) broken() string { return `data: {"model_name":"broken","text_out` }
