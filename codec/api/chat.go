package api

import "errors"

// chat is OpenAI's chat completions API with the prompt as one user message.
type chat struct{ *openAI }

func newChat(o Options) (Backend, error) {
	if o.TokenIDs {
		return nil, errors.New("the chat API takes no token ids: use text prompts, or the completions API")
	}
	user := frame{`"messages":[{"role":"user","content":"`, `"}]`}
	a, err := newOpenAI(o, [forms]frame{Made: user, Text: user, Messages: {`"messages":[`, `]`}})
	if err != nil {
		return nil, err
	}
	return chat{a}, nil
}

func (c chat) With(extra []byte) Backend { return chat{c.with(extra)} }

func (chat) Path() string { return "/v1/chat/completions" }
