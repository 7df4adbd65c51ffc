package workload

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/fastreplay/fastreplay/engine/host"
)

// Images are the bytes of every request of a run, head and body, in one arena outside the Go heap. Free them after the run.
type Images struct {
	arena   *arena
	offsets []int64 // image i is offsets[i+1]-offsets[i] bytes long and begins at offsets[i] of all, see place
	largest int
	window  *window // where not all of them fit into memory; nil = they do
	digests [][sha256.Size]byte
	aims    *aims        // where requests are told their targets when they leave; nil = the images name them
	built   atomic.Int64 // images before this one have been built
}

// At is the image of request i, valid until Free, or with a window until it was written. It must not be written to.
func (m *Images) At(i int) []byte {
	from, to := m.Offset(i), m.Offset(i)+m.Size(i)
	if m.aims != nil {
		from += int64(m.aims.gaps[i])
	}
	return m.arena.bytes[from:to:to]
}

// Offset is where image i begins in the arena.
func (m *Images) Offset(i int) int64 {
	if m.window != nil {
		return m.window.places[i]
	}
	return m.offsets[i]
}

// Size is the size of image i in bytes.
func (m *Images) Size(i int) int64 { return m.offsets[i+1] - m.offsets[i] }

// Ready tells whether image i stands in the arena.
func (m *Images) Ready(i int) bool { return m.window == nil || m.built.Load() > int64(i) }

// Bytes is the size of all images.
func (m *Images) Bytes() int64 { return m.offsets[len(m.offsets)-1] }

// Fingerprint of the workload, "sha256:…"; "" as long as an image was not built.
func (m *Images) Fingerprint(w *Work) string {
	if m.built.Load() < int64(w.Requests()) {
		return ""
	}
	return fingerprint(w, m.digests)
}

// MappedBytes is how many bytes of memory the images have: those of a window, or of all of them.
func (m *Images) MappedBytes() int64 { return int64(len(m.arena.bytes)) }

// File is the images' memory for another process to map; nil where the system has none such.
func (m *Images) File() *os.File { return m.arena.file }

// Largest is the size of the largest image in bytes.
func (m *Images) Largest() int { return m.largest }

// Free gives the memory back; no image may be used afterwards.
func (m *Images) Free() error { return m.arena.free() }

// ErrArena means that the memory for the request images could not be had.
var ErrArena = errors.New("no memory for the request images")

// arena holds request images outside the Go heap, so that the collector never scans or counts them.
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
