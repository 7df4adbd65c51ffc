package api

// Delta is what one event, or one whole body, says. Use one for all events of a stream, and of the streams after it: the chunk
// before makes the next one cheaper to read.
type Delta struct {
	// Token: a choice carries a text, reasoning or tool-call key, even an empty one. A role with empty text is role-only, null is
	// absent, and empty text beside a finish reason is EmptyFinish instead.
	Token bool
	// Text: some text, reasoning, tool name or tool arguments is not empty.
	Text bool
	// EmptyFinish: a finish reason beside an empty text, and no Token in the event. Some servers send the last token so, others
	// send no token: usage tells.
	EmptyFinish bool
	// Choices has a bit for each choice, by its index (63 stands for more), that Token or EmptyFinish is about; 0 where an API has
	// one answer only.
	Choices uint64
	// Content is the answer's text, without reasoning and tool calls, as it stands in the JSON, escapes and all: those of a stream's
	// events, one after the other, are again the inside of a JSON string. Of several choices it is the first one's (index 0). It
	// aliases what was parsed.
	Content []byte
	// Tool: a choice calls a tool.
	Tool bool
	// Finish is the finish reason of the last choice that has one; "" where none has.
	Finish string

	// PromptTokens and CompletionTokens are the server's counts; each is -1 where absent.
	PromptTokens, CompletionTokens int
	// MoreTokens is how many completion tokens the event adds to those before it, of servers that count so; -1 where absent.
	MoreTokens int
	// CachedTokens is how many prompt tokens came from the prefix cache; -1 where absent.
	CachedTokens int

	// Instance is who answered, where the answer says so in a known place; nil where it does not. It aliases what was parsed.
	Instance []byte

	// Done: the event is [DONE].
	Done bool
	// IsError: the server reports an error instead of an answer.
	IsError bool
	// Error is the server's message as it stands in the JSON, escapes and all (see AppendUnescaped), or the whole error value
	// where it has no message. It aliases what was parsed.
	Error []byte

	last repeat
}

// Reset makes everything absent.
func (d *Delta) Reset() {
	d.Token, d.Text, d.EmptyFinish, d.Finish = false, false, false, ""
	d.Choices, d.Content, d.Tool = 0, nil, false
	d.PromptTokens, d.CompletionTokens, d.MoreTokens, d.CachedTokens = -1, -1, -1, -1
	d.Done, d.IsError, d.Error, d.Instance = false, false, nil, nil
}

// HasUsage reports whether the server told a count of its own.
func (d *Delta) HasUsage() bool {
	return d.PromptTokens >= 0 || d.CompletionTokens >= 0 || d.MoreTokens >= 0
}

// plain reports a Delta that says nothing but that there is text.
func (d *Delta) plain() bool {
	return d.Token && d.Text && d.Finish == "" && !d.HasUsage() && !d.IsError && d.CachedTokens < 0 && d.Instance == nil
}
