package record

import "fmt"

// Outcome says how a planned request ended. Every planned request has exactly
// one.
type Outcome uint8

// The outcomes. Only OK requests enter a latency distribution.
const (
	// OK: the whole answer arrived.
	OK Outcome = iota
	// HTTPError: the server answered with a status other than 200.
	HTTPError
	// ConnectError: no connection could be made (dial, name, TLS).
	ConnectError
	// Reset: the peer broke the connection off.
	Reset
	// Timeout: a limit on time was reached (whole request, or between bytes).
	Timeout
	// Truncated: the answer ended before it was complete.
	Truncated
	// BadResponse: the answer is no HTTP, SSE or JSON that we can read.
	BadResponse
	// StreamError: the server reported an error inside a 200 stream.
	StreamError
	// Cancelled: we broke it off, because the run was stopped.
	Cancelled
	// NotSent: not a byte of it left.
	NotSent

	// Outcomes is the number of outcomes; arrays are indexed by Outcome.
	Outcomes = int(NotSent) + 1
)

// outcomeNames returns the names as they stand in result files.
func outcomeNames() [Outcomes]string {
	return [Outcomes]string{
		OK: "ok", HTTPError: "http_error", ConnectError: "connect_error", Reset: "reset", Timeout: "timeout",
		Truncated: "truncated", BadResponse: "bad_response", StreamError: "stream_error", Cancelled: "cancelled",
		NotSent: "not_sent",
	}
}

// String returns the name as it stands in result files, such as "http_error".
func (o Outcome) String() string {
	if int(o) >= Outcomes {
		return "unknown"
	}
	return outcomeNames()[o]
}

// UnmarshalText is the inverse of String.
func (o *Outcome) UnmarshalText(name []byte) error {
	for i, n := range outcomeNames() {
		if n == string(name) {
			*o = Outcome(i)
			return nil
		}
	}
	return fmt.Errorf("outcome %q is none of %v", name, outcomeNames())
}

// TokensFrom says where the number of completion tokens comes from.
type TokensFrom uint8

// The sources of a token count.
const (
	// TokensUnknown: nothing was counted; null in result files.
	TokensUnknown TokensFrom = iota
	// TokensFromUsage: the server's usage.completion_tokens.
	TokensFromUsage
	// TokensFromChunks: the server sent no usage, so token chunks were counted.
	TokensFromChunks
)

// String returns "usage", "chunks", or "" where nothing was counted.
func (t TokensFrom) String() string {
	switch t {
	case TokensFromUsage:
		return "usage"
	case TokensFromChunks:
		return "chunks"
	default:
		return ""
	}
}

// UnmarshalText is the inverse of String.
func (t *TokensFrom) UnmarshalText(name []byte) error {
	for from := TokensUnknown; from <= TokensFromChunks; from++ {
		if from.String() == string(name) {
			*t = from
			return nil
		}
	}
	return fmt.Errorf("tokens_from %q is neither %q nor %q", name, TokensFromUsage, TokensFromChunks)
}
