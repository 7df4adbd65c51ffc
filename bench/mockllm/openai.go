package mockllm

import (
	"cmp"
	"fmt"
)

// openAI reads what OpenAI's protocols have in common, with vLLM's additions.
func (d *decoder) openAI(b *requestBody) error {
	p := d.p
	p.stream = b.Stream
	p.usage = b.StreamOptions.IncludeUsage
	p.continuousUsage = b.StreamOptions.ContinuousUsage
	p.maxTokens = optional(cmp.Or(b.MaxCompletionTokens, b.MaxOutputTokens, b.MaxTokens))
	p.minTokens = optional(b.MinTokens)
	p.priority = b.Priority
	p.ignoreEOS = isTrue(b.IgnoreEOS)
	if d.cfg.RefuseExtras {
		extra := ""
		switch {
		case b.MinTokens != nil:
			extra = "min_tokens"
		case b.IgnoreEOS != nil:
			extra = "ignore_eos"
		case b.CacheSalt != nil:
			extra = "cache_salt"
		}
		if extra != "" {
			return badRequest("Unrecognized request argument supplied: %s", extra)
		}
	}
	return cmp.Or(one(b.N), d.salt(b.CacheSalt))
}

// openAIError is the answer of OpenAI's protocols, as vLLM sends it (vllm/entrypoints/openai/engine/protocol.py,
// ErrorResponse), and the one to what is not known to be of another protocol.
func openAIError(e *requestError) response {
	if e.status == 401 { // its AuthenticationMiddleware (vllm/entrypoints/openai/server_utils.py)
		return response{status: 401, body: []byte(`{"error":"Unauthorized"}`)}
	}
	const object = `{"error":{"message":"%s","type":"%s","param":null,"code":%d}}`
	body := fmt.Appendf(nil, object, e.escaped(), e.kind, e.status)
	return response{status: e.status, body: body}
}

// openAIUsage is the usage of completions and chat, and of vLLM's token ids.
const openAIUsage = `,"usage":{"prompt_tokens":$prompt,"total_tokens":$total,"completion_tokens":$output` +
	`<cached|,"prompt_tokens_details":{"cached_tokens":$cached` +
	`<tiers|,"local_cached_tokens":$local,"external_cached_tokens":$host>}>}`

// chunk is an object of completions or chat: with a choice whose content and finish reason are given, or none.
func chunk(kind, content, reason string) string {
	choice := ""
	usage := openAIUsage
	if content != "" {
		choice = `{"index":0,` + content + `,"logprobs":null,"finish_reason":` + reason + `}`
		usage = `<now|` + openAIUsage + `>`
	}
	return kind + `"created":$created,"model":"$model","choices":[` + choice + `]` + usage + `$more}`
}

// choices completes a protocol whose answers are choices: empty is the content of a chunk with the finish reason alone.
func choices(p protocol, kind, empty, reason string) *protocol {
	p.done = true
	p.refusal = openAIError
	p.finish = []event{
		unnamed(chunk(kind, empty, reason)).onlyIf("own"),
		unnamed(chunk(kind, "", "")).onlyIf("wanted"),
	}
	return &p
}

// completions is OpenAI's /v1/completions as vLLM serves it (vllm/entrypoints/openai/completion).
func completions() *protocol {
	const kind = `{"id":"cmpl-$id","object":"text_completion",`
	text := parseTemplate(chunk(kind, `"text":"$text"`, `<ended|"$finish"|null>`))
	return choices(protocol{
		name:   "completions",
		prompt: "prompt",
		read: func(d *decoder, b *requestBody) error {
			return cmp.Or(d.openAI(b), d.prompt(b.Prompt))
		},
		token:  [parts]event{partText: {data: text}},
		whole:  text,
		broken: `data: {"id":"broken","choices":[{"index":0,"te`,
	}, kind, `"text":""`, `"$finish"`)
}

// chat is OpenAI's /v1/chat/completions as vLLM serves it (vllm/entrypoints/openai/chat_completion), with
// reasoning_content as DeepSeek and SGLang call it.
func chat() *protocol {
	const (
		kind = `{"id":"chatcmpl-$id","object":"chat.completion<stream|.chunk>",`
		// vLLM's reason is tool_calls whatever ended the answer.
		reason = `"<calls|tool_calls|$finish>"`
		ended  = `<ended|` + reason + `|null>`
		// The call's name comes with its first piece, so that a chunk stays a token.
		call = `{"index":0,<begins|"id":"call_$id","type":"function",>"function":{` +
			`<begins|"name":"` + toolName + `",>"arguments":"$text"}}`
		calls = `[{"id":"call_$id","type":"function","function":{"name":"` + toolName + `","arguments":"$arguments"}}]`
		whole = `"message":{"role":"assistant",<thinks|"reasoning_content":"$thoughts",>"content":"$content"` +
			`<calls|,"tool_calls":` + calls + `>}`
	)
	return choices(protocol{
		name:         "chat",
		prompt:       "messages",
		conversation: true,
		read: func(d *decoder, b *requestBody) error {
			return cmp.Or(d.openAI(b), d.conversation("messages", nil, b.Messages))
		},
		open: []event{unnamed(chunk(kind, `"delta":{"role":"assistant","content":""}`, `null`))},
		token: [parts]event{
			partReasoning: unnamed(chunk(kind, `"delta":{"reasoning_content":"$text"}`, ended)),
			partText:      unnamed(chunk(kind, `"delta":{"content":"$text"}`, ended)),
			partTool:      unnamed(chunk(kind, `"delta":{"tool_calls":[`+call+`]}`, ended)),
		},
		whole:  parseTemplate(chunk(kind, whole, ended)),
		broken: `data: {"id":"broken","choices":[{"index":0,"delta":{"co`,
	}, kind, `"delta":{}`, reason)
}

// embeddings is OpenAI's /v1/embeddings as vLLM serves it (vllm/entrypoints/pooling/embed/protocol.py), for one input a
// request. The vector comes when the prefill ends.
func embeddings() *protocol {
	return &protocol{
		name:   "embeddings",
		prompt: "input",
		vector: true,
		read: func(d *decoder, b *requestBody) error {
			var format error
			if b.EncodingFormat != "" && b.EncodingFormat != "float" {
				format = badRequest("encoding_format = %s: this server gives float", b.EncodingFormat)
			}
			return cmp.Or(d.openAI(b), format, d.prompt(b.Input))
		},
		whole: parseTemplate(`{"id":"embd-$id","object":"list","created":$created,"model":"$model",` +
			`"data":[{"index":0,"object":"embedding","embedding":[$vector]}]` +
			`<told|,"usage":{"prompt_tokens":$prompt,"total_tokens":$prompt,"completion_tokens":0,` +
			`"prompt_tokens_details":null}>$more}`),
		refusal: openAIError,
	}
}
