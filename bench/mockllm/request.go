package mockllm

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// params is what a request wants.
type params struct {
	stream, usage, continuousUsage bool
	ignoreEOS                      bool
	maxTokens, minTokens           int64 // -1 = not named
	priority                       int64
	model                          string
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

// escaped is the message as the inside of a JSON string.
func (e *requestError) escaped() string { return string(appendEscaped(nil, e.message)) }

func badRequest(format string, args ...any) *requestError {
	return &requestError{400, kindBadRequest, fmt.Sprintf(format, args...)}
}

// requestBody is what any of the protocols reads of a request. Each takes what it knows and ignores the rest, as
// servers do.
type requestBody struct {
	Model          string        `json:"model"`
	StreamOptions  streamOptions `json:"stream_options"`
	CacheSalt      *string       `json:"cache_salt"`
	ExtraKey       *string       `json:"extra_key"`
	EncodingFormat string        `json:"encoding_format"`

	Prompt       rawJSON `json:"prompt"`
	Messages     rawJSON `json:"messages"`
	System       rawJSON `json:"system"`
	Input        rawJSON `json:"input"`
	Instructions rawJSON `json:"instructions"`
	Inputs       rawJSON `json:"inputs"`
	Text         rawJSON `json:"text"`
	InputIDs     rawJSON `json:"input_ids"`
	TokenIDs     rawJSON `json:"token_ids"`
	TextInput    rawJSON `json:"text_input"`

	// What the answer is to be stands beside the prompt, in an object of its own or in a JSON text.
	options
	Parameters         *options `json:"parameters"`
	SamplingParams     *options `json:"sampling_params"`
	SamplingParameters *string  `json:"sampling_parameters"`
}

type streamOptions struct {
	IncludeUsage    bool `json:"include_usage"`
	ContinuousUsage bool `json:"continuous_usage_stats"`
}

// options say what an answer is to be, by the names that they have in any of the protocols.
type options struct {
	Stream              bool    `json:"stream"`
	N                   *int64  `json:"n"`
	MaxTokens           *int64  `json:"max_tokens"`
	MaxCompletionTokens *int64  `json:"max_completion_tokens"`
	MaxOutputTokens     *int64  `json:"max_output_tokens"`
	MaxNewTokens        *int64  `json:"max_new_tokens"`
	MinTokens           *int64  `json:"min_tokens"`
	Priority            int64   `json:"priority"`
	MinNewTokens        *int64  `json:"min_new_tokens"`
	MinLength           *int64  `json:"min_length"`
	IgnoreEOS           *bool   `json:"ignore_eos"`
	IgnoreEOSToken      bool    `json:"ignore_eos_token"`
	EndID               int64   `json:"end_id"`
	ForcedTokens        []int32 `json:"trace_decode_token_ids"`
	Details             bool    `json:"details"`
	PrefillDetails      bool    `json:"decoder_input_details"`
	ReturnFullText      bool    `json:"return_full_text"`
	ExcludeInput        *bool   `json:"exclude_input_in_output"`
	ReturnFinishReason  bool    `json:"return_finish_reason"`
	ReturnInputTokens   bool    `json:"return_num_input_tokens"`
	ReturnOutputTokens  bool    `json:"return_num_output_tokens"`
}

// optional is a number that may be missing: -1.
func optional(n *int64) int64 {
	if n == nil {
		return -1
	}
	return *n
}

// isTrue reports whether a flag is given, and true.
func isTrue(flag *bool) bool { return flag != nil && *flag }

// decoder reads a request body into params and a prompt's hash.
type decoder struct {
	cfg    *Config
	proto  *protocol
	p      *params
	hash   *promptHasher
	body   requestBody
	model  []byte // that the path names
	jitter int    // tokens that the chat template adds before its tail
}

// decode reads a whole body. The params' echo aliases it.
func (d *decoder) decode(body []byte) error {
	*d.p = params{maxTokens: -1, minTokens: -1, stream: d.proto.streams}
	b := &d.body
	if err := readJSON(body, b); err != nil {
		return err
	}
	d.p.model = cmp.Or(string(d.model), strings.Clone(b.Model)) // else it would keep the body
	if err := d.proto.read(d, b); err != nil {
		return err
	}
	if !d.p.hasPrompt {
		return badRequest("%s: field required", d.proto.prompt)
	}
	return d.check()
}

// salt takes what keeps a prompt apart from equal ones in the prefix cache; nil = nothing.
func (d *decoder) salt(salt *string) error {
	switch {
	case salt == nil:
	case *salt == "":
		return badRequest("Parameter 'cache_salt' must be a non-empty string if provided.")
	case !d.cfg.IgnoreSalt:
		d.p.saltHash = hashBytes(*salt)
	}
	return nil
}

// one refuses requests for several answers.
func one(n *int64) error {
	if n != nil && *n != 1 {
		return badRequest("n = %d: this server gives one choice a request", *n)
	}
	return nil
}

// prompt reads a string, an array of ids, or an array that holds exactly one of them.
func (d *decoder) prompt(value rawJSON) error {
	if !given(value) {
		return nil
	}
	d.p.hasPrompt = true
	switch {
	case value[0] == '"':
		d.hash.special(d.cfg.BOSTokens, specialBOS)
		return d.hash.text(value)
	case value[0] != '[':
		return badRequest("prompt: expected a string or an array of token ids")
	case d.cfg.RefuseExtras:
		return badRequest("prompt: token ids are not supported, send a string")
	}
	if first := value[skipSpace(value, 1)]; first != '"' && first != '[' {
		d.p.promptIDs = true
		return d.hash.ids(value)
	}
	var all []rawJSON
	err := readJSON(value, &all)
	switch {
	case err != nil:
		return err
	case len(all) > 1:
		return badRequest("prompt: this server takes one prompt a request")
	case all[0][0] == '[':
		d.p.promptIDs = true
		return d.hash.ids(all[0])
	}
	return d.prompt(all[0])
}

// echoed reads a prompt that is a string and that the answer may repeat.
func (d *decoder) echoed(name string, value rawJSON) error {
	if !given(value) {
		return nil
	}
	if value[0] != '"' {
		return badRequest("%s: expected a string", name)
	}
	d.p.echo = value[1 : len(value)-1]
	return d.prompt(value)
}

// check refuses what vLLM refuses.
func (d *decoder) check() error {
	p := d.p
	cfg := d.cfg
	switch {
	case d.hash.tokens == 0:
		return badRequest("The prompt is empty: it must hold at least one token.")
	case !d.proto.noModel && !cfg.serves(p.model):
		return unknownModel(p.model)
	case d.proto.vector:
		p.maxTokens = 0
		p.minTokens = 0
	case p.minTokens < -1:
		return badRequest("min_tokens must be greater than or equal to 0, got %d.", p.minTokens)
	case p.maxTokens == -1:
		p.maxTokens = max(cfg.defaultTokens(d.proto), p.minTokens)
	}
	switch {
	case p.maxTokens < 1 && !d.proto.vector || p.maxTokens > maxOutputTokens:
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
func (c *Config) defaultTokens(t *protocol) int64 {
	if c.MeanOutput > 0 {
		return 4 * int64(c.MeanOutput)
	}
	return cmp.Or(t.maxTokens, defaultMaxTokens)
}

// serves reports whether a request may name the model.
func (c *Config) serves(model string) bool {
	if c.Adapters > 0 {
		return model == "" || model == cmp.Or(c.Model, defaultModel) || slices.Contains(c.adapterNames(), model)
	}
	return c.Model == "" || model == c.Model
}

// adapterNames are those of all LoRA adapters.
func (c *Config) adapterNames() (names []string) {
	for i := range c.Adapters {
		names = append(names, fmt.Sprintf("lora-%d", i+1))
	}
	return names
}

func unknownModel(model string) *requestError {
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
