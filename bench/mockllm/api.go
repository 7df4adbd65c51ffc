package mockllm

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// api is one server protocol: how its requests are read, and what its answers look like. It does not decide when an
// event is due, nor what it costs. Its types have no state, so that one value serves all requests; what an answer has to
// remember is in its reply.
//
// A stream is the events of open, then for each part of the answer those of turn and of tokens. One more turn to
// partNone and the events of finish end it. A method with a step appends one event and reports whether the next step has more; it
// may append nothing.
type api interface {
	traits() traits
	// require refuses a request that was read whole, if it lacks something beside the prompt.
	require(d *decoder) error

	open(r *reply, dst []byte, step int, now int64) (out []byte, more bool)
	// turn leaves r.part for another one.
	turn(r *reply, dst []byte, to part, step int, now int64) (out []byte, more bool)
	// tokens appends the event of count tokens from k on, all of one part. r.sent counts them already.
	tokens(r *reply, dst []byte, k, count int, now int64) []byte
	finish(r *reply, dst []byte, step int, now int64) (out []byte, more bool)
	// whole appends the body of an answer that is not streamed.
	whole(r *reply, dst []byte, now int64) []byte
	// headers appends header lines of r's response. If the answer is not streamed, all of it is decided by then.
	headers(r *reply, dst []byte) []byte

	// fail appends everything from an error in a running stream to the stream's end.
	fail(r *reply, dst []byte, e *requestError) []byte
	// refuse is the answer to a request that cannot be served. p holds what was read of it.
	refuse(p *params, e *requestError) response
}

// traits are what the generic reply needs of a protocol.
type traits struct {
	name         string // in the log
	fields       fields // of a request
	prompt       string // the field of the prompt, for messages
	broken       string // the beginning of a token's event, up to the middle of its JSON
	conversation bool   // a chat template is put around the prompt
	thinks       bool   // its answers have a place for reasoning …
	calls        bool   // … and for the arguments of a tool call
	opens        bool   // it has events before the first token
	early        bool   // they come when the request begins, not with that token
	vector       bool   // the answer is no text: it has no tokens
	noModel      bool   // requests do not name the model
	anyType      bool   // requests may have any content type
	streams      bool   // a request is for a stream without a field for it
	maxTokens    int64  // the output length of requests that name none; 0 = defaultMaxTokens
}

// plain is an api without events around its tokens and without headers of its own. An event and a whole answer are the
// same object.
type plain struct{}

func (plain) require(*decoder) error { return nil }
func (plain) open(_ *reply, dst []byte, _ int, _ int64) ([]byte, bool) {
	return dst, false
}
func (plain) turn(_ *reply, dst []byte, _ part, _ int, _ int64) ([]byte, bool) {
	return dst, false
}
func (plain) finish(_ *reply, dst []byte, _ int, _ int64) ([]byte, bool) {
	return dst, false
}
func (plain) whole(r *reply, dst []byte, now int64) []byte {
	return r.api.tokens(r, dst, 0, r.total, now)
}
func (plain) headers(_ *reply, dst []byte) []byte { return dst }

// endpoint finds the protocol that is spoken at a path, and the model that the path names. nil = none.
func endpoint(path, body []byte) (a api, model []byte) {
	switch string(path) {
	case "/v1/completions":
		return completionsAPI{}, nil
	case "/v1/chat/completions":
		return chatAPI{}, nil
	case "/v1/responses":
		return responsesAPI{}, nil
	case "/v1/embeddings":
		return embeddingsAPI{}, nil
	case "/inference/v1/generate":
		return vllmAPI{}, nil
	case "/v1/messages":
		return messagesAPI{}, nil
	case "/":
		return tgiAPI{path: tgiCompat}, nil
	case "/generate_stream":
		return tgiAPI{path: tgiStream}, nil
	case "/generate": // TGI's and SGLang's
		if namesInputs(body) {
			return tgiAPI{path: tgiWhole}, nil
		}
		return sglangAPI{}, nil
	}
	return tritonEndpoint(path)
}

// namesInputs reports whether a body has TGI's prompt. It stops at the first prompt of any kind.
func namesInputs(body []byte) (found bool) {
	s := scanner{b: body}
	_ = s.object(func(key []byte) error { // a decoder reports what is wrong with the body
		switch string(key) {
		case "inputs":
			found = true
			return errFound
		case "text", "input_ids":
			return errFound
		}
		return s.skip(0)
	})
	return found
}

// tritonEndpoint takes /v2/models/NAME[/versions/N]/generate[_stream] apart.
func tritonEndpoint(path []byte) (api, []byte) {
	rest, ok := bytes.CutPrefix(path, []byte("/v2/models/"))
	if !ok {
		return nil, nil
	}
	model, verb, _ := bytes.Cut(rest, []byte("/"))
	if version, ok := bytes.CutPrefix(verb, []byte("versions/")); ok {
		_, verb, _ = bytes.Cut(version, []byte("/"))
	}
	switch string(verb) {
	case "generate":
		return tritonAPI{}, model
	case "generate_stream":
		return tritonAPI{streamed: true}, model
	}
	return nil, nil
}

// Values that put appends otherwise than as the inside of a JSON string.
type (
	raw     string // as it is
	orNull  string // in quotes; "" is null
	nonzero int64  // 0 is null
	// tokenText is the text of an answer's tokens, and arguments that of a tool call's, inside a JSON string.
	tokenText struct {
		r        *reply
		from, to int
	}
	arguments tokenText
)

// list appends n values with commas between them.
func list(dst []byte, n int, value func(dst []byte, i int) []byte) []byte {
	for i := range n {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = value(dst, i)
	}
	return dst
}

// asEvent is a refusal of a server whose stream has begun when it looks at a request: an event, and the stream's end.
func asEvent(body []byte) response {
	return response{
		status:      200,
		contentType: "text/event-stream; charset=utf-8",
		body:        fmt.Appendf(nil, "data: %s\n\ndata: [DONE]\n\n", body),
	}
}

// put appends text with each % replaced by the next value. It does not allocate.
func put(dst []byte, text string, values ...any) []byte {
	for _, value := range values {
		before, after, _ := strings.Cut(text, "%")
		dst, text = append(dst, before...), after
		switch v := value.(type) {
		case raw:
			dst = append(dst, v...)
		case string:
			dst = appendEscaped(dst, v)
		case []byte:
			dst = appendEscaped(dst, v)
		case orNull:
			if v == "" {
				dst = append(dst, "null"...)
			} else {
				dst = append(append(append(dst, '"'), v...), '"')
			}
		case nonzero:
			if v == 0 {
				dst = append(dst, "null"...)
			} else {
				dst = strconv.AppendInt(dst, int64(v), 10)
			}
		case int:
			dst = strconv.AppendInt(dst, int64(v), 10)
		case int64:
			dst = strconv.AppendInt(dst, v, 10)
		case bool:
			dst = strconv.AppendBool(dst, v)
		case tokenText:
			dst = v.r.appendText(dst, v.from, v.to)
		case arguments:
			dst = v.r.appendArguments(dst, v.from, v.to)
		default:
			panic("BUG: put cannot append this")
		}
	}
	return append(dst, text...)
}
