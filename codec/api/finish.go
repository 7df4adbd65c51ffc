package api

// maxFinishBytes bounds a finish reason that is kept; the longest known has 28.
const maxFinishBytes = 64

// intern returns the finish reason without allocating, if servers are known to send it: OpenAI's, then vLLM's and SGLang's, TGI's,
// DeepSeek's, those of OpenAI's responses, of Triton's vLLM backend (None while there is none) and Anthropic's.
func intern(reason []byte) string {
	switch string(reason) {
	case "stop":
		return "stop"
	case "length":
		return "length"
	case "tool_calls":
		return "tool_calls"
	case "content_filter":
		return "content_filter"
	case "function_call":
		return "function_call"
	case "abort":
		return "abort"
	case "error":
		return "error"
	case "repetition":
		return "repetition"
	case "eos_token":
		return "eos_token"
	case "stop_sequence":
		return "stop_sequence"
	case "insufficient_system_resource":
		return "insufficient_system_resource"
	case "completed":
		return "completed"
	case "incomplete":
		return "incomplete"
	case "max_output_tokens":
		return "max_output_tokens"
	case "None":
		return "None"
	case "tool_use":
		return "tool_use"
	case "end_turn":
		return "end_turn"
	case "max_tokens":
		return "max_tokens"
	}
	if len(reason) > maxFinishBytes {
		reason = reason[:maxFinishBytes]
	}
	return string(reason)
}
