// Package gather is bytes that lie in pieces of one memory, in the order in which they are to be written.
//
// Prompts that share most of what they say share the memory of it: each is a list of segments. A list is a value that
// points into the memory and copies nothing. Segments are offsets, so processes that share the memory may share them
// too.
//
// The methods allocate nothing, but for Append, and none of them writes to the memory. Any number of goroutines may
// use a list.
//
// The package is not an API: any release may change it.
package gather

// Segment is a part of a memory, in bytes from its start.
type Segment struct{ Offset, Size int64 }

// List is bytes to be written one after the other: the segments of Memory, or all of Memory if there are none. The
// zero value is no bytes.
type List struct {
	Memory   []byte
	Segments []Segment
	Skip     int64 // bytes left out at the start, less than the first segment has
}

// Of is a list of one piece.
func Of(memory []byte) List { return List{Memory: memory} }

// Pieces is the number of pieces.
//
//go:nosplit
func (l *List) Pieces() int {
	if l.Segments == nil {
		return 1
	}
	return len(l.Segments)
}

// Piece returns the bytes of piece k, from 0 on.
//
//go:nosplit
func (l *List) Piece(k int) []byte {
	from := int64(0)
	to := int64(len(l.Memory))
	if l.Segments != nil {
		from = l.Segments[k].Offset
		to = l.Segments[k].Offset + l.Segments[k].Size
	}
	if k == 0 {
		from += l.Skip
	}
	return l.Memory[from:to:to]
}

// Len is the number of bytes.
func (l *List) Len() (bytes int64) {
	for k := range l.Pieces() {
		bytes += int64(len(l.Piece(k)))
	}
	return bytes
}

// Drop removes the first n bytes, at most all.
func (l *List) Drop(n int64) {
	for len(l.Segments) > 0 && n >= int64(len(l.Piece(0))) {
		n -= int64(len(l.Piece(0)))
		l.Segments = l.Segments[1:]
		l.Skip = 0
	}
	l.Skip += n
}

// Append adds the bytes to dst.
func (l *List) Append(dst []byte) []byte {
	for k := range l.Pieces() {
		dst = append(dst, l.Piece(k)...)
	}
	return dst
}
