package api

// completions is OpenAI's legacy completions API, which takes token ids, as vLLM, SGLang and llama.cpp serve it.
type completions struct{ body }

func newCompletions(o Options) (Backend, error) {
	open, end := `"prompt":"`, `"`
	if o.TokenIDs {
		open, end = `"prompt":[`, `]`
	}
	b, err := newBody(o, open, end)
	if err != nil {
		return nil, err
	}
	return &completions{b}, nil
}

func (*completions) Path() string { return "/v1/completions" }
