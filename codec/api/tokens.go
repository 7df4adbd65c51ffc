package api

// vllmGenerate is vLLM's endpoint of token ids in and token ids out. A server has it with --enable-scale-out
// (vllm/entrypoints/scale_out/token_in_token_out: GenerateRequest, GenerateStreamResponse; tried with 0.32).
func vllmGenerate() kind {
	return kind{
		name:  "vllm-generate",
		path:  "/inference/v1/generate",
		reads: tokenEvents,
		shape: shape{
			tokenIDs: frame{`"token_ids":[`, `]`},
			nest:     "sampling_params",
			most:     "max_tokens",
			least:    []string{"min_tokens"},
			forced:   ignoreEOS,
			answer:   "trace_decode_token_ids",
			stream:   streamWithUsage,
		},
		traits: Traits{
			TokenIDs:  true,
			NoText:    true,
			Made:      true,
			Model:     true,
			Salt:      true,
			Forces:    true,
			Answers:   true,
			Generates: true,
			Streams:   true,
			Marks:     true,
			Counts:    true,
		},
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
	s := scan(ids)
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
