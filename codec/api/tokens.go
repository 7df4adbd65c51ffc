package api

import "github.com/fastreplay/fastreplay/codec/json"

// vllmGenerate is vLLM's endpoint of token ids in and token ids out. A server has it with --enable-scale-out
// (vllm/entrypoints/scale_out/token_in_token_out: GenerateRequest, GenerateStreamResponse; tried with 0.32).
func vllmGenerate() kind {
	return kind{
		name: "vllm-generate", path: "/inference/v1/generate", reads: tokenEvents,
		shape: shape{
			tokenIDs: frame{`"token_ids":[`, `]`}, nest: "sampling_params",
			most: []string{"max_tokens"}, least: []string{"min_tokens"}, forced: members{{"ignore_eos", yes}},
			answer: "trace_decode_token_ids",
			stream: members{{"stream", yes}, {"stream_options", []byte(`{"include_usage":true}`)}},
		},
		traits: Traits{TokenIDs: true, NoText: true, Made: true, Model: true, Salt: true, Forces: true, Answers: true, Generates: true, Streams: true,
			Marks: true, Counts: true},
	}
}

// tokenDocument reads an event, or a whole answer. The tokens of an event are its ids. Where the server counts them
// beside, as it does at the end, its count is the one that holds.
func (p *parser) tokenDocument() {
	for key, ok := p.Key(); ok; key, ok = p.Key() {
		switch string(key) {
		case "choices":
			p.answered = true
			for more := p.Array() && p.Element(); more; more = p.Element() {
				p.tokenChoice()
			}
		case "usage":
			p.usage()
		default:
			p.common(key)
		}
	}
	if p.d.CompletionTokens >= 0 {
		p.d.MoreTokens = -1
	}
}

// tokenChoice reads an answer's ids, or a part of them. A server that is asked for text sends it beside the ids.
func (p *parser) tokenChoice() {
	var c content
	var ids []byte
	index, n := 0, 0
	for key, ok := p.FirstKey(); ok; key, ok = p.Key() {
		switch string(key) {
		case "token_ids":
			ids, n = p.idList()
		case "text":
			c.answer = p.carries(&c)
		case "index":
			index = p.Count()
		case "finish_reason":
			p.finishReason()
		default:
			p.Skip()
		}
	}
	if c.present = n > 0; !c.present {
		return
	}
	p.d.MoreTokens = max(0, p.d.MoreTokens) + n
	p.weighChoice(c, false)
	p.d.Choices |= 1 << uint(min(max(index, 0), 63))
	if index == 0 && p.d.IDs == nil {
		p.d.IDs, p.d.Content = ids, c.answer
	}
}

// idList passes over an array and returns what is between its brackets, and how many elements that has.
func (p *parser) idList() (ids []byte, n int) {
	if !p.Array() {
		return nil, 0
	}
	from := p.At
	for p.Element() {
		p.Skip()
		n++
	}
	return p.Data[from:max(from, min(p.At, len(p.Data))-1)], n
}

// NextID takes the first id off a list as Delta.IDs has it. ok is false at the list's end. What is no whole number from
// 0 to 2^31-1 is -1. It allocates nothing.
func NextID(ids []byte) (id int, rest []byte, ok bool) {
	s := json.Scanner{Data: ids, MaxDepth: MaxDepth}
	if s.Peek() == ',' {
		s.At++
	}
	if s.Peek() == 0 {
		return 0, nil, false
	}
	id = s.Count()
	if s.Failed() {
		return 0, nil, false
	}
	return id, ids[s.At:], true
}
