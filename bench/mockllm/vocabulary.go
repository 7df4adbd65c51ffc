package mockllm

import "strconv"

// values are what stands behind a '$' in a template. Texts are the inside of a JSON string.
var values = map[string]func(r *reply, dst []byte) []byte{
	"id":     func(r *reply, dst []byte) []byte { return appendEscaped(dst, r.id) },
	"model":  func(r *reply, dst []byte) []byte { return appendEscaped(dst, r.model()) },
	"finish": func(r *reply, dst []byte) []byte { return append(dst, r.finish...) }, // length or stop

	// Numbers of the whole.
	"created":  number(func(r *reply) int64 { return r.createdS }), // Unix time, s
	"max":      number(func(r *reply) int64 { return r.p.maxTokens }),
	"prompt":   number(func(r *reply) int { return r.promptTokens }),
	"cached":   number(func(r *reply) int { return r.cachedTokens }),
	"uncached": number(func(r *reply) int { return r.promptTokens - r.cachedTokens }),
	"thought":  number(func(r *reply) int { return min(r.reasoning, r.sent) }),
	"output":   number(func(r *reply) int { return r.sent }), // so far
	"total":    number(func(r *reply) int { return r.promptTokens + r.sent }),

	// Of an event.
	"index": number(func(r *reply) int { return r.partIndex(r.of) }), // of its part, among those of the answer
	"place": number(func(r *reply) int { return r.from + 1 }),        // of its first token, from 1
	"count": number(func(r *reply) int { return r.to - r.from }),     // of its tokens
	"token": number(func(r *reply) int { return r.tokenNumber(r.from) }),
	"text":  func(r *reply, dst []byte) []byte { return r.appendPart(dst, r.of, r.from, r.to) },
	"ids": func(r *reply, dst []byte) []byte {
		return list(dst, r.from, r.to, func(dst []byte, k int) []byte { return strconv.AppendInt(dst, int64(r.tokenID(k)), 10) })
	},
	"sequence": func(r *reply, dst []byte) []byte {
		r.sequence++
		return strconv.AppendInt(dst, int64(r.sequence-1), 10)
	},

	// Texts of the whole answer.
	"thoughts":  func(r *reply, dst []byte) []byte { return r.appendPart(dst, partReasoning, 0, r.reasoning) },
	"content":   func(r *reply, dst []byte) []byte { return r.appendPart(dst, partText, r.reasoning, r.tool) },
	"arguments": func(r *reply, dst []byte) []byte { return r.appendPart(dst, partTool, r.tool, r.total) },
	"argument":  func(r *reply, dst []byte) []byte { return r.appendText(dst, r.tool, r.total) },
	"full": func(r *reply, dst []byte) []byte { // after the prompt, if the request wants that
		if r.p.fullText {
			dst = append(dst, r.p.echo...)
		}
		return r.appendText(dst, 0, r.total)
	},

	// Lists.
	"items": func(r *reply, dst []byte) []byte {
		for r.of = range r.parts {
			if r.partIndex(r.of) > 0 {
				dst = append(dst, ',')
			}
			dst = r.proto.item[r.of].append(r, dst)
		}
		return dst
	},
	"tokens": func(r *reply, dst []byte) []byte {
		return list(dst, 0, r.total, func(dst []byte, k int) []byte {
			r.from, r.to = k, k+1
			return r.proto.item[partText].append(r, dst)
		})
	},
	"prefill": func(r *reply, dst []byte) []byte { // only their number is true
		return list(dst, 0, r.promptTokens, func(dst []byte, k int) []byte {
			return append(strconv.AppendInt(append(dst, `{"id":`...), int64(k), 10), `,"text":"","logprob":null}`...)
		})
	},
	"vector": func(r *reply, dst []byte) []byte {
		return list(dst, 0, vectorLength, func(dst []byte, k int) []byte {
			draw := rng(r.voice + uint64(k))
			return strconv.AppendFloat(dst, 2*draw.float()-1, 'g', -1, 64)
		})
	},

	// more is what every object has before its end.
	"more": func(r *reply, dst []byte) []byte {
		if r.cfg.Stamp {
			dst = strconv.AppendInt(append(dst, `,"sent_ns":`...), r.now, 10)
		}
		return append(dst, r.srv.bodyFields...)
	},

	// Of the log.
	"arrival_ns": orNull(func(r *reply) int64 { return r.arrivalNS }),
	"arrived_ns": orNull(func(r *reply) int64 { return r.arrivedNS }),
	"begin_ns":   orNull(func(r *reply) int64 { return r.beginNS }),
	"first_ns":   orNull(func(r *reply) int64 { return r.firstNS }),
	"last_ns":    orNull(func(r *reply) int64 { return r.lastTokenNS }),
	"done_ns":    orNull(func(r *reply) int64 { return r.doneNS }),
	"status":     orNull(func(r *reply) int64 { return int64(r.status) }),
	"api":        func(r *reply, dst []byte) []byte { return append(dst, r.proto.name...) },
	"peer":       func(r *reply, dst []byte) []byte { return append(dst, r.c.peer...) },
	"fault":      func(r *reply, dst []byte) []byte { return append(dst, r.fault.Kind...) },
	"token_ns": func(r *reply, dst []byte) []byte {
		return list(dst, 0, len(r.tokenNS), func(dst []byte, k int) []byte { return strconv.AppendInt(dst, r.tokenNS[k], 10) })
	},
	"body":   func(r *reply, dst []byte) []byte { return append(dst, r.body...) },
	"ending": func(r *reply, dst []byte) []byte { return append(dst, r.ending...) },

	// Times of TGI's response head.
	"compute_s": func(r *reply, dst []byte) []byte {
		return strconv.AppendFloat(dst, float64(r.doneNS-r.arrivedNS)/1e9, 'g', -1, 64)
	},
	"total_ms":     number(func(r *reply) int64 { return (r.doneNS - r.arrivedNS) / 1e6 }),
	"queue_ms":     number(func(r *reply) int64 { return (r.beginNS - r.arrivedNS) / 1e6 }),
	"inference_ms": number(func(r *reply) int64 { return (r.doneNS - r.beginNS) / 1e6 }),
	"token_ms":     number(func(r *reply) int64 { return (r.doneNS - r.beginNS) / 1e6 / int64(max(r.total, 1)) }),
}

// vectorLength is the dimension of the mock's embeddings.
const vectorLength = 8

// conditions are what stands behind a '<' in a template.
var conditions = map[string]func(r *reply) bool{
	"stream":  func(r *reply) bool { return r.p.stream },
	"cut":     func(r *reply) bool { return r.finish == "length" }, // max_tokens ended the answer
	"stopped": func(r *reply) bool { return r.finish != "length" },
	"end":     func(r *reply) bool { return r.atEnd() }, // the finish reason is in this event, or in this answer
	"ended":   func(r *reply) bool { return r.atEnd() && !(r.p.stream && r.cfg.FinishChunk) },
	"own":     func(r *reply) bool { return r.cfg.FinishChunk }, // the finish reason has a chunk of its own

	// The usage: whether it is told at all, wanted at a stream's end, wanted in each event.
	"told":   func(r *reply) bool { return !r.hideUsage },
	"wanted": func(r *reply) bool { return !r.hideUsage && r.p.usage },
	"now":    func(r *reply) bool { return !r.hideUsage && (!r.p.stream || r.p.usage && r.p.continuousUsage) },
	"cached": func(r *reply) bool { return !r.cfg.NoCachedTokens && (r.cachedTokens > 0 || !r.cfg.OmitZeroCached) },

	"thinks": func(r *reply) bool { return r.has(partReasoning) },
	"calls":  func(r *reply) bool { return r.has(partTool) },
	"first":  func(r *reply) bool { return r.partIndex(r.of) == 0 },    // the event's part of the answer's
	"begins": func(r *reply) bool { return r.from == r.tool },          // the event begins the tool call
	"silent": func(r *reply) bool { return r.silent(r.from) },          // the event's text is empty
	"each":   func(r *reply) bool { return r.p.stream && !r.p.single }, // the event has its own tokens, not all

	// For the log.
	"read":   func(r *reply) bool { return r.promptTokens > 0 },
	"begun":  func(r *reply) bool { return r.begun },
	"all":    func(r *reply) bool { return r.cfg.LogAll },
	"faulty": func(r *reply) bool { return r.fault.Kind != "" },

	// What TGI's and Triton's requests want to have in the answer.
	"details": func(r *reply) bool { return r.p.details && !r.hideUsage },
	"prefill": func(r *reply) bool { return r.p.prefill },
	"tellall": func(r *reply) bool { return (r.p.details || r.p.prefill) && !r.hideUsage },
	"vllm":    func(r *reply) bool { return r.p.triton.vllm },
	"reason":  func(r *reply) bool { return r.p.triton.vllm && r.p.triton.finishReason },
	"inputs":  func(r *reply) bool { return r.p.triton.inputTokens && !r.hideUsage },
	"outputs": func(r *reply) bool { return r.p.triton.outputTokens && !r.hideUsage },
}

// number is a value that is a whole number.
func number[T int | int64](of func(r *reply) T) func(r *reply, dst []byte) []byte {
	return func(r *reply, dst []byte) []byte { return strconv.AppendInt(dst, int64(of(r)), 10) }
}

// orNull is a number that is null where it is 0.
func orNull(of func(r *reply) int64) func(r *reply, dst []byte) []byte {
	return func(r *reply, dst []byte) []byte {
		if n := of(r); n != 0 {
			return strconv.AppendInt(dst, n, 10)
		}
		return append(dst, "null"...)
	}
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
