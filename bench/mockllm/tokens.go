package mockllm

import "math/bits"

// DefaultBlockTokens is the size of a block of the prefix cache, in tokens, that vLLM has by default.
const DefaultBlockTokens = 16

// Multipliers of the token hash: 2^64 divided by the golden ratio (Knuth, TAOCP 6.4) and the FNV-1a 64-bit prime.
const (
	hashMultiplier = 0x9e3779b97f4a7c15
	wordMultiplier = 0x100000001b3
	wordBasis      = 0xcbf29ce484222325
)

// promptHasher counts the tokens of a prompt and names its whole blocks. A block's key depends on every token up to its
// end, so equal keys mean equal prefixes.
type promptHasher struct {
	keys   []uint64 // one for each whole block
	tokens int
	chain  uint64
	block  int // tokens a block
	left   int // tokens until the next block's end

	splitOver int      // words of more letters are two tokens; 0 = none
	keep      bool     // values is wanted
	values    []uint64 // every token
}

// newPromptHasher reuses the memory of keys.
func newPromptHasher(cfg *Config, keys []uint64) promptHasher {
	return promptHasher{
		keys:      keys[:0],
		block:     cfg.BlockTokens,
		left:      cfg.BlockTokens,
		splitOver: cfg.SplitWords,
	}
}

// mix folds the token v into the chain.
func mix(chain, v uint64) uint64 {
	return bits.RotateLeft64(chain^(v+1)*hashMultiplier, 29) * hashMultiplier
}

// finalize spreads a chain's bits over a whole key (the finaliser of SplitMix64).
func finalize(h uint64) uint64 {
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// add appends one token.
func (h *promptHasher) add(v uint64) {
	h.chain = mix(h.chain, v)
	h.tokens++
	if h.left--; h.left == 0 {
		h.left = h.block
		h.keys = append(h.keys, finalize(h.chain))
	}
	if h.keep {
		h.values = append(h.values, v)
	}
}

// word appends the token, or the two tokens, of a word.
func (h *promptHasher) word(hash uint64, letters int) {
	h.add(hash &^ specialBit)
	if h.splitOver > 0 && letters > h.splitOver {
		h.add(^hash &^ specialBit)
	}
}

// specialBit marks the tokens of a template or a BOS: no word and no id has it.
const specialBit = 1 << 63

// special appends n tokens of a template or a BOS, each with a value of its own.
func (h *promptHasher) special(n int, kind uint64) {
	for i := range n {
		h.add(specialBit | kind<<32 | uint64(i))
	}
}

// hashBytes names a short byte string.
func hashBytes[S string | []byte](b S) uint64 { return finalize(foldWord(wordBasis, b)) }

// foldWord folds bytes into the name of a word that has begun, or of one that begins with wordBasis.
func foldWord[S string | []byte](word uint64, s S) uint64 {
	for i := range len(s) {
		word = (word ^ uint64(s[i])) * wordMultiplier
	}
	return word
}

// rng is SplitMix64: one word of state, a few ns a draw.
type rng uint64

func (r *rng) next() uint64 {
	*r += hashMultiplier
	return finalize(uint64(*r))
}

// float returns a number in [0, 1).
func (r *rng) float() float64 { return float64(r.next()>>11) / (1 << 53) }

// spread returns a factor in [1-s, 1+s] with mean 1.
func (r *rng) spread(s float64) float64 {
	if s == 0 {
		return 1
	}
	return 1 + s*(2*r.float()-1)
}
