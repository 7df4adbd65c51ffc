package api

// completions is OpenAI's legacy completions API, which takes token ids, as vLLM, SGLang and llama.cpp serve it.
type completions struct{ *openAI }

func newCompletions(o Options) (Backend, error) {
	text := frame{`"prompt":"`, `"`}
	made := text
	if o.TokenIDs {
		made = frame{`"prompt":[`, `]`}
	}
	a, err := newOpenAI(o, [forms]frame{Made: made, Text: text})
	if err != nil {
		return nil, err
	}
	return completions{a}, nil
}

func (c completions) With(extra []byte) Backend { return completions{c.with(extra)} }

func (completions) Path() string { return "/v1/completions" }
