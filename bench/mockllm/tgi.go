package mockllm

import "strconv"

// tgiAPI is Text Generation Inference's protocol (huggingface/text-generation-inference, router/src/server.rs and
// router/src/lib.rs).
type tgiAPI struct {
	plain
	path tgiPath
}

// tgiPath is where it was asked.
type tgiPath uint8

const (
	tgiWhole  tgiPath = iota // /generate
	tgiStream                // /generate_stream
	tgiCompat                // / of the older API, where the body says whether to stream
)

// tgiMaxNewTokens is what a request gets that names none (default_max_new_tokens in router/src/lib.rs).
const tgiMaxNewTokens = 100

func (t tgiAPI) traits() traits {
	return traits{name: "tgi", noModel: true, streams: t.path == tgiStream, maxTokens: tgiMaxNewTokens}
}

func (t tgiAPI) field(d *decoder, key []byte) (err error) {
	switch string(key) {
	case "inputs":
		d.p.echo, err = d.echoedPrompt("inputs")
		return err
	case "parameters":
		if d.literal("null") {
			return nil
		}
		return d.object(d.tgiParameter)
	case "stream":
		if t.path == tgiCompat {
			d.p.stream, err = d.boolean()
			return err
		}
	}
	return d.skip(0)
}

func (d *decoder) tgiParameter(key []byte) (err error) {
	switch string(key) {
	case "max_new_tokens":
		return d.optional(&d.p.maxTokens)
	case "details":
		d.p.details, err = d.boolean()
	case "decoder_input_details":
		d.p.prefill, err = d.boolean()
	case "return_full_text":
		d.p.fullText, err = d.boolean()
	case "ignore_eos_token": // of forks; TGI itself has no way to force a length
		d.p.ignoreEOS, err = d.boolean()
	default:
		err = d.skip(1)
	}
	return err
}

func (tgiAPI) require(d *decoder) error {
	if d.p.stream && d.p.prefill {
		return badRequest("`decoder_input_details` == true is not supported when streaming tokens")
	}
	return d.needPrompt("inputs")
}

// openEvent begins an event. TGI's have no space after the colon (axum's json_data).
func (tgiAPI) openEvent(r *reply, dst []byte) []byte { return append(r.openComment(dst), "data:"...) }

func (t tgiAPI) tokens(r *reply, dst []byte, k, count int, now int64) []byte {
	dst = appendInt(t.openEvent(r, dst), `{"index":`, k+1)
	dst = r.appendTGIToken(append(dst, `,"token":`...), k, count)
	dst = append(dst, `,"generated_text":`...)
	if !r.atEnd() {
		return r.closeEvent(append(dst, `null,"details":null`...), now)
	}
	dst = append(r.appendFullText(append(dst, '"')), `","details":`...)
	if r.p.details && !r.hideUsage {
		dst = appendInt(r.openTGIDetails(dst), `,"seed":null,"input_length":`, r.promptTokens)
		dst = append(dst, '}')
	} else {
		dst = append(dst, "null"...)
	}
	return r.closeEvent(dst, now)
}

// appendTGIToken appends the object of a token. One without text is a special one.
func (r *reply) appendTGIToken(dst []byte, k, count int) []byte {
	dst = appendInt(dst, `{"id":`, r.tokenNumber(k))
	dst = r.appendText(append(dst, `,"text":"`...), k, count)
	dst = append(dst, `","logprob":-0.5,"special":`...)
	return append(strconv.AppendBool(dst, r.silent(k)), '}')
}

// appendFullText appends the answer's text, after the prompt's if that was asked for.
func (r *reply) appendFullText(dst []byte) []byte {
	if r.p.fullText {
		dst = append(dst, r.p.echo...)
	}
	return r.appendPart(dst, 0, r.total)
}

func (r *reply) openTGIDetails(dst []byte) []byte {
	dst = append(dst, `{"finish_reason":"`...)
	if r.finish == "length" {
		dst = append(dst, "length"...)
	} else {
		dst = append(dst, "eos_token"...)
	}
	return appendInt(dst, `","generated_tokens":`, r.sent)
}

func (t tgiAPI) whole(r *reply, dst []byte, now int64) []byte {
	if t.path == tgiCompat {
		dst = append(dst, '[')
	}
	dst = append(r.appendFullText(append(dst, `{"generated_text":"`...)), '"')
	if (r.p.details || r.p.prefill) && !r.hideUsage {
		dst = append(r.openTGIDetails(append(dst, `,"details":`...)), `,"seed":null,"prefill":[`...)
		if r.p.prefill {
			dst = r.appendTGIPrefill(dst)
		}
		dst = append(dst, `],"tokens":[`...)
		for k := range r.total {
			if k > 0 {
				dst = append(dst, ',')
			}
			dst = r.appendTGIToken(dst, k, 1)
		}
		dst = append(dst, `]}`...)
	}
	dst = r.closeObject(dst, now)
	if t.path == tgiCompat {
		dst = append(dst, ']')
	}
	return dst
}

// appendTGIPrefill appends an object for each token of the prompt. Only their number is true.
func (r *reply) appendTGIPrefill(dst []byte) []byte {
	for k := range r.promptTokens {
		if k > 0 {
			dst = append(dst, ',')
		}
		dst = appendInt(dst, `{"id":`, k)
		dst = append(dst, `,"text":"","logprob":null}`...)
	}
	return dst
}

// headers appends what TGI tells in its response heads: with a whole answer also tokens and times.
func (t tgiAPI) headers(r *reply, dst []byte) []byte {
	dst = append(dst, "x-compute-type: cpu+mockllm\r\n"...)
	if r.p.stream {
		return append(dst, "x-accel-buffering: no\r\n"...)
	}
	const ms = 1_000_000
	total, inference := r.doneNS-r.arrivedNS, r.doneNS-r.beginNS
	dst = append(dst, "x-compute-time: "...)
	dst = strconv.AppendFloat(dst, float64(total)/1e9, 'g', -1, 64)
	dst = appendInt(dst, "\r\nx-total-time: ", total/ms)
	dst = appendInt(dst, "\r\nx-validation-time: 0\r\nx-queue-time: ", (r.beginNS-r.arrivedNS)/ms)
	dst = appendInt(dst, "\r\nx-inference-time: ", inference/ms)
	dst = appendInt(dst, "\r\nx-time-per-token: ", inference/ms/int64(max(r.total, 1)))
	if !r.hideUsage {
		dst = appendInt(dst, "\r\nx-prompt-tokens: ", r.promptTokens)
		dst = appendInt(dst, "\r\nx-generated-tokens: ", r.total)
	}
	return append(dst, "\r\n"...)
}

func (t tgiAPI) fail(r *reply, dst []byte, e *requestError) []byte {
	return r.endEvent(appendTGIError(append(dst, "data:"...), "Request failed during generation: "+e.message, "generation"))
}

// refuse answers with TGI's status and its kind of error. A stream has begun when TGI looks at a request: its refusals
// are events.
func (t tgiAPI) refuse(p *params, e *requestError) response {
	a := response{status: e.status}
	switch {
	case e.kind == kindInjected:
		a.body = appendTGIError(nil, "Request failed during generation: "+e.message, "generation")
		return a
	case e.status == 400:
		a.status, a.body = 422, appendTGIError(nil, "Input validation error: "+e.message, "validation")
	case e.status == 503:
		a.status, a.body = 429, appendTGIError(nil, "Model is overloaded", "overloaded")
	default: // not by TGI itself
		a.body = appendTGIError(nil, e.message, e.kind)
		return a
	}
	if p.stream {
		a.status, a.contentType = 200, "text/event-stream"
		a.body = append(append([]byte("data:"), a.body...), "\n\n"...)
	}
	return a
}

func appendTGIError(dst []byte, message, kind string) []byte {
	dst = appendEscaped(append(dst, `{"error":"`...), message)
	dst = append(append(dst, `","error_type":"`...), kind...)
	return append(dst, `"}`...)
}

func (tgiAPI) broken() string { return `data:{"index":1,"token":{"id":10` }
