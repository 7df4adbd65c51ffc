package api

// chat is OpenAI's chat completions API with the prompt as one user message.
func chat() kind {
	s := openAI()
	s.text, s.messages = frame{`"messages":[{"role":"user","content":"`, `"}]`}, frame{`"messages":[`, `]`}
	return kind{
		name: "chat", path: "/v1/chat/completions", shape: s, reads: choices,
		traits: Traits{Template: true, Made: true, Model: true, Salt: true, Forces: true, Generates: true, Streams: true, Marks: true, Counts: true},
	}
}
