package workload

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/fastreplay/fastreplay/engine/host"
	"github.com/fastreplay/fastreplay/engine/internal/gather"
)

// Requests are the bytes of every request of a run, head and body, in one arena outside the Go heap. They lie there
// whole, or if their prompts share much, in pieces. Free them after the run.
type Requests struct {
	*Builder
	work    *Work
	arena   *arena
	offsets []int64 // request i is offsets[i+1]-offsets[i] bytes long and begins at offsets[i] of all, see place
	heads   []int32 // the sizes of requests' heads
	largest int
	ring    *ring    // where not all of them fit into memory; nil = they do
	sharing *sharing // where they lie in pieces; nil = each lies whole
	digests []digest
	hashers sync.Pool    // of *hasher
	late    *lateTargets // where requests get their targets when they leave; nil = each was built for its own
	built   atomic.Int64 // requests before this one have been built
}

// List is the bytes of request i, valid until Free, or with a ring until it was written. They must not be written to.
func (m *Requests) List(i int) gather.List {
	late := int64(0)
	if m.late != nil {
		late = int64(m.late.offsets[i])
	}
	if m.sharing != nil {
		l := m.sharing.list(m.arena.bytes, i)
		l.Skip = late
		return l
	}
	from := m.place(i) + late
	to := m.place(i) + m.Size(i)
	return gather.Of(m.arena.bytes[from:to:to])
}

// At is the bytes of request i as List has them: a copy of them if it is of pieces.
func (m *Requests) At(i int) []byte {
	l := m.List(i)
	if l.Pieces() == 1 {
		return l.Piece(0)
	}
	return l.Append(make([]byte, 0, l.Len()))
}

// Offset is where request i begins in the arena, or if n is above 0, where its n segments stand, as gather.Segment in
// memory.
func (m *Requests) Offset(i int) (offset int64, n int) {
	s := m.sharing
	if s == nil {
		return m.place(i), 0
	}
	from := s.first[i]
	to := s.first[i+1]
	return s.table + int64(from)*segmentBytes, int(to - from)
}

// place is where request i, which lies whole, begins in the arena, or where its first piece does.
func (m *Requests) place(i int) int64 {
	switch {
	case m.ring != nil:
		return (m.ring.ends[i] - m.Size(i)) % m.ring.bytes
	case m.sharing != nil:
		return m.sharing.segments[m.sharing.first[i]].Offset
	}
	return m.offsets[i]
}

// Size is the size of request i in bytes.
func (m *Requests) Size(i int) int64 {
	return m.offsets[i+1] - m.offsets[i]
}

// Ready reports whether request i stands in the arena.
func (m *Requests) Ready(i int) bool {
	return m.ring == nil || m.built.Load() > int64(i)
}

// Bytes is the size of all requests.
func (m *Requests) Bytes() int64 {
	return m.offsets[len(m.offsets)-1]
}

// Held is how many bytes of memory all requests take: fewer than Bytes if blocks are held once.
func (m *Requests) Held() int64 {
	if m.sharing != nil {
		return m.sharing.bytes
	}
	return m.Bytes()
}

// Fingerprint of the workload, "sha256:…": SHA-256 over (planned_ns, digest) in plan order. A closed loop plans no
// instants. It is "" as long as a request was not built.
func (m *Requests) Fingerprint() string {
	if m == nil || m.Built() < m.work.Requests() {
		return ""
	}
	h := sha256.New()
	var b []byte
	for i := range m.digests {
		b = m.appendDigest(b[:0], i)
		h.Write(b)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// MappedBytes is how many bytes of memory the requests have: those of a ring, or of all of them.
func (m *Requests) MappedBytes() int64 {
	return int64(len(m.arena.bytes))
}

// File is the requests' memory for another process to map; nil where the system has none such.
func (m *Requests) File() *os.File {
	return m.arena.file
}

// Largest is the size of the largest request in bytes.
func (m *Requests) Largest() int { return m.largest }

// Free gives the memory back; no request may be used afterwards.
func (m *Requests) Free() error {
	return m.arena.free()
}

// digest is SHA-256 of a request.
type digest = [sha256.Size]byte

// ErrArena means that the memory for the requests could not be had.
var ErrArena = errors.New("no memory for the requests")

// arena holds requests outside the Go heap, so that the collector never scans or counts them.
type arena struct {
	bytes []byte
	file  *os.File // the same memory for another process to map; nil where the system has none such
}

// newArena maps size zeroed bytes; the pages are touched by whoever writes them first.
func newArena(size int64) (*arena, error) {
	if size == 0 {
		return &arena{}, nil
	}
	if f, b, err := host.NewSharedMemory("fastreplay-images", size); err == nil {
		return &arena{bytes: b, file: f}, nil
	}
	b, err := host.MapMemory(size)
	if err != nil {
		return nil, fmt.Errorf("%w: mapping %d bytes: %w", ErrArena, size, err)
	}
	return &arena{bytes: b}, nil
}

// free unmaps the arena. No slice of it may be used afterwards.
func (a *arena) free() error {
	b := a.bytes
	a.bytes = nil
	if a.file != nil {
		_ = a.file.Close()
		a.file = nil
	}
	if len(b) == 0 {
		return nil
	}
	return host.UnmapMemory(b)
}
