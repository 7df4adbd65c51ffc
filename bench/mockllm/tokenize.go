package mockllm

import (
	"strconv"
	"sync/atomic"

	"github.com/valyala/fasthttp"
)

// jitter is what a chat template that is not constant adds. Counting makes sure that two requests in a row differ, which
// draws would not.
type jitter struct{ n atomic.Uint64 }

// next returns 0 to most, one more than before, and 0 after most.
func (j *jitter) next(most int) int {
	if most == 0 {
		return 0
	}
	return int((j.n.Add(1) - 1) % (uint64(most) + 1))
}

// tokenize answers /tokenize as vLLM does: the ids of a text prompt, or of a conversation in its template.
func (s *Server) tokenize(req *fasthttp.Request) response {
	values, err := s.decodeTokenize(req)
	if err != nil {
		return errorResponse(asRequestError(err))
	}
	b := make([]byte, 0, 64+11*len(values)) // an id has 10 digits at most
	b = append(b, `{"count":`...)
	b = strconv.AppendInt(b, int64(len(values)), 10)
	b = append(b, `,"max_model_len":`...)
	b = s.appendMaxModelLen(b)
	b = append(b, `,"tokens":[`...)
	for i, v := range values {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(b, tokenID(v), 10)
	}
	return response{status: 200, body: append(b, "]}"...)}
}

// decodeTokenize reads a request's body and returns the tokens' values.
func (s *Server) decodeTokenize(req *fasthttp.Request) ([]uint64, error) {
	if err := isJSON(req); err != nil {
		return nil, err
	}
	h := newPromptHasher(&s.cfg, nil)
	h.keep = true
	d := decoder{scanner: scanner{b: req.Body()}, cfg: &s.cfg, p: &params{}, hash: &h}
	q := tokenizeQuery{decoder: &d}
	if err := d.object(q.field); err != nil {
		return nil, err
	}
	if err := d.end(); err != nil {
		return nil, err
	}
	if !s.cfg.serves(d.p.model) {
		return nil, unknownModel(d.p.model)
	}
	if q.conversation {
		d.jitter = s.tokenizeJitter.next(s.cfg.TemplateJitter)
	}
	if err := q.content(); err != nil {
		return nil, err
	}
	return h.values, nil
}

// tokenizeQuery notes where the prompt stands: what is to be added to it may be named behind it.
type tokenizeQuery struct {
	*decoder
	at           int // 0 = no prompt yet
	conversation bool
	special      int // add_special_tokens: 0 = not named, 1 = yes, -1 = no
}

func (q *tokenizeQuery) field(key []byte) (err error) {
	switch string(key) {
	case "prompt", "messages":
		if q.at != 0 {
			return badRequest("/tokenize takes one prompt or one conversation")
		}
		q.peek()
		q.at, q.conversation = q.i, string(key) == "messages"
	case "model":
		q.p.model, err = q.text()
		return err
	case "add_special_tokens":
		var yes bool
		if yes, err = q.boolean(); yes {
			q.special = 1
		} else {
			q.special = -1
		}
		return err
	case "add_generation_prompt":
		var yes bool
		yes, err = q.boolean()
		q.noTail = !yes
		return err
	}
	return q.skip(0)
}

// content reads the prompt. As in vLLM special tokens are added to a prompt unless the request forbids it, and to a
// conversation, whose template has its own, only if it asks for them.
func (q *tokenizeQuery) content() error {
	end := q.i
	q.i = q.at
	defer func() { q.i = end }()
	switch {
	case q.at == 0:
		return badRequest("prompt or messages: field required")
	case q.conversation:
		if q.special > 0 {
			q.hash.special(q.cfg.BOSTokens, specialBOS)
		}
		return q.messages()
	case q.peek() != '"':
		return badRequest("prompt: expected a string")
	}
	q.noBOS = q.special < 0
	return q.textPrompt()
}

// tokenID is the id of a token's value: template tokens have the upper half of the numbers below 2^31, each its own; a
// word has a hash in the lower half.
func tokenID(value uint64) uint64 {
	if value&specialBit != 0 {
		kind, i := value>>32&0xff, value&(1<<24-1)
		return 1<<30 | kind<<24 | i
	}
	return finalize(value) >> 34
}
