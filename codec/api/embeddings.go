package api

// embeddings is OpenAI's embeddings API, which reads a prompt and says nothing.
func embeddings() kind {
	return kind{
		name: "embeddings", path: "/v1/embeddings", reads: embeddingsAnswer,
		shape:  shape{text: frame{`"input":"`, `"`}, tokenIDs: frame{`"input":[`, `]`}},
		traits: Traits{TokenIDs: true, Made: true, Model: true, Marks: true, Counts: true},
	}
}

// embeddingsDocument reads an answer, which is finished where it has vectors. Some servers count completion tokens, 0.
func (p *parser) embeddingsDocument() {
	for key, ok := p.key(); ok; key, ok = p.key() {
		switch string(key) {
		case "data":
			for more := p.array() && p.element(); more; more = p.element() {
				p.skip()
				p.d.Done = true
			}
		case "usage":
			p.usage()
			p.d.CompletionTokens = -1
		default:
			p.common(key)
		}
	}
}
