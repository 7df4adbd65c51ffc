package api

// completions is OpenAI's legacy completions API, which takes token ids, as vLLM, SGLang and llama.cpp serve it.
func completions() kind {
	s := openAI()
	s.text, s.tokenIDs = frame{`"prompt":"`, `"`}, frame{`"prompt":[`, `]`}
	return kind{
		name: "completions", path: "/v1/completions", shape: s, reads: choices,
		traits: Traits{TokenIDs: true, Made: true, Model: true, Salt: true, Forces: true, Generates: true, Streams: true, Marks: true, Counts: true},
	}
}

// openAI is what completions and chat have in common; vLLM and SGLang take min_tokens and ignore_eos.
func openAI() shape {
	return shape{
		most: []string{"max_tokens"}, alias: []string{"max_completion_tokens"}, least: []string{"min_tokens"}, forced: members{{"ignore_eos", yes}},
		stream: members{{"stream", yes}, {"stream_options", []byte(`{"include_usage":true}`)}},
	}
}
