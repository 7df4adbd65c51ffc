package api

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/fastreplay/fastreplay/codec/json"
)

// Delta is the content of one event, or of one whole body. Use one for all events of a stream, and of the streams after
// it: the chunk before makes the next one cheaper to read.
type Delta struct {
	// Token: a choice carries a text, reasoning or tool-call key, even an empty one. A role with empty text is
	// role-only, null is absent, and empty text beside a finish reason is EmptyFinish instead.
	Token bool
	// Text: some text, reasoning, tool name or tool arguments is not empty.
	Text bool
	// Reasoning: all of that text is the model's reasoning, and none of it what the model answers or calls a tool with.
	Reasoning bool
	// EmptyFinish: a finish reason beside an empty text, and no Token in the event. Some servers send the last token
	// so, others send no token; usage shows which.
	EmptyFinish bool
	// Choices has a bit for each choice that Token or EmptyFinish is about, by its index (63 for all higher ones). It
	// is 0 if an API has one answer only.
	Choices uint64
	// Content is the answer's text, without reasoning and tool calls, with the JSON's escapes. Those of a stream's
	// events, one after the other, are again the inside of a JSON string. Of several choices it is the first one's
	// (index 0). It aliases what was parsed.
	Content []byte
	// IDs are the answer's tokens, or a part of them, of servers that send token ids: the inside of a JSON array, for
	// NextID. Of several choices they are the first one's (index 0). They alias what was parsed.
	IDs []byte
	// Tool: a choice calls a tool.
	Tool bool
	// Finish is the finish reason of the last choice that has one; "" where none has.
	Finish string

	// PromptTokens and CompletionTokens are the server's counts; each is -1 where absent.
	PromptTokens, CompletionTokens int
	// MoreTokens is how many completion tokens the event adds to those before it, of servers that count so; -1 where
	// absent.
	MoreTokens int
	// ReasoningTokens are those of CompletionTokens that the server calls reasoning; -1 where absent.
	ReasoningTokens int
	// CachedTokens is how many prompt tokens came from the prefix cache; -1 where absent.
	CachedTokens int
	// Tiers tell them apart by the tier of the cache that had them.
	Tiers Tiers

	// Instance is who answered, if the answer names it in a known place; else nil. It aliases what was parsed.
	Instance []byte
	Prefill  []byte // likewise: the instance that prefilled, where another one decodes
	// Model is the model that the answer names; nil if it names none. It is valid until the next event.
	Model []byte

	// Done: the event is [DONE].
	Done bool
	// IsError: the server reports an error instead of an answer.
	IsError bool
	// Error is the server's message with the JSON's escapes (see AppendUnescaped), or the whole error value if it has
	// no message. It aliases what was parsed.
	Error []byte

	last repeat
}

// Reset makes everything absent.
func (d *Delta) Reset() {
	d.Token = false
	d.Text = false
	d.Reasoning = false
	d.EmptyFinish = false
	d.Finish = ""
	d.Choices = 0
	d.Content = nil
	d.IDs = nil
	d.Tool = false
	d.PromptTokens = -1
	d.CompletionTokens = -1
	d.MoreTokens = -1
	d.ReasoningTokens = -1
	d.CachedTokens = -1
	d.Tiers = Tiers{-1, -1, -1}
	d.Done = false
	d.IsError = false
	d.Error = nil
	d.Instance = nil
	d.Prefill = nil
	d.Model = nil
}

// Fail makes it an error, whatever the event's data says from which it was filled: the stream calls the event one.
func (d *Delta) Fail(data []byte) {
	message := cmp.Or(string(d.Error), string(Field(data, []string{"message"})), string(data))
	d.Reset()
	d.IsError = true
	d.Error = []byte(message)
}

// HasUsage reports whether the server sent a count of its own.
func (d *Delta) HasUsage() bool {
	return d.PromptTokens >= 0 || d.CompletionTokens >= 0 || d.MoreTokens >= 0
}

// Tiers are prompt tokens by the tier of the server's cache that had them; each is -1 where absent.
type Tiers struct {
	Device int // memory of the accelerator: vLLM's local_cached_tokens, SGLang's device
	Host   int // memory of its host: SGLang's host
	// what is beyond the engine: vLLM's external_cached_tokens, which its KV connector brought from anywhere, the
	// host's memory too; SGLang's storage
	External int
}

// Known reports whether the server told of any.
func (t Tiers) Known() bool { return t.Device >= 0 || t.Host >= 0 || t.External >= 0 }

// plain reports whether a Delta has text and nothing else.
func (d *Delta) plain() bool {
	return d.Token && d.Text && d.Finish == "" && !d.HasUsage() && !d.IsError && d.CachedTokens < 0 &&
		!d.Tiers.Known() && d.Instance == nil && d.Prefill == nil
}

// maxFinishBytes bounds a finish reason that is kept; the longest known has 28.
const maxFinishBytes = 64

// intern returns the finish reason without allocating, if servers are known to send it. First come OpenAI's, then
// vLLM's and SGLang's, TGI's and DeepSeek's. Then come those of OpenAI's responses, of Triton's vLLM backend (None
// while there is none) and Anthropic's.
func intern(reason []byte) string {
	for _, known := range [...]string{
		"stop", "length", "tool_calls", "content_filter", "function_call", "abort", "error", "repetition", "eos_token",
		"stop_sequence",
		"insufficient_system_resource", "completed", "incomplete", "max_output_tokens", "None", "tool_use", "end_turn",
		"max_tokens",
	} {
		if string(reason) == known {
			return known
		}
	}
	if len(reason) > maxFinishBytes {
		reason = reason[:maxFinishBytes]
	}
	return string(reason)
}

const (
	// repeatBytes bounds the chunk that is remembered; usual ones have 200 to 300 bytes, with logprobs thousands.
	repeatBytes = 512
	// repeatHoles bounds what may change in it.
	repeatHoles = 8
)

// repeat remembers the last plain token chunk. The chunks of a stream differ only in their text, and perhaps in values
// that nobody reads, such as a time. So most need no parsing. They mean the same if all between those values is equal,
// each is of the kind that it was, and the text is not empty.
type repeat struct {
	size     int // of chunk; 0: nothing is remembered
	holes    [repeatHoles]json.Span
	count    int       // of the holes
	before   int       // holes before the text
	text     json.Span // one of the holes
	model    json.Span // that the chunk names, without quotes; empty if it names none
	choices  uint64
	answer   bool // the text is the answer's: not reasoning, nor a tool's
	tool     bool // a choice calls a tool
	thinking bool // all text of the chunk is reasoning
	chunk    [repeatBytes]byte
	skipped  [repeatHoles - 1]json.Span // room for those of the chunk that is parsed
}

// matches reports whether data is the remembered chunk with another text, which it returns, and with other values that
// nobody reads.
func (r *repeat) matches(data []byte) (text []byte, ok bool) {
	if r.size == 0 {
		return nil, false
	}
	s := scan(data)
	from := 0
	holes := r.holes[:r.count]
	if head := r.chunk[:r.text.From]; bytes.HasPrefix(data, head) { // mostly
		s.At = len(head)
		from = len(head)
		holes = holes[r.before:]
	}
	for _, hole := range holes {
		literal := r.chunk[from:hole.From]
		if !bytes.HasPrefix(data[s.At:], literal) {
			return nil, false
		}
		s.At += len(literal)
		from = int(hole.To)
		value := s.At
		switch kind := r.chunk[hole.From]; {
		case value == len(data) || (data[value] == '"') != (kind == '"') || (data[value] == '-') != (kind == '-'):
			return nil, false
		case kind == '"':
			s.Quoted()
		default:
			s.Number()
		}
		if s.Failed() {
			return nil, false
		}
		if hole == r.text {
			text = data[value+1 : s.At-1]
		}
	}
	return text, len(text) > 0 && string(data[s.At:]) == string(r.chunk[from:r.size])
}

// tell fills in what a chunk says that matches and has the text.
func (r *repeat) tell(text []byte, d *Delta) {
	d.Reset()
	d.Token = true
	d.Text = true
	d.Choices = r.choices
	d.Tool = r.tool
	d.Reasoning = r.thinking
	if r.model.To > 0 {
		d.Model = r.chunk[r.model.From:r.model.To]
	}
	if r.answer {
		d.Content = text
	}
}

// remember notes a chunk that was parsed, and whose whole meaning is that p.text is some text of a choice. Where the
// answer's text is another one beside it, there would be two that change.
func (r *repeat) remember(p *parser) {
	content := p.d.Content
	answer := len(content) > 0 && &content[0] == &p.Data[p.text.From+1]
	if p.text.To == 0 || len(p.Data) > len(r.chunk) || len(content) > 0 && !answer {
		return
	}
	r.size = copy(r.chunk[:], p.Data)
	at, _ := slices.BinarySearchFunc(p.Skipped, p.text, func(a, b json.Span) int { return int(a.From) - int(b.From) })
	r.before = copy(r.holes[:], p.Skipped[:at])
	r.holes[r.before] = p.text
	r.count = r.before + 1 + copy(r.holes[r.before+1:], p.Skipped[at:])
	r.text = p.text
	r.model = p.model
	r.choices = p.d.Choices
	r.answer = answer
	r.tool = p.d.Tool
	r.thinking = p.d.Reasoning
}
