package api

import "github.com/fastreplay/fastreplay/codec/json"

// content is what a choice carries: whether a key that counts as a token is there, and whether something is in it.
type content struct {
	present, filled bool
	reasoned        bool // reasoning is in it, which filled does not count
	role            bool
	tool            bool
	answer          []byte // the answer's text, escapes and all; nil where there is none
}

// choice reads one element of choices. It has "text" of completions, "delta" of a chat stream, "message" of a whole
// chat answer, or "token_ids". A server that is asked for text sends it beside those.
func (p *parser) choice(byIDs bool) {
	var c content
	var ids []byte
	finished := false
	index := 0
	n := 0
	for key := range p.Keys() {
		switch string(key) {
		case "text":
			c.answer = p.carries(&c)
		case "delta", "message":
			p.chatDelta(&c)
		case "token_ids":
			ids, n = p.idList()
		case "index":
			index = p.Count()
		case "finish_reason":
			finished = p.finishReason() || finished
		case "sglext":
			p.sglext()
		}
	}
	if byIDs {
		if n == 0 {
			return
		}
		c.present = true
		c.role = false
		c.tool = false
		finished = false
		p.d.MoreTokens = max(0, p.d.MoreTokens) + n
	}
	p.weighChoice(c, finished)
	if c.present || c.tool {
		p.d.Choices |= 1 << uint(min(max(index, 0), 63))
	}
	if index == 0 && len(p.d.Content) == 0 {
		p.d.Content = c.answer
	}
	if byIDs && index == 0 && p.d.IDs == nil {
		p.d.IDs = ids
	}
}

// weighChoice applies the definition of a token chunk.
func (p *parser) weighChoice(c content, finished bool) {
	p.d.Tool = p.d.Tool || c.tool
	switch {
	case c.filled:
		p.d.Token = true
		p.d.Text = true
		p.d.Reasoning = false
	case c.reasoned:
		p.d.Reasoning = p.d.Reasoning || !p.d.Text // unless another choice has other text
		p.d.Token = true
		p.d.Text = true
	case c.tool:
		p.d.Token = true
	case !c.present || c.role:
	case finished:
		p.d.EmptyFinish = true
	default:
		p.d.Token = true
	}
}

// finishReason reports whether there is one.
func (p *parser) finishReason() bool {
	raw, escaped, ok := p.Text()
	if !ok || len(raw) == 0 {
		return false
	}
	if escaped {
		raw = json.AppendUnescaped(nil, raw)
	}
	p.d.Finish = intern(raw)
	return true
}

// chatDelta reads a delta or message. Reasoning is "reasoning" in vLLM since its pull request 27752, and
// "reasoning_content" before and in DeepSeek and SGLang.
func (p *parser) chatDelta(c *content) {
	for key := range p.Keys() {
		switch string(key) {
		case "content":
			c.answer = p.carries(c)
		case "reasoning_content", "reasoning":
			p.reasons(c)
		case "refusal":
			p.carries(c)
		case "role":
			if role, _, ok := p.Text(); ok && len(role) > 0 {
				c.role = true
			}
		case "tool_calls":
			for range p.Elements() {
				p.toolCall(c)
			}
		case "function_call":
			p.function(c)
		}
	}
}

// carries notes a text: a string, or (content parts) a list that is not empty. It returns the inside of a string. null
// and other kinds are absent.
func (p *parser) carries(c *content) (raw []byte) {
	switch p.Peek() {
	case '"':
		raw, _ = p.Quoted()
		c.present = true
		if len(raw) > 0 {
			c.filled = true
			p.text = json.Span{From: uint32(p.At - len(raw) - 2), To: uint32(p.At)}
		}
	case '[':
		p.Array()
		for p.Element() {
			p.Skip()
			c.present = true
			c.filled = true
		}
	default:
		p.Skip()
	}
	return raw
}

// reasons notes a text of the model's reasoning.
func (p *parser) reasons(c *content) {
	var text content
	p.carries(&text)
	c.present = c.present || text.present
	c.reasoned = c.reasoned || text.filled
}

// toolCall reads one element of tool_calls.
func (p *parser) toolCall(c *content) {
	p.noteTool(c)
	for range p.Only("function") {
		p.function(c)
	}
}

// noteTool notes a call of a tool, if the next value is one.
func (p *parser) noteTool(c *content) {
	if p.Peek() == '{' {
		c.present = true
		c.tool = true
	}
}

// function reads the name and arguments of a tool call, or of its elder, function_call.
func (p *parser) function(c *content) {
	p.noteTool(c)
	for key := range p.Keys() {
		switch string(key) {
		case "name", "arguments":
			p.carries(c)
		}
	}
}

// chat is OpenAI's chat completions API with the prompt as one user message.
func chat() kind {
	k := openAI("chat", "/v1/chat/completions")
	k.shape.text = frame{`"messages":[{"role":"user","content":"`, `"}]`}
	k.shape.messages = frame{`"messages":[`, `]`}
	k.traits.Template = true
	return k
}

// completions is OpenAI's legacy completions API, which takes token ids, as vLLM, SGLang and llama.cpp serve it.
func completions() kind {
	k := openAI("completions", "/v1/completions")
	k.shape.text = frame{`"prompt":"`, `"`}
	k.shape.tokenIDs = frame{`"prompt":[`, `]`}
	k.traits.TokenIDs = true
	return k
}

// openAI is what completions and chat have in common, and responses but for its form; vLLM and SGLang take min_tokens
// and ignore_eos.
func openAI(name, path string) kind {
	return kind{
		name:  name,
		path:  path,
		reads: choices,
		shape: shape{
			most:   "max_tokens",
			alias:  "max_completion_tokens",
			least:  []string{"min_tokens"},
			forced: ignoreEOS,
			stream: streamWithUsage,
		},
		traits: Traits{
			Made:      true,
			Model:     true,
			Salt:      true,
			Forces:    true,
			Generates: true,
			Streams:   true,
			Marks:     true,
			Counts:    true,
		},
	}
}

// embeddings is OpenAI's embeddings API, which reads a prompt and generates nothing.
func embeddings() kind {
	return kind{
		name:   "embeddings",
		path:   "/v1/embeddings",
		reads:  embeddingsAnswer,
		shape:  shape{text: frame{`"input":"`, `"`}, tokenIDs: frame{`"input":[`, `]`}},
		traits: Traits{TokenIDs: true, Made: true, Model: true, Marks: true, Counts: true},
	}
}

// embeddingsDocument reads an answer, which is finished where it has vectors. Some servers count completion tokens, 0.
func (p *parser) embeddingsDocument() {
	for key := range p.Keys() {
		switch string(key) {
		case "data":
			for range p.Elements() {
				p.Skip()
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
