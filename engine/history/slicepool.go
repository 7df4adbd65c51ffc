package history

import (
	"math/bits"
	"sync"
)

// bufferPool has slices that are used again. The capacity of each is a power of two. Any goroutine may use it.
type bufferPool struct {
	mu   sync.Mutex
	free [bits.UintSize][][]byte // by the power
}

// get returns an empty slice with room for n bytes.
func (p *bufferPool) get(n int) []byte {
	class := bits.Len(uint(max(1, n) - 1))
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := class; c < len(p.free); c++ {
		if last := len(p.free[c]) - 1; last >= 0 {
			b := p.free[c][last]
			p.free[c] = p.free[c][:last]
			return b
		}
	}
	return make([]byte, 0, 1<<class)
}

// put takes a slice of get's back. One that has outgrown its capacity since is of use for less.
func (p *bufferPool) put(b []byte) {
	if cap(b) == 0 {
		return
	}
	class := bits.Len(uint(cap(b))) - 1
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free[class] = append(p.free[class], b[:0])
}

// pageBytes is how far apart memory is touched; larger pages are touched more than once.
const pageBytes = 4 << 10

// warm makes n slices with room for size bytes, in memory that the kernel has given already: 2 MiB of it, one huge page, take it a
// millisecond to clear.
func (p *bufferPool) warm(size, n int) {
	for range n {
		b := make([]byte, 0, 1<<bits.Len(uint(max(1, size)-1)))
		for i := 0; i < cap(b); i += pageBytes {
			b[:cap(b)][i] = 0
		}
		p.put(b)
	}
}
