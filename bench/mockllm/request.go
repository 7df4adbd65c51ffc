package mockllm

import (
	"bytes"
	"errors"
	"fmt"
)

// params is what a request asks for.
type params struct {
	stream, usage, continuousUsage bool
	ignoreEOS                      bool
	maxTokens, minTokens           int64 // -1 = not named
	model                          []byte
	saltHash                       uint64 // 0 = none
	hasPrompt                      bool

	// For protocols that have them.
	single   bool   // a stream of one event
	details  bool   // TGI's, of the answer …
	prefill  bool   // … and of the prompt
	fullText bool   // the answer begins with the prompt
	echo     []byte // the prompt as the body has it, between its quotes
	triton   tritonParams
}

// requestError is an answer to a request that cannot be served.
type requestError struct {
	status  int
	kind    string
	message string
}

// Kinds of errors that protocols tell apart.
const (
	kindBadRequest = "BadRequestError"
	kindInjected   = "InjectedError" // by a fault
)

func (e *requestError) Error() string { return e.message }

func badRequest(format string, args ...any) *requestError {
	return &requestError{400, kindBadRequest, fmt.Sprintf(format, args...)}
}

// errFound ends a walk through a body early.
var errFound = errors.New("found")

// decoder reads a request body into params and a prompt's hash.
type decoder struct {
	scanner
	cfg    *Config
	api    api
	p      *params
	hash   *promptHasher
	model  []byte // that the path names
	jitter int    // tokens that the chat template adds before its tail

	messagesAt, systemAt int // where the values begin that are read when the object is known; 0 = there are none
}

// decode reads a whole body. The params' model and echo alias it.
func (d *decoder) decode() error {
	*d.p = params{maxTokens: -1, minTokens: -1, model: d.model, stream: d.api.traits().streams}
	if err := d.object(d.field); err != nil {
		return err
	}
	if err := d.end(); err != nil {
		return err
	}
	if err := d.api.require(d); err != nil {
		return err
	}
	return d.check()
}

func (d *decoder) field(key []byte) error { return d.api.field(d, key) }

// optional reads a whole number or null.
func (d *decoder) optional(dst *int64) (err error) {
	if d.literal("null") {
		return nil
	}
	*dst, err = d.integer()
	return err
}

// oncePrompt notes that the prompt is there, which may be there once.
func (d *decoder) oncePrompt(name string) error {
	if d.p.hasPrompt {
		return badRequest("%s: given twice", name)
	}
	d.p.hasPrompt = true
	return nil
}

// needPrompt fails unless the prompt was there.
func (d *decoder) needPrompt(name string) error {
	if !d.p.hasPrompt {
		return badRequest("%s: field required", name)
	}
	return nil
}

// prompt reads a string, an array of ids, or an array that holds exactly one of them.
func (d *decoder) prompt() error {
	if err := d.oncePrompt("prompt"); err != nil {
		return err
	}
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

// echoedPrompt reads a prompt that is a string and that the answer may repeat: as the body has it, between its quotes.
func (d *decoder) echoedPrompt(name string) ([]byte, error) {
	if err := d.oncePrompt(name); err != nil {
		return nil, err
	}
	if d.peek() != '"' {
		return nil, badRequest("%s: expected a string", name)
	}
	from := d.i + 1
	if err := d.textPrompt(); err != nil {
		return nil, err
	}
	return d.b[from : d.i-1], nil
}

// check refuses what vLLM refuses.
func (d *decoder) check() error {
	p, cfg, t := d.p, d.cfg, d.api.traits()
	switch {
	case d.hash.tokens == 0:
		return badRequest("The prompt is empty: it must hold at least one token.")
	case !t.noModel && !cfg.serves(p.model):
		return unknownModel(p.model)
	case t.vector:
		p.maxTokens, p.minTokens = 0, 0
	case p.maxTokens == 0 || p.maxTokens < -1 || p.maxTokens > maxOutputTokens:
		return badRequest("max_tokens must be at least 1 and at most %d, got %d.", maxOutputTokens, p.maxTokens)
	case p.minTokens < -1:
		return badRequest("min_tokens must be greater than or equal to 0, got %d.", p.minTokens)
	}
	if p.maxTokens < 0 {
		p.maxTokens = max(cfg.defaultTokens(t), p.minTokens)
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

// defaultTokens is the output length of requests that name none.
func (c *Config) defaultTokens(t traits) int64 {
	switch {
	case c.MeanOutput > 0:
		return 4 * int64(c.MeanOutput)
	case t.maxTokens > 0:
		return t.maxTokens
	}
	return defaultMaxTokens
}

// keep makes params independent of the request's body, whose buffer is reused.
func (p *params) keep(cfg *Config) {
	if cfg.Model == "" {
		p.model = bytes.Clone(p.model)
	} else {
		p.model = nil
	}
	if p.fullText {
		p.echo = bytes.Clone(p.echo)
	} else {
		p.echo = nil
	}
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
