package mockllm

import "strconv"

// tgiAPI is Text Generation Inference's protocol (huggingface/text-generation-inference, router/src/server.rs and
// router/src/lib.rs).
type tgiAPI struct {
	plain
	path tgiPath
}

// tgiPath is the path of a request.
type tgiPath uint8

const (
	tgiWhole  tgiPath = iota // /generate
	tgiStream                // /generate_stream
	tgiCompat                // / of the older API, where the body decides whether to stream
)

// tgiMaxNewTokens is the output length of a request that names none (default_max_new_tokens in router/src/lib.rs).
const tgiMaxNewTokens = 100

var tgiFields = fields{
	"inputs": echoedPrompt("inputs"),
	"parameters": orAbsent(fields{
		"max_new_tokens":        readMaxTokens,
		"details":               boolean(func(p *params) *bool { return &p.details }),
		"decoder_input_details": boolean(func(p *params) *bool { return &p.prefill }),
		"return_full_text":      boolean(func(p *params) *bool { return &p.fullText }),
		"ignore_eos_token":      readIgnoreEOS, // of forks; TGI itself has no way to force a length
	}.read),
}

var tgiCompatFields = with(tgiFields, fields{"stream": readStream})

func (t tgiAPI) traits() traits {
	of := traits{
		name:      "tgi",
		fields:    tgiFields,
		prompt:    "inputs",
		noModel:   true,
		streams:   t.path == tgiStream,
		maxTokens: tgiMaxNewTokens,
		broken:    `data:{"index":1,"token":{"id":10`,
	}
	if t.path == tgiCompat {
		of.fields = tgiCompatFields
	}
	return of
}

func (tgiAPI) require(d *decoder) error {
	if d.p.stream && d.p.prefill {
		return badRequest("`decoder_input_details` == true is not supported when streaming tokens")
	}
	return nil
}

// tokens appends an event. TGI's have no space after the colon (axum's json_data).
func (t tgiAPI) tokens(r *reply, dst []byte, k, count int, now int64) []byte {
	dst = put(append(r.openComment(dst), "data:"...), `{"index":%,"token":`, k+1)
	dst = r.appendTGIToken(dst, k, count)
	if !r.atEnd() {
		return r.closeObject(append(dst, `,"generated_text":null,"details":null`...), now)
	}
	dst = append(r.appendFullText(append(dst, `,"generated_text":"`...)), `","details":`...)
	if r.p.details && !r.hideUsage {
		dst = put(r.openTGIDetails(dst), `,"seed":null,"input_length":%}`, r.promptTokens)
	} else {
		dst = append(dst, "null"...)
	}
	return r.closeObject(dst, now)
}

// appendTGIToken appends the object of a token. One without text is a special one.
func (r *reply) appendTGIToken(dst []byte, k, count int) []byte {
	return put(
		dst,
		`{"id":%,"text":"%","logprob":-0.5,"special":%}`,
		r.tokenNumber(k),
		tokenText{r, k, k + count},
		r.silent(k),
	)
}

// appendFullText appends the answer's text, after the prompt's if the request wants that.
func (r *reply) appendFullText(dst []byte) []byte {
	if r.p.fullText {
		dst = append(dst, r.p.echo...)
	}
	return r.appendText(dst, 0, r.total)
}

func (r *reply) openTGIDetails(dst []byte) []byte {
	reason := r.finish
	if reason != "length" {
		reason = "eos_token"
	}
	return put(dst, `{"finish_reason":"%","generated_tokens":%`, reason, r.sent)
}

func (t tgiAPI) whole(r *reply, dst []byte, now int64) []byte {
	if t.path == tgiCompat {
		dst = append(dst, '[')
	}
	dst = append(r.appendFullText(append(dst, `{"generated_text":"`...)), '"')
	if (r.p.details || r.p.prefill) && !r.hideUsage {
		dst = append(r.openTGIDetails(append(dst, `,"details":`...)), `,"seed":null,"prefill":[`...)
		if r.p.prefill {
			dst = list(dst, r.promptTokens, func(dst []byte, k int) []byte { // only their number is true
				return put(dst, `{"id":%,"text":"","logprob":null}`, k)
			})
		}
		dst = append(dst, `],"tokens":[`...)
		dst = list(dst, r.total, func(dst []byte, k int) []byte { return r.appendTGIToken(dst, k, 1) })
		dst = append(dst, `]}`...)
	}
	dst = r.closeObject(dst, now)
	if t.path == tgiCompat {
		dst = append(dst, ']')
	}
	return dst
}

// headers appends those of TGI: with a whole answer also tokens and times.
func (t tgiAPI) headers(r *reply, dst []byte) []byte {
	dst = append(dst, "x-compute-type: cpu+mockllm\r\n"...)
	if r.p.stream {
		return append(dst, "x-accel-buffering: no\r\n"...)
	}
	const ms = 1_000_000
	total, inference := r.doneNS-r.arrivedNS, r.doneNS-r.beginNS
	dst = strconv.AppendFloat(append(dst, "x-compute-time: "...), float64(total)/1e9, 'g', -1, 64)
	dst = put(
		dst,
		"\r\nx-total-time: %\r\nx-validation-time: 0\r\nx-queue-time: %\r\nx-inference-time: %\r\nx-time-per-token: %\r\n",
		total/ms,
		(r.beginNS-r.arrivedNS)/ms,
		inference/ms,
		inference/ms/int64(max(r.total, 1)),
	)
	if !r.hideUsage {
		dst = put(dst, "x-prompt-tokens: %\r\nx-generated-tokens: %\r\n", r.promptTokens, r.total)
	}
	return dst
}

func (t tgiAPI) fail(r *reply, dst []byte, e *requestError) []byte {
	return r.endEvent(
		appendTGIError(append(dst, "data:"...), "Request failed during generation: "+e.message, "generation"),
	)
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
	return put(dst, `{"error":"%","error_type":"%"}`, message, kind)
}
