package workload

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
)

// ring is where requests are built if they do not all fit into memory. Each is built ahead of its deadline, in plan
// order, as soon as the requests that were there before have been written.
type ring struct {
	bytes   int64
	ends    []int64       // where it ends if the ring were endless, with what is lost at its end
	written []atomic.Bool // request i is not needed any more
	kept    int           // requests before this one are not needed; the builder's own
}

// RingBytes is the room for requests at a time; 0 where all fit into memory.
func (m *Requests) RingBytes() int64 {
	if m.ring == nil {
		return 0
	}
	return m.ring.bytes
}

const (
	// ringBatch is how many bytes are built before senders may send them: some milliseconds' work.
	ringBatch = 16 << 20
	// leastInRing of the largest request must fit into the ring, so that one is built while others are written.
	leastInRing = 8
)

// UseRing prepares m for at most limit bytes of requests at a time, in place of Fill's room for all of them.
func (m *Requests) UseRing(limit int64) error {
	if limit < leastInRing*int64(m.largest) {
		return fmt.Errorf("%w: %d of the largest request must fit; give --max-memory %d or more", ErrArena, leastInRing,
			leastInRing*int64(m.largest))
	}
	n := len(m.offsets) - 1
	v := &ring{
		bytes:   limit,
		ends:    make([]int64, n),
		written: make([]atomic.Bool, n),
	}
	var at int64 // in the endless ring
	for i := range n {
		size := m.Size(i)
		if at%limit+size > limit {
			at += limit - at%limit
		}
		at += size
		v.ends[i] = at
	}
	m.ring = v
	m.sharing = nil
	m.digests = make([]digest, n)
	var err error
	m.arena, err = newArena(limit)
	return err
}

// room is the first request that does not fit beside those that are still needed.
func (v *ring) room(m *Requests, needed func(i int) bool) int {
	to := m.Built()
	for v.kept < to && !needed(v.kept) {
		v.kept++
	}
	begin := int64(math.MaxInt64) // of what is needed, in the endless ring
	if v.kept < to {
		begin = v.ends[v.kept] - m.Size(v.kept)
	}
	batch := int64(0)
	for ; to < len(v.ends) && batch < ringBatch; to++ {
		if begin == math.MaxInt64 {
			begin = v.ends[to] - m.Size(to)
		}
		if v.ends[to]-begin > v.bytes {
			break
		}
		batch += m.Size(to)
	}
	return to
}

// FillRing builds what fits before the start.
func (m *Requests) FillRing(ctx context.Context, built *atomic.Int64) error {
	all := func(int) bool { return true }
	for {
		from := m.Built()
		to, err := m.BuildMore(ctx, all, built)
		if err != nil || to == from {
			return err
		}
	}
}

// Built is how many requests have been built: those of the first so many requests.
func (m *Requests) Built() int {
	return int(m.built.Load())
}

// BuildMore builds, in a ring, some of the next requests that fit beside those that are still needed. It returns how
// many have been built then: as many as before if there is no room. One goroutine may call it at a time.
func (m *Requests) BuildMore(ctx context.Context, needed func(i int) bool, built *atomic.Int64) (int, error) {
	from := m.Built()
	to := m.ring.room(m, needed)
	if to == from {
		return from, nil
	}
	return to, m.fill(ctx, from, to, built)
}

// DigestRest computes the digests of the requests that were never built in the ring, because the run ended while the
// ring was full or late. The fingerprint covers all requests; there is none if ctx ends before. It takes all cores.
// done counts them as they are built.
func (m *Requests) DigestRest(ctx context.Context, done *atomic.Int64) {
	w := m.work
	from := m.Built()
	err := parallel(ctx, w.Requests()-from, func(a, b int) {
		scratch := make([]byte, m.largest)
		for i := from + a; i < from+b; i++ {
			m.digests[i] = m.build(i, scratch[:m.Size(i)])
			done.Add(1)
		}
	})
	if err == nil {
		m.built.Store(int64(w.Requests()))
	}
}

// InRing reports whether the requests do not all fit into memory: each is then available only until it was written.
func (m *Requests) InRing() bool {
	return m.ring != nil
}

// Unneeded reports whether request i, of a ring, is not needed in it any more.
func (m *Requests) Unneeded(i int) bool {
	return m.ring.written[i].Load()
}

// MarkUnneeded marks request i as not needed in the arena any more.
func (m *Requests) MarkUnneeded(i int32) {
	if m.ring != nil && !m.Unneeded(int(i)) {
		m.ring.written[i].Store(true)
	}
}

// Whole returns request i as it is or will be written: the arena's bytes, or with a ring bytes of its own.
func (m *Requests) Whole(i int) []byte {
	if m.ring == nil {
		return m.At(i)
	}
	b := make([]byte, m.Size(i))
	m.build(i, b)
	if m.late != nil {
		from := m.late.write(b, m.work.Places[i].Target)
		b = b[from:]
	}
	return b
}
