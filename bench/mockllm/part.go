package mockllm

// part is a stretch of an answer's tokens. They come in this order, and any may be missing.
type part uint8

const (
	partNone part = iota // before the first token and after the last
	partReasoning
	partText
	partTool // the arguments of a tool call
)

// divide decides which tokens of the answer are of which part.
func (r *reply) divide(t traits) {
	r.reasoning, r.tool = 0, r.total
	if t.thinks {
		r.reasoning = min(r.cfg.ReasoningTokens, r.total)
	}
	if t.calls {
		r.tool = max(r.total-r.cfg.ToolTokens, r.reasoning)
	}
}

// partAt returns the part of token k.
func (r *reply) partAt(k int) part {
	switch {
	case k >= r.total:
		return partNone
	case k < r.reasoning:
		return partReasoning
	case k < r.tool:
		return partText
	}
	return partTool
}

// span returns the tokens of a part.
func (r *reply) span(p part) (from, to int) {
	switch p {
	case partReasoning:
		return 0, r.reasoning
	case partText:
		return r.reasoning, r.tool
	case partTool:
		return r.tool, r.total
	}
	return 0, 0
}

// has reports whether the answer has a part.
func (r *reply) has(p part) bool {
	from, to := r.span(p)
	return from < to
}

// partIndex counts the parts of the answer before p.
func (r *reply) partIndex(p part) (n int) {
	for q := partReasoning; q < p; q++ {
		if r.has(q) {
			n++
		}
	}
	return n
}

// chunkAt returns how many tokens the chunk that begins with token k has.
func (r *reply) chunkAt(k int) int {
	_, end := r.span(r.partAt(k))
	if r.p.single {
		return end - k
	}
	return min(r.cfg.TokensPerChunk, end-k)
}
