package mockllm

import (
	"cmp"
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/valyala/fasthttp"
)

// jitter is what a chat template that is not constant adds. Counting makes sure that two requests in a row differ,
// which draws would not.
type jitter struct{ n atomic.Uint64 }

// next returns 0 to most, one more than before, and 0 after most.
func (j *jitter) next(most int) int {
	if most == 0 {
		return 0
	}
	return int((j.n.Add(1) - 1) % (uint64(most) + 1))
}

// tokenize answers /tokenize as vLLM does without options: the ids of a text prompt with its BOS, or of a conversation
// in its template.
func (s *Server) tokenize(req *fasthttp.Request) response {
	values, err := s.decodeTokenize(req)
	if err != nil {
		return openAIError(asRequestError(err))
	}
	b := fmt.Appendf(nil, `{"count":%d,"max_model_len":%s,"tokens":[`, len(values), s.maxModelLen())
	b = list(b, 0, len(values), func(b []byte, i int) []byte { return strconv.AppendUint(b, tokenID(values[i]), 10) })
	return response{status: 200, body: append(b, "]}"...)}
}

// decodeTokenize reads a request's body and returns the tokens' values.
func (s *Server) decodeTokenize(req *fasthttp.Request) ([]uint64, error) {
	if err := isJSON(req); err != nil {
		return nil, err
	}
	h := newPromptHasher(&s.cfg, nil)
	h.keep = true
	d := decoder{cfg: &s.cfg, p: &params{}, hash: &h}
	var b requestBody
	if err := readJSON(req.Body(), &b); err != nil {
		return nil, err
	}
	if given(b.Messages) {
		d.jitter = s.tokenizeJitter.next(s.cfg.TemplateJitter)
	}
	err := cmp.Or(d.echoed("prompt", b.Prompt), d.conversation("messages", nil, b.Messages))
	switch {
	case err != nil:
		return nil, err
	case !s.cfg.serves(b.Model):
		return nil, unknownModel(b.Model)
	case !d.p.hasPrompt:
		return nil, badRequest("prompt or messages: field required")
	}
	return h.values, nil
}

// tokenID is the id of a token's value: template tokens have the upper half of the numbers below 2^31, each its own. A
// word has a hash in the lower half.
func tokenID(value uint64) uint64 {
	if value&specialBit != 0 {
		kind := value >> 32 & 0xff
		i := value & (1<<24 - 1)
		return 1<<30 | kind<<24 | i
	}
	return finalize(value) >> 34
}
