package prompt

import "encoding/binary"

// fill writes the tokens from position from up to n of the run key to the front
// of out and returns what lies behind them. It may scribble over the bytes that
// follow inside out, which later tokens write again.
func (w *writer) fill(out []byte, key uint64, from, n int) []byte {
	p := from
	for ; p < n && p%columns != 0; p++ {
		out = w.writeToken(out, key, p)
	}
	groups := w.writeGroups(out, key, p/columns, n/columns)
	out, p = out[groups*w.group:], p+groups*columns
	for ; p < n; p++ {
		out = w.writeToken(out, key, p)
	}
	return out
}

// writeGroups writes the groups of four tokens from number g up to end, each
// token with one store of 8 bytes whose surplus the next one overwrites, while
// out has room for the surplus. It returns how many groups it wrote.
func (w *writer) writeGroups(out []byte, key uint64, g, end int) (written int) {
	a, b, c, d := w.columns[0].slots, w.columns[1].slots, w.columns[2].slots, w.columns[3].slots
	atB, atC, atD := w.offset[1], w.offset[2], w.offset[3]
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
