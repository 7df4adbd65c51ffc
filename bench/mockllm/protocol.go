package mockllm

import (
	"bytes"
	"cmp"
	"fmt"
	"sync"
)

// protocol is what a server speaks at a path: how its requests are read, and what its answers look like. It does not
// decide when an event is due, nor what it costs.
//
// A stream is the events of open, then for each part of the answer those of enter, tokens and leave, then those of
// finish.
type protocol struct {
	name   string // in the log
	prompt string // the field of the prompt, for messages
	// read takes what the protocol knows out of a body. The prompt goes to d.
	read func(d *decoder, b *requestBody) error

	conversation bool  // a chat template is put around the prompt, and answers have places for reasoning and tool calls
	early        bool  // the events of open come when the request begins, not with the first token
	vector       bool  // the answer is no text: it has no tokens
	noModel      bool  // requests do not name the model
	anyType      bool  // requests may have any content type
	streams      bool  // a request is for a stream without a field for it
	maxTokens    int64 // the output length of requests that name none; 0 = defaultMaxTokens

	open         []event
	enter, leave [parts][]event
	token        [parts]event // of a chunk of tokens
	finish       []event
	cumulative   bool            // an event has all tokens so far, unless Config.Incremental
	done         bool            // a stream ends with [DONE]
	whole        template        // an answer that is not streamed
	item         [parts]template // a part of it
	headers      template        // further lines of the response head; a whole answer is known by then

	broken string // the beginning of a token's event, up to the middle of its JSON
	data   string // stands before an event's data
	// refusal is the status and the object of an error.
	refusal func(e *requestError) response
	// failure is the event of an error in a running stream; without data it has the object of refusal.
	failure event
	// inStream reports whether a refusal is an event, since the stream has begun when the server looks at the request.
	inStream func(p *params, e *requestError) bool
}

// event is one event of a stream.
type event struct {
	name string // "" = none
	data template
	when string // the condition under which the answer has it; "" = always
}

// named is an event whose name is also its object's type.
func named(name, members string) event {
	return event{name: name, data: parseTemplate(`{"type":"` + name + `"` + members + `$more}`)}
}

// onlyIf is the event in answers of a condition.
func (e event) onlyIf(condition string) event {
	e.when = condition
	return e
}

// unnamed is an event without a name.
func unnamed(data string) event { return event{data: parseTemplate(data)} }

// paths are the protocols by their paths. Those of Triton name a model.
var paths = sync.OnceValue(func() map[string]*protocol {
	all := map[string]*protocol{
		"/v1/completions":        completions(),
		"/v1/chat/completions":   chat(),
		"/v1/responses":          responses(),
		"/v1/embeddings":         embeddings(),
		"/inference/v1/generate": vllmTokens(),
		"/v1/messages":           messages(),
		"/":                      tgi(tgiEither),
		"/generate_stream":       tgi(tgiStream),
		"/generate":              sglang(),
		tgiGenerate:              tgi(tgiWhole),
		tritonGenerate:           triton(false),
		tritonStream:             triton(true),
	}
	for _, p := range all {
		p.data = cmp.Or(p.data, "data: ")
	}
	return all
})

// Paths that stand for a protocol and cannot be asked for.
const (
	tgiGenerate    = "/generate with inputs"
	tritonGenerate = "/v2/models/NAME/generate"
	tritonStream   = "/v2/models/NAME/generate_stream"
)

// protocolAt finds the protocol that is spoken at a path, and the model that the path names. nil = none.
func protocolAt(path, body []byte) (p *protocol, model []byte) {
	if string(path) == "/generate" { // TGI's and SGLang's
		var b requestBody
		if _ = unmarshal(body, &b); given(b.Inputs) {
			return paths()[tgiGenerate], nil
		}
	}
	rest, ok := bytes.CutPrefix(path, []byte("/v2/models/"))
	if !ok {
		return paths()[string(path)], nil
	}
	model, verb, _ := bytes.Cut(rest, []byte("/"))
	if version, ok := bytes.CutPrefix(verb, []byte("versions/")); ok {
		_, verb, _ = bytes.Cut(version, []byte("/"))
	}
	switch string(verb) {
	case "generate":
		return paths()[tritonGenerate], model
	case "generate_stream":
		return paths()[tritonStream], model
	}
	return nil, nil
}

// refusing is a refusal whose object has the message alone.
func refusing(object string) func(*requestError) response {
	return func(e *requestError) response {
		return response{status: e.status, body: fmt.Appendf(nil, object, e.escaped())}
	}
}

// refuse is the answer to a request that cannot be served. p holds what was read of it.
func (t *protocol) refuse(p *params, e *requestError) response {
	a := t.refusal(e)
	if t.inStream != nil && t.inStream(p, e) {
		a.status = 200
		a.contentType = "text/event-stream; charset=utf-8"
		a.body = fmt.Appendf(nil, "%s%s\n\n", t.data, a.body)
		if t.done {
			a.body = append(a.body, "data: [DONE]\n\n"...)
		}
	}
	return a
}
