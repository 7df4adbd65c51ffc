package api

// maxFinishBytes bounds a finish reason that is kept; the longest known has 28.
const maxFinishBytes = 64

// intern returns the finish reason without allocating, if servers are known to send it: OpenAI's, then vLLM's and SGLang's, TGI's,
// DeepSeek's, those of OpenAI's responses, of Triton's vLLM backend (None while there is none) and Anthropic's.
func intern(reason []byte) string {
	for _, known := range [...]string{
		"stop", "length", "tool_calls", "content_filter", "function_call", "abort", "error", "repetition", "eos_token", "stop_sequence",
		"insufficient_system_resource", "completed", "incomplete", "max_output_tokens", "None", "tool_use", "end_turn", "max_tokens",
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
