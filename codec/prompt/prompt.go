// Package prompt turns a trace's block hashes into prompts that are exact in
// their number of tokens.
//
// It owns which tokens a block stands for: a pure function of (seed, hash id,
// position), equal in every request, process and machine, so that two prompts
// share a prefix in the server's cache exactly where their hash ids do. It does
// not know traces' formats, request bodies or templates.
//
// A Source is immutable once made and may be used by any number of goroutines.
// Making one allocates its table (below 600 kB); using it allocates nothing
// but the growth of the caller's slice.
package prompt

// Spec describes one prompt.
type Spec struct {
	// Blocks holds the hash ids of the prompt's blocks, in order. Ids beyond
	// Tokens are ignored.
	Blocks []uint64
	// BlockTokens is the number of tokens that one id stands for. At 0 or
	// below Blocks is ignored.
	BlockTokens int
	// Tokens is the length of the whole prompt in tokens. A last partial block
	// is a prefix of its full block; tokens beyond Blocks are unique.
	Tokens int
	// Unique is the key of the unique tokens: prompts with different keys share
	// none of them, and no hash id ever produces them.
	Unique uint64
}

// Source writes prompts. It is safe for concurrent use.
type Source interface {
	// Size returns how many bytes Append adds for s. It takes constant time.
	Size(s Spec) int
	// Append adds the prompt to dst and returns the longer slice. Bytes beyond
	// its end stay untouched, and with Size(s) bytes of room nothing is
	// allocated. What is added goes into a JSON body as it is: token ids
	// "10234,29311" for the inside of an array, or text that needs no escaping
	// for the inside of a string.
	Append(dst []byte, s Spec) []byte
}

// split returns how many whole blocks the prompt has, how many tokens of the
// block after them, and how many unique tokens at the end.
func (s Spec) split() (blocks, partial, unique int) {
	if s.Tokens <= 0 {
		return 0, 0, 0
	}
	if s.BlockTokens <= 0 {
		return 0, 0, s.Tokens
	}
	blocks = min(len(s.Blocks), s.Tokens/s.BlockTokens)
	rest := s.Tokens - blocks*s.BlockTokens
	if blocks < len(s.Blocks) {
		return blocks, rest, 0
	}
	return blocks, 0, rest
}
