package prompt

import (
	"encoding/binary"
	"slices"
)

// columns is how many tokens one random number makes: 16 bits choose one token.
const columns = 4

// drawBits is the share of a random number that one token gets, and so the limit on the tokens of a column.
const (
	drawBits  = 64 / columns
	maxColumn = 1 << drawBits
)

// slotBytes is the room of one token with its separator in a table.
const slotBytes = 8

// writer makes prompts from tables of tokens. The token at position p of a run comes from column p mod 4. All tokens of
// a column have the same number of bytes, so sizes are arithmetic, and no write waits for the one before it. Every
// token begins with its separator (a comma, a space) of one byte, which the first one of a prompt does without.
type writer struct {
	keys    keys
	columns [columns]column
	first   column       // what may stand first in a prompt, of column 0's width
	offset  [columns]int // where column j begins in a group
	group   int          // bytes of four tokens
}

// column is a table of tokens of one length. A slot holds separator and token, padded to 8 bytes, little endian.
type column struct {
	slots []uint64
	width int // bytes of a token with its separator
}

// newWriter makes a writer of four columns and of what may come first.
func newWriter(seed uint64, all [columns]column, first column) writer {
	if first.width != all[0].width {
		panic("BUG: prompt: first tokens differ in width from column 0")
	}
	own := keys{
		block:  mix(mix(seed+golden) + blockDomain),
		unique: mix(mix(seed+golden) + uniqueDomain),
		answer: mix(mix(seed+golden) + answerDomain),
	}
	w := writer{keys: own, columns: all, first: first}
	for j := range all {
		w.offset[j] = w.group
		w.group += all[j].width
	}
	return w
}

// newColumn lays out tokens, all of one length.
func newColumn(tokens []string, separator byte) column {
	if len(tokens) == 0 || len(tokens) > maxColumn {
		panic("BUG: prompt: a column without tokens or with too many")
	}
	c := column{slots: make([]uint64, len(tokens)), width: 1 + len(tokens[0])}
	for i, token := range tokens {
		if 1+len(token) != c.width || c.width > slotBytes {
			panic("BUG: prompt: token " + token + " does not fit its column")
		}
		b := [slotBytes]byte{separator}
		copy(b[1:], token)
		c.slots[i] = binary.LittleEndian.Uint64(b[:])
	}
	return c
}

// pick chooses a slot by the lowest 16 bits.
func pick(slots []uint64, bits uint64) uint64 {
	return slots[bits%maxColumn*uint64(len(slots))>>drawBits]
}

// Size returns how many bytes Append adds for s.
func (w *writer) Size(s Spec) int {
	blocks, partial, unique := s.Split()
	n := blocks*w.RunSize(max(0, s.BlockTokens)) + w.RunSize(partial) + w.RunSize(unique)
	return max(0, n-1)
}

// RunSize returns the size of a run's first tokens.
func (w *writer) RunSize(tokens int) int {
	return tokens/columns*w.group + w.offset[tokens%columns]
}

// AppendBlock adds a block's first tokens.
func (w *writer) AppendBlock(dst []byte, id uint64, tokens int) []byte {
	return w.appendRun(dst, w.keys.ofBlock(id), tokens)
}

// AppendUnique adds the unique tokens of s.
func (w *writer) AppendUnique(dst []byte, s Spec) []byte {
	_, _, unique := s.Split()
	return w.appendRun(dst, w.keys.ofUnique(s.Unique), unique)
}

func (w *writer) appendRun(dst []byte, key uint64, tokens int) []byte {
	start := len(dst)
	size := w.RunSize(tokens)
	dst = slices.Grow(dst, size)[:start+size]
	w.fill(dst[start:], key, 0, tokens)
	return dst
}

// Append adds the prompt to dst and returns the longer slice.
func (w *writer) Append(dst []byte, s Spec) []byte {
	size := w.Size(s)
	if size == 0 {
		return dst
	}
	start := len(dst)
	dst = slices.Grow(dst, size)[:start+size]
	out := dst[start:]

	blocks, partial, unique := s.Split()
	key := w.keys.ofUnique(s.Unique) // of the first run
	if blocks+partial > 0 {
		key = w.keys.ofBlock(s.Blocks[0])
	}
	out = w.writeFirst(out, key)
	from := 1 // the first run goes on behind the first token
	for _, id := range s.Blocks[:blocks] {
		out = w.fill(out, w.keys.ofBlock(id), from, s.BlockTokens)
		from = 0
	}
	if partial > 0 {
		out = w.fill(out, w.keys.ofBlock(s.Blocks[blocks]), from, partial)
		from = 0
	}
	if unique > 0 {
		out = w.fill(out, w.keys.ofUnique(s.Unique), from, unique)
	}
	if len(out) != 0 {
		panic("BUG: prompt: size and bytes disagree")
	}
	return dst
}
