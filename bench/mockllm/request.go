package mockllm

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
)

// params is what a request wants.
type params struct {
	stream, usage, continuousUsage bool
	ignoreEOS                      bool
	maxTokens, minTokens           int64 // -1 = not named
	model                          []byte
	saltHash                       uint64 // 0 = none
	hasPrompt, promptIDs           bool   // it is token ids

	// For protocols that have them.
	single   bool    // a stream of one event
	details  bool    // TGI's, of the answer …
	prefill  bool    // … and of the prompt
	fullText bool    // the answer begins with the prompt
	echo     []byte  // the prompt as the body has it, between its quotes
	forced   []int32 // the answer's tokens; nil = they are free
	triton   tritonParams
}

// requestError is an answer to a request that cannot be served.
type requestError struct {
	status  int
	kind    string
	message string
}

// Kinds of errors that protocols distinguish.
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

// fields are the keys of an object that are read, and how their values are. All others are skipped.
type fields map[string]func(*decoder) error

// with returns the fields of both.
func with(base, more fields) fields {
	all := maps.Clone(base)
	maps.Copy(all, more)
	return all
}

// read reads an object.
func (f fields) read(d *decoder) error {
	return d.object(func(key []byte) error {
		if read := f[string(key)]; read != nil {
			return read(d)
		}
		return d.skip(1)
	})
}

// boolean reads true, false or null.
func boolean(at func(*params) *bool) func(*decoder) error {
	return func(d *decoder) (err error) {
		*at(d.p), err = d.boolean()
		return err
	}
}

// orAbsent reads null, or what read reads.
func orAbsent(read func(*decoder) error) func(*decoder) error {
	return func(d *decoder) error {
		if d.literal("null") {
			return nil
		}
		return read(d)
	}
}

// extra reads a parameter that vLLM has and OpenAI has not.
func extra(key string, read func(*decoder) error) func(*decoder) error {
	return func(d *decoder) error {
		if d.cfg.RefuseExtras {
			return badRequest("Unrecognized request argument supplied: %s", key)
		}
		return read(d)
	}
}

// commonFields are what nearly all requests have in common.
var commonFields = fields{"model": readModel, "stream": readStream}

var readStream, readIgnoreEOS = boolean(func(p *params) *bool { return &p.stream }), boolean(func(p *params) *bool { return &p.ignoreEOS })

func readModel(d *decoder) (err error) {
	d.p.model, err = d.text()
	return err
}

func readMaxTokens(d *decoder) error { return d.optional(&d.p.maxTokens) }
func readMinTokens(d *decoder) error { return d.optional(&d.p.minTokens) }

// salt reads what keeps a prompt apart from equal ones in the prefix cache, or null.
func (d *decoder) salt() error {
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
	t := d.api.traits()
	*d.p = params{maxTokens: -1, minTokens: -1, model: d.model, stream: t.streams}
	if err := t.fields.read(d); err != nil {
		return err
	}
	if err := d.end(); err != nil {
		return err
	}
	if err := d.assemble(t.prompt); err != nil {
		return err
	}
	switch {
	case d.p.hasPrompt:
	case t.prompt == "":
		return badRequest("Either text, input_ids or input_embeds should be provided.")
	default:
		return badRequest("%s: field required", t.prompt)
	}
	if err := d.api.require(d); err != nil {
		return err
	}
	return d.check(t)
}

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
	d.p.promptIDs = first != '"'
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
func echoedPrompt(name string) func(*decoder) error {
	return func(d *decoder) error {
		if err := d.oncePrompt(name); err != nil {
			return err
		}
		if d.peek() != '"' {
			return badRequest("%s: expected a string", name)
		}
		from := d.i + 1
		if err := d.textPrompt(); err != nil {
			return err
		}
		d.p.echo = d.b[from : d.i-1]
		return nil
	}
}

// check refuses what vLLM refuses.
func (d *decoder) check(t traits) error {
	p, cfg := d.p, d.cfg
	switch {
	case d.hash.tokens == 0:
		return badRequest("The prompt is empty: it must hold at least one token.")
	case !t.noModel && !cfg.serves(p.model):
		return unknownModel(p.model)
	case t.vector:
		p.maxTokens, p.minTokens = 0, 0
	case p.minTokens < -1:
		return badRequest("min_tokens must be greater than or equal to 0, got %d.", p.minTokens)
	case p.maxTokens == -1:
		p.maxTokens = max(cfg.defaultTokens(t), p.minTokens)
	}
	switch {
	case p.maxTokens < 1 && !t.vector || p.maxTokens > maxOutputTokens:
		return badRequest("max_tokens must be at least 1 and at most %d, got %d.", maxOutputTokens, p.maxTokens)
	case p.minTokens > p.maxTokens:
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
	model, echo := p.model, p.echo
	p.model, p.echo = nil, nil
	if cfg.Model == "" {
		p.model = bytes.Clone(model)
	}
	if p.fullText {
		p.echo = bytes.Clone(echo)
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
