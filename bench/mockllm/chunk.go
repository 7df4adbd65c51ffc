package mockllm

import (
	"strconv"
	"strings"
)

// vocabulary is what the mock says: 64 words that need no escaping in JSON.
const vocabulary = "the and for that with this from have more will time people which their about other when there them some " +
	"then into only over such work year state world still between life after while last might great since against right place " +
	"through before never under house water number small always order large night point given light think every found along " +
	"later early north river green"

// words returns the vocabulary as tokens: each word with its leading space.
func words() []string {
	list := strings.Fields(vocabulary)
	for i, w := range list {
		list[i] = " " + w
	}
	return list
}

// word returns the k-th token's text of an answer.
func (r *reply) word(k int) string {
	list := r.srv.words
	return list[finalize(r.voice+uint64(k)*hashMultiplier)%uint64(len(list))]
}

// silent reports whether the chunk that begins with token k has an empty text.
func (r *reply) silent(k int) bool {
	share := r.cfg.EmptyChunks
	return share > 0 && float64(finalize(r.voice^uint64(k+1)*wordMultiplier)>>11)/(1<<53) < share
}

// appendText appends the text of the tokens from k on.
func (r *reply) appendText(dst []byte, k, count int) []byte {
	if r.silent(k) {
		return dst
	}
	for i := range count {
		dst = append(dst, r.word(k+i)...)
	}
	return dst
}

// buildBase prepares what all objects of this reply begin with.
func (r *reply) buildBase() {
	prefix, object := `{"id":"cmpl-`, `","object":"text_completion","created":`
	switch {
	case r.p.chat && r.p.stream:
		prefix, object = `{"id":"chatcmpl-`, `","object":"chat.completion.chunk","created":`
	case r.p.chat:
		prefix, object = `{"id":"chatcmpl-`, `","object":"chat.completion","created":`
	}
	b := append(r.base[:0], prefix...)
	b = appendEscaped(b, r.id)
	b = append(b, object...)
	b = strconv.AppendInt(b, r.createdS, 10)
	b = append(b, `,"model":"`...)
	model := r.p.model
	if len(model) == 0 {
		model = r.srv.model
	}
	b = appendEscaped(b, model)
	r.base = append(b, `","choices":[`...)
}

// appendChunk appends the event of the tokens from r.sent on; it carries the finish reason, if finish.
func (r *reply) appendChunk(dst []byte, count int, finish bool, now int64) []byte {
	dst = r.openEvent(dst)
	dst = append(dst, `{"index":0,`...)
	k := r.sent
	switch {
	case !r.p.chat:
		dst = append(dst, `"text":"`...)
		dst = r.appendText(dst, k, count)
		dst = append(dst, '"')
	case k < r.cfg.ReasoningTokens:
		dst = append(dst, `"delta":{"reasoning_content":"`...)
		dst = r.appendText(dst, k, count)
		dst = append(dst, `"}`...)
	default:
		dst = append(dst, `"delta":{"content":"`...)
		dst = r.appendText(dst, k, count)
		dst = append(dst, `"}`...)
	}
	r.sent += count
	return r.closeChoice(dst, finish, now)
}

// appendRole appends the event that begins a chat answer, as vLLM sends it.
func (r *reply) appendRole(dst []byte, now int64) []byte {
	dst = r.openEvent(dst)
	dst = append(dst, `{"index":0,"delta":{"role":"assistant","content":""}`...)
	return r.closeChoice(dst, false, now)
}

// appendFinish appends an event that carries nothing but the finish reason.
func (r *reply) appendFinish(dst []byte, now int64) []byte {
	dst = r.openEvent(dst)
	if r.p.chat {
		dst = append(dst, `{"index":0,"delta":{}`...)
	} else {
		dst = append(dst, `{"index":0,"text":""`...)
	}
	return r.closeChoice(dst, true, now)
}

// appendUsageEvent appends the event that carries the usage and no choice.
func (r *reply) appendUsageEvent(dst []byte, now int64) []byte {
	dst = r.openEvent(dst)
	dst = append(dst, `],`...)
	dst = r.appendUsage(dst)
	return r.closeEvent(dst, now)
}

func (r *reply) openEvent(dst []byte) []byte {
	if r.cfg.Comments {
		dst = append(dst, ": ping"...)
		dst = append(dst, r.srv.eol...)
		dst = append(dst, r.srv.eol...)
	}
	dst = append(dst, "data: "...)
	return append(dst, r.base...)
}

func (r *reply) closeChoice(dst []byte, finish bool, now int64) []byte {
	dst = append(dst, `,"logprobs":null,"finish_reason":`...)
	if finish {
		dst = append(dst, '"')
		dst = append(dst, r.finish...)
		dst = append(dst, `"}]`...)
	} else {
		dst = append(dst, `null}]`...)
	}
	if r.p.continuousUsage && r.p.usage && !r.hideUsage {
		dst = append(dst, ',')
		dst = r.appendUsage(dst)
	}
	return r.closeEvent(dst, now)
}

func (r *reply) closeEvent(dst []byte, now int64) []byte {
	if r.cfg.Stamp {
		dst = append(dst, `,"sent_ns":`...)
		dst = strconv.AppendInt(dst, now, 10)
	}
	dst = append(dst, '}')
	dst = append(dst, r.srv.eol...)
	return append(dst, r.srv.eol...)
}

func (r *reply) appendUsage(dst []byte) []byte {
	dst = append(dst, `"usage":{"prompt_tokens":`...)
	dst = strconv.AppendInt(dst, int64(r.promptTokens), 10)
	dst = append(dst, `,"total_tokens":`...)
	dst = strconv.AppendInt(dst, int64(r.promptTokens+r.sent), 10)
	dst = append(dst, `,"completion_tokens":`...)
	dst = strconv.AppendInt(dst, int64(r.sent), 10)
	if !r.cfg.NoCachedTokens && (r.cachedTokens > 0 || !r.cfg.OmitZeroCached) {
		dst = append(dst, `,"prompt_tokens_details":{"cached_tokens":`...)
		dst = strconv.AppendInt(dst, int64(r.cachedTokens), 10)
		dst = append(dst, '}')
	}
	return append(dst, '}')
}

// appendWhole appends the object of an answer that is not streamed.
func (r *reply) appendWhole(dst []byte, now int64) []byte {
	dst = append(dst, r.base...)
	reasoning := 0
	if r.p.chat {
		dst = append(dst, `{"index":0,"message":{"role":"assistant",`...)
		if reasoning = min(r.cfg.ReasoningTokens, r.total); reasoning > 0 {
			dst = append(dst, `"reasoning_content":"`...)
			dst = r.appendText(dst, 0, reasoning)
			dst = append(dst, `",`...)
		}
		dst = append(dst, `"content":"`...)
	} else {
		dst = append(dst, `{"index":0,"text":"`...)
	}
	for k := reasoning; k < r.total; k++ {
		dst = r.appendText(dst, k, 1)
	}
	dst = append(dst, '"')
	if r.p.chat {
		dst = append(dst, '}')
	}
	r.sent = r.total
	dst = append(dst, `,"logprobs":null,"finish_reason":"`...)
	dst = append(dst, r.finish...)
	dst = append(dst, `"}]`...)
	if !r.hideUsage {
		dst = append(dst, ',')
		dst = r.appendUsage(dst)
	}
	if r.cfg.Stamp {
		dst = append(dst, `,"sent_ns":`...)
		dst = strconv.AppendInt(dst, now, 10)
	}
	return append(dst, '}')
}

// appendEscaped appends s as the inside of a JSON string.
func appendEscaped[S string | []byte](dst []byte, s S) []byte {
	const hex = "0123456789abcdef"
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ' || c == 0x7f:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return dst
}
