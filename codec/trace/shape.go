package trace

import "bytes"

// shape is a row without its values. The rows of a file are usually written alike: where the bytes between the values are
// those of the row before, the keys and the syntax are known.
type shape struct {
	text  []byte // all between the values
	leads []lead
	whole bool // what follows the last value is in text
}

// lead is what stands before a value, such as `, "input_length": `.
type lead struct {
	bytes int // of the shape's text
	field field
}

func (h *shape) forget() { h.text, h.leads, h.whole = h.text[:0], h.leads[:0], false }

// sameShape decodes a row of the shape of the one before, into an empty p.row. It reports false for every other row, and for
// one with a fault.
func (p *rowParser) sameShape(line []byte) bool {
	text := p.shape.text
	s := scanner{b: line}
	for _, l := range p.shape.leads {
		if !bytes.HasPrefix(line[s.i:], text[:l.bytes]) {
			return false
		}
		text = text[l.bytes:]
		s.i += l.bytes
		if p.member(l.field, &s) != nil {
			return false
		}
	}
	return p.shape.whole && string(line[s.i:]) == string(text)
}
