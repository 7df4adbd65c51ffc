package mockllm

import "math/bits"

// BlockTokens is the size of a block of the mock's prefix cache, in tokens: vLLM's default.
const BlockTokens = 16

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

func (h *promptHasher) reset() {
	h.keys, h.tokens, h.chain = h.keys[:0], 0, 0
}

// add appends one token.
func (h *promptHasher) add(v uint64) {
	h.chain = mix(h.chain, v)
	h.tokens++
	if h.tokens%BlockTokens == 0 {
		h.keys = append(h.keys, finalize(h.chain))
	}
}

// special appends n tokens of a template or a BOS. Their values cannot be any word's or id's by intent: the top bit.
func (h *promptHasher) special(n int, kind uint64) {
	for i := range n {
		h.add(1<<63 | kind<<32 | uint64(i))
	}
}

// hashBytes names a short byte string.
func hashBytes(b []byte) uint64 {
	w := uint64(wordBasis)
	for _, c := range b {
		w = (w ^ uint64(c)) * wordMultiplier
	}
	return finalize(w)
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
