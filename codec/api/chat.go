package api

import "errors"

// chat is OpenAI's chat completions API with the prompt as one user message.
type chat struct{ body }

func newChat(o Options) (Backend, error) {
	if o.TokenIDs {
		return nil, errors.New("the chat API takes no token ids: use text prompts, or the completions API")
	}
	b, err := newBody(o, `"messages":[{"role":"user","content":"`, `"}]`)
	if err != nil {
		return nil, err
	}
	return &chat{b}, nil
}

func (*chat) Path() string { return "/v1/chat/completions" }
