package mockllm

import (
	"fmt"
	"strconv"
	"strings"
)

// appendValue appends what stands behind a '$' in a template. Texts are the inside of a JSON string.
func (r *reply) appendValue(dst []byte, name string) []byte {
	switch name {
	case "id":
		return appendEscaped(dst, r.id)
	case "model":
		return appendEscaped(dst, r.model())
	case "finish": // length or stop
		return append(dst, r.finish...)

	// Of an event.
	case "text":
		return r.appendPart(dst, r.of, r.from, r.to)
	case "ids":
		return list(dst, r.from, r.to, func(dst []byte, k int) []byte {
			return strconv.AppendInt(dst, int64(r.tokenID(k)), 10)
		})

	// Texts of the whole answer.
	case "thoughts":
		return r.appendPart(dst, partReasoning, 0, r.reasoning)
	case "content":
		return r.appendPart(dst, partText, r.reasoning, r.tool)
	case "arguments":
		return r.appendPart(dst, partTool, r.tool, r.total)
	case "argument":
		return r.appendText(dst, r.tool, r.total)
	case "full": // after the prompt, if the request wants that
		if r.p.fullText {
			dst = append(dst, r.p.echo...)
		}
		return r.appendText(dst, 0, r.total)

	// Lists.
	case "items": // the parts of the answer
		for r.of = range r.parts {
			if r.partIndex(r.of) > 0 {
				dst = append(dst, ',')
			}
			dst = r.proto.item[r.of].append(r, dst)
		}
		return dst
	case "tokens":
		return list(dst, 0, r.total, func(dst []byte, k int) []byte {
			r.from = k
			r.to = k + 1
			return r.proto.item[partText].append(r, dst)
		})
	case "prefill": // only their number is true
		return list(dst, 0, r.promptTokens, func(dst []byte, k int) []byte {
			return append(strconv.AppendInt(append(dst, `{"id":`...), int64(k), 10), `,"text":"","logprob":null}`...)
		})
	case "vector":
		return list(dst, 0, vectorLength, func(dst []byte, k int) []byte {
			draw := rng(r.voice + uint64(k))
			return strconv.AppendFloat(dst, 2*draw.float()-1, 'g', -1, 64)
		})

	case "more": // what every object has before its end
		if r.cfg.Stamp {
			dst = strconv.AppendInt(append(dst, `,"sent_ns":`...), r.now, 10)
		}
		if r.prefiller > 0 {
			dst = fmt.Appendf(dst, `,"nvext":{"worker_id":{"prefill_worker_id":%d,"decode_worker_id":%d}}`,
				r.prefiller, r.cfg.Instance)
		}
		return append(dst, r.srv.bodyFields...)
	case "compute_s": // of TGI's response head
		return strconv.AppendFloat(dst, float64(r.doneNS-r.arrivedNS)/1e9, 'g', -1, 64)

	// Of the log.
	case "api":
		return append(dst, r.proto.name...)
	case "peer":
		return append(dst, r.c.peer...)
	case "fault":
		return append(dst, r.fault.Kind...)
	case "token_instants":
		return list(dst, 0, len(r.tokenNS), func(dst []byte, k int) []byte {
			return strconv.AppendInt(dst, r.tokenNS[k], 10)
		})
	case "body":
		return append(dst, r.body...)
	case "headers":
		return append(dst, r.headers...)
	case "ending":
		return append(dst, r.ending...)
	}
	n := r.number(name)
	if n == 0 && strings.HasSuffix(name, "_ns") {
		return append(dst, "null"...) // it has not happened
	}
	return strconv.AppendInt(dst, n, 10)
}

// vectorLength is the dimension of the mock's embeddings.
const vectorLength = 8

// number is a value that is a whole number.
func (r *reply) number(name string) int64 {
	const ms = 1_000_000
	switch name {
	case "created": // Unix time, s
		return r.createdS
	case "max":
		return r.p.maxTokens
	case "prompt":
		return int64(r.promptTokens)
	case "cached":
		return int64(r.cachedTokens)
	case "local": // cached in the first tier
		return int64(r.cachedTokens - r.hostTokens)
	case "host": // in the second
		return int64(r.hostTokens)
	case "uncached":
		return int64(r.promptTokens - r.cachedTokens)
	case "thought":
		return int64(min(r.reasoning, r.sent))
	case "output": // so far
		return int64(r.sent)
	case "total":
		return int64(r.promptTokens + r.sent)

	// Of an event.
	case "index": // of its part, among those of the answer
		return int64(r.partIndex(r.of))
	case "place": // of its first token, from 1
		return int64(r.from + 1)
	case "count": // of its tokens
		return int64(r.to - r.from)
	case "token":
		return int64(r.tokenNumber(r.from))
	case "sequence":
		r.sequence++
		return int64(r.sequence - 1)

	// Of TGI's response head.
	case "total_ms":
		return (r.doneNS - r.arrivedNS) / ms
	case "queue_ms":
		return (r.beginNS - r.arrivedNS) / ms
	case "inference_ms":
		return (r.doneNS - r.beginNS) / ms
	case "token_ms":
		return (r.doneNS - r.beginNS) / ms / int64(max(r.total, 1))

	// Of the log.
	case "arrival_ns":
		return r.arrivalNS
	case "arrived_ns":
		return r.arrivedNS
	case "load_ns":
		return r.adapterNS
	case "priority":
		return r.p.priority
	case "prefiller":
		return r.prefiller
	case "begin_ns":
		return r.beginNS
	case "first_ns":
		return r.firstNS
	case "last_ns":
		return r.lastTokenNS
	case "done_ns":
		return r.doneNS
	case "status":
		return int64(r.status)
	}
	panic("BUG: no value " + name)
}

// is reports whether a condition holds, which stands behind a '<' in a template.
func (r *reply) is(condition string) bool {
	told := !r.hideUsage // the usage is told at all
	switch condition {
	case "stream":
		return r.p.stream
	case "cut": // max_tokens ended the answer
		return r.finish == "length"
	case "stopped":
		return r.finish != "length"
	case "end": // the finish reason is in this event, or in this answer
		return r.atEnd()
	case "ended":
		return r.atEnd() && !(r.p.stream && r.cfg.FinishChunk)
	case "own": // the finish reason has a chunk of its own
		return r.cfg.FinishChunk

	case "told":
		return told
	case "wanted": // the usage, at a stream's end
		return told && r.p.usage
	case "now": // the usage, in this event
		return told && (!r.p.stream || r.p.usage && r.p.continuousUsage)
	case "cached": // the usage has the number of cached tokens
		return !r.cfg.NoCachedTokens && (r.cachedTokens > 0 || !r.cfg.OmitZeroCached)

	case "split": // another instance prefilled
		return r.prefiller > 0
	case "tiers": // the usage tells the tiers apart
		return r.cfg.HostTokens > 0

	case "thinks":
		return r.has(partReasoning)
	case "calls":
		return r.has(partTool)
	case "first": // the event's part is the answer's first
		return r.partIndex(r.of) == 0
	case "begins": // the event begins the tool call
		return r.from == r.tool
	case "silent": // the event's text is empty
		return r.silent(r.from)
	case "each": // the event has tokens of its own, not all
		return r.p.stream && !r.p.single

	// What TGI's and Triton's requests want to have in the answer.
	case "details":
		return told && r.p.details
	case "prefill":
		return r.p.prefill
	case "listed":
		return told && (r.p.details || r.p.prefill)
	case "vllm":
		return r.p.triton.vllm
	case "reason":
		return r.p.triton.vllm && r.p.triton.finishReason
	case "inputs":
		return told && r.p.triton.inputTokens
	case "outputs":
		return told && r.p.triton.outputTokens

	// Of the log.
	case "read":
		return r.promptTokens > 0
	case "answered":
		return r.status > 0
	case "begun":
		return r.begun
	case "faulty":
		return r.fault.Kind != ""
	case "adapter":
		return r.srv.sched.adapters.has(r.p.model)
	case "all":
		return r.cfg.LogAll
	}
	panic("BUG: no condition " + condition)
}

// list appends values from one to another, with commas between them.
func list(dst []byte, from, to int, value func(dst []byte, k int) []byte) []byte {
	for k := from; k < to; k++ {
		if k > from {
			dst = append(dst, ',')
		}
		dst = value(dst, k)
	}
	return dst
}
