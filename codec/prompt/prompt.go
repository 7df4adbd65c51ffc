// Package prompt turns a trace's block hashes into prompts that are exact in their number of tokens.
//
// It owns which tokens a block stands for: a pure function of (seed, hash id, position), equal in every request,
// process and machine. So two prompts share a prefix in the server's cache exactly where their hash ids do. It does not
// own traces' formats, request bodies or templates.
//
// A Source is immutable once made and may be used by any number of goroutines. Making one allocates its table (below
// 600 kB); using it allocates nothing but the growth of the caller's slice.
package prompt

import "encoding/binary"

// Spec describes one prompt.
type Spec struct {
	// Blocks holds the hash ids of the prompt's blocks, in order. Ids beyond Tokens are ignored.
	Blocks []uint64
	// BlockTokens is the number of tokens that one id stands for. At 0 or below Blocks is ignored.
	BlockTokens int
	// Tokens is the length of the whole prompt in tokens. A last partial block is a prefix of its full block; tokens
	// beyond Blocks are unique.
	Tokens int
	// Unique is the key of the unique tokens: prompts with different keys share none of them, and no hash id ever
	// produces them.
	Unique uint64
}

// Source writes prompts. It is safe for concurrent use.
type Source interface {
	// Size returns how many bytes Append adds for s. It takes constant time.
	Size(s Spec) int
	// Append adds the prompt to dst and returns the longer slice. Bytes beyond its end stay untouched, and with Size(s)
	// bytes of room nothing is allocated. What is added goes into a JSON body unchanged. It is token ids "10234,29311"
	// for the inside of an array, or text without escapes for the inside of a string.
	Append(dst []byte, s Spec) []byte

	// A prompt can also be appended in pieces. They are its first token (Append of a Spec with one token), the rest of
	// its first block, its other blocks, and its unique tokens. What follows the first token is the same behind any
	// tokens, byte for byte.

	// RunSize returns how many bytes a run of tokens has behind others: a block, or what is unique.
	RunSize(tokens int) int
	// AppendBlock adds a block's first tokens as they stand behind others.
	AppendBlock(dst []byte, id uint64, tokens int) []byte
	// AppendUnique adds the unique tokens of s as they stand behind its blocks.
	AppendUnique(dst []byte, s Spec) []byte
}

// Split returns how many whole blocks the prompt has, how many tokens of the block after them, and how many unique
// tokens at the end.
func (s Spec) Split() (blocks, partial, unique int) {
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

// fill writes the tokens from position from up to n of the run key to the front of out and returns what lies behind
// them. It may scribble over the bytes that follow inside out, which later tokens write again.
func (w *writer) fill(out []byte, key uint64, from, n int) []byte {
	p := from
	for ; p < n && p%columns != 0; p++ {
		out = w.writeToken(out, key, p)
	}
	groups := w.writeGroups(out, key, p/columns, n/columns)
	out = out[groups*w.group:]
	p += groups * columns
	for ; p < n; p++ {
		out = w.writeToken(out, key, p)
	}
	return out
}

// writeGroups writes the groups of four tokens from number g up to end, while out has room. Each token is one store of
// 8 bytes; the next token overwrites the surplus. It returns how many groups it wrote.
func (w *writer) writeGroups(out []byte, key uint64, g, end int) (written int) {
	a := w.columns[0].slots
	b := w.columns[1].slots
	c := w.columns[2].slots
	d := w.columns[3].slots
	atB := w.offset[1]
	atC := w.offset[2]
	atD := w.offset[3]
	reach := atD + slotBytes // bytes that a group's four stores touch
	from := g
	for ; g < end && len(out) >= reach; g++ {
		bits := draw(key, uint64(g))
		binary.LittleEndian.PutUint64(out, pick(a, bits))
		binary.LittleEndian.PutUint64(out[atB:], pick(b, bits>>drawBits))
		binary.LittleEndian.PutUint64(out[atC:], pick(c, bits>>(2*drawBits)))
		binary.LittleEndian.PutUint64(out[atD:], pick(d, bits>>(3*drawBits)))
		out = out[w.group:]
	}
	return g - from
}

// writeToken writes the token at position p and nothing behind it.
func (w *writer) writeToken(out []byte, key uint64, p int) []byte {
	j := p % columns
	var b [slotBytes]byte
	binary.LittleEndian.PutUint64(b[:], pick(w.columns[j].slots, draw(key, uint64(p/columns))>>(j*drawBits)))
	n := copy(out, b[:w.columns[j].width])
	return out[n:]
}

// writeFirst writes the first token of a prompt, without its separator.
func (w *writer) writeFirst(out []byte, key uint64) []byte {
	var b [slotBytes]byte
	binary.LittleEndian.PutUint64(b[:], pick(w.first.slots, draw(key, 0)))
	n := copy(out, b[1:w.first.width])
	return out[n:]
}

// A block's tokens come from a counter-based generator. Draw g of a key is mix(key + g·golden), so any position is
// computed without the ones before it.

// golden is 2^64 divided by the golden ratio, the odd increment of SplitMix64 (Steele, Lea, Flood: Fast Splittable
// Pseudorandom Number Generators, 2014).
const golden = 0x9e3779b97f4a7c15

// Domains keep the tokens of hash ids apart from those unique to a row.
const (
	blockDomain  = 0x626c6f636b   // "block"
	uniqueDomain = 0x756e69717565 // "unique"
	answerDomain = 0x616e73776572 // "answer"
)

// mix is the output function of SplitMix64, a bijection: different ids under one seed never share a key.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// keys derives the keys of runs from the seed.
type keys struct{ block, unique, answer uint64 }

func (k keys) ofBlock(id uint64) uint64   { return mix(k.block ^ id) }
func (k keys) ofUnique(row uint64) uint64 { return mix(k.unique ^ row) }
func (k keys) ofAnswer(row uint64) uint64 { return mix(k.answer ^ row) }

// draw returns the 64 random bits from which the four tokens of group g come.
func draw(key, g uint64) uint64 { return mix(key + g*golden) }
