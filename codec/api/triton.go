package api

import "strings"

// tritonVLLM is Triton's generate extension in front of its vLLM backend (triton-inference-server/vllm_backend:
// src/utils/request.py), which says why and with how many tokens it ends where it is asked.
func tritonVLLM() kind {
	k := triton("triton-vllm", shape{
		text: frame{`"text_input":"`, `"`}, nest: "parameters",
		most: []string{"max_tokens"}, least: []string{"min_tokens"}, forced: members{{"ignore_eos", yes}},
	})
	asks := members{{"exclude_input_in_output", yes}, {"return_finish_reason", yes}, {"return_num_input_tokens", yes}, {"return_num_output_tokens", yes}}
	k.shape.stream, k.shape.whole = append(members{{"stream", yes}}, asks...), append(members{{"stream", no}}, asks...)
	k.traits.Counts = true
	return k
}

// tritonTRTLLM is Triton's generate extension in front of TensorRT-LLM's ensemble or BLS model, which counts nothing. min_length is
// what min_tokens was called before (triton-inference-server/tensorrtllm_backend).
func tritonTRTLLM() kind {
	k := triton("triton-trtllm", shape{
		text: frame{`"text_input":"`, `"`}, most: []string{"max_tokens"}, least: []string{"min_tokens", "min_length"},
		fixed: members{{"bad_words", []byte(`""`)}, {"stop_words", []byte(`""`)}, {"exclude_input_in_output", yes}},
	})
	k.shape.stream, k.shape.whole = members{{"stream", yes}}, members{{"stream", no}}
	return k
}

func triton(name string, s shape) kind {
	s.noNulls = true // elder servers refuse what they are not asked for in their words: --extra-inputs return_finish_reason:null
	return kind{
		name: name, path: "/v2/models/%s/generate", stream: "/v2/models/%s/generate_stream", reads: tritonEvents, shape: s,
		traits: Traits{Made: true, Forces: true, Generates: true, Streams: true},
	}
}

// ModelAt is the model that a path of Triton's names; "" for another path.
func ModelAt(path string) string {
	_, rest, ok := strings.Cut(path, "/v2/models/")
	model, method, _ := strings.Cut(rest, "/")
	if !ok || method != "generate" && method != "generate_stream" {
		return ""
	}
	return model
}

// tritonDocument reads an event, or a whole answer, which is finished where it has a text. vLLM's backend counts the output tokens
// of each event, and says "None" for a reason while there is none.
func (p *parser) tritonDocument() {
	var c content
	for key, ok := p.key(); ok; key, ok = p.key() {
		switch string(key) {
		case "text_output":
			p.carries(&c)
			p.answered = p.answered || c.present
		case "finish_reason":
			if reason := p.d.Finish; p.finishReason() && p.d.Finish == "None" {
				p.d.Finish = reason
			}
		case "num_input_tokens":
			p.d.PromptTokens = p.count()
		case "num_output_tokens":
			p.d.MoreTokens = p.count()
		default:
			p.common(key)
		}
	}
	if p.d.MoreTokens == 0 && !c.filled {
		c.present = false // an end without a token
	}
	p.weighChoice(c, false)
}
