package engine

import (
	"math/bits"
	"sync"
)

// rooms are slices that are used again. The capacity of each is a power of two. Any goroutine may use them.
type rooms struct {
	mu   sync.Mutex
	free [bits.UintSize][][]byte // by the power
}

// take returns an empty slice with room for n bytes.
func (r *rooms) take(n int) []byte {
	class := bits.Len(uint(max(1, n) - 1))
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := class; c < len(r.free); c++ {
		if last := len(r.free[c]) - 1; last >= 0 {
			b := r.free[c][last]
			r.free[c] = r.free[c][:last]
			return b
		}
	}
	return make([]byte, 0, 1<<class)
}

// put takes a slice of take's back. One that has outgrown its room since is of use for less.
func (r *rooms) put(b []byte) {
	if cap(b) == 0 {
		return
	}
	class := bits.Len(uint(cap(b))) - 1
	r.mu.Lock()
	defer r.mu.Unlock()
	r.free[class] = append(r.free[class], b[:0])
}

// pageBytes is how far apart memory is touched; larger pages are touched more than once.
const pageBytes = 4 << 10

// warm makes n slices with room for size bytes, in memory that the kernel has given already: 2 MiB of it, one huge page, take it a
// millisecond to clear.
func (r *rooms) warm(size, n int) {
	for range n {
		b := make([]byte, 0, 1<<bits.Len(uint(max(1, size)-1)))
		for i := 0; i < cap(b); i += pageBytes {
			b[:cap(b)][i] = 0
		}
		r.put(b)
	}
}
