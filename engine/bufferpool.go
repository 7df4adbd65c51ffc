package engine

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/fastreplay/fastreplay/engine/host"
)

// largeShare of the free memory, and mostLarge bytes at most, are for what is large of answers.
const (
	largeShare = 0.25
	mostLarge  = 1 << 30
)

// largeBuffers hold what is large of the answers of all connections, outside of Go's heap, so that it can be let go at once. If more
// is lent than the limit, only one of the replies that have some goes on, and after it the next. Any goroutine may use them.
type largeBuffers struct {
	limit   int64 // bytes
	lent    atomic.Int64
	mu      sync.Mutex
	changed sync.Cond               // of mu
	free    [bits.UintSize][][]byte // by the power of two
	mapped  map[*byte]bool          // lent and free; where the kernel gives none, Go's heap does
	bytes   int64                   // of them …
	most    int64                   // … ever
	turn    *response               // goes on though too much is lent
}

// grow moves b into a buffer with room for n more bytes.
func (l *largeBuffers) grow(b []byte, n int) []byte {
	larger := append(l.get(len(b)+n), b...)
	l.put(b)
	return larger
}

func (l *largeBuffers) get(n int) []byte {
	class := bits.Len(uint(n - 1))
	size := int64(1) << class
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.free[class]) == 0 {
		if l.bytes+size > l.limit {
			l.release()
		}
		b, err := host.MapMemory(size)
		if err != nil {
			return make([]byte, 0, size)
		}
		l.mapped[&b[0]], l.free[class], l.bytes = true, append(l.free[class], b), l.bytes+size
		l.most = max(l.most, l.bytes)
	}
	last := len(l.free[class]) - 1
	b := l.free[class][last]
	l.free[class] = l.free[class][:last]
	l.lent.Add(size)
	return b[:0]
}

// put takes a buffer of get's back, and leaves others alone.
func (l *largeBuffers) put(b []byte) {
	b = b[:cap(b)]
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(b) > 0 && l.mapped[&b[0]] {
		class := bits.Len(uint(len(b))) - 1
		l.free[class] = append(l.free[class], b)
		l.lent.Add(-int64(len(b)))
	}
}

// short tells whether more is lent than the limit.
func (l *largeBuffers) short() bool { return l.lent.Load() > l.limit }

// wait is called by a reply that has large buffers, before it reads on. It returns if there is enough, at p's turn, or when p is cut.
func (l *largeBuffers) wait(p *response, cut func() bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.short() && l.turn != p && l.turn != nil && !cut() {
		l.changed.Wait()
	}
	if l.short() && l.turn == nil {
		l.turn = p
	}
}

// end is called by a reply that has given back its buffers.
func (l *largeBuffers) end(p *response) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.turn == p {
		l.turn = nil
	}
	l.changed.Broadcast()
}

// trim is called now and then. It lets all go when none is in use.
func (l *largeBuffers) trim() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lent.Load() == 0 {
		l.release()
	}
}

// release lets go what is free.
func (l *largeBuffers) release() {
	for class, free := range &l.free {
		for _, b := range free {
			delete(l.mapped, &b[0])
			_ = host.UnmapMemory(b)
			l.bytes -= int64(len(b))
		}
		l.free[class] = nil
	}
}
