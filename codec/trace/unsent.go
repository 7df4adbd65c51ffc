package trace

import "slices"

// bodyKeys are what bodies say besides the prompt.
var bodyKeys = []string{"model", "max_tokens", "max_completion_tokens", "min_tokens", "temperature", "top_p", "top_k", "n", "seed", "stop", "stream",
	"stream_options", "ignore_eos", "response_format", "tool_choice", "reasoning_effort"}

// noteUnsent notes what a body would say beside the prompts of rows that a format which was detected takes for its own.
func (l *Lint) noteUnsent(f *format, lines []pendingLine) {
	if f.items != nil || !f.has(textField) {
		return
	}
	for _, line := range lines {
		keys := keysOf(line.text, 0)
		if f.fieldsOf(keys)&setOf(textField, messagesField) == 0 {
			continue
		}
		for _, k := range keys {
			if f.field([]byte(k)) == unknownField && slices.Contains(bodyKeys, k) && !slices.Contains(l.Unsent, k) {
				l.Unsent = append(l.Unsent, k)
			}
		}
	}
}
