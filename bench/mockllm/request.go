package mockllm

import (
	"fmt"
)

// params is what a completion request asks for.
type params struct {
	stream, usage, continuousUsage bool
	ignoreEOS                      bool
	maxTokens, minTokens           int64 // -1 = not named
	model                          []byte
	saltHash                       uint64 // 0 = none
	hasPrompt                      bool
	chat                           bool
}

// requestError is an answer to a request that cannot be served.
type requestError struct {
	status  int
	kind    string
	message string
}

func (e *requestError) Error() string { return e.message }

func badRequest(format string, args ...any) *requestError {
	return &requestError{400, "BadRequestError", fmt.Sprintf(format, args...)}
}

// decoder reads a request body into params and a prompt's hash.
type decoder struct {
	scanner
	cfg    *Config
	p      *params
	hash   *promptHasher
	jitter int // tokens that the chat template adds before its tail
}

// decode reads a whole body. The params' model aliases it.
func (d *decoder) decode() error {
	*d.p = params{maxTokens: -1, minTokens: -1, chat: d.p.chat}
	if err := d.object(d.field); err != nil {
		return err
	}
	if err := d.end(); err != nil {
		return err
	}
	return d.check()
}

// field reads the value of one top-level key.
func (d *decoder) field(key []byte) (err error) {
	p := d.p
	switch string(key) {
	case "prompt":
		if !p.chat {
			return d.prompt()
		}
	case "messages":
		if p.chat {
			return d.messages()
		}
	case "model":
		p.model, err = d.text()
		return err
	case "stream":
		p.stream, err = d.boolean()
		return err
	case "stream_options":
		return d.streamOptions()
	case "max_tokens", "max_completion_tokens":
		return d.optional(&p.maxTokens)
	case "n":
		var n int64 = 1
		if err = d.optional(&n); err == nil && n != 1 {
			return badRequest("n = %d: this server gives one choice a request", n)
		}
		return err
	case "min_tokens", "ignore_eos", "cache_salt":
		return d.extra(key)
	}
	return d.skip(0)
}

// extra reads a parameter that vLLM has and OpenAI has not.
func (d *decoder) extra(key []byte) (err error) {
	if d.cfg.RefuseExtras {
		return badRequest("Unrecognized request argument supplied: %s", key)
	}
	switch string(key) {
	case "min_tokens":
		return d.optional(&d.p.minTokens)
	case "ignore_eos":
		d.p.ignoreEOS, err = d.boolean()
		return err
	}
	if d.literal("null") {
		return nil
	}
	salt, err := d.text()
	if err != nil {
		return err
	}
	if len(salt) == 0 {
		return badRequest("Parameter 'cache_salt' must be a non-empty string if provided.")
	}
	if !d.cfg.IgnoreSalt {
		d.p.saltHash = hashBytes(salt)
	}
	return nil
}

// optional reads a whole number or null.
func (d *decoder) optional(dst *int64) (err error) {
	if d.literal("null") {
		return nil
	}
	*dst, err = d.integer()
	return err
}

func (d *decoder) streamOptions() error {
	if d.literal("null") {
		return nil
	}
	return d.object(func(key []byte) (err error) {
		switch string(key) {
		case "include_usage":
			d.p.usage, err = d.boolean()
		case "continuous_usage_stats":
			d.p.continuousUsage, err = d.boolean()
		default:
			err = d.skip(1)
		}
		return err
	})
}

// prompt reads a string, an array of ids, or an array that holds exactly one of them.
func (d *decoder) prompt() error {
	if d.p.hasPrompt {
		return badRequest("the prompt is given twice")
	}
	d.p.hasPrompt = true
	if d.peek() == '"' {
		return d.textPrompt()
	}
	if d.peek() != '[' {
		return badRequest("prompt: expected a string or an array of token ids")
	}
	if d.cfg.RefuseExtras {
		return badRequest("prompt: token ids are not supported, send a string")
	}
	start := d.i
	d.i++
	first := d.peek()
	if first != '"' && first != '[' {
		d.i = start
		return d.ids(d.hash)
	}
	d.i = start
	seen := 0
	return d.array(func() error {
		if seen++; seen > 1 {
			return badRequest("prompt: this server takes one prompt a request")
		}
		if first == '"' {
			return d.textPrompt()
		}
		return d.ids(d.hash)
	})
}

func (d *decoder) textPrompt() error {
	d.hash.special(d.cfg.BOSTokens, specialBOS)
	return d.words(d.hash)
}

// messages reads a conversation: the template's head, every message's text in order, the template's tail.
func (d *decoder) messages() error {
	if d.p.hasPrompt {
		return badRequest("the messages are given twice")
	}
	d.p.hasPrompt = true
	d.hash.special(d.cfg.TemplateHead, specialHead)
	count := 0
	err := d.array(func() error {
		count++
		return d.message()
	})
	if err != nil {
		return err
	}
	if count == 0 {
		return badRequest("messages: at least one is needed")
	}
	d.hash.special(d.jitter, specialJitter)
	d.hash.special(d.cfg.TemplateTail, specialTail)
	return nil
}

func (d *decoder) message() error {
	hasRole := false
	err := d.object(func(key []byte) (err error) {
		switch string(key) {
		case "role":
			hasRole = true
			_, err = d.text()
		case "content":
			err = d.content()
		default:
			err = d.skip(2)
		}
		return err
	})
	if err == nil && !hasRole {
		return badRequest("messages: a message without a role")
	}
	return err
}

// content reads a string, null, or an array of text parts.
func (d *decoder) content() error {
	switch {
	case d.literal("null"):
		return nil
	case d.peek() == '"':
		return d.words(d.hash)
	}
	return d.array(func() error {
		return d.object(func(key []byte) error {
			if string(key) == "text" {
				return d.words(d.hash)
			}
			return d.skip(4)
		})
	})
}

// check refuses what vLLM refuses.
func (d *decoder) check() error {
	p, cfg := d.p, d.cfg
	switch {
	case !p.hasPrompt && p.chat:
		return badRequest("messages: field required")
	case !p.hasPrompt:
		return badRequest("prompt: field required")
	case d.hash.tokens == 0:
		return badRequest("The prompt is empty: it must hold at least one token.")
	case !cfg.serves(p.model):
		return unknownModel(p.model)
	case p.maxTokens == 0 || p.maxTokens < -1 || p.maxTokens > maxOutputTokens:
		return badRequest("max_tokens must be at least 1 and at most %d, got %d.", maxOutputTokens, p.maxTokens)
	case p.minTokens < -1:
		return badRequest("min_tokens must be greater than or equal to 0, got %d.", p.minTokens)
	}
	if p.maxTokens < 0 {
		p.maxTokens = defaultMaxTokens
		if cfg.MeanOutput > 0 {
			p.maxTokens = 4 * int64(cfg.MeanOutput)
		}
		p.maxTokens = max(p.maxTokens, p.minTokens)
	}
	if p.minTokens > p.maxTokens {
		return badRequest("min_tokens must be less than or equal to max_tokens=%d, got %d.", p.maxTokens, p.minTokens)
	}
	if total, limit := int64(d.hash.tokens)+p.maxTokens, cfg.contextTokens(); limit > 0 && total > limit {
		return badRequest("This model's maximum context length is %d tokens. However, you requested %d tokens "+
			"(%d in the prompt, %d in the completion).", limit, total, d.hash.tokens, p.maxTokens)
	}
	return nil
}

// serves reports whether a request may name the model.
func (c *Config) serves(model []byte) bool { return c.Model == "" || string(model) == c.Model }

func unknownModel(model []byte) *requestError {
	return &requestError{404, "NotFoundError", fmt.Sprintf("The model `%s` does not exist.", model)}
}

// outputTokens decides how many tokens an answer has: all of max_tokens where the request forces it, otherwise a draw
// around the configured mean.
func (p *params) outputTokens(cfg *Config, draw *rng) int {
	if p.ignoreEOS || cfg.MeanOutput == 0 || p.minTokens == p.maxTokens {
		return int(p.maxTokens)
	}
	n := 1 + int64(draw.float()*float64(2*cfg.MeanOutput-1)) // uniform on 1 … 2·mean−1
	return int(min(max(n, p.minTokens, 1), p.maxTokens))
}
