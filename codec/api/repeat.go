package api

import "bytes"

// repeatBytes bounds the chunk that is remembered; usual ones have 200 to 300 bytes, with logprobs thousands.
const repeatBytes = 512

// repeat remembers the last plain token chunk. The chunks of a stream differ only in their text, so most need no parsing: bytes
// that are equal up to the text and after it, around a text that is not empty and ends nowhere else, mean the same.
type repeat struct {
	chunk    [repeatBytes]byte
	size     int
	from, to int // the text, without its quotes; to = 0: nothing is remembered

	choices uint64
	answer  bool // the text is the answer's: not reasoning, nor a tool's
	tool    bool // a choice calls a tool
}

// matches reports whether data is the remembered chunk with another text.
func (r *repeat) matches(data []byte) bool {
	head, tail := r.chunk[:r.from], r.chunk[r.to:r.size]
	end := len(data) - len(tail)
	if r.to == 0 || end <= len(head) || !bytes.HasPrefix(data, head) || string(data[end:]) != string(tail) {
		return false
	}
	if plain(data, len(head)) == end {
		return true
	}
	s := scanner{b: data, i: len(head) - 1} // at the opening quote; tail begins with the closing one
	_, _ = s.quoted()
	return s.bad == "" && s.i == end+1
}

// tell says of a chunk that matches whose text it has.
func (r *repeat) tell(data []byte, d *Delta) {
	d.Choices, d.Tool = r.choices, r.tool
	if r.answer {
		d.Content = data[r.from : len(data)-(r.size-r.to)]
	}
}

// remember notes a chunk whose whole meaning, in d, is that data[from:to] is some text of a choice. Where the answer's text is
// another one beside it, there would be two that change.
func (r *repeat) remember(data []byte, from, to int, d *Delta) {
	answer := len(d.Content) > 0 && &d.Content[0] == &data[from]
	if len(data) > len(r.chunk) || len(d.Content) > 0 && !answer {
		return
	}
	r.size, r.from, r.to, r.choices, r.answer, r.tool = copy(r.chunk[:], data), from, to, d.Choices, answer, d.Tool
}
