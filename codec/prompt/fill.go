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
	reach := w.offset[columns-1] + slotBytes // bytes that a group's four stores touch
	for ; p+columns <= n && len(out) >= reach; p += columns {
		w.writeGroup(out[:reach], draw(key, uint64(p/columns)))
		out = out[w.group:]
	}
	for ; p < n; p++ {
		out = w.writeToken(out, key, p)
	}
	return out
}

// writeGroup writes four tokens, each with one store of 8 bytes whose surplus
// the next one overwrites.
func (w *writer) writeGroup(out []byte, bits uint64) {
	binary.LittleEndian.PutUint64(out, w.columns[0].pick(bits, 0))
	binary.LittleEndian.PutUint64(out[w.offset[1]:], w.columns[1].pick(bits, 1))
	binary.LittleEndian.PutUint64(out[w.offset[2]:], w.columns[2].pick(bits, 2))
	binary.LittleEndian.PutUint64(out[w.offset[3]:], w.columns[3].pick(bits, 3))
}

// writeToken writes the token at position p and nothing behind it.
func (w *writer) writeToken(out []byte, key uint64, p int) []byte {
	j := p % columns
	var b [slotBytes]byte
	binary.LittleEndian.PutUint64(b[:], w.columns[j].pick(draw(key, uint64(p/columns)), j))
	n := copy(out, b[:w.columns[j].width])
	return out[n:]
}

// writeFirst writes the first token of a prompt, without its separator.
func (w *writer) writeFirst(out []byte, key uint64) []byte {
	var b [slotBytes]byte
	binary.LittleEndian.PutUint64(b[:], w.first.pick(draw(key, 0), 0))
	n := copy(out, b[1:w.first.width])
	return out[n:]
}
