package formats

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/fastreplay/fastreplay/codec/trace/chatml"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// setAnswer notes what is known of the answer to a request. That is its text, and the numbers of tokens as the server
// told them, in it or in objects beside it. Value is the body of a response, a string with one, or the events of a
// streamed one. It reports whether the request failed. Of what is not there nothing is noted.
func (b *Batch) setAnswer(r *row, value []byte, beside ...object) (failed bool) {
	var a answer
	for _, text := range eventsOf(value) {
		var fault error // of an answer that nobody needs
		o := rows.ObjectOf(text, &fault)
		if fault == nil {
			a.take(o)
		}
	}
	for _, o := range beside {
		a.usage(o)
	}
	a.settle(r)
	b.response = a.response
	return a.failed
}

// answer is what events have told so far.
type answer struct {
	text    []byte
	partial bool // the text is not all: a stream calls tools, or what the model thought is not told
	thought bool // the text has what the model thought
	choices int
	failed  bool
	input   told
	output  told
	cached  told
	hidden  int32 // tokens of thoughts, told or not
	// response is that of OpenAI's Responses API, whole
	response object
}

// eventsOf are the objects that an answer consists of.
func eventsOf(value []byte) (all [][]byte) {
	switch {
	case len(value) == 0:
	case value[0] == '"':
		text := bytes.TrimSpace(rows.TextOf(value))
		comment := bytes.HasPrefix(text, []byte(":")) && bytes.Contains(text, []byte("\ndata:"))
		for _, begin := range []string{"{", "data:", "event:"} {
			if comment || bytes.HasPrefix(text, []byte(begin)) {
				return eventsOf(text)
			}
		}
		return [][]byte{concat(nil, `{"role":"assistant","content":`, string(value), "}")}
	case value[0] == '[':
		return elements(value)
	case value[0] == '{':
		return [][]byte{value}
	default:
		for line := range bytes.Lines(value) {
			event, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data:"))
			if ok {
				all = append(all, bytes.TrimSpace(event))
			}
		}
	}
	return all
}

func (a *answer) take(o object) {
	a.failed = a.failed || o.Has("error")
	for _, within := range []string{"response", "message"} { // of the events of responses and of messages
		if o.Has("type") && o.Has(within) {
			if o.Is("type", "response.completed", "response.incomplete", "response.failed", "message_start") {
				a.take(o.In(within))
			}
			return
		}
	}
	a.usage(o.In("usage"))
	if told := o.In("meta_info"); told.Members != nil { // of SGLang
		a.usage(told)
		a.failed = a.failed || told.In("finish_reason").Is("type", "abort")
		text := o.TextOr("text", "")
		if strings.HasPrefix(text, string(a.text)) { // an event of a stream has all so far
			a.text = nil
		}
		a.say(text)
	}
	if told := o.In("details"); told.Members != nil { // of TGI
		a.input.take(told, "input_length")
		a.output.take(told, "generated_tokens")
	}
	a.say(o.TextOr("generated_text", ""))
	if o.Has("text_output") { // of Triton, whose events count their own tokens
		a.input.take(o, "num_input_tokens")
		before := a.output.tokens
		a.output.take(o, "num_output_tokens")
		if more := a.output.tokens; o.Has("num_output_tokens") {
			a.output.tokens = min(before+more, rows.MaxTokens)
		}
		a.say(o.TextOr("text_output", ""))
	}
	o.Each("choices", func(_ int, choice object) {
		if index := choice.Count("index", 1<<20); index > 0 {
			a.choices = max(a.choices, int(index)+1)
			return
		}
		a.choices = max(a.choices, 1)
		message := choice.In("message")
		delta := choice.In("delta")
		a.partial = a.partial || delta.Has("tool_calls")
		a.think(message, "reasoning_content", "reasoning")
		a.think(delta, "reasoning_content", "reasoning")
		a.say(chatml.Said(message))
		a.say(delta.TextOr("content", choice.TextOr("text", "")))
	})
	if o.Has("output") {
		a.response = o
	}
	o.Each("output", func(_ int, item object) {
		switch {
		case item.Is("type", "function_call"):
			a.say(string(item.Text))
		case item.Is("type", "message"):
			a.say(chatml.Said(item))
		}
	})
	if o.Is("type", "message") || o.Is("role", "assistant") {
		if list := o.Value("content"); list != nil && list[0] == '[' {
			o.Each("content", func(_ int, part object) { a.think(part, "thinking") })
		}
		a.think(o, "reasoning_content", "reasoning")
		a.say(chatml.Said(o))
	}
	if o.Is("type", "content_block_delta") {
		delta := o.In("delta")
		a.partial = a.partial || delta.Has("partial_json")
		a.think(delta, "thinking")
		a.say(delta.TextOr("text", ""))
	}
}

func (a *answer) say(text string) { a.text = append(a.text, text...) }

// think says what the model thought before it answered. Later prompts do not have it, so that they share no more with
// the answer.
func (a *answer) think(o object, keys ...string) {
	for _, key := range keys {
		text := o.TextOr(key, "")
		a.thought = a.thought || text != ""
		a.say(text)
	}
}

// usage takes the numbers of tokens by all their names.
func (a *answer) usage(o object) {
	for _, details := range []string{"completion_tokens_details", "output_tokens_details"} {
		tokens, _ := tokensOf(o.In(details), "reasoning_tokens")
		a.hidden = max(a.hidden, tokens)
	}
	a.cached.take(o.In("prompt_tokens_details"), "cached_tokens")
	a.cached.take(o.In("input_tokens_details"), "cached_tokens")
	a.cached.take(o, "cache_read_input_tokens", "input_cached_tokens", "cached_tokens")
	a.input.take(o, "prompt_tokens", "input_tokens", "input")
	a.output.take(o, "completion_tokens", "output_tokens", "output")
	if o.Has("input_tokens") && !o.Has("prompt_tokens") {
		for _, key := range []string{"cache_read_input_tokens", "cache_creation_input_tokens"} {
			apart, ok := tokensOf(o, key) // Anthropic does not count them as input
			if ok && a.input.known {
				a.input.tokens = min(a.input.tokens+apart, rows.MaxTokens)
			}
		}
	}
}

// told is a number of tokens, if it was told.
type told struct {
	tokens int32
	known  bool
}

func (t *told) take(o object, keys ...string) {
	for _, key := range keys {
		n, ok := tokensOf(o, key)
		if ok {
			*t = told{n, true}
		}
	}
}

// tokensOf is a count of tokens; false for none that a row may have.
func tokensOf(usage object, key string) (int32, bool) {
	n, err := strconv.ParseUint(string(usage.Value(key)), 10, 32)
	return int32(n), err == nil && n <= rows.MaxTokens
}

// settle notes in a row what was told. Of several answers to one request only the length of the first is taken.
func (a *answer) settle(r *row) {
	if a.input.known {
		r.InputTokens = a.input.tokens
	}
	if a.cached.known {
		r.CachedTokens = a.cached.tokens
	}
	if a.output.known && a.choices < 2 && (a.output.tokens > 0 || len(a.text) == 0) {
		r.OutputTokens = a.output.tokens
		r.Seen |= rows.SetOf(rows.OutputField)
	}
	if len(a.text) > 0 && !a.partial && (a.hidden == 0 || a.thought) {
		r.Answer = rows.Unquoted(appendString(nil, string(a.text)))
	}
}
