package engine

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fastreplay/fastreplay/engine/host"
)

// largeShare is the share of the free memory for large parts of answers, at most mostLarge bytes.
const (
	largeShare = 0.25
	mostLarge  = 1 << 30
)

// largeBuffers lend memory for the large parts of answers of all connections. It is outside Go's heap, so that it can
// be freed at once. If more is lent than the limit, the responses that have some continue one after the other. Any
// goroutine may use them.
type largeBuffers struct {
	limit   int64 // bytes
	lent    atomic.Int64
	mu      sync.Mutex
	changed sync.Cond               // of mu
	free    [bits.UintSize][][]byte // by size, a power of two
	mapped  map[*byte]bool          // by first byte, lent and free; if the kernel gives none, a buffer is of Go's heap
	bytes   int64                   // size of mapped …
	most    int64                   // … and the most it ever was
	turn    *borrower               // continues although too much is lent
	waits   time.Duration           // of all calls of wait
}

// borrower is a response that may have large buffers.
type borrower struct {
	lent bool // it has some
}

// grow returns a buffer with b's bytes and room for n more, and takes b back.
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

// put takes back a buffer that get returned. It ignores others.
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

// short reports whether more is lent than the limit.
func (l *largeBuffers) short() bool { return l.lent.Load() > l.limit }

// wait is called before a response that has large buffers reads on. It returns if there is enough, when it is p's
// turn, or if cancelled returns true.
func (l *largeBuffers) wait(p *borrower, cancelled func() bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.short() && l.turn != p && l.turn != nil {
		began := time.Now()
		defer func() { l.waits += time.Since(began) }()
	}
	for l.short() && l.turn != p && l.turn != nil && !cancelled() {
		l.changed.Wait()
	}
	if l.short() && l.turn == nil {
		l.turn = p
	}
}

// waited is how long responses waited for memory, all together.
func (l *largeBuffers) waited() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waits
}

// end is called when p has given back its buffers.
func (l *largeBuffers) end(p *borrower) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.turn == p {
		l.turn = nil
	}
	l.changed.Broadcast()
}

// trim frees all buffers if none is lent. The watchdog calls it.
func (l *largeBuffers) trim() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lent.Load() == 0 {
		l.release()
	}
}

// release frees the buffers that are not lent.
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
