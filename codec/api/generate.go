package api

import "strings"

// tgi is the API of Hugging Face's Text Generation Inference. It cannot be made to go on beyond the end of a text
// (router/src/lib.rs: GenerateParameters).
func tgi() kind {
	return kind{
		name:   "tgi",
		path:   "/generate",
		stream: "/generate_stream",
		reads:  tgiEvents,
		shape: shape{
			text:  frame{`"inputs":"`, `"`},
			nest:  "parameters",
			most:  "max_new_tokens",
			fixed: members{{"details", yes}},
		},
		traits: Traits{
			Made:         true,
			Generates:    true,
			Streams:      true,
			Marks:        true,
			StreamCounts: true,
			CountHeader:  "x-prompt-tokens",
		},
	}
}

// tgiDocument reads an event, or a whole answer.
func (p *parser) tgiDocument() {
	var c content
	for key := range p.Keys() {
		switch string(key) {
		case "token":
			for range p.Only("text") {
				p.carries(&c)
			}
		case "details":
			p.tgiDetails()
		default:
			p.common(key)
		}
	}
	p.weighChoice(c, false)
}

// tgiDetails reads the details of the last event or of a whole answer. Only the event counts the prompt; for a whole
// answer a header does.
func (p *parser) tgiDetails() {
	for key := range p.Keys() {
		switch string(key) {
		case "finish_reason":
			p.finishReason()
		case "generated_tokens":
			p.d.CompletionTokens = p.Count()
		case "input_length":
			p.d.PromptTokens = p.Count()
		}
	}
}

// sglang is SGLang's own generate API (python/sglang/srt/managers/io_struct.py: GenerateReqInput).
func sglang() kind {
	return kind{
		name:  "sglang",
		path:  "/generate",
		reads: sglangEvents,
		shape: shape{
			text:     frame{`"text":"`, `"`},
			tokenIDs: frame{`"input_ids":[`, `]`},
			nest:     "sampling_params",
			most:     "max_new_tokens",
			least:    []string{"min_new_tokens"},
			forced:   ignoreEOS,
			stream:   streamed,
		},
		traits: Traits{
			TokenIDs:  true,
			Made:      true,
			Forces:    true,
			Generates: true,
			Streams:   true,
			Marks:     true,
			Counts:    true,
		},
	}
}

// sglangDocument reads an event, or a whole answer. The text of an event is all the text so far, unless the server runs
// with --incremental-streaming-output.
func (p *parser) sglangDocument() {
	var c content
	for key := range p.Keys() {
		switch string(key) {
		case "text":
			p.carries(&c)
		case "output_ids": // they are no text
			_, n := p.idList()
			c.present = c.present || n > 0
		case "meta_info":
			p.metaInfo()
		default:
			p.common(key)
		}
	}
	p.weighChoice(c, false)
}

func (p *parser) metaInfo() {
	for key := range p.Keys() {
		switch string(key) {
		case "finish_reason":
			p.finishObject()
		case "prompt_tokens":
			p.d.PromptTokens = p.Count()
		case "completion_tokens":
			p.d.CompletionTokens = p.Count()
		case "cached_tokens":
			p.d.CachedTokens = p.Count()
		case "cached_tokens_details":
			p.cachedDetails()
		}
	}
}

// finishObject reads {"type":"length",…}, as elder versions a plain reason, and the message of an abort.
func (p *parser) finishObject() {
	if p.Peek() != '{' {
		p.finishReason()
		return
	}
	var message []byte
	for key := range p.Keys() {
		switch string(key) {
		case "type":
			p.finishReason()
		case "message":
			message, _, _ = p.Text()
		}
	}
	if p.d.Finish == "abort" && len(message) > 0 {
		p.reject(message)
	}
}

// tritonVLLM is Triton's generate extension in front of its vLLM backend (triton-inference-server/vllm_backend:
// src/utils/request.py). The backend reports its finish reason and counts only if the request asks for them.
func tritonVLLM() kind {
	k := triton("triton-vllm", shape{
		text:   frame{`"text_input":"`, `"`},
		nest:   "parameters",
		most:   "max_tokens",
		least:  []string{"min_tokens"},
		forced: ignoreEOS,
	})
	asks := members{{"exclude_input_in_output", yes}, {"return_finish_reason", yes}, {"return_num_input_tokens", yes},
		{"return_num_output_tokens", yes}}
	k.shape.stream = append(members{{"stream", yes}}, asks...)
	k.shape.whole = append(members{{"stream", no}}, asks...)
	k.traits.Counts = true
	return k
}

// tritonTRTLLM is Triton's generate extension in front of TensorRT-LLM's ensemble or BLS model, which counts nothing.
// min_length is what min_tokens was called before (triton-inference-server/tensorrtllm_backend).
func tritonTRTLLM() kind {
	k := triton("triton-trtllm", shape{
		text:  frame{`"text_input":"`, `"`},
		most:  "max_tokens",
		least: []string{"min_tokens", "min_length"},
		fixed: members{{"bad_words", []byte(`""`)}, {"stop_words", []byte(`""`)}, {"exclude_input_in_output", yes}},
	})
	k.shape.stream = streamed
	k.shape.whole = members{{"stream", no}}
	return k
}

func triton(name string, s shape) kind {
	// elder servers refuse what they are not asked for in their words: --extra-inputs return_finish_reason:null
	s.noNulls = true
	return kind{
		name:   name,
		path:   "/v2/models/%s/generate",
		stream: "/v2/models/%s/generate_stream",
		reads:  tritonEvents,
		shape:  s,
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

// tritonDocument reads an event, or a whole answer, which is finished if it has a text. vLLM's backend counts the
// output tokens of each event. Its reason is "None" as long as the answer goes on.
func (p *parser) tritonDocument() {
	var c content
	for key := range p.Keys() {
		switch string(key) {
		case "text_output":
			p.carries(&c)
			p.answered = p.answered || c.present
		case "finish_reason":
			if reason := p.d.Finish; p.finishReason() && p.d.Finish == "None" {
				p.d.Finish = reason
			}
		case "num_input_tokens":
			p.d.PromptTokens = p.Count()
		case "num_output_tokens":
			p.d.MoreTokens = p.Count()
		default:
			p.common(key)
		}
	}
	if p.d.MoreTokens == 0 && !c.filled {
		c.present = false // an end without a token
	}
	p.weighChoice(c, false)
}
